"""Whatever owes work is woken, and whatever nobody owns is cleared away; a loop over the database, nothing more.

A session sleeps through nothing, nor does a page render: one that owes work and whose lease has run out is
activated, whoever let it fall and however often the cluster's head was started anew. So is one that left files in a
sandbox, since nobody else saves them. However many cannot be woken, the others' turns come (`owed_waker`).

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
from koda_ray.actors.owed_waker import OwedWaker
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.actors.waking import WAKE_S, Waking, WakingPace
from koda_ray.config import Settings
from koda_ray.events import EPHEMERAL_KEPT
from koda_ray.logs import get_logger
from koda_ray.metrics import COST, SESSIONS, MetricsSink, NoMetrics
from koda_ray.state.records import SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["CHARGES_OPEN", "CLEAR_S", "Chores", "Janitor"]

CLEAR_S = 60.0
"""Between two clearings, in seconds."""
CHARGES_OPEN = timedelta(hours=6)
"""What was reserved and not touched for so long belongs to a process that is gone: nothing that goes on is so quiet."""
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
        self._waker = OwedWaker(
            store, wake=chores.wake, wake_render=chores.wake_render, pace=pace, metrics=self._metrics
        )
        end, said = chores.passivate, ("had a discarded session end", "could not end a discarded session")
        self._ending = None if end is None else Waking("session_id", end, pace, said=said)
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
        await asyncio.gather(*(each.close() for each in (self._waker, *ending)))

    @property
    def waking(self) -> int:
        """How many are being woken now."""
        return self._waker.count

    @property
    def last(self) -> JanitorRound:
        """What it did last."""
        return replace(self._last, waking=self.waking, failing=self._waker.failing)

    async def wake_owed(self) -> list[str]:
        """Begin to activate what owes work; see `OwedWaker.look`."""
        begun = await self._waker.look()
        self._last = replace(self._last, woke_at=now())
        return begun

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
            self._waker.begin(session_id)
        await self._store.prune_events(now() - EPHEMERAL_KEPT)
        await self._store.close_charges(now() - CHARGES_OPEN)
        if self._chores.sweep is not None:
            await logged(self._chores.sweep(), "sweep storage")
        await logged(self._count(), "count sessions")
        gone = [name for reaped in rounds for name in reaped.gone]
        took_s = time.monotonic() - began
        self._last = replace(self._last, cleared_at=now(), took_s=took_s, machines=len(rounds), gone=len(gone))
        return gone
