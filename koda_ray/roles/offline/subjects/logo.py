"""Logo reveals: the mark, then the name."""

from __future__ import annotations

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.film import Film, Timing, pick
from koda_ray.roles.offline.films.stage import MANNERS, Ground, dust, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import said
from koda_ray.roles.offline.naming import named
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Subject

__all__ = ["Logo"]


class Logo(Subject):
    """A logo."""

    name = "logo"
    rank = 70
    zoom = 1.4
    heading_in = ""
    tagged = True
    letterboxed = True
    dark_words = True

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        return named(brief, heard, otherwise=said("logo.name"))

    def script(self, brief: Brief) -> Script:
        return Script.told(self.name, heading=brief.heading)

    def paintable(self, brief: Brief) -> bool:
        return brief.still is None

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="LogoScene",
            ground=Ground(
                motifs=("blobs", "rays") if brief.style == "playful" else ("plain", "rings"), light=(0.5, 0.5)
            ),
        )
        _draw(film)
        film.values = {
            "logo": {
                "name": brief.heading,
                "tagline": brief.texts[0] if brief.texts else None,
                "image": brief.still,
                "mark": pick(brief, ("arch", "orbit", "petals", "stack", "letter"), 1),
                "manner": MANNERS[brief.style],
            }
        }
        dust(film, 40)
        return film


def _draw(film: Film) -> None:
    """Add the keys: the mark draws itself and moves aside, the name comes out from behind it."""
    brief, feel, total = film.brief, film.feel, film.timing.total
    pace = max(0.5, brief.speed)
    drawn = min(film.timing.opening * 0.75, 1.7) / pace
    aside = drawn + min(1.0, feel.enter_s) * 0.35
    moved = min(total * 0.62, aside + feel.enter_s * 0.85)
    film.score.add("Mark", "draw", [(0, 0.22), (drawn, 1, feel.move)])
    film.score.add("Mark", "fill", [(0, 0), (drawn * 0.55, 0), (drawn + 0.25, 1, feel.enter)])
    if (brief.easing or brief.style) == "playful":
        film.score.add("Mark", "scale", [(0, 0.9), (drawn * 0.7, 0.92), (drawn + 0.3, 1, "easeOutBack")])
        film.score.add("Mark", "turn", [(0, -24), (drawn + 0.3, 0, "easeOutBack")])
    else:
        film.score.add("Mark", "scale", [(0, 0.96), (moved, 1, "easeInOutSine")])
        film.score.add("Mark", "turn", [(0, -8), (drawn + 0.2, 0, feel.enter)])
    film.score.add("Mark", "aside", [(0, 0), (aside, 0), (moved, 1, feel.move)])
    named_at = min(total * 0.8, moved + feel.enter_s * 0.7)
    film.score.add("Wordmark", "reveal", [(0, 0), (aside + (moved - aside) * 0.45, 0), (named_at, 1, "easeOutSine")])
    lined = min(total - 0.1, named_at + feel.enter_s * 0.6)
    film.score.add("Wordmark", "line", [(0, 0), (named_at - 0.2, 0), (lined, 1, feel.enter)])
    film.score.add("Wordmark", "breathe", [(0, 0), (named_at, 0), (total, 1, "easeInOutSine")])
