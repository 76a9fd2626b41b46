"""Videos that are decoded for a request: as files, one after the other, and each user waits for so many at a time.

That takes a processor for a while, and a server has others to answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from koda_ray.errors import LimitReached, NotFound
from koda_ray.sandbox.scratch import scratch
from koda_ray.state.storage import Storage

__all__ = ["DecodingTurns", "as_file"]

_AGAIN_S = 5.0


class DecodingTurns:
    """Gives turns to decode.

    Args:
        what: What is made of videos, in words.
        most: How many requests of one user may be under way and wait.
    """

    def __init__(self, what: str, *, most: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, user_id: str) -> AsyncGenerator[None]:
        """Have the turn for as long as the block runs.

        Raises:
            LimitReached: As many of the user's wait as may.
        """
        if self._users[user_id] >= self._most:
            raise LimitReached(
                f"{self._most} {self._what} of yours are under way, and no more may be: wait for one of them",
                retry_after_s=_AGAIN_S,
                context={"limit": self._most},
            )
        self._users[user_id] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._users[user_id] -= 1
            if not self._users[user_id]:
                del self._users[user_id]


@asynccontextmanager
async def as_file(storage: Storage, key: str) -> AsyncGenerator[Path]:
    """Have a stored object as a file: where it lies, or a copy for as long as the block runs.

    Raises:
        NotFound: It is not there any more.
        StorageError: It could not be read.
    """
    path = storage.local_path(key)
    if path is None:
        with scratch() as folder:
            await storage.get_file(key, folder / "object")
            yield folder / "object"
        return
    if not await asyncio.to_thread(path.is_file):
        raise NotFound(f"no object {key!r}", context={"key": key})
    yield path
