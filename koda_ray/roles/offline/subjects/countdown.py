"""A count down on the beat: number k stands whole from shortly after its beat until just before the next.

A number stands for a second where the film is long enough. Where it is not, the stated length stays and the count runs
faster; where that would be too fast to be seen, it goes in steps, and always ends on its last number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.extract import number_of, numbered
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import MANNERS, Ground, air, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import alternatives, expression, said
from koda_ray.roles.offline.palette import Palette, ink_on
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Subject, own_brief, settle_duration

__all__ = ["Count", "Countdown", "CountdownPace", "pace_of"]

_END_S = 2.0
_MOST_ONE_A_SECOND = 60
_QUICK_S = 0.2
_LEAST_S = 0.1
_MOST_SHOWN = 150
_LONG_END_S = 4.0
_HIGHEST = 9999

_MOST_FLASHES_S = 1 / 3
"""A ground that changes more often than three times a second is not shown. Source: WCAG 2.2, criterion 2.3.1."""
_INSTANT_S = 0.0015
"""Keys that are closer than a millisecond become one."""
_EARLY_S = 0.004
"""A quarter of a frame: a change at once comes before the frame that it belongs to, never within it."""
_SEEN = 0.35
"""How far what comes has come on its beat."""

_FROM = ("count_from", "count_before", "count_after", "count_cjk")
_EASES = {"playful": "easeOutBack", "smooth": "easeOutQuint", "cinematic": "cinematicOut"}


@dataclass(frozen=True)
class Count:
    """What is counted: from ``start`` down to ``stop``."""

    start: int = 5
    stop: int = 1


@dataclass(frozen=True)
class CountdownPace:
    """The numbers in the order in which they are shown, ``beat_s`` seconds each; ``step`` is from one to the next."""

    values: tuple[int, ...]
    beat_s: float
    step: int


class Countdown(Subject):
    """A count down and its finale."""

    name = "countdown"
    rank = 40
    style = "playful"
    obvious = True
    zoom = 1.14
    lettered = True
    heading_in = ""
    ends = (1.0, 0.6)
    seconds_note = said("countdown.seconds")

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        count, note = _find_count(heard.bare)
        if note:
            heard.notes.append(note)
        return replace(super().fill(brief, heard), own=count)

    def seconds(self, brief: Brief) -> float:
        numbers = _numbers(own_brief(brief, Count))
        if numbers <= _MOST_ONE_A_SECOND:
            return numbers / min(1.0, brief.speed) + _END_S
        return min(numbers, _MOST_SHOWN) * _QUICK_S + _END_S

    def without_own_seconds(self, text: str) -> str:
        """Hide seconds that say where a count starts: "from 5 seconds", or "10 second countdown" by itself."""
        start = _heard("count_start")
        return start.sub(" ", text) if start.search(text) else _heard("count_length").sub(" ", text)

    def changed(self, brief: Brief, text: str) -> tuple[Brief, str] | None:
        if not expression("count_again").search(text):
            return None
        count, _ = _find_count(text)
        told = said("countdown.changed", start=count.start, stop=count.stop)
        return settle_duration(replace(brief, own=count)), told

    def note(self, brief: Brief) -> str:
        """Say where a count does not go as one expects, a number a second from first to last."""
        pace, count = pace_of(brief, brief.duration_s), own_brief(brief, Count)
        numbers, length, each = _numbers(count), brief.duration_s, pace.beat_s
        if pace.step > 1:
            return said(
                "countdown.in_steps", numbers=numbers, length=length, step=pace.step, each=each, stop=count.stop
            )
        if each < 0.99 / max(1.0, brief.speed):
            return said("countdown.quick", numbers=numbers, length=length, each=each, wanted=numbers + _END_S)
        if length - each * numbers > _LONG_END_S:
            return said("countdown.long", seconds=each * numbers, length=length)
        return ""

    def script(self, brief: Brief) -> Script:
        count = own_brief(brief, Count)
        return Script.told(self.name, start=count.start, stop=count.stop)

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="CountdownScene",
            ground=Ground(
                motifs=("rings", "rays") if brief.style == "playful" else ("plain", "rings"), light=(0.5, 0.5)
            ),
        )
        pace = pace_of(brief, timing.total)
        grounds = _grounds(brief, palette, pace)
        for i in range(len(pace.values)):
            _beat(film, pace, grounds, i)
        zero = len(pace.values) * pace.beat_s
        film.score.add("Countdown", "ring", [(0, 0), (zero, len(pace.values), "linear")])
        if zero < timing.total:
            whole = (min(timing.total, zero + 0.5), 1, film.feel.enter)
            film.score.add("Countdown", "end", [(0, 0), *_at_once(zero, _SEEN), whole])
            film.score.add("Countdown", "burst", [(0, 0), (zero, 0), (zero + 1.9, 1, "linear")])
        film.values = {
            "countdown": {
                "numbers": [_number(film, value, grounds[i]) for i, value in enumerate(pace.values)],
                "manner": MANNERS[brief.style],
                "finale": brief.heading or said("countdown.finale", language=brief.language),
            }
        }
        if brief.particles:
            air(film)
        return film


def _numbers(count: Count) -> int:
    return count.start - count.stop + 1


@cache
def _heard(name: str) -> re.Pattern[str]:
    """Return an expression in which numbers and seconds stand for themselves."""
    words = numbered(name).pattern
    return re.compile(words.replace("SECONDS", f"(?:{alternatives('count_seconds')})"), re.I)


def _find_count(text: str) -> tuple[Count, str]:
    """Return what is counted, and what had to be changed; 5 to 1 where no figure is given, at most from 9,999."""
    both = _heard("count_from_to").search(text)
    if both:
        first, last = (number_of(figure) for figure in both.groups() if figure)
    else:
        match = next((match for name in _FROM if (match := _heard(name).search(text))), None)
        first, last = number_of(next(filter(None, match.groups()))) if match else None, 1.0
    start = int(first) if first is not None else 5
    stop = int(last) if last is not None else 1
    notes: list[str] = []
    if both and start < stop:
        start, stop = stop, start
        notes.append(said("countdown.upwards", start=start, stop=stop))
    if start > _HIGHEST:
        notes.append(said("countdown.too_high", start=start, most=_HIGHEST))
    start = max(1, min(_HIGHEST, start))
    return Count(start, max(0, min(start - 1, stop))), " ".join(notes)


def pace_of(brief: Brief, total_s: float) -> CountdownPace:
    """Return the pace at which a count fits into a film.

    Args:
        brief: What is counted, and how fast things are to move.
        total_s: The film's length in seconds.
    """
    count = own_brief(brief, Count)
    numbers = _numbers(count)
    room = total_s - min(1.4, total_s * 0.18)
    most = max(2, min(_MOST_SHOWN, int(room / _LEAST_S + 1e-9)))
    step = 1 if numbers <= most else -(-(numbers - 1) // (most - 1))
    values = list(range(count.start, count.stop, -step))
    values.append(count.stop)
    return CountdownPace(tuple(values), min(1.0 / brief.speed, room / len(values)), step)


def _flickers(pace: CountdownPace) -> bool:
    return pace.beat_s < _MOST_FLASHES_S


def _grounds(brief: Brief, palette: Palette, pace: CountdownPace) -> list[str | None]:
    """Return the ground of each number: playful counts change it, unless that would flash."""
    bright = [c for c in palette.colours if c != "#FFFFFF"]
    turns = [None, *bright[:4]] if brief.style == "playful" and not _flickers(pace) else [None]
    return [turns[i % len(turns)] for i in range(len(pace.values))]


def _at_once(at: float, value: float) -> list[tuple[float, float]]:
    """Return the keys of what is as good as not there until a time, and has a value then."""
    return [(at - _EARLY_S - _INSTANT_S, 0), (at - _EARLY_S, value)]


def _beat(film: Film, pace: CountdownPace, grounds: list[str | None], i: int) -> None:
    """Add the keys of a number: how it comes and goes."""
    name, beat, flickers = f"Number {pace.values[i]}", pace.beat_s, _flickers(pace)
    at = i * beat
    enter, leave = min(0.34, beat * 0.4), min(0.14, beat * 0.16)
    ease = _EASES[film.brief.easing or film.brief.style]
    if i == 0:
        film.score.add(name, "enter", [(0, 0.62), (enter, 1, ease)])
    elif grounds[i] is None:  # which covers nothing: it is seen on its beat, so that the picture is never empty
        film.score.add(name, "enter", [(0, 0), *_at_once(at, 0.62 if flickers else _SEEN), (at + enter, 1, ease)])
    else:
        film.score.add(name, "enter", [(0, 0), (at, 0), (at + enter, 1, ease)])
    # a number with a ground of its own covers the one before, which need not leave
    covered = i + 1 < len(grounds) and grounds[i + 1] is not None
    gone = at + beat + (enter if covered else _INSTANT_S - _EARLY_S if flickers else 0.0)
    fades = _INSTANT_S if flickers else 0.02 if covered else leave
    film.score.add(name, "leave", [(0, 0), (gone - fades, 0), (gone, 1, "linear")])


def _number(film: Film, value: int, ground: str | None) -> dict[str, object]:
    repainted = any(part == "ink" for part, _ in film.brief.repaint)
    ink = film.palette.ink if repainted or ground is None else ink_on(film.palette, ground)
    return {"name": f"Number {value}", "text": str(value), "ground": ground, "ink": ink}
