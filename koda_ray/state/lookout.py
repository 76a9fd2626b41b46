"""One look at the database for everybody who follows something here, however many they are.

Commits of this process wake whoever follows at once; those of others are found by looking. If each follower looked for
itself, a few hundred who follow sessions that sleep would ask thousands of questions a second, and everybody's requests
would wait behind them. So one task looks at the newest numbers of all streams that are followed, often while things
happen and seldom while they do not, and wakes those whose number has moved on.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from koda_ray.cancellation import end_all
from koda_ray.state.notify import Notifier

__all__ = ["Lookout", "Newest", "Watch"]

PAUSE_MIN_S = 0.02
PAUSE_MAX_S = 0.25
_GROWTH = 1.5
_SHARE = 0.25
"""The part of the time in which it may be looking: many streams are looked at less often."""


@dataclass(frozen=True)
class Newest:
    """A stream's newest number, and whether what it tells of is over: a session that was closed, a job that ended."""

    seq: int
    over: bool


@dataclass(eq=False)
class Watch:
    """What one follower is told. ``changed`` is set when there may be something new; whoever waits for it clears it.

    ``is_over`` says that nothing more will come than what is stored by now.
    """

    changed: asyncio.Event
    is_over: bool = False
    failure: BaseException | None = None

    def check(self) -> None:
        """Raise what the look ended with, if it did."""
        if self.failure is not None:
            raise self.failure


@dataclass(eq=False)
class _Looking:
    """What is followed in one event loop, and the task that looks."""

    watches: dict[str, set[Watch]] = field(default_factory=dict[str, set[Watch]])
    known: dict[str, Newest | None] = field(default_factory=dict[str, Newest | None])
    task: asyncio.Task[None] | None = None


class Lookout:
    """Looks for all followers of a store in this process.

    Args:
        newest: Reads the newest numbers of streams; those that are not there (any more) are left out.
        notifier: Who is woken by commits of this process.
        pause_min_s: Pause between looks right after something was new.
        pause_max_s: Pause that it grows to.
    """

    def __init__(
        self,
        newest: Callable[[Collection[str]], Awaitable[Mapping[str, Newest]]],
        notifier: Notifier,
        *,
        pause_min_s: float = PAUSE_MIN_S,
        pause_max_s: float = PAUSE_MAX_S,
    ) -> None:
        self._newest = newest
        self._notifier = notifier
        self._pause_min_s = pause_min_s
        self._pause_max_s = pause_max_s
        self._loops: dict[asyncio.AbstractEventLoop, _Looking] = {}

    @asynccontextmanager
    async def watching(self, stream_id: str, *, rings: asyncio.Event | None = None) -> AsyncGenerator[Watch]:
        """Be told of a stream for as long as the block runs; ``rings`` is set with the watch's own event."""
        loop = asyncio.get_running_loop()
        with self._notifier.subscribe(stream_id, rings=rings) as changed:
            watch = Watch(changed)
            here = self._loops.setdefault(loop, _Looking())
            here.watches.setdefault(stream_id, set()).add(watch)
            if here.task is None or here.task.done():
                # a context of its own: Ray would cancel with the first follower's request what everybody needs
                here.task = loop.create_task(self._look(here), context=contextvars.Context())
            try:
                yield watch
            finally:
                await self._leave(loop, here, stream_id, watch)

    async def _leave(self, loop: asyncio.AbstractEventLoop, here: _Looking, stream_id: str, watch: Watch) -> None:
        here.watches[stream_id].discard(watch)
        if not here.watches[stream_id]:
            del here.watches[stream_id]
            here.known.pop(stream_id, None)
        if not here.watches and self._loops.get(loop) is here:
            del self._loops[loop]
            if here.task is not None:
                await end_all((here.task,))

    async def _look(self, here: _Looking) -> None:
        pause = self._pause_min_s
        try:
            while True:
                began = time.monotonic()
                asked = list(here.watches)
                found = await self._newest(asked)
                # who came meanwhile was not asked for, which is not to be gone; who left is told nothing
                still = [stream for stream in asked if stream in here.watches]
                moved = [stream for stream in still if self._has_moved(here, stream, found.get(stream))]
                least = max(self._pause_min_s, (time.monotonic() - began) / _SHARE)
                pause = least if moved else min(max(least, pause * _GROWTH), max(least, self._pause_max_s))
                await asyncio.sleep(pause)
        except Exception as error:  # each follower raises it, as if it had asked itself
            for watch in (watch for watches in here.watches.values() for watch in watches):
                watch.failure = error
                watch.changed.set()

    def _has_moved(self, here: _Looking, stream_id: str, found: Newest | None) -> bool:
        is_new = stream_id not in here.known
        if not is_new and here.known[stream_id] == found:
            return False
        here.known[stream_id] = found
        for watch in here.watches[stream_id]:
            watch.is_over = found is None or found.over
            watch.changed.set()
        return True
