"""How far a render is, and how long it will take: reckoned from frames that were really captured."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from koda_ray.render.protocol import Progress, Stage

__all__ = ["ProgressMeter"]

_EVERY_S = 0.25
_RATE_WINDOW_S = 10.0
_CAPTURE_SHARE = 0.92
_JOIN_S_PER_FRAME = 0.001
_JOIN_S = 0.5


class ProgressMeter:
    """Collects counts and tells them a few times a second; a context manager, so that its teller always ends.

    Percent falls where something is done anew: units that are tried again count from nothing, and so does everything in
    a replay, which is a pass of its own.

    Args:
        frames_total: Frames of the video.
        tell: Hears the progress.
        waited: Says for how many seconds there has been no machine to work on; None where there is one.
    """

    def __init__(
        self,
        frames_total: int,
        tell: Callable[[Progress], Awaitable[None]] | None,
        waited: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._total = frames_total
        self._tell = tell
        self._waited = waited
        self._found = 0
        self._captured: dict[int, int] = {}
        self._seen: deque[tuple[float, int]] = deque()
        self._stage: Stage = "capturing"
        self._share = 0.0
        self._last: Progress | None = None
        self._teller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._tell is not None:
            self._teller = asyncio.create_task(self._keep_telling())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._teller is not None:
            self._teller.cancel()
            (outcome,) = await asyncio.gather(self._teller, return_exceptions=True)
            # a listener that fails fails the job, unless something else already did
            if kind is None and isinstance(outcome, Exception):
                raise outcome

    async def restart(self) -> None:
        """Begin a pass over all frames."""
        self._found, self._captured, self._stage, self._share = 0, {}, "capturing", 0.0
        self._seen.clear()
        await self._say()

    def found(self, frames: int) -> None:
        """Count frames that were in storage."""
        self._found += frames

    def captured(self, unit: int, frames: int) -> None:
        """Note how many frames of a unit are captured so far; 0 when it starts again."""
        self._captured[unit] = frames

    async def stage(self, stage: Stage, share: float) -> None:
        """Enter a stage after capturing; ``share`` of the whole is done."""
        self._stage, self._share = stage, share
        await self._say()

    async def done(self) -> None:
        """Say that all is done."""
        self._share = 1.0
        await self._say()

    @property
    def frames_done(self) -> int:
        """Frames found or captured so far."""
        return min(self._total, self._found + sum(self._captured.values()))

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._say()

    async def _say(self) -> None:
        if self._tell is None:
            return
        progress = self._progress()
        if progress != self._last:
            self._last = progress
            await self._tell(progress)

    def _progress(self) -> Progress:
        done = self.frames_done
        rate = self._rate(sum(self._captured.values()))
        stage: Stage = self._stage
        share = max(self._share, _CAPTURE_SHARE * done / self._total)
        if stage == "capturing" and done >= self._total:
            stage = "encoding"
        waited_s = self._waited() if stage == "capturing" else None
        left: float | None = None
        if waited_s is not None:
            stage = "waiting"
        elif share >= 1:
            left = 0.0
        elif rate or done >= self._total:
            left = (self._total - done) / (rate or 1) + (_JOIN_S + self._total * _JOIN_S_PER_FRAME) * (1 - self._share)
        return Progress(
            percent=round(100 * share, 1),
            stage=stage,
            frames_done=done,
            frames_total=self._total,
            frames_per_s=round(rate, 2) if rate else None,
            seconds_left=None if left is None else round(left, 1),
            waited_s=None if waited_s is None else float(round(waited_s)),
        )

    def _rate(self, captured: int) -> float | None:
        now = time.monotonic()
        self._seen.append((now, captured))
        while self._seen and now - self._seen[0][0] > _RATE_WINDOW_S:
            self._seen.popleft()
        first_at, first = self._seen[0]
        return (captured - first) / (now - first_at) if captured > first and now > first_at else None
