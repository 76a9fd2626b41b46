"""Which film is made of which subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koda_ray.studio.offline.brief import Brief, Subject
from koda_ray.studio.offline.films.ball import ball_film
from koda_ray.studio.offline.films.base import Film, Timing
from koda_ray.studio.offline.films.words import title_film, words_film
from koda_ray.studio.offline.palette import Palette
from koda_ray.studio.offline.summary import phrases_of

__all__ = ["FILMS", "make_film"]

FILMS: dict[Subject, Callable[[Brief, Timing, Palette], Film]] = {
    "ball": ball_film,
    "title": title_film,
    "kinetic": words_film,
}


def make_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a brief."""
    film = FILMS.get(brief.subject)
    if film is None:
        return words_film(replace(brief, words=phrases_of(brief.prompt)[0]), timing, palette)
    return film(brief, timing, palette)
