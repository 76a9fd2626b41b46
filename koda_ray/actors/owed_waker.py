"""Whoever wakes what owes work and nobody holds: the janitor, and while its machine is lost those who keep one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from koda_ray.actors.waking import Waking, WakingPace, in_turn
from koda_ray.metrics import LOOKS, OWED, MetricsSink, NoMetrics
from koda_ray.state.records import OwedWork
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["OwedWaker"]

_AT_ONCE = 1_000


class OwedWaker:
    """Looks for sessions and page renders that owe work and that nobody holds, and has them taken up.

    However many cannot be woken, the others' turns come: each look goes on after the session that the last one ended
    with.

    Args:
        store: The database.
        wake: Activates a session by id.
        wake_render: Has a page render worked on, by its job's id, and says whether there was room for it.
        pace: How long waking one may take, and how soon it is tried again.
        metrics: Where it notes what there is.
    """

    def __init__(
        self,
        store: Store,
        *,
        wake: Callable[[str], Awaitable[object]],
        wake_render: Callable[[str], Awaitable[bool]] | None,
        pace: WakingPace,
        metrics: MetricsSink | None = None,
    ) -> None:
        self._store = store
        self._metrics = metrics or NoMetrics()
        self._sessions = Waking("session_id", wake, pace)
        self._renders = None if wake_render is None else Waking("job_id", wake_render, pace)
        self._after: tuple[datetime, str] | None = None

    async def look(self) -> list[str]:
        """Begin to activate what owes work, that nobody holds, and whose pause is over.

        Returns:
            The ids of those that this call has begun with; waking them goes on in the background.
        """
        found = await self._store.owed(now(), limit=_AT_ONCE, after=self._after)
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

    def begin(self, session_id: str) -> None:
        """Begin to activate a session that owes nothing."""
        self._sessions.begin(session_id)

    @property
    def count(self) -> int:
        """How many are being woken now."""
        return sum(waking.count for waking in self._all)

    @property
    def failing(self) -> int:
        """How many could not be woken, and are tried again."""
        return sum(waking.failing for waking in self._all)

    async def close(self) -> None:
        """Stop waking; may be called twice."""
        await asyncio.gather(*(waking.close() for waking in self._all))

    @property
    def _all(self) -> list[Waking]:
        return [waking for waking in (self._sessions, self._renders) if waking is not None]

    def _wake_sessions(self, owing: Sequence[OwedWork]) -> list[str]:
        """Begin with as many as may wait for a place, by turns of their users; the next look goes on after them."""
        taken = owing[: max(0, _AT_ONCE - self._sessions.count)]
        if taken:
            self._after = (taken[-1].updated_at, taken[-1].id)
        return [work.id for work in in_turn(taken) if self._sessions.begin(work.id)]
