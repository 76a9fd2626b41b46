"""Waking what owes work, so many at a time, so that what cannot be woken holds up nothing else.

Each is woken in a task of its own. One that takes long gives its place to the next, and goes on beside it until its
time is up; one that fails is left alone for longer and longer. Sessions and renders have places of their own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from koda_ray.errors import NotFound
from koda_ray.logs import get_logger
from koda_ray.state.records import OwedWork

__all__ = ["PAUSE_MAX_S", "WAKES", "WAKE_S", "Waking", "WakingPace", "in_turn"]

WAKES = 16
"""How many of a kind are woken at once, those apart that take long."""
WAKE_S = 60.0
"""How long waking one may take, in seconds."""
PAUSE_MAX_S = 300.0
"""The longest pause before one that cannot be woken is tried again, in seconds."""
_HELD_S = 5.0
_log = get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class WakingPace:
    """How long waking may take, and how soon it is tried again.

    Args:
        first_pause_s: The pause after the first failure, in seconds; each further one doubles it.
        limit_s: How long waking one may take, in seconds.
        held_s: After how many seconds of that it gives its place to another.
    """

    first_pause_s: float
    limit_s: float = WAKE_S
    held_s: float = _HELD_S


@dataclass
class _Failures:
    """How often in a row one could not be woken, and when (in the loop's seconds) it is tried again."""

    count: int = 0
    not_before: float = 0.0


class Waking:
    """Wakes one kind of work.

    Args:
        name: What a line of the log calls its id.
        wake: Wakes one by its id; False says that there was no room for it.
        pace: How long it may take.
        said: What the log says of one that it has woken, and of one that it could not.
    """

    def __init__(
        self,
        name: str,
        wake: Callable[[str], Awaitable[object]],
        pace: WakingPace,
        *,
        said: tuple[str, str] = ("woken", "could not wake"),
    ) -> None:
        self._said, self._said_not = said
        self._name = name
        self._wake = wake
        self._pace = pace
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failures] = {}
        self._slots = asyncio.Semaphore(WAKES)
        self._in_slots: set[str] = set()  # with a place, or waiting for one

    @property
    def count(self) -> int:
        """How many are being woken, or wait for a place."""
        return len(self._tasks)

    @property
    def failing(self) -> int:
        """How many could not be woken the last time."""
        return len(self._failures)

    @property
    def free(self) -> int:
        """How many could be woken at once besides those that are."""
        return max(0, WAKES - len(self._in_slots))

    def is_ready(self, work_id: str) -> bool:
        """Whether one is not being woken, and its pause is over."""
        failures = self._failures.get(work_id)
        paused = failures is not None and failures.not_before > asyncio.get_running_loop().time()
        return not paused and work_id not in self._tasks

    def forget(self) -> None:
        """Forget failures of long ago: what they were of owes nothing any more."""
        before = asyncio.get_running_loop().time() - 2 * PAUSE_MAX_S
        self._failures = {name: found for name, found in self._failures.items() if found.not_before > before}

    def begin(self, work_id: str) -> bool:
        """Begin to wake one, in the background; returns False where it is not ready."""
        if not self.is_ready(work_id):
            return False
        self._in_slots.add(work_id)
        self._tasks[work_id] = asyncio.get_running_loop().create_task(self._wake_one(work_id))
        return True

    async def close(self) -> None:
        """Stop waking; may be called twice."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _wake_one(self, work_id: str) -> None:
        try:
            woken = await self._in_slot(work_id)
            self._failures.pop(work_id, None)
            if woken is not False:  # there was room for it
                _log.info(self._said, **{self._name: work_id})
        except NotFound:
            self._failures.pop(work_id, None)
        except Exception as error:
            failures = self._failures.setdefault(work_id, _Failures())
            pause_s = min(PAUSE_MAX_S, self._pace.first_pause_s * 2 ** min(failures.count, 16))
            failures.count += 1
            failures.not_before = asyncio.get_running_loop().time() + pause_s
            why = f"no answer in {self._pace.limit_s:.0f} s" if isinstance(error, TimeoutError) else str(error)[:300]
            told = {self._name: work_id, "error": why, "times": failures.count, "again_in_s": pause_s}
            _log.warning(self._said_not, **told)
        finally:
            self._in_slots.discard(work_id)
            del self._tasks[work_id]

    async def _in_slot(self, work_id: str) -> object:
        """Wake one; its place is another's as soon as it takes long."""
        await self._slots.acquire()
        held = asyncio.get_running_loop().call_later(self._pace.held_s, self._free_slot, work_id)
        try:
            async with asyncio.timeout(self._pace.limit_s):
                return await self._wake(work_id)
        finally:
            held.cancel()
            self._free_slot(work_id)

    def _free_slot(self, work_id: str) -> None:
        if work_id in self._in_slots:
            self._in_slots.remove(work_id)
            self._slots.release()


def in_turn(owing: Sequence[OwedWork]) -> list[OwedWork]:
    """Order work so that the first of each user comes before anybody's second, and those as they were given."""
    turns, placed = Counter[str](), list[tuple[int, OwedWork]]()
    for work in owing:
        turns[work.user_id] += 1
        placed.append((turns[work.user_id], work))
    return [work for _, work in sorted(placed, key=lambda each: each[0])]
