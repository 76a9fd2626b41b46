"""What every film is made of: its timing, its parts, its score, and how the picture is framed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from koda_ray.roles.offline.brief import Brief, PartName
from koda_ray.roles.offline.motion import Feel, Score, feel_of
from koda_ray.roles.offline.palette import Palette

__all__ = ["Film", "Framing", "Timing", "pick", "timing_of"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Timing:
    """When things happen, in seconds: scene starts, the total, where the opening ends and the ending begins."""

    total: float
    starts: tuple[float, ...]
    ends: tuple[float, ...]

    @property
    def opening(self) -> float:
        """Return when the opening is over."""
        return self.ends[0] if len(self.ends) > 1 else self.total * 0.4

    @property
    def ending(self) -> float:
        """Return when the ending begins."""
        return self.starts[-1] if len(self.starts) > 2 else self.total * 0.72


def timing_of(durations: Sequence[float], total: float) -> Timing:
    """Return the timing of scenes, stretched to ``total`` where a change request altered the length."""
    stretch = total / sum(durations)
    starts: list[float] = []
    ends: list[float] = []
    at = 0.0
    for duration in durations:
        starts.append(round(at, 4))
        at += duration * stretch
        ends.append(round(at, 4))
    return Timing(round(total, 4), tuple(starts), tuple(ends))


@dataclass(frozen=True, kw_only=True)
class Framing:
    """The ground and the last layer; see the kit's Backdrop and Finish."""

    motif: str = "plain"
    light_x: float = 0.5
    light_y: float = 0.42
    vignette: float = 0.0
    bars: float = 0.0
    grain: float = 0.03


@dataclass
class Film:
    """A film.

    ``scene`` names the kit's scene file and its exported component; ``values``
    fill the scene's blanks. ``overlays`` are components that App puts over the scene, and ``backlayers`` under
    it, as (component, JSX).
    """

    brief: Brief
    timing: Timing
    palette: Palette
    scene: str
    values: dict[str, object]
    framing: Framing
    score: Score = field(default_factory=Score)
    overlays: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    backlayers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    type_caps: bool = False
    type_weight: int | None = None
    type_family: str | None = None
    type_tracking: float | None = None
    many_letter_colours: bool = False
    zoom: float = 1.0
    """Scales the whole scene, for subjects that have no size of their own."""

    hidden: frozenset[PartName] = frozenset()
    """Parts that are not drawn."""

    @property
    def feel(self) -> Feel:
        """How things move in this film."""
        return feel_of(self.brief)


def pick(brief: Brief, choices: Sequence[_T], salt: int = 0) -> _T:
    """Return one of ``choices`` by the prompt's seed and the variant: the same prompt, the same choice."""
    return choices[(brief.seed // (salt * 31 + 1) + brief.variant + salt) % len(choices)]
