"""A count down on the beat: number k stands whole from shortly after its beat until just before the next."""

from __future__ import annotations

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.count import pace_of
from koda_ray.studio.offline.films.base import Film, Timing
from koda_ray.studio.offline.films.stage import air, framing_for, light_up
from koda_ray.studio.offline.palette import Palette, ink_on

__all__ = ["countdown_film"]

_MOST_FLASHES_S = 1 / 3
"""A ground that changes more often than three times a second is not shown. Source: WCAG 2.2, criterion 2.3.1."""

_INSTANT_S = 0.0015
"""Keys that are closer than a millisecond become one."""
_EARLY_S = 0.004
"""A quarter of a frame: a change at once comes before the frame that it belongs to, never within it."""


def countdown_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a count down and its finale."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="CountdownScene",
        parts=("lib/frame.ts", "lib/colour.ts", "lib/type.ts", "components/Countdown.tsx"),
        values={},
        framing=framing_for(
            brief, motifs=("rings", "rays") if brief.style == "playful" else ("plain", "rings"), light=(0.5, 0.5)
        ),
    )
    light_up(film)
    pace = pace_of(brief, timing.total)
    beat, values = pace.beat_s, pace.values
    flickers = beat < _MOST_FLASHES_S
    enter = min(0.34, beat * 0.4)
    leave = min(0.14, beat * 0.16)
    bright = [c for c in palette.colours if c != "#FFFFFF"]
    grounds = [None, *bright[:4]] if brief.style == "playful" and not flickers else [None]
    numbers: list[dict[str, object]] = []
    for i, value in enumerate(values):
        name = f"Number {value}"
        at = i * beat
        ease = {"playful": "easeOutBack", "smooth": "easeOutQuint", "cinematic": "cinematicOut"}[
            brief.easing or brief.style
        ]
        if i == 0:
            film.score.add(name, "enter", [(0, 0.62), (enter, 1, ease)])
        elif flickers:
            # one number takes the other's place at once, so that the picture is never empty
            film.score.add(
                name, "enter", [(0, 0), (at - _EARLY_S - _INSTANT_S, 0), (at - _EARLY_S, 0.62), (at + enter, 1, ease)]
            )
        else:
            film.score.add(name, "enter", [(0, 0), (at, 0), (at + enter, 1, ease)])
        # a number with a ground of its own covers the one before, which need not leave
        ground = grounds[i % len(grounds)]
        covered = i + 1 < len(values) and grounds[(i + 1) % len(grounds)] is not None
        gone = at + beat + (enter if covered else _INSTANT_S - _EARLY_S if flickers else 0.0)
        fades = _INSTANT_S if flickers else 0.02 if covered else leave
        film.score.add(name, "leave", [(0, 0), (gone - fades, 0), (gone, 1, "linear")])
        repainted = any(part == "ink" for part, _ in brief.repaint)
        numbers.append(
            {
                "name": name,
                "text": str(value),
                "ground": ground,
                "ink": palette.ink if repainted or ground is None else ink_on(palette, ground),
            }
        )
    zero = len(values) * beat
    film.score.add("Countdown", "ring", [(0, 0), (zero, len(values), "linear")])
    if zero < timing.total:
        film.score.add("Countdown", "end", [(0, 0), (zero, 0), (min(timing.total, zero + 0.5), 1, film.feel.enter)])
        film.score.add("Countdown", "burst", [(0, 0), (zero, 0), (zero + 1.9, 1, "linear")])
    film.values = {
        "countdown": {
            "numbers": numbers,
            "manner": {"playful": "pop", "smooth": "rise", "cinematic": "emerge"}[brief.style],
            "finale": brief.heading or ("スタート" if brief.language == "ja" else "Go!"),
        }
    }
    if brief.particles:
        air(film)
    return film
