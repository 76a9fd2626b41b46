"""The Modal provider: each sandbox is a container of its own at Modal, under gVisor. Thin, on Modal's public SDK.

Modal starts it from an image that ``modal_image`` builds from the same Dockerfile as everybody's. Its name at Modal is
our id, so two creators cannot make two; its tags say which deployment, session and user it is of. Modal ends what
nobody uses after SANDBOX_LIFETIME_S, and everything after a day.

Nothing goes out but to hosts that are allowed. The preview is reached through one of Modal's tunnels, whose address
cannot be guessed and is known to the preview's proxy alone.
"""

from __future__ import annotations

import ipaddress
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from koda_ray.cancellation import finish
from koda_ray.errors import InvalidInput, KodaError, Missing, SandboxNotFound
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.cloud_terms import made_or_ended
from koda_ray.sandbox.deployment import CLOUD, Location, owner_alive, owner_text
from koda_ray.sandbox.held import Held
from koda_ray.sandbox.modal_app import ImageAtModal, ModalApp, ModalTerms, not_found
from koda_ray.sandbox.record import is_sandbox_id

import modal  # isort: skip - `modal_app` says what is missing where it is not installed
from modal import exception as wrong

from koda_ray.sandbox.modal_sandbox import LONGEST_S, ModalSandbox
from koda_ray.sandbox.preview import DEV_PORT

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["ModalProvider"]

_ID, _SESSION, _USER = "koda_sandbox_id", "koda_session_id", "koda_user_id"
_DEPLOYMENT, _OWNER, _IMAGE = "koda_deployment", "koda_owner", "koda_image"


