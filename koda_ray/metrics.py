"""Figures that a deployment is watched by, and where they go: whoever has one to note needs nothing else.

A label has a few values that are known beforehand; none is ever a user, a session, a job or a page. Durations are in
seconds. Ray exports what processes on its nodes note as ``ray_<name>`` (`koda_ray.actors.ray_metrics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = [
    "ACTIVATION",
    "COST",
    "EVENTS_LAG",
    "FIGURES",
    "FRAMES",
    "LOOKS",
    "OWED",
    "SCHEDULE_TO_START",
    "SESSIONS",
    "SWEPT",
    "UNIT",
    "UNREAD",
    "Figure",
    "MetricsSink",
    "NoMetrics",
]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure.

    Attributes:
        name: As it is noted.
        kind: A counter is added to, a gauge is set, a histogram counts into its buckets.
        words: What it is, for whoever reads it.
        labels: What it is told apart by.
        buckets: A histogram's upper bounds.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    words: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class MetricsSink(Protocol):
    """Where figures go. Never fails, and never waits."""

    def note(self, figure: Figure, value: float, **labels: str) -> None:
        """Add to a counter, set a gauge, or count into a histogram.

        Args:
            figure: Which.
            value: By how much, to what, or what was measured.
            labels: A value for each of the figure's labels.
        """
        ...


class NoMetrics:
    """Nobody watches: tests, and renders of one's own machine."""

    def note(self, figure: Figure, value: float, **labels: str) -> None:
        """Forget it."""


_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

FRAMES = Figure(name="koda_render_frames_total", kind="counter", words="frames captured and stored", labels=("urgent",))
UNIT = Figure(
    name="koda_unit_seconds",
    kind="histogram",
    words="what a worker took for a unit, from its page's first frame to storage",
    labels=("urgent",),
    buckets=_SECONDS,
)
SCHEDULE_TO_START = Figure(
    name="koda_unit_schedule_to_start_seconds",
    kind="histogram",
    words="how long a capture waited for a browser",
    labels=("urgent",),
    buckets=_SECONDS,
)
SESSIONS = Figure(
    name="koda_sessions",
    kind="gauge",
    words="sessions that a process holds (active), that nobody holds (asleep), that owe work (owing), that are being "
    "removed (closing); the owing are active or asleep besides",
    labels=("state",),
)
ACTIVATION = Figure(
    name="koda_activation_seconds",
    kind="histogram",
    words="from a session's process to the session",
    buckets=_SECONDS,
)
OWED = Figure(
    name="koda_janitor_owed",
    kind="gauge",
    words="sessions, and page renders (some wait for room), that owe work while nobody holds them",
    labels=("kind",),
)
LOOKS = Figure(
    name="koda_janitor_looks_total",
    kind="counter",
    words="how often the janitor looked for what owes work, and was told",
)
EVENTS_LAG = Figure(
    name="koda_events_lag_seconds",
    kind="histogram",
    words="from an event's commit to whoever follows",
    buckets=(0.01, 0.05, *_SECONDS[:8]),
)
COST = Figure(
    name="koda_cost_usd_total",
    kind="gauge",
    words="dollars that all work ever cost, as the ledger says: a sum that goes on where a process ends",
)
SWEPT = Figure(
    name="koda_swept_total",
    kind="counter",
    words="what nobody used any more and was removed: rendered parts (units), pages (bundles), notes of videos "
    "(films), results, videos of previews, uploaded files (assets), files of checkpoints (blobs), sessions whose "
    "removal has begun",
    labels=("kind",),
)
UNREAD = Figure(
    name="koda_unread_checkpoints",
    kind="gauge",
    words="checkpoints whose list of files the last look could not read, so that nobody knows what they hold",
)
FIGURES = (FRAMES, UNIT, SCHEDULE_TO_START, SESSIONS, ACTIVATION, OWED, LOOKS, EVENTS_LAG, COST, SWEPT, UNREAD)
