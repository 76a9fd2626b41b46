"""What of a film a person points at: by its words, by the component that shows it, or by its place at that time."""

from __future__ import annotations

from typing import Literal

from koda_ray.roles.offline.brief import Brief, PartName
from koda_ray.roles.offline.film import Film, timing_of
from koda_ray.roles.offline.parts import film_with_parts
from koda_ray.roles.offline.plan import make_plan
from koda_ray.roles.offline.subject import subject_of
from koda_ray.types import Box, Note

__all__ = ["film_now", "part_of"]

Place = tuple[float, float, float, float]
"""Left, top, right and bottom in shares of the picture."""
_SHOWS: dict[str, PartName] = {
    "Backdrop": "ground",
    "MotifShapes": "ground",
    "Scenery": "ground",
    "Finish": "finish",
    "Particles": "air",
    "Starfield": "air",
    "Caption": "heading",
    "Heading": "heading",
    "Title": "heading",
}
"""What a component of the kit shows; all others show the subject."""
_WHOLE = 0.9
"""A box of so much of the picture, each way, is the whole picture."""
_ABOUT = 0.3
"""What of a box, or of a thing, has to lie in the other for the box to be about that thing."""
_HIGH: Place = (0.05, 0.05, 0.95, 0.22)
_LOW: Place = (0.05, 0.78, 0.95, 0.97)


def part_of(brief: Brief, note: Note) -> PartName | Literal["whole"]:
    """Return what of the film a note points at; the whole of it where it points at nothing."""
    read = _letters(note.element or "")
    shown: tuple[tuple[PartName, str], ...] = (("heading", brief.heading), *(("aside", text) for text in brief.texts))
    for part, words in shown if read else ():
        if (letters := _letters(words)) and (read in letters or letters in read):
            return part
    if not note.component and not note.element:
        return "whole" if note.box is None else _at(brief, note.box, note.time)
    part = _SHOWS.get(note.component or "", "subject")
    if part == "heading" and not brief.heading:
        return "aside" if brief.texts else "subject"
    return "subject" if part == "air" and subject_of(brief).airy else part


def film_now(brief: Brief) -> Film:
    """Return the film of a brief, timed as its own plan has it."""
    scenes = make_plan(brief).scenes
    return film_with_parts(brief, timing_of([scene.duration for scene in scenes], brief.duration_s))


def _letters(words: str) -> str:
    return "".join(each for each in words.casefold() if each.isalnum())


def _at(brief: Brief, box: Box, at_s: float) -> PartName | Literal["whole"]:
    """Return the part whose place at a time a box is about; what lies behind where it is about none."""
    left, top = box.x / brief.width, box.y / brief.height
    marked = (left, top, left + box.width / brief.width, top + box.height / brief.height)
    if all(marked[i + 2] - marked[i] >= _WHOLE for i in (0, 1)):
        return "whole"
    shared: dict[PartName, float] = {part: _shared(marked, place) for part, place in _places(brief, at_s).items()}
    best: PartName = "ground"
    for part, share in shared.items():
        if share >= max(_ABOUT, shared.get(best, 0.0)):
            best = part
    return best


def _places(brief: Brief, at_s: float) -> dict[PartName, Place]:
    film, subject = film_now(brief), subject_of(brief)
    places: dict[PartName, Place] = {}
    if "subject" not in film.hidden:
        places["subject"] = subject.seen(film, at_s)
    captions = [jsx for name, jsx in film.overlays if name == "Caption"]
    words: PartName = "heading" if brief.heading else "aside"
    if captions:
        places[words] = _HIGH if 'position="top"' in captions[0] else _LOW
    elif brief.heading and subject.heading_in == "Heading" and "heading" not in film.hidden:
        places["heading"] = _HIGH
    elif brief.heading and subject.heading_in == "Title" and "subject" in places:
        places["heading"] = places.pop("subject")
    return places


def _shared(one: Place, other: Place) -> float:
    """Return how much of the smaller of two places lies in the other, 0 to 1."""
    both = _area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))
    return both / max(1e-9, min(_area(one), _area(other)))


def _area(place: Place) -> float:
    return max(0.0, place[2] - place[0]) * max(0.0, place[3] - place[1])
