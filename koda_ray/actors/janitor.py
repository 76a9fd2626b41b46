"""Whatever owes work is woken, and whatever nobody owns is cleared away; a loop over the database, nothing more.

A session sleeps through nothing, nor does a page render: one that owes work and whose lease has run out is
activated, whoever let it fall and however often the cluster's head was started anew. So is one that left files in a
sandbox, since nobody else saves them. Each is woken in a task of its own, so one that hangs holds up none of the
others; one that cannot be woken is tried again after longer and longer pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from koda_ray.config import Settings
from koda_ray.errors import KodaError, Missing, NotFound, SandboxError
from koda_ray.events import EPHEMERAL_KEPT
from koda_ray.logs import get_logger
from koda_ray.render.isolation import sweep_dead_folders
from koda_ray.sandbox.base import SandboxInfo, SandboxProvider
from koda_ray.sandbox.scratch import clear_left
from koda_ray.sandbox.service import REAP_GRACE_S, SandboxService
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.records import SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["CHARGES_OPEN", "CLEAR_S", "PAUSE_MAX_S", "WAKES", "WAKE_S", "Chores", "Janitor"]

CLEAR_S = 60.0
"""Between two clearings, in seconds."""
CHARGES_OPEN = timedelta(hours=6)
"""What was reserved and not touched for so long belongs to a process that is gone: nothing that goes on is so quiet."""
WAKES = 16
"""How many sessions are woken at once."""
WAKE_S = 60.0
"""How long waking one may take, in seconds."""
PAUSE_MAX_S = 300.0
"""The longest pause before one that cannot be woken is tried again, in seconds."""
_OWED_AT_ONCE = 1_000
_T = TypeVar("_T")
_log = get_logger()


@dataclass
class _Failures:
    """How often in a row a session could not be woken, and when (in the loop's seconds) it is tried again."""

    count: int = 0
    not_before: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Chores:
    """What a janitor has others do.

    Args:
        wake: Activates a session by id.
        finish: Removes what a closed session left.
        wake_render: Has a page render worked on, by its job's id, and says whether there was room for it.
        sweep: Removes a little of what nobody has used for days.
        own: Removes what people made for themselves that was never finished, or whose time is over.
    """

    wake: Callable[[str], Awaitable[None]]
    finish: Callable[[SessionRecord], Awaitable[None]]
    wake_render: Callable[[str], Awaitable[bool]] | None = None
    sweep: Callable[[], Awaitable[object]] | None = None
    own: Callable[[], Awaitable[list[str]]] | None = None


class Janitor:
    """Looks after all sessions of a database.

    Args:
        store: The database.
        chores: What it has others do.
        sandboxes: Lists and destroys sandboxes.
        other_sandboxes: Finds the providers that make none any more, whose sandboxes may still be there.
        settings: Intervals.
        wake_s: How long waking one may take, in seconds.
    """

    def __init__(
        self,
        *,
        store: Store,
        chores: Chores,
        sandboxes: SandboxProvider,
        other_sandboxes: Callable[[], Awaitable[Sequence[SandboxProvider]]] | None = None,
        settings: Settings,
        wake_s: float = WAKE_S,
    ) -> None:
        self._store = store
        self._chores = chores
        self._sandboxes = sandboxes
        self._other_sandboxes = other_sandboxes
        self._settings = settings
        self._wake_s = wake_s
        self._waking: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failures] = {}
        self._free = asyncio.Semaphore(WAKES)

    async def run(self) -> None:
        """Go round until cancelled. What cannot be helped is logged and tried again the next time."""
        clearing: asyncio.Task[object] | None = None
        warming = asyncio.create_task(_logged(SandboxService(self._sandboxes).keep_warm(), "keep sandboxes ready"))
        clock = asyncio.get_running_loop().time
        cleared = clock() - CLEAR_S
        try:
            while True:
                await _logged(self.wake_owed(), "wake")
                if clock() - cleared >= CLEAR_S and (clearing is None or clearing.done()):
                    cleared = clock()
                    clearing = asyncio.create_task(_logged(self.clear(), "clear"))
                await asyncio.sleep(self._settings.janitor_s)
        finally:
            if clearing is not None:
                clearing.cancel()
            warming.cancel()
            await asyncio.wait({warming})
            await self.close()

    async def close(self) -> None:
        """Stop waking; may be called twice."""
        tasks = list(self._waking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def waking(self) -> int:
        """How many are being woken now."""
        return len(self._waking)

    async def wake_owed(self) -> list[str]:
        """Begin to activate every session and render that owes work, that nobody holds, and whose pause is over.

        Returns:
            The ids of those that this call has begun with; waking them goes on in the background.
        """
        found = await self._store.owed(now(), limit=_OWED_AT_ONCE)
        owed: list[tuple[str, Callable[[str], Awaitable[object]]]]
        owed = [(work.id, self._chores.wake) for work in found if work.kind == "session"]
        if self._chores.wake_render is not None:
            # the longest waiting first, and no more than could be begun
            renders = [work.id for work in found if work.kind == "job"][:WAKES]
            owed += [(job_id, self._chores.wake_render) for job_id in renders]
        forgotten = asyncio.get_running_loop().time() - 2 * PAUSE_MAX_S
        self._failures = {name: found for name, found in self._failures.items() if found.not_before > forgotten}
        return [work_id for work_id, wake in owed if self._begin(work_id, wake)]

    def _begin(self, work_id: str, wake: Callable[[str], Awaitable[object]]) -> bool:
        """Begin to wake one, in the background, unless that is under way or its pause is not over."""
        loop = asyncio.get_running_loop()
        failures = self._failures.get(work_id)
        if work_id in self._waking or (failures is not None and failures.not_before > loop.time()):
            return False
        self._waking[work_id] = loop.create_task(self._wake_one(work_id, wake))
        return True

    async def _wake_one(self, work_id: str, wake: Callable[[str], Awaitable[object]]) -> None:
        kind = "job_id" if wake is self._chores.wake_render else "session_id"
        try:
            async with self._free, asyncio.timeout(self._wake_s):
                woken = await wake(work_id)
            self._failures.pop(work_id, None)
            if woken is not False:  # there was room for it
                _log.info("woken", **{kind: work_id})
        except NotFound:
            self._failures.pop(work_id, None)
        except Exception as error:
            failures = self._failures.setdefault(work_id, _Failures())
            pause_s = min(PAUSE_MAX_S, self._settings.janitor_s * 2**failures.count)
            failures.count += 1
            failures.not_before = asyncio.get_running_loop().time() + pause_s
            why = f"no answer in {self._wake_s:.0f} s" if isinstance(error, TimeoutError) else str(error)[:300]
            _log.warning("could not wake", **{kind: work_id}, error=why, times=failures.count, again_in_s=pause_s)
        finally:
            del self._waking[work_id]

    async def clear(self) -> list[str]:
        """Finish deletions, destroy sandboxes that are provably ours and that nobody needs, drop what is worthless.

        A session that sleeps while a sandbox has its files is woken: it saves them, and destroys the sandbox itself.

        Returns:
            The ids of the sandboxes that were destroyed, and of people's images that were never finished.
        """
        for closed in await self._store.closed_sessions():
            await _logged(self._chores.finish(closed), "finish a deletion", session_id=closed.id)
        gone = [] if self._chores.own is None else await _logged(self._chores.own(), "clear what people made") or []
        gone += await _logged(self._reap(), "clear sandboxes") or []
        # what render workers that were killed left on this machine; elsewhere the next render clears it away
        await _logged(asyncio.to_thread(sweep_dead_folders), "clear temporary folders")
        await _logged(asyncio.to_thread(clear_left), "remove what was left of images")
        await self._store.prune_events(now() - EPHEMERAL_KEPT)
        await self._store.close_charges(now() - CHARGES_OPEN)
        if self._chores.sweep is not None:
            await _logged(self._chores.sweep(), "sweep storage")
        return gone

    async def _reap(self) -> list[str]:
        gone = await self._reap_at(self._sandboxes)
        for provider in () if self._other_sandboxes is None else await self._other_sandboxes():
            with suppress(SandboxError, Missing):  # its engine is away, and with it whatever it may have
                gone += await self._reap_at(provider)
        return gone

    async def _reap_at(self, provider: SandboxProvider) -> list[str]:
        found = await provider.list()
        over = {row.id: row.time_over for row in await self._store.sandboxes() if row.expired_at(now())}
        gone = await self._reap_of(provider, found)
        for sandbox_id in (*gone, *await self._never_made(provider, {info.id for info in found})):
            await self._store.sandbox_destroyed(sandbox_id, why=over.get(sandbox_id, ""))
        return gone

    async def _reap_of(self, provider: SandboxProvider, found: Sequence[SandboxInfo]) -> list[str]:
        rows = [row for row in await self._store.sandboxes() if row.provider == provider.name]
        listed = {name for info in found for name in (info.id, info.provider_id)}
        needed = [row for row in rows if listed & {row.id, row.provider_id} and await self._used(row)]
        ids = [row.id for row in needed] + [info.id for info in found if await self._has(info.session_id, info.id)]
        at_provider = {row.provider_id for row in needed if row.provider_id}
        gone = set(await SandboxService(provider).reap(ids, live_provider_ids=at_provider, found=found))
        # one whose record is lost is listed under another id than its row's
        ended = {info.provider_id for info in found if info.id in gone}
        return sorted(gone | {row.id for row in rows if row.provider_id in ended})

    async def _used(self, row: SandboxRecord) -> bool:
        """Whether a sandbox may still be used: by its session, or as a person's own until its time is over."""
        if row.session_id is None:
            return not row.expired_at(now())
        return await self._has(row.session_id, row.id)

    async def _never_made(self, provider: SandboxProvider, found: Collection[str]) -> list[str]:
        """Find rows of sandboxes that do not exist: whoever wrote one was killed before it made it, or ended it."""
        before = now() - timedelta(seconds=REAP_GRACE_S)
        here = await provider.place()
        return [
            row.id
            for row in await self._store.sandboxes()
            if row.session_id is not None  # a person's own are put right by whoever lists them
            and row.provider == provider.name
            and (here.is_where(row.place, row.host) or not row.place)  # on another machine it may well be
            and row.id not in found
            and row.created_at < before
            and not await self._is_used_soon(row.session_id, row.id)
        ]

    async def _has(self, session_id: str | None, sandbox_id: str) -> bool:
        """Whether a session has this sandbox. One that sleeps is woken: what is in it may be nowhere else."""
        session = await self._owner(session_id, sandbox_id)
        if session is None:
            return False
        asleep = session.lease_until is None or session.lease_until < now()
        if asleep and session.owes is None:
            self._begin(session.id, self._chores.wake)
        return True

    async def _owner(self, session_id: str | None, sandbox_id: str) -> SessionRecord | None:
        """Return the session that has this sandbox."""
        if session_id is None:
            return None
        try:
            session = await self._store.get_session(session_id)
        except NotFound:
            return None
        return session if session.state.sandbox_id == sandbox_id else None

    async def _is_used_soon(self, session_id: str, sandbox_id: str) -> bool:
        """Whether a session that lives, or owes work, has this sandbox, so that it finds out by itself."""
        session = await self._owner(session_id, sandbox_id)
        if session is None:
            return False
        let_go = now() - timedelta(seconds=self._settings.idle_timeout_s)
        return session.owes is not None or (session.lease_until is not None and session.lease_until > let_go)


async def _logged(work: Awaitable[_T], what: str, **names: str) -> _T | None:
    """Do something that is done again soon: a failure is logged, and the rest goes on."""
    try:
        return await work
    except KodaError as error:
        _log.warning(f"could not {what}", code=error.code, error=error.message, **names)
    except Exception:
        _log.exception(f"could not {what}", **names)
    return None
