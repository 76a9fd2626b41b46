"""Change requests on something that a person points at: "this" is a part of the film, and the change is that part's.

What is pointed at is known by the text that is read there and by the component that shows it. What is neither words nor
ground nor air is the film's subject. A change of which nothing is known for that part is read as one of the whole film.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.feedback import apply_feedback, more_or_less, other_words
from koda_ray.roles.offline.find import find_colours, normalise
from koda_ray.roles.offline.language import expression, said
from koda_ray.roles.offline.subject import subject_of
from koda_ray.types import Note, Pointed

__all__ = ["apply_pointed", "part_of", "spoken"]

FilmPart = Literal["heading", "aside", "ground", "air", "subject"]
_SHOWS: dict[str, FilmPart] = {
    "Backdrop": "ground",
    "Finish": "ground",
    "Scenery": "ground",
    "Particles": "air",
    "Caption": "heading",
    "Heading": "heading",
    "Title": "heading",
}
"""What a component of the kit shows; all others show the subject."""
_LEAST, _MOST = 0.5, 2.0

_Change = tuple[Brief, str] | None


def spoken(pointed: Pointed) -> str:
    """Return what was said, without where and of what."""
    return "; ".join(filter(None, (pointed.words, *(note.text.strip() for note in pointed.notes))))


def apply_pointed(brief: Brief, pointed: Pointed) -> tuple[Brief, tuple[str, ...]]:
    """Apply what was said beside the notes, then each note to what it points at.

    Returns:
        The changed brief and, in words, each change made; empty where nothing of it was known, and then the brief has
        another composition.
    """
    done: list[str] = []
    changed = brief
    if pointed.words.strip():
        changed, done = _whole(changed, pointed.words)
    for note in pointed.notes:
        change = _PARTS[part_of(changed, note)](changed, normalise(note.text))
        if change is not None:
            changed, done = change[0], [*done, change[1]]
            continue
        changed, more = _whole(changed, note.text)
        done = [*done, *more]
    return (changed, tuple(done)) if done else (replace(brief, variant=brief.variant + 1), ())


def part_of(brief: Brief, note: Note) -> FilmPart:
    """Return what of the film a note points at."""
    read = _letters(note.element or "")
    shown: tuple[tuple[FilmPart, str], ...] = (("heading", brief.heading), *(("aside", text) for text in brief.texts))
    for part, words in shown if read else ():
        if (letters := _letters(words)) and (read in letters or letters in read):
            return part
    part = _SHOWS.get(note.component or "", "subject")
    if part == "heading" and not brief.heading:
        return "aside" if brief.texts else "subject"
    return part


def _letters(words: str) -> str:
    return "".join(each for each in words.casefold() if each.isalnum())


def _whole(brief: Brief, words: str) -> tuple[Brief, list[str]]:
    changed, done = apply_feedback(brief, words)
    return (changed, list(done)) if done else (brief, [])


def _is_unwanted(text: str) -> bool:
    return expression("taken_away").search(text) is not None


def _words(brief: Brief, text: str, *, aside: bool) -> _Change:
    """Change words: to others, to another colour or size, or to none."""
    if words := other_words(text):
        return subject_of(brief).reworded(brief, words, aside=aside)
    shown = brief.texts[0] if aside else brief.heading
    if _is_unwanted(text):
        if not aside and subject_of(brief).lettered:  # without them there is no picture: the line below moves up
            return _without(brief, shown, brief.texts[0], brief.texts[1:]) if brief.texts else None
        return _without(brief, shown, brief.heading if aside else "", brief.texts[1:] if aside else brief.texts)
    colours, _ = find_colours(text)
    if colours:
        return replace(brief, repaint=(*brief.repaint, ("ink", colours[0]))), said("changed.text_colour")
    factor = more_or_less(text, "size", "bigger", "smaller", 1.3)
    if factor is None or subject_of(brief).lettered:
        return None
    lettering = max(_LEAST, min(_MOST, brief.lettering * factor))
    return replace(brief, lettering=lettering), said("changed.bigger" if factor > 1 else "changed.smaller")


def _without(brief: Brief, words: str, heading: str, texts: tuple[str, ...]) -> tuple[Brief, str]:
    return replace(brief, heading=heading, texts=texts), said("changed.taken_away", words=words)


def _heading(brief: Brief, text: str) -> _Change:
    return _words(brief, text, aside=False)


def _aside(brief: Brief, text: str) -> _Change:
    return _words(brief, text, aside=True)


def _ground(brief: Brief, text: str) -> _Change:
    colours, ground = find_colours(text)
    if colour := ground or next(iter(colours), None):
        return replace(brief, background=colour), said("changed.background")
    return None


def _air(brief: Brief, text: str) -> _Change:
    if brief.particles and _is_unwanted(text):
        return replace(brief, particles=False), said("changed.no_particles")
    return None


def _subject(brief: Brief, text: str) -> _Change:
    if _is_unwanted(text) and subject_of(brief).counted is not None and (brief.count or 1) > 1:
        count = (brief.count or 1) - 1
        return replace(brief, count=count), said("changed.count", count=count)
    return None


_PARTS = {"heading": _heading, "aside": _aside, "ground": _ground, "air": _air, "subject": _subject}
