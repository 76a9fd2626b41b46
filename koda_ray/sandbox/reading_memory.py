"""Room in a machine's memory for what is read of projects, which all processes of the machine share.

Each session is a process of its own, and each may read a gigabyte: one's bound says nothing of what many read at once.
So whoever reads more than a little takes some of it first, in the order of asking, and gives it back when the bytes are
let go of. It is held as locks of a file, so that it is free again when its holder is killed, however that happens. A
little needs none: nobody waits for it behind others' large projects, and a machine has only so many sessions.

A user has half of it at most, however many of their sessions read: what more they ask for waits among themselves, and
stands in nobody else's way until its turn among theirs has come. One project that needs more than half is read alone
of theirs.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from koda_ray.destinations import not_written
from koda_ray.errors import QuotaExceeded, Unavailable

__all__ = ["SMALL_BYTES", "ReadingMemory"]

SMALL_BYTES = 8 << 20
"""What is read without a reservation."""
_UNIT_BYTES = 4 << 20
_WAIT_S = 120.0
_LOOK_S = 0.05
_TRIES = 4
_SHARES = 2  # a user has one of so many
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux; the last number is 0 for locks of an open file. Source: fcntl(2)
T = TypeVar("T")


class ReadingMemory:
    """The memory of this machine that is for reading, as one user has it.

    Args:
        folder: Where its locks lie: the same for all processes that share it, and nobody else's.
        total_bytes: How much there is.
        user_id: Who reads.
        wait_s: How long to wait for it, in seconds.
    """

    def __init__(self, folder: Path, *, total_bytes: int, user_id: str, wait_s: float = _WAIT_S) -> None:
        self._folder = folder
        self._all = _Units(folder, max(1, total_bytes // _UNIT_BYTES))
        named = hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._own = _Units(folder / "users" / named, max(1, self._all.count // _SHARES))
        self._wait_s = wait_s

    @asynccontextmanager
    async def reading(self, read: Callable[[int], Awaitable[T]]) -> AsyncGenerator[T]:
        """Read what nobody knows the size of, and hold memory for it for as long as the block runs.

        Args:
            read: Reads so many bytes at most, or raises QuotaExceeded with ``sizeBytes``; then it is asked again, once
                there is memory for that.

        Raises:
            QuotaExceeded: It has grown each time, or ``read`` would not read it whatever memory there is.
            Unavailable: There was no memory in time.
        """
        size = SMALL_BYTES
        try:
            found = await read(size)
        except QuotaExceeded as error:
            size = _needed(error, size)
        else:
            yield found
            return
        for left in reversed(range(_TRIES)):
            async with self.holding(size):
                try:
                    found = await read(size)
                except QuotaExceeded as error:
                    size = _needed(error, size)
                    if not left:
                        raise
                else:
                    yield found
                    return

    @asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncGenerator[None]:
        """Hold memory for so many bytes for as long as the block runs; all that there is, for more than that.

        Raises:
            Unavailable: There was none in time.
            StorageError: The folder cannot be written.
        """
        async with AsyncExitStack() as held:
            try:
                await self._take(held, min(self._all.count, -(-size_bytes // _UNIT_BYTES)))
            except OSError as error:
                way_out = "set SANDBOX_PATH to a folder that takes files"
                raise not_written(self._folder, error, way_out=way_out) from error
            yield

    async def _take(self, held: AsyncExitStack, units: int) -> None:
        deadline = time.monotonic() + self._wait_s
        for there, why in (
            (self._own, "others of this user's are being read, who has half of it at most"),
            (self._all, "other large projects are being read"),
        ):
            try:
                held.callback(os.close, await there.taken(min(there.count, units), deadline))
            except TimeoutError:
                raise Unavailable(
                    f"for {self._wait_s:g} s there was no room in this machine's memory to read {units * 4} MB of the "
                    f"project's files: {why}; try again, make the project smaller, or have KODA_READING_MB raised"
                ) from None


class _Units:
    """So many units, which whoever asks gets in the order of asking.

    Args:
        folder: Where their locks lie.
        count: How many there are.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self.count = count

    async def taken(self, units: int, deadline: float) -> int:
        """Return the open file through which so many are locked; to close it gives them back.

        Raises:
            TimeoutError: There were none by then, a time of the monotonic clock.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        locks = os.open(self._folder / "room", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with self._queued() as is_first:
                await self._take(locks, units, is_first, deadline)
        except BaseException:
            os.close(locks)
            raise
        return locks

    async def _take(self, locks: int, units: int, is_first: Callable[[], bool], deadline: float) -> None:
        held = set[int]()
        while True:
            if is_first():
                for unit in range(self.count):
                    if len(held) < units and unit not in held and _locked(locks, unit):
                        held.add(unit)
                if len(held) == units:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError
            await asyncio.sleep(_LOOK_S)

    @contextmanager
    def _queued(self) -> Generator[Callable[[], bool]]:
        """Stand in the queue for the block; yields what says whether it is one's turn.

        A place is a file whose lock its owner holds. One that nobody holds is of somebody who was killed.
        """
        name = f"{time.time_ns():020}-{secrets.token_hex(4)}"
        early, place = self._folder / f".{name}", self._folder / f"{name}.place"
        held = os.open(early, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            early.rename(place)  # locked before anybody sees it
            yield lambda: self._first() == place.name
        finally:
            for path in (early, place):
                path.unlink(missing_ok=True)
            os.close(held)

    def _first(self) -> str:
        """Return whose turn it is, and clear away the places of the dead before that."""
        for path in sorted(self._folder.glob("*.place")):
            with suppress(FileNotFoundError):
                found = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return path.name
                else:
                    path.unlink(missing_ok=True)
                finally:
                    os.close(found)
        return ""


def _locked(locks: int, unit: int) -> bool:
    """Lock one unit for this open file, where no other has it; what it has itself it is given again."""
    wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, unit, 1, 0)
    try:
        fcntl.fcntl(locks, fcntl.F_OFD_SETLK, wanted)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _needed(error: QuotaExceeded, size: int) -> int:
    told = error.context.get("sizeBytes")
    if not isinstance(told, int) or told <= size:
        raise error
    return told
