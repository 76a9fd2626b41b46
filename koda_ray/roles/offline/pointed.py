"""Change requests on something that a person points at: "this" is a part of the film, and the change is that part's.

A part can have a colour, a size, a pace and words of its own, and be left out. What it cannot have, and what is not
understood, is said, and nothing else is changed in its place; what points at nothing is said of the whole film.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from koda_ray.roles.offline.brief import Brief, PartName
from koda_ray.roles.offline.conflict import conflicts_in_change
from koda_ray.roles.offline.feedback import (
    SUBJECTS_OWN,
    WORDS_OWN,
    apply_feedback,
    more_or_less,
    other_words,
    pace_asked,
)
from koda_ray.roles.offline.find import find_colours, normalise
from koda_ray.roles.offline.language import expression, said
from koda_ray.roles.offline.places import film_now, part_of
from koda_ray.roles.offline.project import film_files
from koda_ray.roles.offline.subject import subject_of
from koda_ray.types import Pointed

__all__ = ["Applied", "apply_pointed", "spoken"]

_LEAST, _MOST = 0.5, 2.0
_SLOWEST, _QUICKEST = 0.1, 8.0
_TITLES_MOST = 1.15
"""How much larger than usual a title can be beside the line below it."""


@dataclass(frozen=True)
class Applied:
    """What became of notes: the brief, what was ``done`` in words, and what was ``left`` as it was and why."""

    brief: Brief
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


_Change = tuple[Brief, str] | str | None
"""A changed brief and what was done; or why it cannot be; or None, where nothing was asked of this kind."""


def spoken(pointed: Pointed) -> str:
    """Return what was said, without where and of what."""
    return "; ".join(filter(None, (pointed.words, *(note.text.strip() for note in pointed.notes))))


def apply_pointed(brief: Brief, pointed: Pointed) -> Applied:
    """Apply what was said beside the notes, then each note to what it points at."""
    done: list[str] = []
    left: list[str] = []
    changed = brief
    if pointed.words.strip():
        changed, done, left = _whole(changed, pointed.words)
    for note in pointed.notes:
        part = part_of(changed, note)
        if part == "whole":
            changed, more, why = _of_all(changed, note.text)
        else:
            changed, more, why = _of_part(changed, part, normalise(note.text))
        done += more
        left += why
    return Applied(changed, tuple(done), tuple(left))


def _whole(brief: Brief, words: str) -> tuple[Brief, list[str], list[str]]:
    changed, done = apply_feedback(brief, words)
    if done:
        return changed, list(done), []
    if any(conflict.cancels for conflict in conflicts_in_change(normalise(words))):
        return brief, [], []  # it is said how that is read
    return brief, [], [said("left.unheard", words=words.strip()[:120], vocabulary=said("vocabulary"))]


def _of_all(brief: Brief, words: str) -> tuple[Brief, list[str], list[str]]:
    one = _one_less(brief, normalise(words))
    return (one[0], [one[1]], []) if one is not None else _whole(brief, words)


def _of_part(brief: Brief, part: PartName, text: str) -> tuple[Brief, list[str], list[str]]:
    """Apply all that is asked of a part; return the brief, what was done, and what cannot be."""
    done: list[str] = []
    left: list[str] = []
    rules = (_words,) if other_words(text) else (_gone, _colour, _size, _pace)
    for rule in rules:
        change = rule(brief, part, text)
        if isinstance(change, str):
            left.append(change)
        elif change is not None and _is_seen(brief, change[0]):
            brief, what = change
            done.append(what)
        elif change is not None:
            left.append(said("left.no_more", part=_name(part)))
    own = SUBJECTS_OWN if part == "subject" else WORDS_OWN if part in ("heading", "aside") else ()
    if own and not done and not left:
        changed, more = apply_feedback(brief, text, rules=own)
        if more and _is_seen(brief, changed):
            return changed, list(more), left
    if not done and not left:
        left.append(said("left.unknown", part=_name(part), words=text[:120]))
    return brief, done, left


def _is_seen(before: Brief, after: Brief) -> bool:
    """Whether a change changes anything of the film."""
    one, other = (film_files(film_now(each), until=None) for each in (before, after))
    return one != other


def _name(part: PartName) -> str:
    return said(f"parts.{part}")


def _words(brief: Brief, part: PartName, text: str) -> _Change:
    subject, words = subject_of(brief), other_words(text)
    worded = part in ("heading", "aside") or (part == "subject" and subject.heading_in in ("Title", "Phrase"))
    return subject.reworded(brief, words, aside=part == "aside") if worded else said("left.words", part=_name(part))


def _one_less(brief: Brief, text: str) -> tuple[Brief, str] | None:
    """Take one of several things away."""
    if _is_unwanted(text) and subject_of(brief).counted is not None and 1 < (brief.count or 1) <= 12:
        count = (brief.count or 1) - 1
        return replace(brief, count=count), said("changed.count", count=count)
    return None


def _is_unwanted(text: str) -> bool:
    return expression("taken_away").search(text) is not None


def _gone(brief: Brief, part: PartName, text: str) -> _Change:
    """Leave a part out."""
    if not _is_unwanted(text) or expression("shadow").search(text):
        return None
    subject = subject_of(brief)
    if part == "subject" and (one := _one_less(brief, text)) is not None:
        return one
    if part == "heading" and brief.texts and subject.heading_in == "Title":  # the line below moves up
        return _without(brief, brief.heading, brief.texts[0], brief.texts[1:])
    if part == "aside":
        return _without(brief, brief.texts[0], brief.heading, brief.texts[1:])
    if part == "heading" and subject.heading_in in ("Caption", ""):
        return _without(brief, brief.heading, "", brief.texts)
    hidden = "subject" if part == "heading" and subject.heading_in in ("Title", "Phrase") else part
    changed = brief.with_look(hidden, replace(brief.look(hidden), shown=False))
    if all(not changed.look(each).shown for each in ("subject", "ground")):
        return said("left.empty", part=_name(part))
    if part == "heading":
        return changed, said("changed.taken_away", words=brief.heading)
    if part == "air":
        return replace(changed, particles=False), said("changed.no_particles")
    return changed, said("changed.part_gone", part=_name(part))


def _without(brief: Brief, words: str, heading: str, texts: tuple[str, ...]) -> tuple[Brief, str]:
    return replace(brief, heading=heading, texts=texts), said("changed.taken_away", words=words)


def _shown_by(brief: Brief, part: PartName) -> PartName:
    """Return which part's look decides: a line that stands where a heading would looks like one."""
    return "heading" if part == "aside" and not brief.heading and subject_of(brief).heading_in == "Caption" else part


