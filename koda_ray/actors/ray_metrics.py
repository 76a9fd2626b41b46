"""Figures to Ray, which exports those of all processes of a node at one port, for Prometheus to read.

Ray forgets a gauge that it has not been told of for two of its reports, 20 seconds: what changes seldom would be there
a third of each minute, or hardly ever. So whoever notes something tells what gauges said last once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray.util import metrics as ray_metrics

from koda_ray.logs import get_logger
from koda_ray.metrics import Figure

__all__ = ["RayMetrics"]

_AGAIN_S = 5.0
"""After how long a gauge is told once more, in seconds."""
_log = get_logger()


@dataclass(slots=True)
class _Told:
    """What a gauge said last, and when."""

    gauge: Any
    value: float
    at: float


class RayMetrics:
    """Implements `MetricsSink` in a process that Ray started, or that is connected to it.

    Args:
        clock: Tells time, in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._made: dict[str, Any] = {}
        self._told: dict[tuple[str, tuple[tuple[str, str], ...]], _Told] = {}
        self._clock = clock

    def note(self, figure: Figure, value: float, **labels: str) -> None:
        """Hand a figure to Ray; what it does not take is logged and forgotten."""
        try:
            made = self._made.get(figure.name)
            if made is None:
                made = self._made[figure.name] = _make(figure)
            match figure.kind:
                case "counter" if value > 0:
                    made.inc(value, tags=labels)
                case "gauge":
                    made.set(value, tags=labels)
                    self._told[figure.name, tuple(labels.items())] = _Told(made, value, self._clock())
                case "histogram":
                    made.observe(value, tags=labels)
                case _:
                    pass
            self._tell_again()
        except Exception as error:  # work does not end because nobody could be told of it
            _log.warning("figure not noted", figure=figure.name, error=str(error)[:300])

    def _tell_again(self) -> None:
        at = self._clock()
        for (_, labels), told in self._told.items():
            if at - told.at >= _AGAIN_S:
                told.gauge.set(told.value, tags=dict(labels))
                told.at = at


def _make(figure: Figure) -> Any:
    given: dict[str, Any] = {"description": figure.words, "tag_keys": figure.labels}
    match figure.kind:
        case "counter":
            return ray_metrics.Counter(figure.name, **given)
        case "gauge":
            return ray_metrics.Gauge(figure.name, **given)
        case "histogram":
            return ray_metrics.Histogram(figure.name, boundaries=list(figure.buckets), **given)
