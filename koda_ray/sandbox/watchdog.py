"""Holds a sandbox to its limits where the kernel cannot be asked to: looks, and ends everything that runs in it.

Soft by nature: between two looks a program may pass a limit. What single files and processes may take is bounded by
resource limits in any case; this counts what they take together. What cannot be counted counts as too much: else
whoever makes counting fail has no limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Literal

from koda_ray.errors import QuotaExceeded
from koda_ray.processes import family
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.taken import memory_bytes, nameless

__all__ = ["Watchdog"]

_MEMORY_PERIOD_S = 0.25
_HELD_LOOKS = 4  # descriptors are many: they are looked at once a second, and again before anything is ended
_DISK_PERIOD_S = 1.0
_FAILURES = 3  # looks that fail one after the other: this machine may be short of descriptors for a moment


class Watchdog:
    """Looks after one sandbox for as long as it runs anything.

    Args:
        limits: What may be used.
        watch_memory: Whether memory is to be counted, because no control group does.
        disks: Directories in memory that count towards it.
        filled: Counts the bytes and the files on disk, in a thread; None when the disk has a hard limit.
        pids: The launchers that run now.
        exceeded: Called with a limit's name, and how it was passed and what to do in words; ends everything.
    """

    def __init__(
        self,
        limits: ResourceLimits,
        *,
        watch_memory: bool,
        disks: Sequence[Path],
        filled: Callable[[], tuple[int, int]] | None,
        pids: Callable[[], Iterable[int]],
        exceeded: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._limits = limits
        self._watch_memory = watch_memory
        self._disks = disks
        self._filled = filled
        self._pids = pids
        self._exceeded = exceeded
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Begin to look, where there is something to look at and nobody looks yet."""
        looks = {"memory": self._look_at_memory} if self._watch_memory else {}
        if self._filled is not None:
            looks["disk"] = self._look_at_disk
        for name, look in looks.items():
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = asyncio.create_task(look(), name=f"sandbox-watchdog-{name}")

    async def close(self) -> None:
        """Stop looking."""
        others = [task for task in self._tasks.values() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # each for itself: a disk that is slow to answer holds nobody back from the memory

    async def _look_at_memory(self) -> None:
        held: dict[int, int] = {}
        failures = 0
        for look in count():
            if not (pids := list(self._pids())):
                return
            try:
                words = await self._memory_passed(pids, held, closely=look % _HELD_LOOKS == 0)
                failures = 0
            except Exception as error:  # whatever it is, nobody knows how much is used
                failures += 1
                words = _uncounted("memory", error) if failures == _FAILURES else ""
            if words:
                failures = 0
                await self._exceeded("memory", words)
            await asyncio.sleep(_MEMORY_PERIOD_S)

    async def _memory_passed(self, pids: Sequence[int], held: dict[int, int], *, closely: bool) -> str:
        """Say how the limit was passed; nothing where it was not. ``held`` is what the last close look found."""
        allowed = self._limits.memory_bytes
        for again in (False, True):
            if closely or again:
                found = await asyncio.to_thread(_held_memory, pids)
                held.clear()
                held.update(found)
            used = await asyncio.to_thread(memory_bytes, pids, disks=self._disks, held=held, enough=allowed)
            if used <= allowed:
                return ""
        return f"{used >> 20} MB are used, {allowed >> 20} MB are allowed; use less, or raise SANDBOX_MEMORY_MB"

    async def _look_at_disk(self) -> None:
        failures = 0
        while list(self._pids()):
            await asyncio.sleep(_DISK_PERIOD_S)
            try:
                words = await self._disk_passed()
                failures = 0
            except QuotaExceeded as error:
                words = error.message
            except Exception as error:
                failures += 1
                words = _uncounted("disk", error) if failures == _FAILURES else ""
            if words:
                failures = 0
                await self._exceeded("disk", words)

    async def _disk_passed(self) -> str:
        """Say how the limit was passed; nothing where it was not."""
        assert self._filled is not None
        size, entries = await asyncio.to_thread(self._filled)
        if size > self._limits.disk_bytes:
            used, allowed = size >> 20, self._limits.disk_bytes >> 20
            return f"{used} MB are used, {allowed} MB are allowed; use less, or raise SANDBOX_DISK_MB"
        if entries > self._limits.inodes:
            return f"{entries} files are there, {self._limits.inodes} are allowed; make fewer, or raise SANDBOX_DISK_MB"
        return ""


def _uncounted(limit: Literal["memory", "disk"], error: Exception) -> str:
    setting = {"memory": "SANDBOX_MEMORY_MB", "disk": "SANDBOX_DISK_MB"}[limit]
    return (
        f"{_FAILURES} times one after the other nobody could count what is used ({error}), so that nobody knows "
        f"whether it is within {setting}; remove what was made last, and see that this program may open more files "
        "(`ulimit -n`)"
    )


def _held_memory(pids: Iterable[int]) -> dict[int, int]:
    return nameless(family(pids))
