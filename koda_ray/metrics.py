"""Where counts and timings go: a sink that lower floors take as a parameter and never import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["MetricsSink", "NullMetrics"]


class MetricsSink(Protocol):
    """Takes measurements. Names are plain (``render_frames_total``), labels bounded in number."""

    def count(self, name: str, value: float = 1.0, labels: Mapping[str, str] | None = None) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Record one value of a distribution; the unit is in the name."""
        ...


class NullMetrics:
    """A sink that keeps nothing."""

    def count(self, name: str, value: float = 1.0, labels: Mapping[str, str] | None = None) -> None:
        """Drop the count."""

    def observe(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Drop the value."""