def _colour(brief: Brief, part: PartName, text: str) -> _Change:
    colours, ground = find_colours(text)
    colour = ground or next(iter(colours), None) if part == "ground" else next(iter(colours), None)
    if colour is None:
        return None
    subject, part = subject_of(brief), _shown_by(brief, part)
    if part in ("heading", "subject") and subject.lettered and subject.heading_in != "Title":
        return replace(brief, repaint=(*brief.repaint, ("ink", colour))), said("changed.text_colour")
    if part == "heading" and not subject.heading_in:
        return replace(brief, repaint=(*brief.repaint, ("ink", colour))), said("changed.text_colour")
    if part == "finish" or (part == "subject" and not subject.paintable(brief)):
        return said("left.colour", part=_name(part))
    if part == "aside" and not subject.tagged:
        return said("left.colour", part=_name(part))
    done = {"ground": said("changed.background"), "heading": said("changed.text_colour")}
    told = done.get(part) or said("changed.part_colour", part=_name(part))
    if part == "subject" and subject.lettered:
        part = "heading"
    return brief.with_look(part, replace(brief.look(part), colour=colour)), told


def _size(brief: Brief, part: PartName, text: str) -> _Change:
    factor = more_or_less(text, "size", "bigger", "smaller", 1.3)
    if factor is None:
        return None
    subject, part = subject_of(brief), _shown_by(brief, part)
    if part in ("ground", "finish"):
        return said("left.fills", part=_name(part))
    if (part == "heading" and not subject.heading_in) or (part == "aside" and not subject.tagged):
        return said("left.size", part=_name(part))
    told = said("changed.part_bigger" if factor > 1 else "changed.part_smaller", part=_name(part))
    if part == "heading" and subject.heading_in in ("Caption", "Heading"):
        lettering = max(_LEAST, min(_MOST, brief.lettering * factor))
        return replace(brief, lettering=lettering), told
    if part == "heading" and subject.heading_in == "Phrase":
        part = "subject"
    most = _TITLES_MOST if part == "heading" else _MOST
    look = brief.look(part)
    return brief.with_look(part, replace(look, scale=max(_LEAST, min(most, look.scale * factor)))), told


def _pace(brief: Brief, part: PartName, text: str) -> _Change:
    factor = pace_asked(text)
    if factor is None:
        return None
    subject, part = subject_of(brief), _shown_by(brief, part)
    told = said("changed.part_speed", part=_name(part), factor=factor)
    if part == "heading" and subject.heading_in in ("Title", "Phrase"):
        part = "subject"
    if part in ("aside", "finish") or (part == "heading" and not subject.heading_in):
        return said("left.pace", part=_name(part))
    look = brief.look(part)
    return brief.with_look(part, replace(look, speed=max(_SLOWEST, min(_QUICKEST, look.speed * factor)))), told
