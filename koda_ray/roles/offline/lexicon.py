"""The words that the director knows whatever the subject, and how they are found in a text.

Entries are matched as whole words in scripts that separate words, and anywhere in those that do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from koda_ray.roles.offline.language import grouped, table, unspaced

__all__ = [
    "COLOURS",
    "HEROES",
    "MULTIPLES",
    "NUMBERS",
    "PARTICLES",
    "PRODUCTS",
    "SOLIDS",
    "STYLE_CLUES",
    "STYLE_WORDS",
    "contains",
    "find_all",
    "first_of",
    "pattern",
]


def _by_word(groups: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {word: value for value, words in groups.items() for word in words}


NUMBERS: dict[str, float] = {word: float(value) for word, value in table("numbers").items()}
MULTIPLES: dict[str, float] = {word: float(value) for word, value in table("multiples").items()}
COLOURS: dict[str, str] = {word: str(value) for word, value in table("colours").items()}
STYLE_WORDS = grouped("styles")
STYLE_CLUES = grouped("clues")
"""Words that name a style, and those that only suggest one."""
PARTICLES = _by_word(grouped("air"))
_DRAWINGS = _by_word(grouped("drawings"))
HEROES: dict[str, str] = {
    **_DRAWINGS,
    **{f"{name}s": hero for name, hero in _DRAWINGS.items() if name.isascii() and not name.endswith(("s", "sh"))},
}
"""What can be drawn, by its names, singular and plural: a drawing of the kit's or an emoji."""
SOLIDS = _by_word(grouped("solids"))
PRODUCTS: dict[str, str] = {
    **{name: hero for name, hero in HEROES.items() if not hero.isascii()},
    **_by_word(grouped("products")),
}


@lru_cache(maxsize=4096)
def pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds ``phrase``: on word boundaries, or anywhere in scripts without spaces."""
    if unspaced().search(phrase):
        return re.compile(re.escape(phrase))
    return re.compile(rf"(?<![\w]){re.escape(phrase)}(?![\w])", re.IGNORECASE)


def contains(text: str, phrases: Iterable[str]) -> bool:
    """Return whether any of ``phrases`` occurs in ``text``."""
    return any(pattern(phrase).search(text) for phrase in phrases)


def find_all(text: str, table: dict[str, str]) -> list[tuple[int, str, str]]:
    """Return every (position, phrase, value) of ``table`` found in ``text``, in reading order, longest match first.

    A phrase inside a longer one that matched ("blue" in "sky blue") does not count again.
    """
    taken: list[tuple[int, int]] = []
    found: list[tuple[int, str, str]] = []
    for phrase in sorted(table, key=len, reverse=True):
        for match in pattern(phrase).finditer(text):
            start, stop = match.span()
            if all(stop <= a or start >= b for a, b in taken):
                taken.append((start, stop))
                found.append((start, phrase, table[phrase]))
    return sorted(found)


def first_of(text: str, table: dict[str, tuple[str, ...]]) -> tuple[str, int] | None:
    """Return the (key, position) whose phrase comes first in ``text``, or None."""
    best: tuple[str, int] | None = None
    for key, phrases in table.items():
        for phrase in phrases:
            match = pattern(phrase).search(text)
            if match and (best is None or match.start() < best[1]):
                best = (key, match.start())
    return best
