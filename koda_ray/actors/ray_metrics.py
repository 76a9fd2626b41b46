"""Figures to Ray, which exports those of all processes of a node at one port, for Prometheus to read."""

from __future__ import annotations

from typing import Any

from ray.util import metrics as ray_metrics

from koda_ray.logs import get_logger
from koda_ray.metrics import Figure

__all__ = ["RayMetrics"]

_log = get_logger()


class RayMetrics:
    """Implements `MetricsSink` in a process that Ray started, or that is connected to it."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

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
                case "histogram":
                    made.observe(value, tags=labels)
                case _:
                    pass
        except Exception as error:  # work does not end because nobody could be told of it
            _log.warning("figure not noted", figure=figure.name, error=str(error)[:300])


def _make(figure: Figure) -> Any:
    given: dict[str, Any] = {"description": figure.words, "tag_keys": figure.labels}
    match figure.kind:
        case "counter":
            return ray_metrics.Counter(figure.name, **given)
        case "gauge":
            return ray_metrics.Gauge(figure.name, **given)
        case "histogram":
            return ray_metrics.Histogram(figure.name, boundaries=list(figure.buckets), **given)
