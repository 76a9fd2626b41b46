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


def make_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a brief."""
    return FILMS[brief.subject](brief, timing, palette)
