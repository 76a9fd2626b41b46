"""The measurable parts of a prompt: numbers, durations, quoted texts, prices and names.

Each function takes the normalised prompt and returns what it found, or nothing; none of them guesses. What is found is
cut out of the text where it would otherwise be read twice ("8s" is not a bar of eight).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from koda_ray.roles.offline.language import alternatives, expression, grouped, listed, signs, table, unspaced
from koda_ray.roles.offline.lexicon import NUMBERS

__all__ = [
    "CJK_NUM",
    "NUM",
    "NUMERAL",
    "Length",
    "clean_phrase",
    "find_length",
    "find_name",
    "find_price",
    "find_quotes",
    "number_of",
    "numbered",
    "strip_directives",
]

_WORD_NUMBER = "|".join(sorted((word for word in NUMBERS if word.isascii()), key=len, reverse=True))
NUM = rf"(?:\d+(?:[.,]\d+)?|{_WORD_NUMBER})"
_NUMERALS = "".join(word for word in NUMBERS if unspaced().fullmatch(word))
_TEN = next(word for word in _NUMERALS if NUMBERS[word] == 10)
NUMERAL = f"[{_NUMERALS}]+"
CJK_NUM = rf"(?:\d+(?:\.\d+)?|{NUMERAL})"
"""Numbers, as regular expressions: digits and words; numerals that are letters; digits and those."""


def number_of(word: str) -> float | None:
    """Read digits, a number word, or numerals that are letters, up to 99."""
    word = word.strip().lower().replace(",", ".")
    if word in NUMBERS:
        return float(NUMBERS[word])
    if re.fullmatch(NUMERAL, word):
        tens, ten, units = word.partition(_TEN)
        if not ten:
            return float(NUMBERS[word[0]])
        return (NUMBERS[tens] if tens else 1) * 10 + (NUMBERS[units] if units else 0)
    try:
        return float(word)
    except ValueError:
        return None


@cache
def numbered(name: str) -> re.Pattern[str]:
    """Return an expression in which ``NUMBER`` and ``CJK_NUMBER`` stand for numbers."""
    return re.compile(alternatives(name).replace("CJK_NUMBER", CJK_NUM).replace("NUMBER", NUM), re.IGNORECASE)


@dataclass(frozen=True)
class Length:
    """A duration that was asked for, in seconds, and the text without it."""

    seconds: float
    rest: str
    absurd: bool = False


_SIGN = signs("currency_signs")
_HALF, _BEFORE = alternatives("and_a_half"), alternatives("no_length_before")
_PRICED = rf"{_BEFORE}(?<!{_SIGN})"
_LENGTHS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(rf"(?<![\w.:])(-?\s?{NUM}){_HALF}[\s-]*(?:{alternatives('hour')})\b", re.I), 3600.0),
    (re.compile(rf"{_BEFORE}(?<![\w.:])(-?\s?{NUM})[\s-]*(?:{alternatives('minute')})\b", re.I), 60.0),
    (re.compile(rf"{_PRICED}(?<![\w.:])(-?\s?{NUM})[\s-]*(?:{alternatives('second')})\b(?!['’])", re.I), 1.0),
    (re.compile(rf"({CJK_NUM})\s*(?:{alternatives('hour_cjk')})"), 3600.0),
    (re.compile(rf"({CJK_NUM})\s*(?:{alternatives('minute_cjk')})"), 60.0),
    (re.compile(rf"({CJK_NUM})\s*(?:{alternatives('second_cjk')})"), 1.0),
)
_FIXED = tuple((re.compile(words, re.I), float(seconds)) for words, seconds in table("lengths").items())
_CLOCK = re.compile(
    rf"(?<![\d:])(\d{{1,2}}):([0-5]\d)(?![\d:])(?=\s*(?:{alternatives('clock_context')}|$|[,.;]))", re.I
)


def find_length(text: str) -> Length | None:
    """Find how long the video is to be; several units add up ("1 minute 30 seconds").

    Returns:
        Seconds and the text without the words that said so; ``absurd`` where the figure was negative or zero.
    """
    total, found, absurd = 0.0, False, False
    for fixed, seconds in _FIXED:
        text, hits = fixed.subn(" ", text)
        if hits:
            total, found = total + seconds, True
    clock = _CLOCK.search(text)
    if clock and not expression("ratio").search(text):
        ratio = (clock.group(1), clock.group(2))
        if ratio not in {("16", "09"), ("9", "16")}:
            total, found = total + int(clock.group(1)) * 60 + int(clock.group(2)), True
            text = text[: clock.start()] + " " + text[clock.end() :]
    for unit_words, unit in _LENGTHS:
        match = unit_words.search(text)
        if match is None:
            continue
        raw = match.group(1).replace(" ", "")
        value = number_of(raw.lstrip("-"))
        if value is None:
            continue
        text = text[: match.start()] + " " + text[match.end() :]
        found = True
        if raw.startswith("-") or value == 0:
            absurd = True
            continue
        total += value * unit
    if not found:
        return None
    return Length(total, text, absurd=absurd and total <= 0)


_QUOTES = tuple(re.compile(words) for words in grouped("words")["quoted"])


def find_quotes(text: str) -> tuple[tuple[str, ...], str]:
    """Return the quoted texts in reading order, and the prompt without them."""
    found: list[tuple[int, str]] = []
    for marks in _QUOTES:
        for match in marks.finditer(text):
            words = match.group(1).strip()
            if words:
                found.append((match.start(), words))
        text = marks.sub(lambda m: " " * len(m.group(0)), text)
    return tuple(words for _, words in sorted(found)), text


_SIGNS = {name.lower(): str(sign) for name, sign in table("currencies").items()}
_MONEY = "|".join(sorted(table("currencies"), key=len, reverse=True))
_PRICE = re.compile(
    rf"({_SIGN}\s?\d+(?:,\d{{3}})*(?:\.\d{{1,2}})?|\d+(?:,\d{{3}})*(?:[.,]\d{{1,2}})?\s?"
    rf"(?:(?:{_MONEY})\b|{alternatives('money_sign')}))"
)


def find_price(text: str) -> tuple[str, str]:
    """Return the first price as written (``$199``), and the text without it."""
    match = _PRICE.search(text)
    if match is None:
        return "", text
    price = re.sub(rf"\s+(?={_MONEY})", " ", match.group(1).strip())
    worded = re.fullmatch(rf"([\d.,]+)\s*({_MONEY})", price, re.I)
    if worded:
        price = _SIGNS[worded.group(2).lower()] + worded.group(1)
    return price, text[: match.start()] + " " + text[match.end() :]


_NO_NAME, _JOINING = listed("no_name"), listed("joining")


def find_name(text: str) -> str:
    """Return whom or what it is for: "for Acme", "the Globex logo", "「…」のロゴ"; empty where nobody is named."""
    for place in ("named_after", "named_before", "owner_before_logo"):
        for match in expression(place, cased=True).finditer(text):
            words = [word for word in match.group(1).split() if word.lower() not in _NO_NAME]
            while words and words[-1].lower() in _JOINING:
                words.pop()
            name = " ".join(words).strip(" .,;:")
            if name and not name.replace(".", "").replace(",", "").isdigit():
                return name[:60]
    return ""


def strip_directives(text: str) -> str:
    """Remove what speaks to the director ("create an animation of"), and keep what is to be seen."""
    shorter = text.strip()
    if re.match(r"\s*[A-Za-z]", text):
        shorter = expression("directive").sub("", text + " ", count=1).strip()
    shorter = expression("directive_after").sub("", shorter).strip()
    return shorter or text.strip()


def clean_phrase(text: str) -> str:
    """Collapse white space, drop marks that cannot be read aloud, keep letters, digits, emoji and punctuation."""
    text = re.sub(r"[\x00-\x1f\x7f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", " ", text)
    text = re.sub(r"https?://\S+", " ", text)
    text = re.sub(r"[<>{}\[\]|\\^~*_#`]+", " ", text)
    return re.sub(r"\s+", " ", text).strip(" ,;:-–—")
