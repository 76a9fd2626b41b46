"""Whatever owes work is woken, and whatever nobody owns is cleared away; a loop over the database, nothing more.

A session sleeps through nothing, nor does a page render: one that owes work and whose lease has run out is
activated, whoever let it fall and however often the cluster's head was started anew. So is one that left files in a
sandbox, since nobody else saves them. However many cannot be woken, the others' turns come (`waking`): each look goes
on after the session that the last one ended with.

What can be seen on one machine only is cleared there, by its `reaper`: on this one and, in `rounds`, on every other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from koda_ray.actors.chores import logged
from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.actors.waking import WAKE_S, Waking, WakingPace, in_turn
from koda_ray.config import Settings
from koda_ray.events import EPHEMERAL_KEPT
from koda_ray.logs import get_logger
from koda_ray.metrics import COST, LOOKS, OWED, SESSIONS, MetricsSink, NoMetrics
from koda_ray.state.records import OwedWork, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["CHARGES_OPEN", "CLEAR_S", "Chores", "Janitor"]

CLEAR_S = 60.0
"""Between two clearings, in seconds."""
CHARGES_OPEN = timedelta(hours=6)
"""What was reserved and not touched for so long belongs to a process that is gone: nothing that goes on is so quiet."""
_OWED_AT_ONCE = 1_000
_log = get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chores:
    """What a janitor has others do.

    Args:
        wake: Activates a session by id.
        passivate: Has a discarded session end, by id; returns once it has.
        finish: Removes what a closed session left.
        wake_render: Has a page render worked on, by its job's id, and says whether there was room for it.
        sweep: Removes a little of what nobody has used for days.
        elsewhere: Clears the cluster's other nodes, and returns the rounds that have come to an end.
    """

    wake: Callable[[str], Awaitable[None]]
    finish: Callable[[SessionRecord], Awaitable[None]]
    passivate: Callable[[str], Awaitable[None]] | None = None
    wake_render: Callable[[str], Awaitable[bool]] | None = None
    sweep: Callable[[], Awaitable[object]] | None = None
    elsewhere: Callable[[], Awaitable[Sequence[Reaped]]] | None = None


class Janitor:
    """Looks after all sessions of a database.

    Args:
        store: The database.
        chores: What it has others do.
        reaper: Clears the machine that this runs on.
        settings: How often it looks for what is owed.
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
        pace = WakingPace(first_pause_s=settings.janitor_s, limit_s=wake_s)
        self._sessions = Waking("session_id", chores.wake, pace)
        end, said = chores.passivate, ("had a discarded session end", "could not end a discarded session")
        self._ending = None if end is None else Waking("session_id", end, pace, said=said)
        self._renders = None if chores.wake_render is None else Waking("job_id", chores.wake_render, pace)
        self._after: tuple[datetime, str] | None = None
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
        ending = [] if self._ending is None else [self._ending]
        await asyncio.gather(*(waking.close() for waking in (*self._all, *ending)))

    @property
    def _all(self) -> list[Waking]:
        return [waking for waking in (self._sessions, self._renders) if waking is not None]

    @property
    def waking(self) -> int:
        """How many are being woken now."""
        return sum(waking.count for waking in self._all)

    @property
    def last(self) -> JanitorRound:
        """What it did last."""
        return replace(self._last, waking=self.waking, failing=sum(waking.failing for waking in self._all))

    async def wake_owed(self) -> list[str]:
        """Begin to activate sessions and renders that owe work, that nobody holds, and whose pause is over.

        Returns:
            The ids of those that this call has begun with; waking them goes on in the background.
        """
        found = await self._store.owed(now(), limit=_OWED_AT_ONCE, after=self._after)
        self._last = replace(self._last, woke_at=now())
        self._metrics.note(LOOKS, 1)
        for kind in ("session", "job"):
            self._metrics.note(OWED, sum(work.kind == kind for work in found), kind=kind)
        for waking in self._all:
            waking.forget()
        begun = self._wake_sessions([work for work in found if work.kind == "session"])
        if (renders := self._renders) is not None:
            # the longest waiting first, and no more than could be begun
            ready = [work.id for work in found if work.kind == "job" and renders.is_ready(work.id)]
            begun += [job_id for job_id in ready[: renders.free] if renders.begin(job_id)]
        return begun

    def _wake_sessions(self, owing: Sequence[OwedWork]) -> list[str]:
        """Begin with as many as may wait for a place, by turns of their users; the next look goes on after them."""
        taken = owing[: max(0, _OWED_AT_ONCE - self._sessions.count)]
        if taken:
            self._after = (taken[-1].updated_at, taken[-1].id)
        return [work.id for work in in_turn(taken) if self._sessions.begin(work.id)]

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

    async def clear(self) -> list[str]:
        """Begin and finish deletions, destroy sandboxes that nobody needs, drop what is worthless, and count.

        A session that sleeps while a sandbox has its files is woken: it saves them, and destroys the sandbox itself.

        Returns:
            The ids of the sandboxes that were destroyed, and of people's images that were left half made.
        """
        began = time.monotonic()
        if self._ending is not None:  # whoever discarded one has said so, but perhaps in vain
            self._ending.forget()
            for session_id in await self._store.discarded_held(now()):
                self._ending.begin(session_id)
        await self._store.close_discarded(now())
        for closed in await self._store.closed_sessions():
            await logged(self._chores.finish(closed), "finish a deletion", session_id=closed.id)
        rounds = [await self._reaper.clear()]
        if self._chores.elsewhere is not None:
            rounds += await logged(self._chores.elsewhere(), "clear other nodes") or []
        for session_id in {name for reaped in rounds for name in reaped.unsaved}:
            self._sessions.begin(session_id)
        await self._store.prune_events(now() - EPHEMERAL_KEPT)
        await self._store.close_charges(now() - CHARGES_OPEN)
        if self._chores.sweep is not None:
            await logged(self._chores.sweep(), "sweep storage")
        await logged(self._count(), "count sessions")
        gone = [name for reaped in rounds for name in reaped.gone]
        took_s = time.monotonic() - began
        self._last = replace(self._last, cleared_at=now(), took_s=took_s, machines=len(rounds), gone=len(gone))
        return gone
