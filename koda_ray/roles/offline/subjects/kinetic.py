"""Kinetic typography of the prompt's own words: what is shown where nothing else is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.colour import contrast
from koda_ray.roles.offline.film import Film, Timing, pick
from koda_ray.roles.offline.films.stage import MANNERS, Ground, dust, set_stage, still
from koda_ray.roles.offline.find import own_words
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import said
from koda_ray.roles.offline.palette import Palette, ink_on
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import LAST, Subject, own_brief, settle_duration
from koda_ray.roles.offline.summary import phrases_of

__all__ = ["Kinetic", "Phrases"]

_LAYOUTS = {
    "playful": ("centre", "stack", "echo", "corner"),
    "smooth": ("stack", "corner", "centre", "stack"),
    "cinematic": ("centre", "centre", "corner", "centre"),
}


@dataclass(frozen=True)
class Phrases:
    """The words, cut into what is read at a glance."""

    words: tuple[str, ...] = ()


class Kinetic(Subject):
    """Moving words."""

    name = "kinetic"
    zoom = 1.1
    letterboxed = True
    lettered = True
    heading_in = "Phrase"
    dark_words = True

    def claims(self, heard: Hearing) -> Iterator[int]:
        yield LAST + 90

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        words, left_out = phrases_of(own_words(brief.prompt) or brief.prompt)
        if left_out:
            heard.notes.append(said("kinetic.long"))
        return replace(brief, own=Phrases(words), heading=heard.quotes[0] if heard.quotes else "")

    def seconds(self, brief: Brief) -> float:
        words = own_brief(brief, Phrases).words
        letters = sum(len(phrase) for phrase in words)
        return max(5.0, min(24.0, 2.0 + 1.15 * len(words) + letters / 60))

    def reworded(self, brief: Brief, words: str, *, aside: bool) -> tuple[Brief, str]:
        return settle_duration(replace(brief, own=Phrases(phrases_of(words)[0]))), said("kinetic.changed", words=words)

    def script(self, brief: Brief) -> Script:
        words = own_brief(brief, Phrases).words
        return Script.told(self.name, first=said("kinetic.first", words=words[0]) if words else "")

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="WordsScene",
            ground=Ground(light=(0.4, 0.4)),
        )
        phrases = own_brief(brief, Phrases).words or (said("kinetic.empty"),)
        starts = _starts(film, phrases)
        for i in range(len(phrases)):
            _turn(film, i, starts)
        film.values = {"phrases": [_look(film, phrase, i, len(phrases)) for i, phrase in enumerate(phrases)]}
        dust(film, 36, opacity=0.8)
        return film


def _starts(film: Film, phrases: tuple[str, ...]) -> list[float]:
    """Return when each phrase begins, by its length, and at last when the last one stands."""
    weights = [6 + len(p) for p in phrases]
    room = (film.timing.total - still(film.timing)) / max(1.0, film.brief.speed)
    starts = [0.0]
    for weight in weights:
        starts.append(starts[-1] + room * weight / sum(weights))
    return starts


def _turn(film: Film, i: int, starts: list[float]) -> None:
    """Add the keys of a phrase: how it comes, and how it goes where another one follows."""
    name, start, slot = f"Phrase {i + 1}", starts[i], starts[i + 1] - starts[i]
    enter = min(film.feel.enter_s * 1.35, max(0.25, slot * 0.62))
    if i == 0:
        film.score.add(name, "enter", [(0, 0.3), (enter * 0.8, 1, "easeOutSine")])
    else:
        film.score.add(name, "enter", [(0, 0), (start, 0), (start + enter, 1, "easeOutSine")])
    count = len(starts) - 1
    if i + 1 < count:
        covered = _ground(film, i + 1, count) is not None
        film.score.add(name, "leave", _leaving(start + slot, slot, covered=covered))


def _look(film: Film, phrase: str, i: int, count: int) -> dict[str, object]:
    brief, palette = film.brief, film.palette
    layouts = _LAYOUTS[brief.style]
    layout = layouts[(i + brief.seed // 11 + brief.variant) % len(layouts)]
    if len(phrase) > 30 and layout == "echo":
        layout = "stack"
    ground = _ground(film, i, count)
    base = ground or palette.ground
    ink = ink_on(palette, base) if ground else palette.ink
    readable = [c for c in (palette.accent, *palette.colours, palette.top, palette.bottom) if c != ink]
    return {
        "name": f"Phrase {i + 1}",
        "text": phrase,
        "layout": layout,
        "ink": ink,
        "accent": next((c for c in readable if contrast(c, base) >= 2), ink),
        "ground": ground,
        "from": pick(brief, ("left", "down", "right", "up"), i) if brief.direction is None else brief.direction,
        "manner": MANNERS[brief.style],
    }


def _leaving(out: float, slot: float, *, covered: bool) -> list[tuple[float, float, str]]:
    """Return the keys of a phrase that goes: before the next one comes, or under the ground that wipes over it."""
    if covered:
        return [(0, 0, "linear"), (out + 0.3, 0, "linear"), (out + 0.45, 1, "linear")]
    gone = min(0.3, slot * 0.25)
    return [(0, 0, "linear"), (out - gone, 0, "linear"), (out, 1, "linear")]


def _ground(film: Film, i: int, count: int) -> str | None:
    """Return a phrase's own ground: playful films change colour often, smooth ones once, cinematic ones never."""
    brief, palette = film.brief, film.palette
    if brief.style == "cinematic":
        return None
    if brief.style == "smooth":
        turning = count > 3 and i == count // 2
        return palette.accent if turning else (palette.top if count > 3 and i == count // 2 + 1 else None)
    grounds = [None, *[c for c in palette.colours if c != "#FFFFFF"][:4]]
    return grounds[(i + brief.variant) % len(grounds)] if i else None
