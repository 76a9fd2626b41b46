"""How much of what people send, or take out, is held at once, by all of them and by each: in memory, and on the disk.

A zip of a few megabytes may hold a quarter of a gigabyte, and a form's limit says nothing of that. So whoever unpacks
one takes room for what its table of contents admits to (more is never unpacked) and gives it back when the files are
stored; what comes out of a sandbox takes room before it is read, and a body that lies on the disk before it is received
(`arriving`). Who finds no room waits in turn, behind others of the
same user first: one user has half of all the room at most, and keeps nobody else waiting.

What is held is taken whole. Who has room on the disk may wait for room in memory, never the other way round; and who
waits for more of the disk (zips of folders) has half of that at most. So whoever is waited for can go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from koda_ray.errors import InvalidInput, LimitReached, QuotaExceeded

__all__ = ["Reservation", "TooMuchAtOnce", "Unpacking", "read_within"]

_WAIT_S = 30.0
_WAITING = 32
"""How many requests of one user may wait."""
_FIRST_BYTES = 1 << 20
_TRIES = 4
T = TypeVar("T")


class TooMuchAtOnce(InvalidInput):
    """What is larger than all that one user may have held: it never fits here."""

    code = "TOO_LARGE"
    status = 413


@dataclass
class _Share:
    """What one user holds; ``there`` are those that hold or wait to."""

    held_bytes: int = 0
    there: int = 0
    waiting: int = 0
    first: asyncio.Lock = field(default_factory=asyncio.Lock)


class Reservation:
    """What is held, until the block is over that took it."""

    def __init__(self, size_bytes: int, give_back: Callable[[int], Awaitable[None]]) -> None:
        self._size = size_bytes
        self._give_back = give_back

    async def keep(self, size_bytes: int) -> None:
        """Give back what is above this."""
        if (less := self._size - size_bytes) > 0:
            self._size = size_bytes
            await self._give_back(less)


class Unpacking:
    """Counts what is held by this process.

    Args:
        total_bytes: What all may hold together; each user may hold half.
        setting: What says so, for people.
        share: Which part of that setting a user's is, for people.
        wait_s: How long to wait for room, in seconds.
    """

    def __init__(
        self,
        total_bytes: int,
        *,
        setting: str = "KODA_UNPACKED_MB",
        share: str = "half",
        wait_s: float = _WAIT_S,
    ) -> None:
        self._total = total_bytes
        self._most = total_bytes // 2
        self._setting = setting
        self._part = share
        self._wait_s = wait_s
        self._taken = 0
        self._shares: dict[str, _Share] = {}
        self._first = asyncio.Lock()
        self._changed = asyncio.Condition()

    @property
    def held_bytes(self) -> int:
        """What is held now."""
        return self._taken

    @property
    def most_bytes(self) -> int:
        """What one user may hold."""
        return self._most

    @property
    def waiting(self) -> int:
        """How many wait for room now."""
        return sum(share.waiting for share in self._shares.values())

    def check(self, size_bytes: int) -> None:
        """See that so much can be held at all.

        Raises:
            TooMuchAtOnce: TOO_LARGE, it is more than a user may ever hold.
        """
        if size_bytes > self._most:
            raise TooMuchAtOnce(
                f"this has {size_bytes:,} bytes, and one user has at most {self._most:,} held at once ({self._part} of "
                f"{self._setting}): make it smaller, or have that raised",
                context={"sizeBytes": size_bytes, "mostBytes": self._most},
            )

    @asynccontextmanager
    async def holding(self, user_id: str, size_bytes: int) -> AsyncGenerator[Reservation]:
        """Hold so much for as long as the block runs, all of it or nothing.

        Raises:
            TooMuchAtOnce: As `check`.
            LimitReached: LIMIT_REACHED, too many of the user's wait, or there was no room in time.
        """
        self.check(size_bytes)
        share = self._shares.setdefault(user_id, _Share())
        if share.waiting >= _WAITING:
            raise LimitReached(
                f"{share.waiting} requests of yours wait for room to hold files, and no more may: send one after the "
                "other",
                retry_after_s=self._wait_s,
            )

        async def give_back(less: int) -> None:
            share.held_bytes -= less
            self._taken -= less
            async with self._changed:
                self._changed.notify_all()

        share.there += 1
        try:
            share.waiting += 1
            try:
                await self._take(share, size_bytes)
            finally:
                share.waiting -= 1
            held = Reservation(size_bytes, give_back)
            try:
                yield held
            finally:
                await held.keep(0)
        finally:
            share.there -= 1
            if not share.there:
                self._shares.pop(user_id, None)

    def reading(self, user_id: str, read: Callable[[int], Awaitable[T]]) -> AbstractAsyncContextManager[T]:
        """Read what nobody knows the size of, and hold it for as long as the block runs; arguments as `read_within`."""
        return read_within(partial(self.holding, user_id), read)

    async def _take(self, share: _Share, size: int) -> None:
        """Wait for room: who waits longest has the lock, so that small ones never overtake a large one for ever."""
        try:
            async with asyncio.timeout(self._wait_s), share.first:
                async with self._changed:
                    await self._changed.wait_for(lambda: share.held_bytes + size <= self._most)
                async with self._first, self._changed:
                    await self._changed.wait_for(lambda: self._taken + size <= self._total)
                    share.held_bytes += size
                    self._taken += size
        except TimeoutError:
            raise LimitReached(
                f"there was no room to hold {size:,} bytes for {self._wait_s:g} s: others' requests, or yours, have "
                f"it; send it again, or have {self._setting} raised",
                retry_after_s=self._wait_s,
            ) from None


@asynccontextmanager
async def read_within(
    holding: Callable[[int], AbstractAsyncContextManager[object]], read: Callable[[int], Awaitable[T]]
) -> AsyncGenerator[T]:
    """Read what nobody knows the size of, and hold room for it for as long as the block runs.

    Args:
        holding: Holds so much room for as long as its block runs.
        read: Reads so many bytes at most, or raises QuotaExceeded with ``sizeBytes`` and has read nothing that
            stays; then it is asked again, once there is room for that.

    Raises:
        LimitReached: As `Unpacking.holding`, and so TooMuchAtOnce.
        QuotaExceeded: It has grown each time.
    """
    size = _FIRST_BYTES
    for left in reversed(range(_TRIES)):
        async with holding(size):
            try:
                found = await read(size)
            except QuotaExceeded as error:
                told = error.context.get("sizeBytes")
                if not isinstance(told, int) or told <= size or not left:
                    raise
                size = told
                continue
            yield found
            return
