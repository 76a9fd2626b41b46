"""By how much two stored videos differ, frame by frame: found out once, and kept with the session.

Two videos are decoded for it, which takes a processor for a while, so a server does that for one question after the
other, and each user waits with one at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from koda_ray.errors import LimitReached, NotFound
from koda_ray.render.differences import frame_differences
from koda_ray.sandbox.scratch import scratch
from koda_ray.state.holdings import HoldObjects
from koda_ray.state.storage import Storage

__all__ = ["ComparedVideos", "Comparing"]

_KIND = b"differences v1"
_WAITING = 4
"""How many questions of one user may wait."""
_AGAIN_S = 5.0
_VALUES = TypeAdapter(tuple[float, ...])


class ComparedVideos:
    """Two videos in storage, and where what is found out of them is kept: the same, whichever is named first.

    Args:
        one: The key of one of them.
        other: The other one's.
        fps: How many frames a second are compared.
    """

    def __init__(self, one: str, other: str, *, fps: float) -> None:
        self.one, self.other = sorted((one, other))
        self.fps = fps

    @property
    def digest(self) -> str:
        """What is the same for the same question: objects never change under their key."""
        return hashlib.sha256(b"\0".join([_KIND, self.one.encode(), self.other.encode(), b"%g" % self.fps])).hexdigest()


class Comparing:
    """Compares videos, one pair after the other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._users: dict[str, int] = {}

    async def values(
        self, storage: Storage, videos: ComparedVideos, *, user_id: str, key: str, hold: HoldObjects
    ) -> tuple[float, ...]:
        """Return what `frame_differences` does, from where it is kept if that was asked before.

        Args:
            storage: Where the videos are.
            videos: Which.
            user_id: Who asks.
            key: Where the answer is kept.
            hold: Counts it before it is.

        Raises:
            NotFound: A video is not there any more, or who was to hold the answer is not.
            LimitReached: Too many of the user's questions wait.
            Missing: FFmpeg is not installed.
            EncodeFailed: A video cannot be decoded.
        """
        with suppress(NotFound, ValidationError):
            return _VALUES.validate_json(await storage.get(key))
        async with self._waiting(user_id), self._turn:
            with suppress(NotFound, ValidationError):  # asked twice at once
                return _VALUES.validate_json(await storage.get(key))
            async with _files(storage, videos) as (one, other):
                found = await frame_differences(one, other, fps=videos.fps)
            data = _VALUES.dump_json(found)
            await hold({key: len(data)})
            await storage.put(key, data)
            return found

    @asynccontextmanager
    async def _waiting(self, user_id: str) -> AsyncGenerator[None]:
        if self._users.get(user_id, 0) >= _WAITING:
            raise LimitReached(
                f"{_WAITING} comparisons of yours are under way, and no more may be: wait for one of them",
                retry_after_s=_AGAIN_S,
                context={"limit": _WAITING},
            )
        self._users[user_id] = self._users.get(user_id, 0) + 1
        try:
            yield
        finally:
            self._users[user_id] -= 1
            if not self._users[user_id]:
                del self._users[user_id]


@asynccontextmanager
async def _files(storage: Storage, videos: ComparedVideos) -> AsyncGenerator[tuple[Path, Path]]:
    """Have both as files: where they lie, or copied for as long as the block runs."""
    one, other = storage.local_path(videos.one), storage.local_path(videos.other)
    if one is not None and other is not None:
        for key, path in ((videos.one, one), (videos.other, other)):
            if not await asyncio.to_thread(path.is_file):
                raise NotFound(f"no object {key!r}", context={"key": key})
        yield one, other
        return
    with scratch() as folder:
        copies = folder / "one", folder / "other"
        for key, path in zip((videos.one, videos.other), copies, strict=True):
            await storage.get_file(key, path)
        yield copies
