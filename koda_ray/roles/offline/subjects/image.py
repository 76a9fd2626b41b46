"""An uploaded picture that moves, or a drawn one in its place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from urllib.parse import quote

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.colour import mix
from koda_ray.roles.offline.film import Film, Timing, pick
from koda_ray.roles.offline.films.stage import Ground, dust, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import expression, said
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import LAST, Subject

__all__ = ["ImageFilm"]


class ImageFilm(Subject):
    """A picture."""

    name = "image"
    length_s = 6.0
    zoom = 1.12
    heading_in = ""
    place = (0.08, 0.08, 0.92, 0.92)
    letterboxed = True

    def claims(self, heard: Hearing) -> Iterator[int]:
        if heard.picture is not None and not expression("no_image").search(heard.bare):
            yield 80
        if heard.says(self.words) and expression("image_shown").search(heard.bare):
            yield 220
        if heard.picture is not None:
            yield LAST

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        if brief.image is None:
            heard.notes.append(said("image.missing"))
        return super().fill(brief, heard)

    def paintable(self, brief: Brief) -> bool:
        return brief.image is None

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="PictureScene",
            ground=Ground(motifs=("plain",)),
        )
        feel, total = film.feel, timing.total
        opening = min(timing.opening, 2.0) / max(1.0, brief.speed)
        near = 1.3 if brief.style == "cinematic" else 1.22
        middle = total * 0.45
        score = film.score
        score.add("Picture", "open", [(0, 0.55), (opening, 1, feel.enter)])
        score.add("Picture", "zoom", [(0, near), (total - 0.3, 1.02, "easeInOutSine")])
        score.add("Picture", "pan", [(0, 0), (total - 0.3, 1, "easeInOutSine")])
        score.add("Picture", "mat", [(0, 0.2), (timing.ending, 0.15, "easeInOutSine"), (total - 0.25, 1, feel.move)])
        score.add("Picture", "tilt", [(0, 4), (total - 0.3, 0, "easeInOutSine")])
        score.add("Picture", "sheen", [(0, 0), (middle, 0), (min(total, middle + 1.8), 1, "easeInOutSine")])
        film.values = {
            "picture": {
                "src": brief.image or _stand_in(palette, brief.seed),
                "corner": {"playful": 56, "smooth": 24, "cinematic": 6}[brief.style],
                "from": pick(brief, ({"x": 0.2, "y": 0.3}, {"x": 0.8, "y": 0.35}, {"x": 0.3, "y": 0.75}), 2),
            }
        }
        dust(film, 40)
        return film


def _stand_in(palette: Palette, seed: int) -> str:
    """Return a drawn landscape as a data URL, for a film of a picture that was not uploaded."""
    far, near = mix(palette.accent, palette.glow, 0.55), mix(palette.accent, palette.bottom, 0.45)
    hills: list[str] = []
    for i, colour in enumerate((far, mix(far, near, 0.5), near)):
        base = 620 + i * 120
        points = " ".join(
            f"{x},{base - 90 * math.sin(x / (210 - i * 30) + seed % 7 + i * 2):.0f}" for x in range(0, 1601, 40)
        )
        hills.append(f'<polygon points="0,900 {points} 1600,900" fill="{colour}"/>')
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1600 900" preserveAspectRatio="xMidYMid slice">'
        f'<rect width="1600" height="900" fill="{mix(palette.accent, "#FFFFFF", 0.8)}"/>'
        f'<circle cx="1130" cy="300" r="120" fill="{mix(palette.accent, "#FFFFFF", 0.7)}"/>{"".join(hills)}</svg>'
    )
    return "data:image/svg+xml," + quote(svg, safe="")
