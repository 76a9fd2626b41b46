"""A count down on the beat: number k stands whole from shortly after its beat until just before the next.

A number stands for a second where the film is long enough. Where it is not, the stated length stays and the count runs
faster; where that would be too fast to be seen, it goes in steps, and always ends on its last number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.extract import CJK_NUM, NUM, number_of
from koda_ray.studio.offline.film import Film, Timing
from koda_ray.studio.offline.films.stage import MANNERS, Ground, air, set_stage
from koda_ray.studio.offline.hearing import Hearing
from koda_ray.studio.offline.palette import Palette, ink_on
from koda_ray.studio.offline.script import Beat, Script
from koda_ray.studio.offline.subject import Subject, own, settle_duration

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

_FROM_TO = re.compile(rf"(?:from|von|de)\s+({NUM})\s*(?:down\s+)?(?:to|until|till|bis|-|–|→)\s*({NUM})", re.I)
_SECONDS = r"[\s-]*(?:seconds?|secs?|s)\b"
_FROM = (
    re.compile(rf"(?:from|at|von|of)\s+({NUM})\b", re.I),
    re.compile(rf"\b({NUM})(?:{_SECONDS})?[\s-]*(?:long\s+)?(?:count\s?down|count-down)", re.I),
    re.compile(rf"(?:count\s?down|count-down)\s+(?:of\s+)?({NUM})\b", re.I),
    re.compile(rf"({CJK_NUM})\s*(?:秒)?\s*(?:から|の)"),
)
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
    words = ("count down", "countdown", "counting down", "counts down", "count-down", "カウントダウン", "倒计时")
    rank = 40
    style = "playful"
    obvious = True
    zoom = 1.14
    lettered = True
    ends = (1.0, 0.6)
    seconds_note = "The seconds are read as where the count starts; its end takes two more."

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        count, note = _find_count(heard.bare)
        if note:
            heard.notes.append(note)
        return replace(super().fill(brief, heard), own=count)

    def seconds(self, brief: Brief) -> float:
        numbers = _numbers(own(brief, Count))
        if numbers <= _MOST_ONE_A_SECOND:
            return numbers / min(1.0, brief.speed) + _END_S
        return min(numbers, _MOST_SHOWN) * _QUICK_S + _END_S

    def without_own_seconds(self, text: str) -> str:
        """Hide seconds that say where a count starts: "from 5 seconds", or "10 second countdown" by itself."""
        start = rf"\b(?:from|at)\s+{NUM}(?:{_SECONDS})?"
        if re.search(start, text, re.I):
            return re.sub(start, " ", text, flags=re.I)
        return re.sub(rf"\b{NUM}{_SECONDS}(?=\s+count)|(?<=\bcountdown of)\s+{NUM}{_SECONDS}", " ", text, flags=re.I)

    def changed(self, brief: Brief, text: str) -> tuple[Brief, str] | None:
        if not re.search(r"\b(?:from|count)\b|から", text, re.I):
            return None
        count, _ = _find_count(text)
        return settle_duration(replace(brief, own=count)), f"counting from {count.start} to {count.stop}"

    def note(self, brief: Brief) -> str:
        """Say where a count does not go as one expects, a number a second from first to last."""
        pace, count = pace_of(brief, brief.duration_s), own(brief, Count)
        numbers = _numbers(count)
        each, length = f"{pace.beat_s:.2g} s", f"{brief.duration_s:g} s"
        if pace.step > 1:
            return (
                f"{numbers} numbers are too many to be seen one by one in {length}: it counts in steps of {pace.step}, "
                f"{each} each, and ends on {count.stop}."
            )
        if pace.beat_s < 0.99 / max(1.0, brief.speed):
            return (
                f"{numbers} numbers run faster than one a second to fit into {length}: {each} each. For a second each, "
                f"ask for {numbers + _END_S:g} seconds."
            )
        if brief.duration_s - pace.beat_s * numbers > _LONG_END_S:
            return f"The count takes {pace.beat_s * numbers:.3g} s; its end stands for the rest of the {length}."
        return ""

    def script(self, brief: Brief) -> Script:
        count = own(brief, Count)
        return Script(
            Beat(
                f"{count.start}",
                f"{count.start} fills the picture; a ring runs around it.",
                "{enter} on scale, one step each beat",
            ),
            (
                Beat(
                    "Count",
                    f"The numbers change on the beat, down to {count.stop}.",
                    "{enter} in, {leave} out, ring at constant pace",
                ),
                Beat("Faster heart", "The ground pulses with each number.", "{move} on scale"),
            ),
            Beat("Zero", "The ring closes and the picture bursts open.", "{settle}, burst, hold"),
        )

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="CountdownScene",
            parts=("lib/frame.ts", "lib/colour.ts", "lib/type.ts", "components/Countdown.tsx"),
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
            film.score.add("Countdown", "end", [(0, 0), (zero, 0), (min(timing.total, zero + 0.5), 1, film.feel.enter)])
            film.score.add("Countdown", "burst", [(0, 0), (zero, 0), (zero + 1.9, 1, "linear")])
        film.values = {
            "countdown": {
                "numbers": [_number(film, value, grounds[i]) for i, value in enumerate(pace.values)],
                "manner": MANNERS[brief.style],
                "finale": brief.heading or ("スタート" if brief.language == "ja" else "Go!"),
            }
        }
        if brief.particles:
            air(film)
        return film


def _numbers(count: Count) -> int:
    return count.start - count.stop + 1


def _find_count(text: str) -> tuple[Count, str]:
    """Return what is counted, and what had to be changed; 5 to 1 where no figure is given, at most from 9,999."""
    both = _FROM_TO.search(text)
    if both:
        first, last = number_of(both.group(1)), number_of(both.group(2))
    else:
        match = next((match for expression in _FROM if (match := expression.search(text))), None)
        first, last = number_of(match.group(1)) if match else None, 1.0
    start = int(first) if first is not None else 5
    stop = int(last) if last is not None else 1
    notes: list[str] = []
    if both and start < stop:
        start, stop = stop, start
        notes.append(f"A count down goes downwards: it counts from {start} to {stop}.")
    if start > _HIGHEST:
        notes.append(f"{start} is more than can be counted here: it starts at {_HIGHEST}.")
    start = max(1, min(_HIGHEST, start))
    return Count(start, max(0, min(start - 1, stop))), " ".join(notes)


def pace_of(brief: Brief, total_s: float) -> CountdownPace:
    """Return the pace at which a count fits into a film.

    Args:
        brief: What is counted, and how fast things are to move.
        total_s: The film's length in seconds.
    """
    count = own(brief, Count)
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


def _beat(film: Film, pace: CountdownPace, grounds: list[str | None], i: int) -> None:
    """Add the keys of a number: how it comes and goes."""
    name, beat, flickers = f"Number {pace.values[i]}", pace.beat_s, _flickers(pace)
    at = i * beat
    enter, leave = min(0.34, beat * 0.4), min(0.14, beat * 0.16)
    ease = _EASES[film.brief.easing or film.brief.style]
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
    covered = i + 1 < len(grounds) and grounds[i + 1] is not None
    gone = at + beat + (enter if covered else _INSTANT_S - _EARLY_S if flickers else 0.0)
    fades = _INSTANT_S if flickers else 0.02 if covered else leave
    film.score.add(name, "leave", [(0, 0), (gone - fades, 0), (gone, 1, "linear")])


def _number(film: Film, value: int, ground: str | None) -> dict[str, object]:
    repainted = any(part == "ink" for part, _ in film.brief.repaint)
    ink = film.palette.ink if repainted or ground is None else ink_on(film.palette, ground)
    return {"name": f"Number {value}", "text": str(value), "ground": ground, "ink": ink}
