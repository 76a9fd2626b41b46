"""Bouncing balls: exact parabolas, contact squash, and a rest at the end that is a picture."""

from __future__ import annotations

import math

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.films.base import Film, Timing
from koda_ray.studio.offline.films.stage import air, caption, framing_for, light_up
from koda_ray.studio.offline.motion import Score
from koda_ray.studio.offline.palette import Palette

__all__ = ["ball_film", "bounce"]

_PERIOD_S = {"playful": 0.92, "smooth": 1.3, "cinematic": 1.18}
_HEIGHT = {"playful": 2.55, "smooth": 2.2, "cinematic": 2.45}
_SQUASH = {"playful": 0.26, "smooth": 0.09, "cinematic": 0.13}
_RESTITUTION = 0.62
"""Share of its height that a bounce keeps while the ball comes to rest."""


def bounce(
    score: Score,
    name: str,
    *,
    period_s: float,
    height: float,
    squash: float,
    rest_s: float,
    total_s: float,
    start_s: float = 0.0,
) -> None:
    """Add the keys of one ball: a fall from the apex, equal arcs, then smaller ones until it rests.

    Args:
        score: Where the keys go.
        name: The Theatre object.
        period_s: Seconds of one arc.
        height: Apex above the floor, in world units.
        squash: Share by which the ball flattens at a full-height contact.
        rest_s: When the arcs begin to shrink.
        total_s: The film's length.
        start_s: Phase, in seconds into the first fall: 0 starts at the apex.
    """
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
        if t >= rest_s - 1e-6:
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
    _squash(score, name, contacts, squash, period_s, total_s)


def _squash(
    score: Score, name: str, contacts: list[tuple[float, float]], squash: float, period_s: float, total_s: float
) -> None:
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


def ball_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of one to nine bouncing balls."""
    count = brief.count or 1
    size = min(1.0, 0.98 if count == 1 else 2.9 / (count + 0.8)) * brief.scale
    period = _PERIOD_S[brief.easing or brief.style] / brief.speed
    height = _HEIGHT[brief.style] * brief.bounce**0.8 * (1.0 if brief.scale <= 1 else 0.9)
    squash = min(0.42, _SQUASH[brief.easing or brief.style] * brief.bounce)
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="BounceScene",
        parts=(
            "lib/frame.ts",
            "lib/colour.ts",
            "components/Ball.tsx",
            "components/ContactShadow.tsx",
            "components/Camera.tsx",
            "components/Lights.tsx",
        ),
        values={},
        framing=framing_for(brief, light=(0.5, 0.46)),
    )
    light_up(film)
    spread = (2.75 if brief.aspect == "wide" else 1.75) * (count - 1) / max(1, count) + size * 0.2 * (count - 1)
    balls: list[dict[str, object]] = []
    pattern = {"playful": ("stripe", "beach"), "smooth": ("plain",), "cinematic": ("plain",)}[brief.style]
    rest = timing.ending + 0.15
    for i in range(count):
        name = "Ball" if count == 1 else f"Ball {i + 1}"
        x = 0.0 if count == 1 else -spread / 2 * 2 + i * spread * 2 / (count - 1)
        own = period * (1 + 0.07 * ((i * 5) % 3 - 1) * (count > 1))
        bounce(
            film.score,
            name,
            period_s=own,
            height=height * (1 + 0.12 * ((i * 2) % 3 - 1) * (count > 1)),
            squash=squash,
            rest_s=rest,
            total_s=timing.total,
            start_s=0.0 if count == 1 else (i * 0.37 % 1) * own * 0.42,
        )
        turns = (1.4 if brief.style == "playful" else 0.5) * math.tau * rest / 5 * brief.speed
        film.score.add(
            name,
            "spin",
            [
                (0, 0),
                (rest + 0.6, turns, "linear" if i == 0 else "easeOutSine"),
                (timing.total, turns + 0.1, "easeOutSine"),
            ],
        )
        if brief.direction in ("left", "right") and count == 1:
            way = 5.0 if brief.aspect == "wide" else 2.0
            sign = 1 if brief.direction == "right" else -1
            film.score.add(
                name,
                "x",
                [
                    (0, -way * 0.72 * sign),
                    (rest + 0.5, way * 0.3 * sign, "linear"),
                    (timing.total, way * 0.34 * sign, "easeOutCubic"),
                ],
            )
        balls.append(
            {
                "name": name,
                "color": palette.colours[i % len(palette.colours)]
                if brief.accent is None or len(brief.colours) > 1 or count == 1
                else (palette.accent if i == 0 else palette.colours[i % len(palette.colours)]),
                "size": round(size, 3),
                "x": round(x, 3) if x else None,
                "finish": {"playful": "rubber", "smooth": "satin", "cinematic": "gloss"}[brief.style],
                "pattern": pattern[(brief.seed // 5 + i) % len(pattern)],
                "shadow": None if brief.shadow else False,
                "mirrored": True if brief.style == "cinematic" else None,
            }
        )
    if brief.accent is not None and len(brief.colours) == 1 and count > 1:
        for ball in balls:
            ball["color"] = palette.accent
    tallest = height * 1.12 + 2 * size
    film.values = {
        "balls": balls,
        "mood": brief.style,
        "distance": round(max(9.9, tallest * 2.2) * (1.5 if film.framing.bars else 1.0), 2),
        "target": round(max(2.0, tallest * 0.44), 2),
    }
    if brief.style == "cinematic":
        film.score.add("Camera", "closer", [(0, 0.0), (timing.total, 0.14, "easeInOutSine")])
        film.score.add("Camera", "orbit", [(0, -0.16), (timing.total, 0.12, "easeInOutSine")])
    elif brief.style == "smooth":
        film.score.add("Camera", "closer", [(0, 0.0), (timing.total, 0.06, "easeInOutSine")])
    if brief.particles or brief.style == "cinematic":
        air(film, kind=brief.particle_kind if brief.particles else "dust", count=None if brief.particles else 44)
    words = brief.heading or (brief.texts[0] if brief.texts else "")
    if words:
        caption(film, words, position="top" if brief.aspect != "wide" else "bottom")
    return film
