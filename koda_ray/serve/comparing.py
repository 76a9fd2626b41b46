"""By how much two stored videos differ, frame by frame: found out once, and kept with the session.

Two videos are decoded for it, for one question after the other.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from pydantic import TypeAdapter, ValidationError

from koda_ray.errors import EncodeFailed, InvalidInput, NotFound
from koda_ray.logs import get_logger
from koda_ray.render.differences import frame_differences
from koda_ray.serve.decoding import DecodingTurns, as_file
from koda_ray.state.holdings import HoldObjects
from koda_ray.state.storage import Storage

__all__ = ["ComparedVideos", "Comparing"]

_KIND = b"differences v1"
_WAITING = 4
"""How many questions of one user may wait."""
_VALUES = TypeAdapter(tuple[float, ...])
_log = get_logger(__name__)


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
        self._turns = DecodingTurns("comparisons", most=_WAITING)

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
            InvalidInput: A video is too large to be fetched, or cannot be decoded.
            LimitReached: Too many of the user's questions wait.
            Missing: FFmpeg is not installed.
            EncodeFailed: It took too long.
        """
        with suppress(NotFound, ValidationError):
            return _VALUES.validate_json(await storage.get(key))
        async with self._turns.place(user_id) as turn:
            with suppress(NotFound, ValidationError):  # asked twice at once
                return _VALUES.validate_json(await storage.get(key))
            async with as_file(storage, videos.one) as one, as_file(storage, videos.other) as other, turn:
                try:
                    found = await frame_differences(one, other, fps=videos.fps)
                except EncodeFailed as error:
                    if error.retryable:
                        raise
                    _log.warning("videos cannot be compared", one=videos.one, other=videos.other, error=error.message)
                    raise InvalidInput(
                        "one of these videos cannot be read frame by frame: have it rendered again, or compare others",
                        code=error.code,
                    ) from error
            data = _VALUES.dump_json(found)
            await hold({key: len(data)})
            await storage.put(key, data)
            return found
