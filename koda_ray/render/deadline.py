"""A deadline for what a browser does, of which nothing passes while the browser waits for a processor.

A page that loops uses its processor, and one that waits for what never comes uses none and asks for none. One that
others leave no processor to does neither: on a machine with enough other work a frame of a second takes minutes, and
nothing is wrong with it. The kernel counts for each thread how long it was ready to run and did not.

Source: "sched/sched-stats" of the kernel's documentation, /proc/<pid>/schedstat.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import defaultdict
from types import TracebackType
from typing import NamedTuple, Self

from koda_ray.processes import family, threads

__all__ = ["Deadline"]

_LOOKS = 8
"""How often it is looked at within the limit; until the first time, all time counts."""
_LEAST = 64
"""How often at most, as its end comes near and is put off by less and less."""
_MOST = 10
"""How many times the limit it may take at most, however little of a processor there was."""


class Deadline:
    """A limit of time that may be entered again and again: what is awaited within gets a TimeoutError when it is over.

    Args:
        pid: The browser's first process. Our own thread is looked at as well: it serves the page.
        limit_s: How long it may take on a machine that does nothing else.

    Attributes:
        limit_s: The same.
    """

    def __init__(self, pid: int, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = pid
        self.limit_s = limit_s
        self._began = self._looked = self._loop.time()
        self._ends = self._began + limit_s
        self._used: dict[tuple[int, int], _Used] | None = None
        self._waited_s = self._processor_s = 0.0
        self._timeout: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left_s(self) -> float:
        """How much of it is left, in seconds; zero or less when it is over."""
        if self._loop.time() >= self._next:
            self._look()
        return self._ends - self._loop.time()

    def __str__(self) -> str:
        """The limit, and where it took longer, how long: "60 s (of 312 s, the rest without a processor)"."""
        took = self._ends - self._began
        more = f" (of {took:.0f} s, the rest without a processor)" if took > self.limit_s * 1.1 else ""
        return f"{self.limit_s:g} s{more}"

    async def __aenter__(self) -> Self:
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        self._timer = self._loop.call_at(self._next, self._due)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        timeout, self._timeout = self._timeout, None
        if self._timer is not None:
            self._timer.cancel()
        if timeout is not None:
            await timeout.__aexit__(kind, error, trace)

    @property
    def _next(self) -> float:
        return min(self._ends, self._looked + self.limit_s / _LOOKS)

    def _due(self) -> None:
        if self._timeout is None:
            return
        if self.left_s > 0:
            soonest = self._loop.time() + self.limit_s / _LEAST
            self._timer = self._loop.call_at(max(soonest, self._next), self._due)
        else:
            self._timeout.reschedule(self._loop.time())

    def _look(self) -> None:
        """Put the end off by how long they have waited for a processor since the last look."""
        now = self._loop.time()
        used = _used_by(self._pid)
        if self._used is not None:
            waited_s, processor_s = _between(self._used, used)
            # a thread's wait counts when it ends, and may be longer than the time since the last look
            self._waited_s += waited_s
            self._processor_s += processor_s
            if self._processor_s < self.limit_s * len(os.sched_getaffinity(0)):
                waited_s = min(self._waited_s, now - self._began, self.limit_s * (_MOST - 1))
                self._ends = max(self._ends, self._began + self.limit_s + waited_s)
        elif now > self._ends:  # nobody looked in time: we ourselves had no processor
            self._ends = now + self.limit_s / _LOOKS
        self._used, self._looked = used, now


class _Used(NamedTuple):
    """Of a thread, in nanoseconds: how long it ran, and how long it was ready to run and did not."""

    ran: int
    waited: int


def _used_by(pid: int) -> dict[tuple[int, int], _Used]:
    """Return what each thread of a family and this one has used; nothing where the kernel does not count it."""
    found: dict[tuple[int, int], _Used] = {}
    ours = os.getpid(), threading.get_native_id()
    for process, thread in [(one, thread) for one in family([pid]) for thread in threads(one)] + [ours]:
        with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/schedstat", "rb") as file:
            ran, waited, _ = map(int, file.read().split())
            found[process, thread] = _Used(0 if process == ours[0] else ran, waited)
    return found


def _between(before: dict[tuple[int, int], _Used], after: dict[tuple[int, int], _Used]) -> tuple[float, float]:
    """Return how long they waited and ran between two looks, in seconds.

    The threads of one process wait beside each other, those of different ones mostly for each other.
    """
    ran, waits = 0, defaultdict[int, int](int)
    for (process, thread), used in after.items():
        earlier = before.get((process, thread), _Used(0, 0))
        ran += used.ran - earlier.ran
        waits[process] = max(waits[process], used.waited - earlier.waited)
    return sum(waits.values()) / 1e9, ran / 1e9
