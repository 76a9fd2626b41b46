"""How a thing crosses the picture: along a curve, from in sight at the first frame to composed at the last."""

from __future__ import annotations

import math

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.film import Film

__all__ = ["cross"]

_POINTS = 96
_STEPS = 12

_Keys = list[tuple[float, float, str]]


def cross(film: Film, name: str, place: str, lane: int, lanes: int, delay: float) -> list[tuple[float, float]]:
    """Add the keys of a crossing.

    Args:
        film: Whose score the keys go into.
        name: The Theatre object.
        place: ``land``, ``sea``, ``sky`` or ``space``, which decides the curve.
        lane: Which of several it is.
        lanes: How many there are; they keep their distance.
        delay: Seconds by which it comes later.

    Returns:
        The way as points in shares of the picture.
    """
    brief = film.brief
    path = _path(brief, place, lane, lanes)
    if brief.direction == "left":
        path = [(1 - x, y) for x, y in path]
    xs: _Keys = []
    ys: _Keys = []
    turns: _Keys = []
    along: _Keys = []
    for t, u, ease in _times(film, lane, lanes, delay):
        k = min(_POINTS - 1, int(u * _POINTS))
        f = u * _POINTS - k
        (x0, y0), (x1, y1) = path[k], path[k + 1]
        lean = _slope(brief, x1 - x0, y1 - y0) * (1.0 if place in ("sky", "space") else 0.5)
        xs.append((t, x0 + (x1 - x0) * f, ease))
        ys.append((t, y0 + (y1 - y0) * f, ease))
        turns.append((t, lean, ease))
        along.append((t, u, ease))
    for prop, keys in (("x", xs), ("y", ys), ("turn", turns), ("along", along)):
        film.score.add(name, prop, _rising(keys))
    return path


def _path(brief: Brief, place: str, lane: int, lanes: int) -> list[tuple[float, float]]:
    """Return the way across the picture as points in shares of it, left to right."""
    shift = (lane - (lanes - 1) / 2) * (0.17 if place == "sky" else 0.09)
    points: list[tuple[float, float]] = []
    wave = 0.6 + (brief.seed % 5) * 0.12
    for i in range(_POINTS + 1):
        u = i / _POINTS
        if place == "land":
            y = 0.79 + shift * 0.5
        elif place == "sea":
            y = 0.64 + shift * 0.5 + 0.012 * math.sin(u * 22)
        else:
            y = 0.56 - 0.2 * u + 0.13 * math.sin(u * math.tau * wave + 0.6) + shift
        points.append((-0.14 + 1.28 * u, y))
    return points


def _times(film: Film, lane: int, lanes: int, delay: float) -> _Keys:
    """Return how far along the way it is when: (seconds, share of the way, curve that arrives there)."""
    speed = film.brief.speed
    laps = max(1, round(speed)) if speed >= 1.5 else 1
    length = film.timing.total / laps
    # several keep their distance: the first in the row is ahead of the others all the way
    ahead = ((lanes - 1) / 2 - lane) * min(0.17, 0.6 / lanes)
    times: _Keys = []
    for lap in range(laps):
        first = (0.16 if lanes == 1 else 0.26) + ahead * 0.8 if lap == 0 else 0.0
        last = (0.74 if lanes == 1 else 0.6) + ahead if lap == laps - 1 else 1.0
        for n in range(_STEPS + 1):
            share = n / _STEPS
            # slow towards the last picture, so that it is a poster and not a blur
            eased = math.sin(share * math.pi / 2) * 0.45 + share * 0.55 if lap == laps - 1 else share
            t = lap * length + share * length + (delay * (1 - share) if lap == 0 else 0)
            again = lap > 0 and n == 0
            u = min(1.0, max(0.0, first + (last - first) * eased))
            times.append((t + 0.002 if again else t, u, "hold" if again else "linear"))
    return times


def _slope(brief: Brief, dx: float, dy: float) -> float:
    ratio = brief.width / brief.height
    if brief.direction == "left":
        return math.degrees(math.atan2(-dy, -dx * ratio))
    return math.degrees(math.atan2(dy, dx * ratio))


def _rising(keys: _Keys) -> _Keys:
    out: _Keys = []
    for key in keys:
        if not out or key[0] > out[-1][0] + 0.0015:
            out.append(key)
    if out[0][0] > 0:
        out.insert(0, (0.0, out[0][1], "linear"))
    return out
