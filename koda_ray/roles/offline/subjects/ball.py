"""Bouncing balls, and a rest at the end that is a picture."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.bouncing import Bounce, bounce
from koda_ray.roles.offline.films.stage import Ground, caption, dust, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import alternatives, expression, said
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Countable, Subject, around

__all__ = ["Ball"]

_PERIOD_S = {"playful": 0.92, "smooth": 1.3, "cinematic": 1.18}
_HEIGHT = {"playful": 2.55, "smooth": 2.2, "cinematic": 2.45}
_SQUASH = {"playful": 0.26, "smooth": 0.09, "cinematic": 0.13}
_FINISH = {"playful": "rubber", "smooth": "satin", "cinematic": "gloss"}
_CAMERA_HEIGHT, _FIELD_OF_VIEW = 2.15, 30.0
"""The kit's camera of this scene: world units, and degrees from top to bottom."""
_PATTERNS = {"playful": ("stripe", "beach"), "smooth": ("plain",), "cinematic": ("plain",)}


class Ball(Subject):
    """One to nine balls."""

    name = "ball"
    rank = 130
    style = "playful"
    counted = Countable(nouns=alternatives("balls"), again=alternatives("balls_again"))
    letterboxed = True

    def claims(self, heard: Hearing) -> Iterable[int]:
        return () if expression("ball_played").search(heard.bare) else super().claims(heard)

    def script(self, brief: Brief) -> Script:
        many = (brief.count or 1) > 1
        shadow = said("ball.shadow") if brief.shadow else ""
        return Script.told("balls" if many else self.name, count=brief.count, squash=0.22 * brief.bounce, shadow=shadow)

    def seen(self, film: Film, at_s: float) -> tuple[float, float, float, float]:
        return around([_seen(film, each, at_s) for each in cast("list[dict[str, object]]", film.values["balls"])])

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(brief, timing, palette, scene="BounceScene", ground=Ground(light=(0.5, 0.46)))
        count = brief.count or 1
        size = min(1.0, 0.98 if count == 1 else 2.9 / (count + 0.8)) * brief.scale
        height = _HEIGHT[brief.style] * brief.bounce**0.8 * (1.0 if brief.scale <= 1 else 0.9)
        spread = (2.75 if brief.aspect == "wide" else 1.75) * (count - 1) / max(1, count) + size * 0.2 * (count - 1)
        balls: list[dict[str, object]] = []
        for i in range(count):
            name = "Ball" if count == 1 else f"Ball {i + 1}"
            x = 0.0 if count == 1 else -spread / 2 * 2 + i * spread * 2 / (count - 1)
            _move(film, name, i, count, height)
            balls.append(_look(film, name, i, size, x))
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
        dust(film, 44)
        words = brief.heading or (brief.texts[0] if brief.texts else "")
        if words:
            caption(film, words, position="top" if brief.aspect != "wide" else "bottom")
        return film


def _move(film: Film, name: str, i: int, count: int, height: float) -> None:
    """Add the keys of a ball: its arcs, its spin, and its way where it goes somewhere."""
    brief, total = film.brief, film.timing.total
    period = _PERIOD_S[brief.easing or brief.style] / brief.speed
    own = period * (1 + 0.07 * ((i * 5) % 3 - 1) * (count > 1))
    rest = film.timing.ending + 0.15
    bounce(
        film.score,
        name,
        Bounce(
            period_s=own,
            height=height * (1 + 0.12 * ((i * 2) % 3 - 1) * (count > 1)),
            squash=min(0.42, _SQUASH[brief.easing or brief.style] * brief.bounce),
            rest_s=rest,
            total_s=total,
            start_s=0.0 if count == 1 else (i * 0.37 % 1) * own * 0.42,
        ),
    )
    turns = (1.4 if brief.style == "playful" else 0.5) * math.tau * rest / 5 * brief.speed
    ease = "linear" if i == 0 else "easeOutSine"
    film.score.add(name, "spin", [(0, 0), (rest + 0.6, turns, ease), (total, turns + 0.1, "easeOutSine")])
    if brief.direction in ("left", "right") and count == 1:
        way = 5.0 if brief.aspect == "wide" else 2.0
        sign = 1 if brief.direction == "right" else -1
        film.score.add(
            name,
            "x",
            [
                (0, -way * 0.72 * sign),
                (rest + 0.5, way * 0.3 * sign, "linear"),
                (total, way * 0.34 * sign, "easeOutCubic"),
            ],
        )


def _look(film: Film, name: str, i: int, size: float, x: float) -> dict[str, object]:
    brief, palette = film.brief, film.palette
    patterns = _PATTERNS[brief.style]
    one_colour = brief.accent is not None and len(brief.colours) == 1
    return {
        "name": name,
        "color": palette.accent if one_colour and (brief.count or 1) > 1 else palette.colours[i % len(palette.colours)],
        "size": round(size, 3),
        "x": round(x, 3) if x else None,
        "finish": _FINISH[brief.style],
        "pattern": patterns[(brief.seed // 5 + i) % len(patterns)],
        "shadow": None if brief.shadow else False,
        "mirrored": True if brief.style == "cinematic" else None,
    }


def _seen(film: Film, ball: dict[str, object], at_s: float) -> tuple[float, float, float, float]:
    """Return where the kit's camera shows a ball: it stands before the floor's middle, a little above it."""
    brief, score, name = film.brief, film.score, str(ball["name"])
    size = cast("float", ball["size"])
    ratio = brief.width / brief.height
    moved = score.tracks.get("Camera", {})
    closer = score.value("Camera", "closer", at_s) if "closer" in moved else 0.0
    back = cast("float", film.values["distance"]) / min(1.0, max(0.62, ratio / 1.5)) * (1 - closer)
    x = cast("float", ball["x"] or 0.0) + (score.value(name, "x", at_s) if "x" in score.tracks[name] else 0.0)
    above = score.value(name, "height", at_s) + size - _CAMERA_HEIGHT
    fall = cast("float", film.values["target"]) - _CAMERA_HEIGHT
    length = math.hypot(fall, back)
    depth = (fall * above + back * back) / length
    tall = 2 * depth * math.tan(math.radians(_FIELD_OF_VIEW) / 2)
    across, down = 0.5 + x / (tall * ratio), 0.5 - (back * above - fall * back) / length / tall
    return across - size / (tall * ratio), down - size / tall, across + size / (tall * ratio), down + size / tall
