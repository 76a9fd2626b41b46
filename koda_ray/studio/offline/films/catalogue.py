"""Which film is made of which subject."""

from __future__ import annotations

from collections.abc import Callable

from koda_ray.studio.offline.brief import Brief, Subject
from koda_ray.studio.offline.films.ball import ball_film
from koda_ray.studio.offline.films.base import Film, Timing
from koda_ray.studio.offline.films.cards import card_film, logo_film, picture_film, steps_film
from koda_ray.studio.offline.films.charts import bars_film, line_film, pie_film
from koda_ray.studio.offline.films.countdown import countdown_film
from koda_ray.studio.offline.films.journeys import hero_film, particles_film
from koda_ray.studio.offline.films.space import orbit_film, shapes_film
from koda_ray.studio.offline.films.words import title_film, words_film
from koda_ray.studio.offline.palette import Palette

__all__ = ["FILMS", "make_film"]

FILMS: dict[Subject, Callable[[Brief, Timing, Palette], Film]] = {
    "ball": ball_film,
    "bars": bars_film,
    "line": line_film,
    "pie": pie_film,
    "countdown": countdown_film,
    "shapes": shapes_film,
    "orbit": orbit_film,
    "hero": hero_film,
    "particles": particles_film,
    "steps": steps_film,
    "logo": logo_film,
    "card": card_film,
    "image": picture_film,
    "title": title_film,
    "kinetic": words_film,
}


_MOST_ZOOM: dict[Subject, float] = {
    "logo": 1.4, "card": 1.3, "countdown": 1.14, "image": 1.12, "kinetic": 1.1, "title": 1.12,
    "bars": 1.08, "line": 1.08, "pie": 1.08, "steps": 1.08,
}  # fmt: skip
"""How far a scene may grow before something that has to be read comes too near to the edge."""


def make_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a brief."""
    film = FILMS[brief.subject](brief, timing, palette)
    most = _MOST_ZOOM.get(brief.subject)
    if most is not None:
        film.zoom = round(max(0.5, min(most, brief.scale)), 3)
    return film
