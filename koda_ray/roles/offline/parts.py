"""A film of which single parts are otherwise: each part is made as it was asked for, and takes no other with it.

The film is made as a whole first. A subject of its own colour, size or pace is made in a second one, of which the
subject alone is taken: its scene and its keyframes. What the other parts show and how they move is the first one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from koda_ray.roles.offline.brief import Brief, Look, PartName
from koda_ray.roles.offline.colouring import painted, palette_for
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.motion import Score
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import subject_of

__all__ = ["film_with_parts"]

_MOVES: dict[str, PartName | None] = {
    "Camera": None,
    "Backdrop": "ground",
    "Finish": "finish",
    "Scenery": "ground",
    "Particles": "air",
    "Caption": "heading",
    "Heading": "heading",
}
"""Whose motion a Theatre object is, the camera nobody's; all others are the subject's."""
_DRAWS: dict[str, PartName] = {"Particles": "air", "Starfield": "air", "Caption": "heading"}
"""Which part a component over or under the scene is."""
_AS_IT_IS = Look()


def film_with_parts(brief: Brief, timing: Timing) -> Film:
    """Make the film of a brief, with each part as that was asked for."""
    palette = palette_for(brief)
    film = _whole(brief, timing, palette)
    look = brief.look("subject")
    if replace(look, shown=True) != _AS_IT_IS:
        _take_subject(film, look)
    for part in ("ground", "heading"):
        _pace(film, part, brief.look(part).speed)
    _hide(film)
    return film


def _whole(brief: Brief, timing: Timing, palette: Palette) -> Film:
    subject = subject_of(brief)
    film = subject.film(brief, timing, palette)
    if subject.zoom is not None:
        film.zoom = round(max(0.5, min(subject.zoom, brief.scale)), 3)
    return film


def _part_of(film: Film, target: str) -> PartName | None:
    part = _MOVES.get(target, "subject")
    return "subject" if part == "air" and subject_of(film.brief).airy else part


def _take_subject(film: Film, look: Look) -> None:
    """Replace the subject by that of a film of its colour, size and pace."""
    brief, palette = film.brief, film.palette
    other = replace(brief, scale=brief.scale * look.scale, speed=brief.speed * look.speed)
    if look.colour is not None:
        other, palette = replace(other, accent=look.colour, colours=(look.colour,)), painted(palette, look.colour)
    own = _whole(other, film.timing, palette)
    for target, props in own.score.tracks.items():
        if _part_of(film, target) == "subject":
            # what goes by the film's length whatever the pace takes its time, too
            same = [prop for prop, keys in props.items() if keys == film.score.tracks.get(target, {}).get(prop)]
            film.score.tracks[target] = props
            _stretch(film.score, target, same, look.speed)
    film.palette, film.many_letter_colours = palette, own.many_letter_colours
    if subject_of(brief).heading_in == "Heading":
        film.values = {**own.values, "size": _size(own.zoom / film.zoom)}
    else:
        film.values, film.zoom = own.values, own.zoom


def _size(zoom: float) -> dict[str, object]:
    return {} if zoom == 1 else {"transform": f"scale({zoom:.3g})"}


def _stretch(score: Score, target: str, props: Iterable[str], speed: float) -> None:
    """Let what an object does take its time, and begin when it did."""
    tracks = {prop: score.tracks[target][prop] for prop in props}
    begun = [key.t for keys in tracks.values() for key, then in pairwise(keys) if key.v != then.v]
    if speed == 1 or not begun:
        return
    at = min(begun)
    for prop, keys in tracks.items():
        score.tracks[target][prop] = [
            replace(key, t=round(at + (key.t - at) / speed, 4)) if key.t > at else key for key in keys
        ]


def _pace(film: Film, part: PartName, speed: float) -> None:
    for target, props in film.score.tracks.items():
        if _part_of(film, target) == part:
            _stretch(film.score, target, list(props), speed)


def _hide(film: Film) -> None:
    """Leave parts out; what moves them stays, so that they are as they were when they come back."""
    film.hidden = frozenset(part for part, look in film.brief.looks if not look.shown)
    film.overlays = [each for each in film.overlays if _DRAWS.get(each[0]) not in film.hidden]
    film.backlayers = [each for each in film.backlayers if _DRAWS.get(each[0]) not in film.hidden]
    if "ground" in film.hidden and "place" in film.values:
        film.values["place"] = "none"
    if "subject" in film.hidden:
        film.backlayers += subject_of(film.brief).left(film)
