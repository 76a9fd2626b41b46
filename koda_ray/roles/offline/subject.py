"""What a film can be about: what every subject says of itself, and the register of all of them.

A subject is one module of `subjects`: its words, its manner, its length, its beats, and the film that is made of it.
A class that has a name is registered by being defined, so nothing else has to be told of it, and nothing else names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

from koda_ray.roles.offline.brief import Brief, Style
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import grouped, said
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script

__all__ = [
    "LAST",
    "REGISTER",
    "Countable",
    "Subject",
    "around",
    "own_brief",
    "settle_duration",
    "subject_named",
    "subject_of",
]

_Own = TypeVar("_Own")

LAST = 900
"""Claims from here on are made where nothing more telling is said; of a long prompt they alone are heard."""


@dataclass(frozen=True, kw_only=True)
class Countable:
    """Things that there may be several of.

    ``nouns`` is how a prompt calls them, ``again`` how a change request does, both as regular expressions; ``most`` is
    how many the picture holds legibly.
    """

    nouns: str
    again: str
    most: int = 9


class Subject:
    """One subject. What a subject leaves as it is here suits most of them."""

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()
    """What it is called; the languages' files say more."""
    rank: ClassVar[int] = 125
    """Where its words stand among all: the lowest claim wins. Charts come before things, things before mere words."""
    style: ClassVar[Style] = "smooth"
    obvious: ClassVar[bool] = False
    """Whether the style goes without saying, so that nobody is asked for it."""
    length_s: ClassVar[float] = 5.0
    counted: ClassVar[Countable | None] = None
    zoom: ClassVar[float | None] = None
    """How far the scene may grow before what has to be read comes too near to the edge; None: it has its own size."""
    letterboxed: ClassVar[bool] = False
    """Whether it keeps clear of the upper and lower edge, where film bars cover nothing."""
    long: ClassVar[bool] = False
    """Whether it is looked for in a long prompt too, which is otherwise shown in its words."""
    lettered: ClassVar[bool] = False
    """Whether the picture is its letters, so that a colour is theirs."""
    dark_words: ClassVar[bool] = False
    """Whether the darker one of two colours lies below cinematic words."""
    scenic: ClassVar[bool] = False
    """Whether smooth films are landscapes, with more colour in the ground."""
    squares: ClassVar[bool] = False
    """Whether "square" names a thing rather than the format."""
    beat_each: ClassVar[bool] = False
    """Whether each beat of its script wants a scene; otherwise the length says how many there are."""
    airy: ClassVar[bool] = False
    """Whether the particles are what the film is about."""
    heading_in: ClassVar[Literal["Caption", "Heading", "Title", "Phrase", ""]] = "Caption"
    """Which component of the kit shows the heading; none where it is part of what the subject draws."""
    tagged: ClassVar[bool] = False
    """Whether a line below the heading can look otherwise than the heading."""
    place: ClassVar[tuple[float, float, float, float]] = (0.25, 0.2, 0.75, 0.8)
    """Where it stands, in shares of the picture: left, top, right, bottom."""
    ends: ClassVar[tuple[float, float]] = (0.7, 1.1)
    """How long the first and the last scene are, relative to the others."""
    seconds_note: ClassVar[str] = ""
    """What is said where seconds were the subject's own, such as the number a count begins with."""

    def __init_subclass__(cls) -> None:
        """Register a subject that has a name."""
        super().__init_subclass__()
        if "name" in cls.__dict__:
            cls.words = (*cls.words, *grouped("subjects").get(cls.name, ()))
            REGISTER[cls.name] = cls()

    def claims(self, heard: Hearing) -> Iterable[int]:
        """Return the ranks at which a prompt is this subject's: by default, its own where its words are said."""
        return (self.rank,) if heard.says(self.words) else ()

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        """Give a brief the words and figures that this subject shows; what was assumed goes into the notes."""
        return replace(brief, heading=heard.quotes[0] if heard.quotes else "", texts=heard.quotes[1:])

    def manner(self, brief: Brief) -> Style | None:
        """Return the style that goes without saying for this brief, or None."""
        return self.style if self.obvious else None

    def seconds(self, brief: Brief) -> float:
        """Return how long the film is where nobody said."""
        return self.length_s

    def without_own_seconds(self, text: str) -> str:
        """Return the text without seconds that do not say how long the video is."""
        return text

    def note(self, brief: Brief) -> str:
        """Return what has to be said of the brief's length as it stands now."""
        return ""

    def palettes(self, brief: Brief) -> tuple[str, ...]:
        """Return the names of the palettes it needs whatever the style; the style's own where there are none."""
        return ()

    def reworded(self, brief: Brief, words: str, *, aside: bool) -> tuple[Brief, str]:
        """Show other words, as what is read first or ``aside``; return what was done in words, too."""
        if aside:
            return replace(brief, texts=(words,)), said("changed.aside", words=words)
        return replace(brief, heading=words), said("changed.words", words=words)

    def changed(self, brief: Brief, text: str) -> tuple[Brief, str] | None:
        """Apply what a change request says of the subject's own things, or return None."""
        return None

    def in_air(self, brief: Brief, kind: str) -> tuple[Brief, str]:
        """Show particles of a kind."""
        return replace(brief, particles=True, particle_kind=kind), said("changed.particles", kind=kind)

    def script(self, brief: Brief) -> Script:
        """Return what happens, beat by beat: by default, what the languages' files tell of it."""
        return Script.told(self.name)

    def paintable(self, brief: Brief) -> bool:
        """Return whether it can have another colour: a picture that was uploaded has its own."""
        return True

    def seen(self, film: Film, at_s: float) -> tuple[float, float, float, float]:
        """Return where it is seen at a time, in shares of the picture: left, top, right, bottom."""
        return self.place

    def left(self, film: Film) -> list[tuple[str, str]]:
        """Return what of its scene is still there without it, as (component, JSX)."""
        return []

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        """Make the film."""
        raise NotImplementedError


REGISTER: dict[str, Subject] = {}
"""All subjects by name; `subjects` fills it."""


def subject_named(name: str) -> Subject:
    """Return the subject of that name."""
    return REGISTER[name]


def subject_of(brief: Brief) -> Subject:
    """Return the brief's subject."""
    return REGISTER[brief.subject]


def own_brief(brief: Brief, kind: type[_Own]) -> _Own:
    """Return what the brief keeps for its subject alone; where it keeps nothing of this kind, an empty one."""
    return brief.own if isinstance(brief.own, kind) else kind()


def around(places: Sequence[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    """Return the place that holds all of these, each left, top, right and bottom."""
    lefts, tops, rights, bottoms = zip(*places, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def settle_duration(brief: Brief) -> Brief:
    """Give a brief whose duration nobody stated the one its subject needs."""
    if brief.duration_heard != "unknown":
        return brief
    return replace(brief, duration_s=round(subject_of(brief).seconds(brief) * 2) / 2)
