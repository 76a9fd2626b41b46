"""Containers that the Docker provider makes before anybody asks: who keeps them, and how one becomes a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from koda_ray.cancellation import finish, see_through
from koda_ray.sandbox.docker_folders import DockerFolders, claim
from koda_ray.sandbox.pool import WarmPool
from koda_ray.sandbox.record import Owner, Record
from koda_ray.types import new_id

if TYPE_CHECKING:
    from koda_ray.sandbox.docker_sandbox import DockerSandbox

__all__ = ["Ahead", "Maker"]


@dataclass(frozen=True, kw_only=True)
class Maker:
    """What the provider does for those that are made ahead.

    Attributes:
        kind: Tells what one would be made of now.
        make: Makes one under an id, of a kind.
        hold: Becomes the owner of the container that a record names; None where it is of no use any more.
        destroy: Removes one with what it left.
    """

    kind: Callable[[], Awaitable[str]]
    make: Callable[[str, str], Awaitable[DockerSandbox]]
    hold: Callable[[Record], Awaitable[DockerSandbox | None]]
    destroy: Callable[[str], Coroutine[Any, Any, None]]


class Ahead:
    """The sandboxes of one provider that were made ahead.

    Args:
        count: How many to keep; 0 for none.
        folders: Where they lie.
    """

    def __init__(self, count: int, *, folders: DockerFolders) -> None:
        self._count = count
        self._folders = folders
        self._ahead: dict[str, DockerSandbox] = {}
        self._pool: WarmPool | None = None

    async def keep(self, maker: Maker) -> None:
        """Keep as many as were asked for, until cancelled; then those not taken are gone."""
        if self._count == 0:
            return
        self._pool = WarmPool(
            self._count,
            lock=self._folders.root / "keeper.lock",
            tend=lambda: self._tend(maker),
            make=lambda: self._make_one(maker),
        )
        try:
            await self._pool.run()
        finally:
            self._pool = None
            await finish(self._let_go(maker))

    def pop(self, sandbox_id: str) -> DockerSandbox | None:
        """Give away the object of one that is about to be removed."""
        return self._ahead.pop(sandbox_id, None)

    async def take(
        self, maker: Maker, sandbox_id: str, session_id: str, user_id: str, kind: str
    ) -> DockerSandbox | None:
        """Make one that was made ahead a sandbox; None where there is none of that kind."""
        if self._count:
            for name in await asyncio.to_thread(self._ids, kind):
                taken = await self._take(maker, name, sandbox_id, session_id, user_id)
                if taken is not None:
                    return taken
        return None

    async def _take(
        self, maker: Maker, name: str, sandbox_id: str, session_id: str, user_id: str
    ) -> DockerSandbox | None:
        """Take one that was made ahead; None where another was faster, or it is of no use."""
        record = await asyncio.to_thread(claim, self._folders.of(name), self._folders.of(sandbox_id))
        held = self._ahead.pop(name, None)
        if held is not None:
            await held.close()  # its first process dials anew, and finds the next owner
        if self._pool is not None:
            self._pool.taken()
        if record is not None:
            record = replace(
                record, id=sandbox_id, session_id=session_id, user_id=user_id, state="ready", kind="",
                owner=Owner.this_process(),
            )  # fmt: skip
            await asyncio.to_thread(record.write, self._folders.of(sandbox_id))
            sandbox = await maker.hold(record)
            if sandbox is not None:
                return sandbox
        await maker.destroy(sandbox_id)
        return None

    async def _make_one(self, maker: Maker) -> None:
        name = new_id("sbx")
        kind = await maker.kind()

        async def make() -> None:
            self._ahead[name] = await maker.make(name, kind)

        making = asyncio.ensure_future(make())
        try:
            await asyncio.shield(making)
        except BaseException:
            with suppress(asyncio.CancelledError):
                await see_through(making)
            await finish(maker.destroy(name))
            raise

    async def _tend(self, maker: Maker) -> int:
        """Remove what was made ahead and is of no use, let go of what was taken, and count the rest."""
        kind = await maker.kind()
        await self._clear(maker, wanted=kind)
        left = await asyncio.to_thread(self._ids, kind)
        for name in set(self._ahead) - set(left):
            await self._ahead.pop(name).close()  # another process's sandbox by now
        return len(left)

    async def _let_go(self, maker: Maker) -> None:
        await self._clear(maker, wanted="")
        while self._ahead:
            await self._ahead.popitem()[1].close()  # another's by now

    async def _clear(self, maker: Maker, *, wanted: str) -> None:
        """Remove what dead keepers have left, and of this one's what is not of a kind."""
        for name, record in (await asyncio.to_thread(self._folders.records)).items():
            if record is None or not record.kind or record.id != name:
                continue
            mine = record.owner == Owner.this_process()
            if not record.owner.alive or (mine and record.kind != wanted):
                await maker.destroy(name)

    def _ids(self, kind: str) -> list[str]:
        return [
            name
            for name, record in sorted(self._folders.records().items())
            if record is not None and record.id == name and (record.state, record.kind) == ("warm", kind)
        ]
