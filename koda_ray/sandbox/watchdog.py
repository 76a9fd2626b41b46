"""Holds a sandbox to its limits where the kernel cannot be asked to: looks, and ends everything that runs in it.

Soft by nature: between two looks a program may pass a limit. What single files and processes may take is bounded by
resource limits in any case; this counts what they take together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from koda_ray.errors import KodaError
from koda_ray.sandbox.limits import Limits
from koda_ray.sandbox.tree import ProjectTree

__all__ = ["Watchdog", "resident_bytes"]

_MEMORY_PERIOD_S = 0.25
_DISK_PERIOD_S = 1.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watchdog:
    """Looks after one sandbox for as long as it runs anything.

    Args:
        limits: What may be used.
        tree: The project whose bytes are counted; None when its disk has a hard limit.
        watch_memory: Whether memory is to be counted, because no control group does.
        pids: The launchers that run now.
        exceeded: Called once with the limit's name in words; ends everything.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        tree: ProjectTree | None,
        watch_memory: bool,
        pids: Callable[[], Iterable[int]],
        exceeded: Callable[[str], Awaitable[None]],
    ) -> None:
        self._limits = limits
        self._tree = tree
        self._watch_memory = watch_memory
        self._pids = pids
        self._exceeded = exceeded
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Begin to look, if there is something to look at and nobody looks yet."""
        if (self._watch_memory or self._tree is not None) and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._look(), name="sandbox-watchdog")

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        since_disk = 0.0
        while pids := list(self._pids()):
            if self._watch_memory and (used := resident_bytes(pids)) > self._limits.memory_bytes:
                await self._exceeded(
                    f"memory: {used >> 20} MB are used, {self._limits.memory_bytes >> 20} MB are allowed"
                )
            since_disk += _MEMORY_PERIOD_S
            if self._tree is not None and since_disk >= _DISK_PERIOD_S:
                since_disk = 0.0
                with suppress(KodaError, OSError):
                    size, entries = await asyncio.to_thread(self._tree.usage)
                    if size > self._limits.disk_bytes:
                        await self._exceeded(
                            f"disk: {size >> 20} MB are used, {self._limits.disk_bytes >> 20} MB are allowed"
                        )
                    elif entries > self._limits.inodes:
                        await self._exceeded(f"disk: {entries} files are there, {self._limits.inodes} are allowed")
            await asyncio.sleep(_MEMORY_PERIOD_S)


def resident_bytes(pids: Iterable[int]) -> int:
    """Count the memory of processes and everything below them, without what they share with files."""
    total = 0
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/statm").read_text().split()
            total += (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
            for thread in os.listdir(f"/proc/{pid}/task"):
                waiting.extend(int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return total
