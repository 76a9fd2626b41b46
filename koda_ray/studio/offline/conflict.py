"""Requests that contradict themselves, and how each is read: nothing is followed in silence against half the words.

In a change request comparatives pull against each other wherever they stand ("bigger, but then smaller"). In a first
prompt things are described, and only words that are said of the same thing do: "fast and slow", not "a fast car passes
a slow truck".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Conflict", "conflicts_in_change", "conflicts_in_prompt", "without_negated"]


@dataclass(frozen=True)
class Conflict:
    """How a contradiction is read. ``cancels`` is the property that stays as it was, where both words cancel."""

    reading: str
    cancels: Literal["speed", "size", "tone"] | None = None


def _style_decides(one: str, other: str) -> Conflict:
    return Conflict(
        f"“{one}” and “{other}” contradict each other, and one picture cannot be both: the style decides. Say which of "
        "the two matters."
    )


_PACE = Conflict(
    "“Fast” and “slow” cancel each other, so things keep their pace; say which of the two matters.", "speed"
)
_SIZE = Conflict(
    "“Big” and “small” cancel each other, so the size stays as it is; say which of the two matters.", "size"
)
_TONE = Conflict("“Bright” and “dark” cancel each other; the picture keeps its tone.", "tone")
_STYLES = Conflict("Two styles are named; the first one rules the picture, and its curves carry the motion.")

_OF_ONE_THING: tuple[tuple[str, str, Conflict], ...] = (
    (
        r"fast(?:er)?|quick(?:ly|er)?|rapid(?:ly)?|speedy|速い|速く|素早く",
        r"slow(?:ly|er)?|slow[ -]motion|遅い|遅く|ゆっくり",
        _PACE,
    ),
    (
        r"calm(?:ly)?|peaceful|quiet|gentle|serene|relaxed|静か",
        r"frantic|hectic|wild|chaotic|frenetic|激しい|激しく",
        _style_decides("Calm", "frantic"),
    ),
    (r"big|large|huge|giant|大きい|大きな|大きく", r"small|tiny|little|小さい|小さな|小さく", _SIZE),
    (r"playful|funny|silly|cheerful", r"serious|cinematic|dramatic|sombre|somber|solemn", _STYLES),
    (
        r"minimal(?:ist)?|simple|plain",
        r"busy|crowded|cluttered|complex|maximal(?:ist)?",
        _style_decides("Minimal", "busy"),
    ),
    (r"bright|light|明るい|明るく", r"dark|gloomy|暗い|暗く", _TONE),
    (
        r"long|長い|長く",
        r"short|短い|短く",
        Conflict("“Long” and “short” contradict each other; the length follows the rest."),
    ),
)
_JOINED = (
    r"(?:て|で|、|と|かつ|\s*(?:[,;/&]|\b(?:and|but|yet|while|und|et)\b)\s*)+(?:(?:also|very|really|then|equally)\s+)?"
)
_SAME_NEGATED = re.compile(
    r"\b(?P<word>[a-z]{3,})[\s,;]+(?:(?:and|but|yet)\s+)?(?:also\s+)?not\s+(?P=word)\b"
    r"|\bnot\s+(?P<later>[a-z]{3,})[\s,;]+(?:(?:and|but|yet)\s+)?(?:also\s+)?(?P=later)\b",
    re.I,
)

_IN_CHANGES: tuple[tuple[str, str, Conflict], ...] = (
    (
        r"\b(?:faster|quicker|speed|fast)\b",
        r"\b(?:smooth\w*|softer|gentler|calmer)\b",
        Conflict(
            "“Faster” and “smoother” pull in opposite directions, so I read them as: things move in less time, along "
            "softer curves without abrupt stops."
        ),
    ),
    (r"\b(?:faster|quicker)\b", r"\b(?:slower)\b", _PACE),
    (r"\b(?:bigger|larger)\b", r"\b(?:smaller)\b", _SIZE),
    (
        r"\blonger\b",
        r"\bshorter\b",
        Conflict("“Longer” and “shorter” contradict each other; I take the longer version."),
    ),
    (
        r"\bfaster\b",
        r"\blonger\b",
        Conflict(
            "“Faster” is read as the pace of the motion and “longer” as the length of the video: quicker movement, "
            "more time."
        ),
    ),
    (
        r"\b(?:minimal|simpler|simple|cleaner)\b",
        r"\b(?:more (?:elements|particles|things|detail)|busier|confetti)\b",
        Conflict(
            "“Minimal” and “more” compete, so the added parts come in quietly: few, small and in the palette's own "
            "colours."
        ),
    ),
    (r"\bbrighter\b", r"\bdarker\b", _TONE),
    (r"\bplayful\b", r"\b(?:serious|cinematic|dramatic)\b", _STYLES),
)


def _joined(one: str, other: str) -> re.Pattern[str]:
    a, b = (rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])" for words in (one, other))
    return re.compile(rf"{a}{_JOINED}{b}|{b}{_JOINED}{a}", re.I)


_PAIRS = tuple((_joined(one, other), conflict) for one, other, conflict in _OF_ONE_THING)


def conflicts_in_prompt(words: str) -> tuple[Conflict, ...]:
    """Return the contradictions of a first prompt: opposites, or a word and its denial, said of the same thing."""
    wanted = without_negated(words)
    found = [conflict for pattern, conflict in _PAIRS if pattern.search(wanted)]
    same = _SAME_NEGATED.search(words)
    if same:
        word = (same["word"] or same["later"]).lower()
        found.append(Conflict(f"“{word.capitalize()}” and “not {word}” contradict each other; I take “{word}”."))
    return tuple(found)


def conflicts_in_change(words: str) -> tuple[Conflict, ...]:
    """Return the contradictions of a change request, each once."""
    found = [
        conflict
        for one, other, conflict in _IN_CHANGES
        if re.search(one, words, re.I) and re.search(other, words, re.I)
    ]
    return tuple(dict.fromkeys([*found, *conflicts_in_prompt(words)]))


def without_negated(words: str) -> str:
    """Take out what is not wanted ("not red", "not too fast"), so that it is not read as a wish."""
    return re.sub(r"\bnot\s+(?:(?:too|so|very|at all|in)\s+)?[a-z]+\b", " ", words, flags=re.I)
