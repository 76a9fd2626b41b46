"""Where another process stands still for real: it waits for a lock of a file that the test holds."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["held_file", "until_waiting"]

_LOCKS = Path("/proc/locks")


@contextmanager
def held_file(path: Path) -> Generator[None]:
    """Hold the lock of a file for the block: whoever else wants it (`flock`) waits."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def until_waiting(pid: int, *, within_s: float = 120.0) -> None:
    """Wait until a process waits for the lock of some file. Source: proc_locks(5), the lines with an arrow."""
    async with asyncio.timeout(within_s):
        while not any("-> FLOCK" in line and str(pid) in line.split() for line in _LOCKS.read_text().splitlines()):
            await asyncio.sleep(0.01)
