"""The Modal provider: each sandbox is a container of its own at Modal, under gVisor. Thin, on Modal's public SDK.

Modal starts it from an image that ``modal_image`` builds from the same Dockerfile as everybody's. Its name at Modal is
our id, so two creators cannot make two; its tags say which deployment, session and user it is of. Modal ends what
nobody uses after SANDBOX_LIFETIME_S, and everything after a day.

Nothing goes out but to hosts that are allowed. The preview is reached through one of Modal's tunnels, whose address
cannot be guessed and is known to the preview's proxy alone.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Collection, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from koda_ray.cancellation import finish, see_through
from koda_ray.errors import InvalidInput, KodaError, Missing, QuotaExceeded, SandboxError, SandboxNotFound
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.deployment import Place, owner_alive, owner_text
from koda_ray.sandbox.egress.rules import EgressRules
from koda_ray.sandbox.held import Held
from koda_ray.sandbox.record import is_sandbox_id

try:
    import modal
    from modal import exception as wrong
except ImportError:
    raise Missing("SANDBOX_PROVIDER=modal needs Modal's package: pip install 'koda-ray[modal]'") from None

from koda_ray.sandbox.modal_sandbox import LONGEST_S, ModalSandbox, unusable
from koda_ray.sandbox.preview import DEV_PORT

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["ModalProvider", "not_found", "published", "translated"]

_ID, _SESSION, _USER = "koda_sandbox_id", "koda_session_id", "koda_user_id"
_DEPLOYMENT, _OWNER, _IMAGE = "koda_deployment", "koda_owner", "koda_image"
_OWN = "koda-img-"
_MAX_CHARS = 300


class ModalProvider:
    """Makes sandboxes at Modal.

    Args:
        token_id: Of the workspace that pays (MODAL_TOKEN_ID).
        token_secret: Its secret (MODAL_TOKEN_SECRET).
        app: The name of the app that they belong to, made where it is not there (MODAL_APP).
        image: The image's id at Modal (MODAL_IMAGE).
        deployment: Whose sandboxes these are; what another made in the same app is left alone.
        lifetime_s: How long one lives after its last use (SANDBOX_LIFETIME_S).
        memory_mb: Of each (SANDBOX_MEMORY_MB).
        cpus: Of each.
        pids: How many processes a project may have (SANDBOX_PIDS).
        egress: What sandboxes may reach, and their commands may name; nothing when None. Of it Modal holds the names
            and addresses: it counts no bytes and denies no networks.
    """

    def __init__(
        self,
        *,
        token_id: str,
        token_secret: str,
        app: str,
        image: str,
        deployment: str,
        lifetime_s: int = 1800,
        memory_mb: int = 2048,
        cpus: float = 2.0,
        pids: int = 256,
        egress: EgressRules | None = None,
    ) -> None:
        self._token = token_id, token_secret
        self._app_name = app
        self._image = image
        self._deployment = deployment
        self._lifetime_s = lifetime_s
        self._memory_mb = memory_mb
        self._cpus = cpus
        self._pids = pids
        self._egress = egress or EgressRules()
        self._blocks = {host: block for host in self._egress.hosts if (block := _block(host)) is not None}
        self._opened: tuple[modal.Client, modal.App] | None = None
        self._opening = asyncio.Lock()
        self._held = Held[ModalSandbox]()

    @classmethod
    def of(cls, settings: Settings, *, deployment: str) -> ModalProvider:
        """Make the provider that settings describe, for one deployment.

        Raises:
            Missing: MISSING, there is no token, or no image.
        """
        if settings.modal_token_id is None or settings.modal_token_secret is None:
            raise Missing(
                "SANDBOX_PROVIDER=modal needs MODAL_TOKEN_ID and MODAL_TOKEN_SECRET; `modal token new` makes one"
            )
        if settings.modal_image is None:
            raise Missing(
                "SANDBOX_PROVIDER=modal needs MODAL_IMAGE, the image's id at Modal: "
                "`koda image build --provider modal` builds it and prints the id"
            )
        return cls(
            token_id=settings.modal_token_id.get_secret_value(),
            token_secret=settings.modal_token_secret.get_secret_value(),
            app=settings.modal_app,
            image=settings.modal_image,
            deployment=deployment,
            lifetime_s=settings.sandbox_lifetime_s,
            memory_mb=settings.sandbox_memory_mb,
            pids=settings.sandbox_pids,
            egress=EgressRules.of(settings),
        )

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        return "modal"

    @property
    def unused_s(self) -> int | None:
        """How long one lives after its last use."""
        return self._lifetime_s

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
        client, app = await self._open()
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

    async def place(self) -> Place:
        """Say where its sandboxes are: the app, which is reached from everywhere."""
        return Place(f"cloud.modal.{self._app_name}", f"Modal's app {self._app_name}")

    async def close(self) -> None:
        """Let go of every sandbox; Modal ends one when its lifetime is over. May be called twice."""
        await self._held.close(ModalSandbox.leave)

    # inside

    async def _create(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> ModalSandbox:
        making = asyncio.ensure_future(self._make(sandbox_id, session_id, user_id, image))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            # Modal may be about to make it: it must be there before it is ended
            with suppress(asyncio.CancelledError):
                await see_through(making)
            with suppress(KodaError):
                await finish(self._destroy(sandbox_id))
            raise

    async def _connect(self, sandbox_id: str) -> ModalSandbox:
        if (held := await self._held.alive(sandbox_id)) is not None:
            return held
        self._held.pop(sandbox_id)
        found = await self._named(sandbox_id)
        if found is None:
            raise not_found(sandbox_id)
        there, tags = found
        sandbox = self._hold(sandbox_id, there, image=tags.get(_IMAGE) or self._image)
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

    async def _open(self) -> tuple[modal.Client, modal.App]:
        async with self._opening:
            if self._opened is None:
                with self._translated("open the app", ""):
                    client = await modal.Client.from_credentials.aio(*self._token)
                    app = await modal.App.lookup.aio(self._app_name, client=client, create_if_missing=True)
                self._opened = client, app
            return self._opened

    async def _named(self, sandbox_id: str) -> tuple[modal.Sandbox, dict[str, str]] | None:
        """Find the one of that name that runs and is of this deployment, with its tags."""
        if not is_sandbox_id(sandbox_id):
            return None
        client, _ = await self._open()
        with suppress(SandboxNotFound), self._translated("find a sandbox", sandbox_id):
            found = await modal.Sandbox.from_name.aio(self._app_name, sandbox_id, client=client)
            tags = await found.get_tags.aio()
            if tags.get(_DEPLOYMENT) == self._deployment and await found.poll.aio() is None:
                return found, tags
        return None

    async def _make(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> ModalSandbox:
        client, app = await self._open()
        wanted = image or self._image
        tags = {
            _ID: sandbox_id,
            _SESSION: session_id,
            _USER: user_id,
            _DEPLOYMENT: self._deployment,
            _OWNER: owner_text(),
            _IMAGE: wanted,
        }
        with self._translated("make a sandbox", sandbox_id):
            try:
                made = await modal.Sandbox.create.aio(  # pyright: ignore[reportUnknownMemberType]
                    "sleep",
                    str(LONGEST_S),
                    app=app,
                    name=sandbox_id,
                    tags=tags,
                    image=_image(wanted, client),
                    timeout=LONGEST_S,
                    idle_timeout=self._lifetime_s,
                    cpu=self._cpus,
                    memory=self._memory_mb,
                    outbound_domain_allowlist=[host for host in self._egress.hosts if host not in self._blocks],
                    outbound_cidr_allowlist=list(self._blocks.values()),
                    encrypted_ports=[DEV_PORT],
                    client=client,
                )
            except wrong.NotFoundError:
                raise unusable(wanted, "Modal does not know it", own=image is not None) from None
        sandbox = self._hold(sandbox_id, made, image=wanted)
        try:
            await sandbox.prepare()
        except BaseException:
            with suppress(KodaError):
                await finish(self._destroy(sandbox_id))
            raise
        return sandbox

    def _hold(self, sandbox_id: str, found: modal.Sandbox, *, image: str) -> ModalSandbox:
        sandbox = ModalSandbox(
            sandbox_id,
            found,
            destroy=lambda: self.destroy(sandbox_id),
            translated=lambda doing: self._translated(doing, sandbox_id),
            image=image,
            own=image.startswith(_OWN),
            pids=self._pids,
            egress=self._egress,
            ends_at=time.monotonic() + self._lifetime_s,
        )
        self._held.put(sandbox_id, sandbox)
        return sandbox

    def _translated(self, doing: str, sandbox_id: str) -> AbstractContextManager[None]:
        return translated(doing, sandbox_id=sandbox_id, secrets=self._token)


def not_found(sandbox_id: str) -> SandboxNotFound:
    """Make the error for a sandbox that is not there any more."""
    return SandboxNotFound(
        f"there is no sandbox {sandbox_id[:80]!r} at Modal: it was ended, or nobody used it for too long; make another "
        "and restore the last checkpoint into it",
        context={"sandbox_id": sandbox_id[:80]},
    )


@contextmanager
def translated(doing: str, *, sandbox_id: str, secrets: Collection[str]) -> Generator[None]:
    """Turn the SDK's errors of a block into ours; the cause is left out, since it may show a token.

    Args:
        doing: What was tried, for the message ("make a sandbox").
        sandbox_id: Ours.
        secrets: Texts that no message may hold.

    Raises:
        SandboxNotFound: SANDBOX_NOT_FOUND, it was ended.
        QuotaExceeded: QUOTA_EXCEEDED, a limit of the workspace.
        SandboxError: TIMEOUT or PROVIDER_ERROR.
    """
    try:
        yield
    except (wrong.Error, OSError, TimeoutError) as error:
        said = " ".join(str(error).split())[:_MAX_CHARS]
        for secret in secrets:
            said = said.replace(secret, "***")
        raise _translate(error, doing, sandbox_id, f"{type(error).__name__}: {said}") from None


def _translate(error: Exception, doing: str, sandbox_id: str, said: str) -> SandboxError:
    match error:
        case wrong.NotFoundError() | wrong.SandboxTerminatedError() | wrong.SandboxTimeoutError() if sandbox_id:
            return not_found(sandbox_id)
        case wrong.ResourceExhaustedError():
            return QuotaExceeded(
                f"Modal refuses to {doing} because a limit of the workspace is reached ({said}); wait a little, end "
                "sandboxes that nobody needs, or raise the limit",
                retryable=True,
            )
        case wrong.AuthError() | wrong.PermissionDeniedError():
            return SandboxError(f"Modal refused MODAL_TOKEN_ID and MODAL_TOKEN_SECRET ({said}); set valid ones")
        case wrong.TimeoutError() | TimeoutError():
            return SandboxError(f"Modal did not {doing} in time ({said}); try again", code="TIMEOUT", retryable=True)
        case wrong.ConnectionError() | OSError():
            return SandboxError(
                f"the connection to Modal broke before it could {doing} ({said}); it may or may not have been done: "
                "look, and try again",
                retryable=True,
            )
        case _:
            return SandboxError(f"Modal could not {doing} ({said}); see what it says, and the settings MODAL_*")


def published(image_id: str) -> str:
    """Return the name at Modal of an image of somebody's own, by our id of it."""
    return f"{_OWN}{image_id.removeprefix('img_')}"


def _image(name: str, client: modal.Client) -> modal.Image:
    return modal.Image.from_name(name, client=client) if name.startswith(_OWN) else modal.Image.from_id(name, client)


def _block(host: str) -> str | None:
    """Write an address as the block that it is; None for a name."""
    try:
        return str(ipaddress.ip_network(host))
    except ValueError:
        return None
