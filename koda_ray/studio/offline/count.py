"""The pace of a count down: how long each number stands, which are shown, and what has to be said about it.

A number stands for a second where the film is long enough. Where it is not, the stated length stays and the count runs
faster; where that would be too fast to be seen, it goes in steps, and always ends on its last number.
"""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.studio.offline.brief import Brief

__all__ = ["Pace", "natural_seconds", "pace_note", "pace_of"]

_END_S = 2.0
_MOST_ONE_A_SECOND = 60
_QUICK_S = 0.2
_LEAST_S = 0.1
_MOST_SHOWN = 150
_LONG_END_S = 4.0


@dataclass(frozen=True)
class Pace:
    """The numbers in the order in which they are shown, ``beat_s`` seconds each; ``step`` is from one to the next."""

    values: tuple[int, ...]
    beat_s: float
    step: int


def natural_seconds(brief: Brief) -> float:
    """Return how long a count takes where nobody said: a second each up to 60 numbers, then a fifth of one."""
    numbers = brief.count_from - brief.count_to + 1
    if numbers <= _MOST_ONE_A_SECOND:
        return numbers / min(1.0, brief.speed) + _END_S
    return min(numbers, _MOST_SHOWN) * _QUICK_S + _END_S


def pace_of(brief: Brief, total_s: float) -> Pace:
    """Return the pace at which a count fits into a film.

    Args:
        brief: What is counted, and how fast things are to move.
        total_s: The film's length in seconds.
    """
    numbers = brief.count_from - brief.count_to + 1
    room = total_s - min(1.4, total_s * 0.18)
    most = max(2, min(_MOST_SHOWN, int(room / _LEAST_S + 1e-9)))
    step = 1 if numbers <= most else -(-(numbers - 1) // (most - 1))
    values = list(range(brief.count_from, brief.count_to, -step))
    values.append(brief.count_to)
    return Pace(tuple(values), min(1.0 / brief.speed, room / len(values)), step)


def pace_note(brief: Brief) -> str:
    """Say where a count does not go as one expects, a number a second from first to last; else nothing."""
    pace = pace_of(brief, brief.duration_s)
    numbers = brief.count_from - brief.count_to + 1
    each = f"{pace.beat_s:.2g} s"
    length = f"{brief.duration_s:g} s"
    if pace.step > 1:
        return (
            f"{numbers} numbers are too many to be seen one by one in {length}: it counts in steps of {pace.step}, "
            f"{each} each, and ends on {brief.count_to}."
        )
    if pace.beat_s < 0.99 / max(1.0, brief.speed):
        return (
            f"{numbers} numbers run faster than one a second to fit into {length}: {each} each. For a second each, "
            f"ask for {numbers + _END_S:g} seconds."
        )
    end = brief.duration_s - pace.beat_s * numbers
    if end > _LONG_END_S:
        return f"The count takes {pace.beat_s * numbers:.3g} s; its end stands for the rest of the {length}."
    return ""
