"""Requests that contradict themselves, and how each is read: nothing is followed in silence against half the words.

In a change request comparatives pull against each other wherever they stand ("bigger, but then smaller"). In a first
prompt things are described, and only words that are said of the same thing do: "fast and slow", not "a fast car passes
a slow truck".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from koda_ray.roles.offline.language import alternatives, expression, pairs, said

__all__ = ["Contradiction", "Property", "conflicts_in_change", "conflicts_in_prompt", "without_negated"]


Property = Literal["speed", "size", "tone"]


@dataclass(frozen=True)
class Contradiction:
    """How a contradiction is read. ``cancels`` is the property that stays as it was, where both words cancel."""

    reading: str
    cancels: Property | None = None


_CANCELS: dict[str, Property] = {"pace": "speed", "size": "size", "tone": "tone"}
_JOINED = rf"(?:{alternatives('joined')}|\s*(?:[,;/&]|\b(?:{alternatives('and')})\b)\s*)+{alternatives('equally')}"


def _conflict(key: str) -> Contradiction:
    return Contradiction(said(f"conflict.{key}"), _CANCELS.get(key))


def _joined(one: str, other: str) -> re.Pattern[str]:
    a, b = (rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])" for words in (one, other))
    return re.compile(rf"{a}{_JOINED}{b}|{b}{_JOINED}{a}", re.I)


_COMPETING = tuple(
    (re.compile(one, re.I), re.compile(other, re.I), _conflict(key)) for key, (one, other) in pairs("competing").items()
)
_PAIRS = tuple((_joined(one, other), _conflict(key)) for key, (one, other) in pairs("opposites").items())


def conflicts_in_prompt(words: str) -> tuple[Contradiction, ...]:
    """Return the contradictions of a first prompt: opposites, or a word and its denial, said of the same thing."""
    wanted = without_negated(words)
    found = [conflict for pattern, conflict in _PAIRS if pattern.search(wanted)]
    same = expression("word_and_its_denial").search(words)
    if same:
        word = (same["word"] or same["later"]).lower()
        found.append(Contradiction(said("conflict.denial", word=word, Word=word.capitalize())))
    return tuple(found)


def conflicts_in_change(words: str) -> tuple[Contradiction, ...]:
    """Return the contradictions of a change request, each once."""
    found = [conflict for one, other, conflict in _COMPETING if one.search(words) and other.search(words)]
    return tuple(dict.fromkeys([*found, *conflicts_in_prompt(words)]))


def without_negated(words: str) -> str:
    """Take out what is not wanted ("not red", "not too fast"), so that it is not read as a wish."""
    return expression("negated_word").sub(" ", words)
