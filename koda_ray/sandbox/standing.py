"""What is, as against what a person's rows say: each look puts the rows right that are not true any more.

A row says what was asked for, and where it was made. Whether there is a sandbox or an image, its provider says; whether
there is a process, and how it ended, the sandbox's own tmux does. What is over is cleared away by whoever comes upon
it. What is in another place cannot be seen from here, and what cannot be asked now is not judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from koda_ray.errors import KodaError, SandboxNotFound
from koda_ray.sandbox.base import SandboxInfo, SandboxProvider
from koda_ray.sandbox.deployment import Location
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.tmux import Process, Tmux
from koda_ray.sandbox.unfinished import NEVER_FINISHED, is_unfinished
from koda_ray.state.boxes import ImageRecord, ProcessRecord, SandboxRecord
from koda_ray.types import now

if TYPE_CHECKING:
    from koda_ray.state.store import Store

__all__ = ["ImageState", "ProcessState", "SandboxStanding", "Standing", "lost"]


@dataclass(frozen=True, kw_only=True)
class ImageState:
    """An image's row, and what its provider says.

    ``missing`` was removed behind our back, ``elsewhere`` is in the place that its row names.
    """

    record: ImageRecord
    state: Literal["ready", "creating", "missing", "elsewhere", "unknown"]


@dataclass(frozen=True, kw_only=True)
class SandboxStanding:
    """A sandbox's row, and what its provider says; why one is ``gone``, the row says (``ended``).

    ``gone`` is one that ended without anybody's having terminated it, because its time was over, say, or its memory;
    ``paused`` is one that somebody stopped for a while at its engine, or that E2B put to sleep until its next use;
    ``elsewhere`` one in the place that its row names, ``unknown`` one whose provider could not be asked.
    """

    record: SandboxRecord
    state: Literal["running", "creating", "paused", "terminated", "gone", "elsewhere", "unknown"]


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """A process's row, and what tmux says; ``lost`` ended without anybody knowing how."""

    record: ProcessRecord
    state: Literal["running", "ended", "lost"]


class Standing:
    """How one person's images, sandboxes and processes stand.

    Args:
        store: Their rows.
        providers: Who made them.
        user_id: Whose they are.
    """

    def __init__(self, store: Store, providers: Providers, *, user_id: str) -> None:
        self._store = store
        self._providers = providers
        self._user_id = user_id

    async def image(self, image: ImageRecord) -> ImageState:
        """Say how an image stands."""
        try:
            if await self._providers.at(image) is None:
                return ImageState(record=image, state="elsewhere")
            if image.provider_id is None:
                return ImageState(record=image, state="creating")
            there = await (await self._providers.images(image.provider)).exists(image.provider_id)
        except KodaError:
            return ImageState(record=image, state="unknown")
        return ImageState(record=image, state="ready" if there else "missing")

    async def sandboxes(self, rows: Sequence[SandboxRecord]) -> list[SandboxStanding]:
        """Say how sandboxes stand; each of their providers is asked once, and all of them at once."""
        names = {row.provider for row in rows if row.status != "destroyed"}
        seen = dict(zip(names, await asyncio.gather(*(self._look(name) for name in names)), strict=True))
        return [await self._sandbox(row, seen.get(row.provider)) for row in rows]

    async def clear(self, provider: SandboxProvider | None, sandbox_id: str, *, why: str = "") -> None:
        """End a sandbox, where it is here, and its rows; ``why`` is kept where it was not its person's doing."""
        if provider is not None:
            await provider.destroy(sandbox_id)
        await self._store.sandbox_destroyed(sandbox_id, why=why)

    async def processes(self, row: SandboxRecord, tmux: Tmux) -> list[ProcessState]:
        """Say how the processes of a sandbox stand, those that ended included."""
        there = {one.name: one for one in await tmux.processes()}
        rows = {one.name: one for one in await self._store.sandbox_processes(row.id)}
        unwritten: set[str] = set()
        for name, process in there.items():
            if name not in rows or rows[name].run != process.run:  # whoever launched it died before it was written
                unwritten.add(name)
                rows[name] = ProcessRecord(
                    sandbox_id=row.id,
                    name=name,
                    user_id=self._user_id,
                    command="",
                    run=process.run,
                    created_at=process.started_at,
                )
        return [
            await self.process(rows[name], there.get(name), is_written=name not in unwritten) for name in sorted(rows)
        ]

    async def process(self, record: ProcessRecord, found: Process | None, *, is_written: bool = True) -> ProcessState:
        """Say how a process stands by what tmux says of it, and write down an end once it is known."""
        if found is not None and (found.running or found.exit_code is None):
            return ProcessState(record=record, state="running")
        code = record.exit_code if found is None else found.exit_code
        if record.ended_at is None or record.exit_code != code:
            record = replace(record, ended_at=record.ended_at or now(), exit_code=code)
            if is_written:  # unless it was forgotten meanwhile: it is being ended
                await self._store.end_process(record)
            else:
                await self._store.put_process(record)
        return ProcessState(record=record, state="lost" if code is None else "ended")

    # inside

    async def _look(self, provider: str) -> _Seen | None:
        """See what a provider has; None where it cannot be asked."""
        try:
            where = await self._providers.get(provider)
            return _Seen(where, await where.location(), {info.id: info for info in await where.list()})
        except KodaError:
            return None

    async def _sandbox(self, row: SandboxRecord, seen: _Seen | None) -> SandboxStanding:
        if row.status == "destroyed":
            return SandboxStanding(record=row, state="gone" if row.ended else "terminated")
        if seen is None:
            return SandboxStanding(record=row, state="unknown")
        if not seen.location.is_where(row.place, row.host):
            return SandboxStanding(record=row, state="elsewhere")
        if row.expired_at(now()):
            return await self._gone(seen.provider, row, why=row.time_over)
        if row.status == "creating" and not is_unfinished(row):
            return SandboxStanding(record=row, state="creating")
        info = seen.infos.get(row.id)
        if info is not None and row.status == "ready" and (info.alive or info.paused):
            return SandboxStanding(record=row, state="running" if info.alive else "paused")
        now_there = await self._store.get_sandbox(row.id, user_id=self._user_id)
        if now_there != row:  # it was finished, or renewed, after the list was read
            return await self._sandbox(now_there, await self._look(row.provider))
        why = NEVER_FINISHED if row.status == "creating" else "" if info is None else info.ended
        if row.status == "ready":  # that a list leaves it out is thin evidence; what can be connected to is there
            try:
                await seen.provider.connect(row.id)
                return SandboxStanding(record=row, state="running")
            except SandboxNotFound:
                pass
            except KodaError:
                return SandboxStanding(record=row, state="unknown")
        return await self._gone(seen.provider, row, why=why or lost(row))

    async def _gone(self, provider: SandboxProvider, row: SandboxRecord, *, why: str) -> SandboxStanding:
        """End what is left of a sandbox as far as that can be done now; whoever lists next tries again."""
        try:
            await self.clear(provider, row.id, why=why)
            return await self._sandbox(await self._store.get_sandbox(row.id, user_id=self._user_id), None)
        except KodaError:
            return SandboxStanding(record=row, state="unknown")


def lost(row: SandboxRecord) -> str:
    """Say why one is gone of which nobody knows more."""
    ends = "" if row.unused_s is None else f", which ends it {row.unused_s} s after its last use"
    return f"it is not at its provider ({row.provider}) any more{ends}"


@dataclass(frozen=True)
class _Seen:
    """What a provider has, where."""

    provider: SandboxProvider
    location: Location
    infos: dict[str, SandboxInfo]
