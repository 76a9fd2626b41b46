"""Bodies on circular paths, their periods by Kepler's third law."""

from __future__ import annotations

import math

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.colour import from_oklch, to_oklch
from koda_ray.roles.offline.film import Film, Timing, pick
from koda_ray.roles.offline.films.stage import Ground, caption, set_stage
from koda_ray.roles.offline.language import alternatives
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import Countable, Subject

__all__ = ["Orbit"]

_MOST = 8
_WORLDS = ("#7EC8E3", "#E38B75", "#B7A6E8", "#E9C46A", "#6FCF97")


class Orbit(Subject):
    """A sun and its planets, or anything that circles something."""

    name = "orbit"
    rank = 120
    style = "cinematic"
    obvious = True
    length_s = 8.0
    counted = Countable(nouns=alternatives("bodies"), again=alternatives("bodies_again"))
    letterboxed = True

    def palettes(self, brief: Brief) -> tuple[str, ...]:
        return ("midnight gold", "violet hour", "teal and amber", "midnight pop")

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="OrbitScene",
            ground=Ground(motifs=("plain",), light=(0.5, 0.5)),
        )
        count = min(_MOST, brief.count or 5)
        bodies = [_body(film, i, count) for i in range(count)]
        film.score.add("Sun", "light", [(0, 0.55), (min(1.6, timing.opening), 1, film.feel.enter)])
        film.score.add("Camera", "y", [(0, 2.0), (timing.total, -0.8, "easeInOutSine")])
        film.score.add("Camera", "closer", [(0, 0.12), (timing.total, 0.0, "easeInOutSine")])
        film.values = {
            "bodies": bodies,
            "sun": palette.accent if brief.accent else "#FFC56B",
            "size": round(0.82 * brief.scale, 3),
            "distance": 16.0 if film.framing.bars else 13.2,
            "height": pick(brief, (4.6, 3.6, 5.6), 4),
        }
        film.backlayers.append(("Starfield", f"<Starfield seed={{{brief.seed % 997}}} />"))
        if brief.heading:
            caption(film, brief.heading)
        return film


def _body(film: Film, i: int, count: int) -> dict[str, object]:
    """Add the keys of a body, and return what it looks like."""
    brief, palette, feel, total = film.brief, film.palette, film.feel, film.timing.total
    name = f"Planet {i + 1}"
    path = 1.9 + i * 4.4 / count + 0.25 * (brief.seed // (i + 3) % 3) / 2
    size = (0.3 + 0.16 * ((brief.seed // (i + 2)) % 3)) * (1.25 if i == count // 2 else 1) * brief.scale
    period = 3.4 * (path / 1.9) ** 1.5 / brief.speed
    start = (brief.seed % 628) / 100 + i * 2.4
    sign = -1 if brief.direction == "left" else 1
    film.score.add(name, "angle", [(0, start), (total, start + sign * math.tau * total / period, "linear")])
    at = film.timing.opening * 0.3 + i * min(feel.stagger_s, 0.18)
    dim = 0.55 if i < 2 else 0
    film.score.add(name, "enter", [(0, dim), (at, dim), (at + feel.enter_s, 1, feel.enter)])
    worlds = palette.colours if brief.accent else (*palette.colours[1:], *_WORLDS)
    lit = [to_oklch(c) for c in worlds if c != "#FFFFFF"]
    colours = [from_oklch(max(0.62, lightness - 0.08), chroma, hue) for lightness, chroma, hue in lit]
    return {
        "name": name,
        "color": colours[(i + 1) % len(colours)],
        "size": round(size, 3),
        "path": round(path, 3),
        "look": ("bands", "craters", "plain")[(brief.seed // (i + 5)) % 3],
        "ring": True if i == (count - 2 if count > 2 else count - 1) else None,
    }
