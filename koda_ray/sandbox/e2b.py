"""The E2B provider: each sandbox is a virtual machine in E2B's cloud, or in a cluster of one's own that speaks E2B.

E2B gives ids of its own, so ours is in the metadata, with the user, the session, the process that made it, and the
deployment that it belongs to: a key may serve several deployments, and one never touches what another made. E2B ends
a sandbox when its lifetime is over (300 s where nobody says otherwise), so the lifetime is set and renewed while the
sandbox is used; one that is gone is simply not found, and whoever held it makes another and restores the checkpoint.

Nothing goes out of a sandbox but to hosts that are allowed, and nobody comes in without the sandbox's own token.

A template holds the project in ``/home/user/project``, owned by a user named ``user``, with ``node_modules`` in it
that are root's; node, bun, bash, coreutils, util-linux, and ``python3`` (3.11 or newer) for the helper.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from koda_ray.cancellation import finish
from koda_ray.errors import InvalidInput, KodaError, SandboxNotFound
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.cloud_terms import made_or_ended
from koda_ray.sandbox.deployment import CLOUD, Location, owner_alive, owner_text
from koda_ray.sandbox.e2b_cloud import E2BCloud, E2BTemplate, E2BTerms
from koda_ray.sandbox.held import Held
from koda_ray.sandbox.record import is_sandbox_id

import e2b  # isort: skip - `e2b_cloud` says what is missing where it is not installed

from koda_ray.sandbox.e2b_errors import not_found
from koda_ray.sandbox.e2b_sandbox import E2BSandbox

if TYPE_CHECKING:
    from e2b import AsyncSandbox

    from koda_ray.config import Settings

__all__ = ["E2BProvider"]

_ID, _SESSION, _USER = "koda_sandbox_id", "koda_session_id", "koda_user_id"
_DEPLOYMENT, _OWNER = "koda_deployment", "koda_owner"
_PAGE = 100
_MOST_PAGES = 100
_REFUSED = (400, 403, 404)


class E2BProvider:
    """Makes sandboxes at E2B.

    Args:
        cloud: Where, and with whose key.
        template: The name of the template that each starts as (E2B_TEMPLATE).
        deployment: Whose sandboxes these are; what another made under the same key is left alone.
        terms: How each lives there.
    """

    def __init__(self, cloud: E2BCloud, *, template: str, deployment: str, terms: E2BTerms | None = None) -> None:
        self._cloud = cloud
        self._template = template
        self._deployment = deployment
        self._terms = terms or E2BTerms()
        self._held = Held[E2BSandbox]()

    @classmethod
    def of(cls, settings: Settings, *, deployment: str) -> E2BProvider:
        """Make the provider that settings describe, for one deployment.

        Raises:
            Missing: MISSING, there is no key.
        """
        cloud = E2BCloud.of(settings, why="SANDBOX_PROVIDER=e2b needs")
        return cls(cloud, template=settings.e2b_template, deployment=deployment, terms=E2BTerms.of(settings))

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        return "e2b"

    @property
    def unused_s(self) -> int | None:
        """How long one lives after its last use; None where E2B pauses it then."""
        return self._terms.unused_s

    async def create(self, *, sandbox_id: str, session_id: str, user_id: str, image: str | None = None) -> E2BSandbox:
        """Make a sandbox from the template, or return the one of that id; a half-made one is made ready.

        Raises:
            InvalidInput: INVALID_INPUT, the id is not one of ours.
            TemplateNotFound: TEMPLATE_NOT_FOUND, E2B knows no such template, or it is none of ours.
            QuotaExceeded: QUOTA_EXCEEDED, the plan allows no more sandboxes or requests.
            SandboxError: PROVIDER_ERROR or TIMEOUT.
        """
        if not is_sandbox_id(sandbox_id):
            raise InvalidInput(f"{sandbox_id[:80]!r} is not a sandbox's id; make one with new_id('sbx')")
        async with self._held.turn(sandbox_id):
            with suppress(SandboxNotFound):
                return await self._connect(sandbox_id)
            return await self._create(sandbox_id, session_id, user_id, image)

    async def connect(self, sandbox_id: str) -> E2BSandbox:
        """Find a sandbox that exists, also one that another process made; a paused one is resumed.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND.
        """
        return await self._held.connected(sandbox_id, self._connect)

    async def destroy(self, sandbox_id: str) -> None:
        """End a sandbox, whoever made it, with all that E2B has under its id; may be called twice."""
        if is_sandbox_id(sandbox_id):
            async with self._held.turn(sandbox_id):
                await self._destroy(sandbox_id)

    async def list(self) -> list[SandboxInfo]:
        """List this deployment's sandboxes, running or paused."""
        listed: dict[str, SandboxInfo] = {}
        for info in await self._find({}):
            metadata = info.metadata or {}
            ours = str(metadata.get(_ID, ""))
            if is_sandbox_id(ours):
                listed[ours] = SandboxInfo(
                    id=ours,
                    session_id=str(metadata.get(_SESSION, "")),
                    user_id=str(metadata.get(_USER, "")),
                    alive=info.state is e2b.SandboxState.RUNNING,
                    owner_alive=owner_alive(str(metadata.get(_OWNER, ""))),
                    paused=info.state is e2b.SandboxState.PAUSED,
                    provider_id=info.sandbox_id,
                )
        return [listed[name] for name in sorted(listed)]

    async def location(self) -> Location:
        """Say where its sandboxes are: the cloud, which is reached from everywhere."""
        cloud = self._cloud.api_url or self._cloud.domain or "e2b"
        return Location(f"{CLOUD}{cloud}", cloud)

    async def close(self) -> None:
        """Let go of every sandbox; E2B ends one when its lifetime is over. May be called twice."""
        await self._held.close(E2BSandbox.leave)

    # inside

    async def _create(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> E2BSandbox:
        making = self._make(sandbox_id, session_id, user_id, image)
        return await made_or_ended(making, lambda: self._destroy(sandbox_id))

    async def _connect(self, sandbox_id: str) -> E2BSandbox:
        if (held := await self._held.alive(sandbox_id)) is not None:
            return held
        if (held := self._held.pop(sandbox_id)) is not None:
            await held.forget()
        if not is_sandbox_id(sandbox_id):
            raise not_found(sandbox_id)
        found = await self._find({_ID: sandbox_id})
        if not found:
            raise not_found(sandbox_id)
        first = min(found, key=lambda info: info.started_at)  # two creators at once: both take the earlier one
        with self._translated("connect to a sandbox", sandbox_id):
            found_again = self._hold(
                sandbox_id,
                await self._open(first.sandbox_id),
                E2BTemplate(first.name or first.template_id, own=not (first.metadata or {}).get(_SESSION)),
            )
        found_again.ready()
        return found_again

    async def _destroy(self, sandbox_id: str) -> None:
        held = self._held.pop(sandbox_id)
        names = {info.sandbox_id for info in await self._find({_ID: sandbox_id})}
        if held is not None:
            await held.forget()
            names.add(held.provider_id)
        for name in names:
            with self._translated("end a sandbox", sandbox_id):
                await e2b.AsyncSandbox.kill(name, **self._cloud.params)

    async def _make(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> E2BSandbox:
        template = E2BTemplate(image or self._template, own=image is not None)
        metadata = {
            _ID: sandbox_id,
            _SESSION: session_id,
            _USER: user_id,
            _DEPLOYMENT: self._deployment,
            _OWNER: owner_text(),
        }
        with self._translated("make a sandbox", sandbox_id):
            try:
                made = await e2b.AsyncSandbox.create(
                    template.name,
                    timeout=self._terms.lifetime_s,
                    metadata=metadata,
                    network={
                        "deny_out": [e2b.ALL_TRAFFIC],
                        "allow_out": list(self._terms.egress.hosts),
                        "allow_public_traffic": False,
                        "mask_request_host": "localhost:${PORT}",  # or Vite refuses a host that it does not know
                    },
                    lifecycle={"on_timeout": self._terms.on_timeout},
                    idempotency_key=str(uuid4()),  # the SDK's own repetitions make one sandbox
                    **self._cloud.params,
                )
            except e2b.SandboxException as error:
                if error.status_code in _REFUSED and "template" in str(error).lower():
                    raise template.unusable("E2B does not know it, or the key may not use it") from None
                raise
        sandbox = self._hold(sandbox_id, made, template)
        try:
            await sandbox.prepare()
        except BaseException:
            with suppress(KodaError):
                await finish(self._destroy(sandbox_id))
            raise
        return sandbox

    def _hold(self, sandbox_id: str, found: AsyncSandbox, template: E2BTemplate) -> E2BSandbox:
        sandbox = E2BSandbox(
            sandbox_id,
            found,
            cloud=self._cloud,
            template=template,
            terms=self._terms,
            destroy=lambda: self.destroy(sandbox_id),
        )
        self._held.put(sandbox_id, sandbox)
        return sandbox

    async def _open(self, e2b_id: str) -> AsyncSandbox:
        return await e2b.AsyncSandbox.connect(e2b_id, self._terms.lifetime_s, **self._cloud.params)

    async def _find(self, wanted: dict[str, str]) -> list[e2b.SandboxInfo]:
        query = e2b.SandboxQuery(metadata={_DEPLOYMENT: self._deployment, **wanted})
        found: list[e2b.SandboxInfo] = []
        with self._translated("list sandboxes", ""):
            pages = e2b.AsyncSandbox.list(query=query, limit=_PAGE, **self._cloud.params)
            for _ in range(_MOST_PAGES):
                if not pages.has_next:
                    break
                found += await pages.next_items()
        return found

    def _translated(self, doing: str, sandbox_id: str) -> AbstractContextManager[None]:
        return self._cloud.translated(doing, sandbox_id=sandbox_id)
