"""Whatever owes work is woken, and whatever nobody owns is cleared away; a loop over the database, nothing more.

A session sleeps through nothing, nor does a page render: one that owes work and whose lease has run out is
activated, whoever let it fall and however often the cluster's head was started anew. So is one that left files in a
sandbox, since nobody else saves them. Each is woken in a task of its own, so one that hangs holds up none of the
others; one that cannot be woken is tried again after longer and longer pauses.

What can be seen on one machine only is cleared there, by its `reaper`: on this one and, in `rounds`, on every other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from koda_ray.actors.chores import logged
from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.config import Settings
from koda_ray.errors import NotFound
from koda_ray.events import EPHEMERAL_KEPT
from koda_ray.logs import get_logger
from koda_ray.metrics import COST, LOOKS, OWED, SESSIONS, MetricsSink, NoMetrics
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
        elsewhere: Clears the cluster's other nodes, and returns the rounds that have come to an end.
    """

    wake: Callable[[str], Awaitable[None]]
    finish: Callable[[SessionRecord], Awaitable[None]]
    wake_render: Callable[[str], Awaitable[bool]] | None = None
    sweep: Callable[[], Awaitable[object]] | None = None
    elsewhere: Callable[[], Awaitable[Sequence[Reaped]]] | None = None


class Janitor:
    """Looks after all sessions of a database.

    Args:
        store: The database.
        chores: What it has others do.
        reaper: Clears the machine that this runs on.
        settings: Intervals.
        wake_s: How long waking one may take, in seconds.
        metrics: Where it notes what there is.
    """

    def __init__(
        self,
        *,
        store: Store,
        chores: Chores,
        reaper: Reaper,
        settings: Settings,
        wake_s: float = WAKE_S,
        metrics: MetricsSink | None = None,
    ) -> None:
        self._metrics = metrics or NoMetrics()
        self._store = store
        self._chores = chores
        self._reaper = reaper
        self._settings = settings
        self._wake_s = wake_s
        self._waking: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failures] = {}
        self._free = asyncio.Semaphore(WAKES)
        self._last = JanitorRound()

    async def run(self) -> None:
        """Go round until cancelled. What cannot be helped is logged and tried again the next time."""
        clearing: asyncio.Task[object] | None = None
        warming = asyncio.create_task(logged(self._reaper.keep_warm(), "keep sandboxes ready"))
        clock = asyncio.get_running_loop().time
        cleared = clock() - CLEAR_S
        try:
            while True:
                await logged(self.wake_owed(), "wake")
                if clock() - cleared >= CLEAR_S and (clearing is None or clearing.done()):
                    cleared = clock()
                    clearing = asyncio.create_task(logged(self.clear(), "clear"))
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

    @property
    def last(self) -> JanitorRound:
        """What it did last."""
        return replace(self._last, waking=self.waking, failing=len(self._failures))

    async def wake_owed(self) -> list[str]:
        """Begin to activate every session and render that owes work, that nobody holds, and whose pause is over.

        Returns:
            The ids of those that this call has begun with; waking them goes on in the background.
        """
        found = await self._store.owed(now(), limit=_OWED_AT_ONCE)
        self._last = replace(self._last, woke_at=now())
        self._metrics.note(LOOKS, 1)
        for kind in ("session", "job"):
            self._metrics.note(OWED, sum(work.kind == kind for work in found), kind=kind)
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

    async def _count(self) -> None:
        counted = await self._store.census(now())
        states = {
            "active": counted.awake,
            "asleep": counted.asleep,
            "owing": counted.owing,
            "closing": counted.closing,
        }
        for state, count in states.items():
            self._metrics.note(SESSIONS, count, state=state)
        self._metrics.note(COST, counted.spent.cost_microusd / 1_000_000)

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
        began = time.monotonic()
        for closed in await self._store.closed_sessions():
            await logged(self._chores.finish(closed), "finish a deletion", session_id=closed.id)
        rounds = [await self._reaper.clear()]
        if self._chores.elsewhere is not None:
            rounds += await logged(self._chores.elsewhere(), "clear other nodes") or []
        for session_id in {name for reaped in rounds for name in reaped.unsaved}:
            self._begin(session_id, self._chores.wake)
        await self._store.prune_events(now() - EPHEMERAL_KEPT)
        await self._store.close_charges(now() - CHARGES_OPEN)
        if self._chores.sweep is not None:
            await logged(self._chores.sweep(), "sweep storage")
        await logged(self._count(), "count sessions")
        gone = [name for reaped in rounds for name in reaped.gone]
        took_s = time.monotonic() - began
        self._last = replace(self._last, cleared_at=now(), took_s=took_s, machines=len(rounds), gone=len(gone))
        return gone
