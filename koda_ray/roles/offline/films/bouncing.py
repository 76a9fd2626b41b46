"""How a thing bounces: exact parabolas, contact squash, and arcs that shrink until it rests."""

from __future__ import annotations

import math
from dataclasses import dataclass

from koda_ray.roles.offline.motion import Score

__all__ = ["Bounce", "bounce"]

_RESTITUTION = 0.62
"""Share of its height that a bounce keeps while the ball comes to rest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounce:
    """One ball's bouncing.

    Args:
        period_s: Seconds of one arc.
        height: Apex above the floor, in world units.
        squash: Share by which the ball flattens at a full-height contact.
        rest_s: When the arcs begin to shrink.
        total_s: The film's length.
        start_s: Phase, in seconds into the first fall: 0 starts at the apex.
    """

    period_s: float
    height: float
    squash: float
    rest_s: float
    total_s: float
    start_s: float = 0.0


def bounce(score: Score, name: str, how: Bounce) -> None:
    """Add the keys of one ball: a fall from the apex, equal arcs, then smaller ones until it rests.

    Args:
        score: Where the keys go.
        name: The Theatre object.
        how: How it bounces.
    """
    period_s, height, total_s, start_s = how.period_s, how.height, how.total_s, how.start_s
    fallen = height * (1 - (2 * start_s / period_s) ** 2)
    keys: list[tuple[float, float, str]] = [(0.0, fallen, "linear")]
    contacts: list[tuple[float, float]] = []
    # the rest of a parabola is a parabola: its bezier has other handles, so a late start is cut with a short straight
    t = period_s / 2 - start_s
    keys.append((t, 0.0, "fall" if start_s == 0 else "easeInSine"))
    contacts.append((t, 1.0))
    share = 1.0
    arc = period_s
    while t < total_s:
        if t >= how.rest_s - 1e-6:
            share *= _RESTITUTION
            arc = period_s * math.sqrt(share)
            if share < 0.02 or t + arc > total_s - 0.25:
                break
        keys.append((t + arc / 2, height * share, "rise"))
        keys.append((t + arc, 0.0, "fall"))
        t += arc
        contacts.append((t, math.sqrt(share)))
    keys = [k for k in keys if k[0] <= total_s + period_s]
    score.add(name, "height", keys)
    _squash(score, name, contacts, how)


def _squash(score: Score, name: str, contacts: list[tuple[float, float]], how: Bounce) -> None:
    squash, period_s, total_s = how.squash, how.period_s, how.total_s
    keys: list[tuple[float, float, str]] = [(0.0, 1.0, "linear")]
    for i, (t, share) in enumerate(contacts):
        if t > total_s:
            break
        room = contacts[i + 1][0] - t if i + 1 < len(contacts) else period_s
        before = t - contacts[i - 1][0] if i else t * 2
        unit = min(1.0, room / 0.9, before / 0.9)
        deep = squash * share
        keys += [
            (t - 0.16 * unit, 1.0, "linear"),
            (t - 0.012 * unit, 1 + deep * 0.42, "easeInSine"),
            (t + 0.035 * unit, 1 - deep, "easeOutCubic"),
            (t + 0.12 * unit, 1 + deep * 0.36, "easeInOutSine"),
            (t + 0.3 * unit, 1.0, "easeInOutSine"),
        ]
    last, share = contacts[-1]
    if last < total_s:
        deep = max(0.02, squash * share * 0.5)
        keys += [(last + 0.42, 1 - deep * 0.3, "easeInOutSine"), (last + 0.6, 1.0, "easeInOutSine")]
    clean: list[tuple[float, float, str]] = []
    for key in keys:
        if not clean or key[0] > clean[-1][0] + 0.002:
            clean.append(key)
    score.add(name, "squash", clean)
