"""What is noted of a capture: how long it waited for a browser, and what each of its units took."""

from __future__ import annotations

import time

from koda_ray.metrics import FRAMES, SCHEDULE_TO_START, UNIT, MetricsSink
from koda_ray.render.protocol import Captured, Hear, UnitResult

__all__ = ["CaptureNotes"]


class CaptureNotes:
    """Notes one capture, from the moment at which it is asked for.

    Args:
        metrics: Where.
        hear: Who hears what the capture tells, before it is noted: what they refuse was not made.
        urgent: Whether somebody waits for it.
    """

    def __init__(self, metrics: MetricsSink, hear: Hear | None, *, urgent: bool) -> None:
        self._metrics = metrics
        self._hear = hear
        self._urgent = "yes" if urgent else "no"
        self._asked_at = time.monotonic()

    def begun(self) -> None:
        """A worker has begun with it."""
        self._metrics.note(SCHEDULE_TO_START, time.monotonic() - self._asked_at, urgent=self._urgent)

    async def heard(self, told: Captured | UnitResult) -> None:
        """Pass on what a capture tells."""
        if self._hear is not None:
            await self._hear(told)
        if isinstance(told, UnitResult) and not told.alike:
            self._metrics.note(FRAMES, told.unit.frame_count, urgent=self._urgent)
            self._metrics.note(UNIT, told.timings_ms.get("total", 0.0) / 1000, urgent=self._urgent)
