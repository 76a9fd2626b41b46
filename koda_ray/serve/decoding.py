"""Videos that are decoded for a request: as files, a few at a time, one of each user, who waits for so many.

That takes a processor for a while, and a server has others to answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from koda_ray.errors import InvalidInput, LimitReached, NotFound
from koda_ray.sandbox.scratch import scratch
from koda_ray.state.storage import Storage

__all__ = ["DecodingTurns", "as_file"]

_AGAIN_S = 5.0
_MOST_FETCHED_BYTES = 512 * 1024 * 1024
"""How large a video may be that is fetched to be decoded."""


@dataclass
class _Line:
    """What one user has asked for: one of it is under way."""

    first: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: int = 0


class DecodingTurns:
    """Gives turns to decode.

    Args:
        what: What is made of videos, in words.
        most: How many requests of one user may be under way and wait.
        at_once: How many have their turn, each of another user.
    """

    def __init__(self, what: str, *, most: int, at_once: int = 1) -> None:
        self._what = what
        self._most = most
        self._turns = asyncio.Semaphore(at_once)
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def place(self, user_id: str) -> AsyncGenerator[AbstractAsyncContextManager[None]]:
        """Be the one of the user's that is under way for as long as the block runs; what is decoded needs its turn too.

        Whatever takes no processor, such as fetching a video, is done before the turn that this yields.

        Raises:
            LimitReached: As many of the user's wait as may.
        """
        line = self._lines.setdefault(user_id, _Line())
        if line.count >= self._most:
            raise LimitReached(
                f"{self._most} {self._what} of yours are under way, and no more may be: wait for one of them",
                retry_after_s=_AGAIN_S,
                context={"limit": self._most},
            )
        line.count += 1
        try:
            async with line.first:
                yield self._turns
        finally:
            line.count -= 1
            if not line.count:
                del self._lines[user_id]


@asynccontextmanager
async def as_file(storage: Storage, key: str) -> AsyncGenerator[Path]:
    """Have a stored object as a file: where it lies, or a copy for as long as the block runs.

    Raises:
        NotFound: It is not there any more.
        InvalidInput: It would have to be copied, and is too large for that.
        StorageError: It could not be read.
    """
    path = storage.local_path(key)
    if path is None:
        size = await storage.size(key)
        if size > _MOST_FETCHED_BYTES:
            raise InvalidInput(
                f"the video has {size / 2**20:.0f} MB, and one is fetched to be looked at up to "
                f"{_MOST_FETCHED_BYTES / 2**20:.0f} MB: download it",
                code="VIDEO_TOO_LARGE",
                context={"limit": _MOST_FETCHED_BYTES},
            )
        with scratch() as folder:
            await storage.get_file(key, folder / "object")
            yield folder / "object"
        return
    if not await asyncio.to_thread(path.is_file):
        raise NotFound(f"no object {key!r}", context={"key": key})
    yield path