class ModalProvider:
    """Makes sandboxes at Modal.

    Args:
        app: What they belong to.
        image: The image's id at Modal (MODAL_IMAGE).
        deployment: Whose sandboxes these are; what another made in the same app is left alone.
        terms: How each lives there.
    """

    def __init__(self, app: ModalApp, *, image: str, deployment: str, terms: ModalTerms | None = None) -> None:
        self._app = app
        self._image = image
        self._deployment = deployment
        self._terms = terms or ModalTerms()
        hosts = self._terms.egress.hosts
        self._blocks = {host: block for host in hosts if (block := _block(host)) is not None}
        self._held = Held[ModalSandbox]()

    @classmethod
    def of(cls, settings: Settings, *, deployment: str) -> ModalProvider:
        """Make the provider that settings describe, for one deployment.

        Raises:
            Missing: MISSING, there is no token, or no image.
        """
        app = ModalApp.of(settings, why="SANDBOX_PROVIDER=modal needs")
        if settings.modal_image is None:
            raise Missing(
                "SANDBOX_PROVIDER=modal needs MODAL_IMAGE, the image's id at Modal: "
                "`koda image build --provider modal` builds it and prints the id"
            )
        return cls(app, image=settings.modal_image, deployment=deployment, terms=ModalTerms.of(settings))

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        return "modal"

    @property
    def unused_s(self) -> int | None:
        """How long one lives after its last use."""
        return self._terms.lifetime_s

    async def create(self, *, sandbox_id: str, session_id: str, user_id: str, image: str | None = None) -> ModalSandbox:
        """Make a sandbox from an image, or return the one of that id.

        Raises:
            InvalidInput: INVALID_INPUT, the id is not one of ours.
            TemplateNotFound: TEMPLATE_NOT_FOUND, Modal has no such image, or it is none of ours.
            QuotaExceeded: QUOTA_EXCEEDED, the workspace allows no more.
            SandboxError: PROVIDER_ERROR or TIMEOUT.
        """
        if not is_sandbox_id(sandbox_id):
            raise InvalidInput(f"{sandbox_id[:80]!r} is not a sandbox's id; make one with new_id('sbx')")
        async with self._held.turn(sandbox_id):
            with suppress(SandboxNotFound):
                return await self._connect(sandbox_id)
            return await self._create(sandbox_id, session_id, user_id, image)

    async def connect(self, sandbox_id: str) -> ModalSandbox:
        """Find a sandbox that runs, also one that another process made.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND.
        """
        return await self._held.connected(sandbox_id, self._connect)

    async def destroy(self, sandbox_id: str) -> None:
        """End a sandbox, whoever made it; may be called twice."""
        async with self._held.turn(sandbox_id):
            await self._destroy(sandbox_id)

    async def list(self) -> list[SandboxInfo]:
        """List this deployment's sandboxes that run."""
        listed: dict[str, SandboxInfo] = {}
        client, app = await self._app.open()
        with self._translated("list sandboxes", ""):
            tags = {_DEPLOYMENT: self._deployment}
            async for found in modal.Sandbox.list.aio(app_id=app.app_id, tags=tags, client=client):
                with suppress(wrong.NotFoundError):
                    known = await found.get_tags.aio()
                    ours = known.get(_ID, "")
                    if is_sandbox_id(ours):
                        listed[ours] = SandboxInfo(
                            id=ours,
                            session_id=known.get(_SESSION, ""),
                            user_id=known.get(_USER, ""),
                            alive=True,
                            owner_alive=owner_alive(known.get(_OWNER, "")),
                            provider_id=found.object_id,
                        )
        return [listed[name] for name in sorted(listed)]

    async def location(self) -> Location:
        """Say where its sandboxes are: the app, which is reached from everywhere."""
        return Location(f"{CLOUD}modal.{self._app.name}", f"Modal's app {self._app.name}")

    async def close(self) -> None:
        """Let go of every sandbox; Modal ends one when its lifetime is over. May be called twice."""
        await self._held.close(ModalSandbox.leave)

    # inside

    async def _create(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> ModalSandbox:
        making = self._make(sandbox_id, session_id, user_id, image)
        return await made_or_ended(making, lambda: self._destroy(sandbox_id))

    async def _connect(self, sandbox_id: str) -> ModalSandbox:
        if (held := await self._held.alive(sandbox_id)) is not None:
            return held
        self._held.pop(sandbox_id)
        found = await self._named(sandbox_id)
        if found is None:
            raise not_found(sandbox_id)
        there, tags = found
        sandbox = self._hold(sandbox_id, there, ImageAtModal(tags.get(_IMAGE) or self._image))
        sandbox.ready()
        return sandbox

    async def _destroy(self, sandbox_id: str) -> None:
        held = self._held.pop(sandbox_id)
        if held is not None:
            held.forget()
        found = await self._named(sandbox_id)
        if found is not None:
            with suppress(SandboxNotFound), self._translated("end a sandbox", sandbox_id):
                await found[0].terminate.aio(wait=True)

    async def _named(self, sandbox_id: str) -> tuple[modal.Sandbox, dict[str, str]] | None:
        """Find the one of that name that runs and is of this deployment, with its tags."""
        if not is_sandbox_id(sandbox_id):
            return None
        client, _ = await self._app.open()
        with suppress(SandboxNotFound), self._translated("find a sandbox", sandbox_id):
            found = await modal.Sandbox.from_name.aio(self._app.name, sandbox_id, client=client)
            tags = await found.get_tags.aio()
            if tags.get(_DEPLOYMENT) == self._deployment and await found.poll.aio() is None:
                return found, tags
        return None

    async def _make(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> ModalSandbox:
        client, app = await self._app.open()
        wanted = ImageAtModal(image or self._image)
        tags = {
            _ID: sandbox_id,
            _SESSION: session_id,
            _USER: user_id,
            _DEPLOYMENT: self._deployment,
            _OWNER: owner_text(),
            _IMAGE: wanted.name,
        }
        with self._translated("make a sandbox", sandbox_id):
            try:
                made = await modal.Sandbox.create.aio(  # pyright: ignore[reportUnknownMemberType]
                    "sleep",
                    str(LONGEST_S),
                    app=app,
                    name=sandbox_id,
                    tags=tags,
                    image=wanted.of(client),
                    timeout=LONGEST_S,
                    idle_timeout=self._terms.lifetime_s,
                    cpu=self._terms.cpus,
                    memory=self._terms.memory_mb,
                    outbound_domain_allowlist=[host for host in self._terms.egress.hosts if host not in self._blocks],
                    outbound_cidr_allowlist=list(self._blocks.values()),
                    encrypted_ports=[DEV_PORT],
                    client=client,
                )
            except wrong.NotFoundError:
                raise wanted.unusable("Modal does not know it") from None
        sandbox = self._hold(sandbox_id, made, wanted)
        try:
            await sandbox.prepare()
        except BaseException:
            with suppress(KodaError):
                await finish(self._destroy(sandbox_id))
            raise
        return sandbox

    def _hold(self, sandbox_id: str, found: modal.Sandbox, image: ImageAtModal) -> ModalSandbox:
        sandbox = ModalSandbox(
            sandbox_id,
            found,
            app=self._app,
            image=image,
            terms=self._terms,
            destroy=lambda: self.destroy(sandbox_id),
        )
        self._held.put(sandbox_id, sandbox)
        return sandbox

    def _translated(self, doing: str, sandbox_id: str) -> AbstractContextManager[None]:
        return self._app.translated(doing, sandbox_id=sandbox_id)


def _block(host: str) -> str | None:
    """Write an address as the block that it is; None for a name."""
    try:
        return str(ipaddress.ip_network(host))
    except ValueError:
        return None
