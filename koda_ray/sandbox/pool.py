"""Keeps a number of sandboxes made and started, so that whoever needs one waits for nothing.

One process of a machine is the keeper, whoever holds the lock; when it ends, however that happens, the next one that
wants to be it is. It clears away what is of no use, such as what a keeper before it left, makes as many as are missing,
one after the other, and looks again when one was taken. What stands in its way is tried again after longer and longer
pauses.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from koda_ray.errors import KodaError

__all__ = ["WarmPool"]

_LOOK_S = 2.0
_MAX_PAUSE_S = 60.0


class WarmPool:
    """Keeps the number; what is kept is up to its owner.

    Args:
        size: How many.
        lock: The file that makes one process the keeper.
        tend: Removes those that are of no use any more, and says how many there are.
        make: Makes one more.
    """

    def __init__(
        self,
        size: int,
        *,
        lock: Path,
        tend: Callable[[], Awaitable[int]],
        make: Callable[[], Awaitable[object]],
    ) -> None:
        self._size = size
        self._lock = lock
        self._tend = tend
        self._make = make
        self._taken = asyncio.Event()

    def taken(self) -> None:
        """Say that one is missing now; another process's keeper sees that by itself."""
        self._taken.set()

    async def run(self) -> None:
        """Keep them until cancelled."""
        while True:
            with _locked(self._lock) as keeper:
                if keeper:
                    await self._keep()
            await asyncio.sleep(_LOOK_S)

    async def _keep(self) -> None:
        pause_s = _LOOK_S
        while True:
            self._taken.clear()
            try:
                while await self._tend() < self._size:
                    await self._make()
                pause_s = _LOOK_S
            except (KodaError, OSError) as error:
                from koda_ray.logs import get_logger

                pause_s = min(_MAX_PAUSE_S, 2 * pause_s)
                get_logger(__name__).warning(
                    "no sandbox could be made ahead", error=str(error)[:500], again_in_s=pause_s
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._taken.wait()


@contextmanager
def _locked(path: Path) -> Generator[bool]:
    """Hold a file's lock for the block where nobody else does; yields whether it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(held)
