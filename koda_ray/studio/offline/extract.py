"""The measurable parts of a prompt: numbers, durations, quoted texts, prices and names.

Each function takes the normalised prompt and returns what it found, or nothing; none of them guesses. What is found is
cut out of the text where it would otherwise be read twice ("8s" is not a bar of eight).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from koda_ray.studio.offline.lexicon import NUMBERS

__all__ = [
    "CJK_NUM",
    "NUM",
    "Length",
    "clean_phrase",
    "find_length",
    "find_name",
    "find_price",
    "find_quotes",
    "number_of",
    "strip_directives",
]

_WORD_NUMBER = "|".join(sorted((word for word in NUMBERS if word.isascii()), key=len, reverse=True))
NUM = rf"(?:\d+(?:[.,]\d+)?|{_WORD_NUMBER})"
CJK_NUM = r"(?:\d+(?:\.\d+)?|[一二三四五六七八九十]+)"
"""Numbers, as regular expressions: digits and words; digits and Japanese numerals."""


def number_of(word: str) -> float | None:
    """Read digits, an English number word, or a Japanese numeral up to 99."""
    word = word.strip().lower().replace(",", ".")
    if word in NUMBERS:
        return float(NUMBERS[word])
    if re.fullmatch(r"[一二三四五六七八九十]+", word):
        tens, ten, units = word.partition("十")
        if not ten:
            return float(NUMBERS[word[0]])
        return (NUMBERS[tens] if tens else 1) * 10 + (NUMBERS[units] if units else 0)
    try:
        return float(word)
    except ValueError:
        return None


@dataclass(frozen=True)
class Length:
    """A duration that was asked for, in seconds, and the text without it."""

    seconds: float
    rest: str
    absurd: bool = False


_NOT_A_LENGTH = r"(?<!every )(?<!each )(?<!after )(?<!per )(?<!first )(?<!last )(?<!at )"
_MINUTE_WORDS = "minutes?|mins?|minuten?|minutos?|minut[oi]"
_SECOND_WORDS = "seconds?|secs?|sec|s|sekunden?|secondes?|segundos?|second[oi]"
_LENGTHS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(rf"(?<![\w.:])(-?\s?{NUM})(?:\s+and\s+a\s+half)?[\s-]*(?:hours?|hrs?)\b", re.I), 3600.0),
    (re.compile(rf"{_NOT_A_LENGTH}(?<![\w.:])(-?\s?{NUM})[\s-]*(?:{_MINUTE_WORDS})\b", re.I), 60.0),
    (re.compile(rf"{_NOT_A_LENGTH}(?<![\w.:$€£])(-?\s?{NUM})[\s-]*(?:{_SECOND_WORDS})\b(?!['’])", re.I), 1.0),
    (re.compile(rf"({CJK_NUM})\s*時間"), 3600.0),
    (re.compile(rf"({CJK_NUM})\s*(?:分間|分(?!の|け)|分钟)"), 60.0),
    (re.compile(rf"({CJK_NUM})\s*(?:秒間|秒|초)"), 1.0),
)
_FIXED: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"\b(?:half an hour|half-hour)\b", re.I), 1800.0),
    (re.compile(r"\b(?:an|one)[\s-]+hour(?:[\s-]+long)?\b", re.I), 3600.0),
    (re.compile(r"\bhalf[\s-]a[\s-]minute\b|\bhalf[\s-]minute\b", re.I), 30.0),
    (re.compile(r"\b(?:quarter of a minute)\b", re.I), 15.0),
    (re.compile(r"\ba minute and a half\b", re.I), 90.0),
    (re.compile(r"\b(?:a|one)[\s-]+minute(?:[\s-]+long)?\b", re.I), 60.0),
    (re.compile(r"\b(?:feature[\s-]length|full[\s-]length)\b", re.I), 5400.0),
)
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):([0-5]\d)(?![\d:])(?=\s*(?:long|video|film|animation|$|[,.;]))", re.I)


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
    if clock and not re.search(r"\d+:\d+\s*(?:aspect|ratio|format)", text, re.I):
        ratio = (clock.group(1), clock.group(2))
        if ratio not in {("16", "09"), ("9", "16")}:
            total, found = total + int(clock.group(1)) * 60 + int(clock.group(2)), True
            text = text[: clock.start()] + " " + text[clock.end() :]
    for expression, unit in _LENGTHS:
        match = expression.search(text)
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


_QUOTES = (
    re.compile(r"“([^”\n]{1,300})”"),
    re.compile(r"„([^“”\n]{1,300})[“”]"),
    re.compile(r"«\s?([^»\n]{1,300}?)\s?»"),
    re.compile(r"「([^」\n]{1,300})」"),
    re.compile(r"『([^』\n]{1,300})』"),
    re.compile(r'"([^"\n]{1,300})"'),
    re.compile(r"(?<![\w’])‘(.{1,300}?)’(?!\w)"),
    re.compile(r"(?<!\w)'(.{1,300}?)'(?!\w)"),
    re.compile(r"(?<!\w)`([^`\n]{1,300})`"),
)


def find_quotes(text: str) -> tuple[tuple[str, ...], str]:
    """Return the quoted texts in reading order, and the prompt without them."""
    found: list[tuple[int, str]] = []
    for expression in _QUOTES:
        for match in expression.finditer(text):
            words = match.group(1).strip()
            if words:
                found.append((match.start(), words))
        text = expression.sub(lambda m: " " * len(m.group(0)), text)
    return tuple(words for _, words in sorted(found)), text


_PRICE = re.compile(
    r"([$€£¥₹]\s?\d+(?:,\d{3})*(?:\.\d{1,2})?|\d+(?:,\d{3})*(?:[.,]\d{1,2})?\s?(?:[€£]|dollars?\b|euros?\b|pounds?\b|USD\b|EUR\b|円))"
)


def find_price(text: str) -> tuple[str, str]:
    """Return the first price as written (``$199``), and the text without it."""
    match = _PRICE.search(text)
    if match is None:
        return "", text
    price = re.sub(r"\s+(?=dollars?|euros?|pounds?|USD|EUR)", " ", match.group(1).strip())
    worded = re.fullmatch(r"([\d.,]+)\s*(dollars?|euros?|pounds?|USD|EUR)", price, re.I)
    if worded:
        sign = {"d": "$", "u": "$", "e": "€", "p": "£"}[worded.group(2)[0].lower()]
        price = sign + worded.group(1)
    return price, text[: match.start()] + " " + text[match.end() :]


_NAME = re.compile(
    r"\b(?:for|of|called|named|by|from)\s+((?:the\s+)?[A-Z0-9][\w&.’'-]*(?:\s+(?:&|of|and|the|[A-Z0-9][\w&.’'-]*))*)"
)
_NAME_BEFORE = re.compile(r"((?:[A-Z][\w&.’'-]*\s+){1,3})(?:logo|brand|wordmark|ロゴ)")
_NAME_CJK = re.compile(r"([^\s、。,「」]{1,16}?)(?:社)?(?:の|用の)ロゴ")
_NOT_A_NAME = frozenset(
    [
        "create",
        "make",
        "a",
        "an",
        "the",
        "my",
        "our",
        "animate",
        "show",
        "draw",
        "design",
        "animated",
        "animation",
        "video",
        "please",
        "smooth",
        "minimal",
        "playful",
        "cinematic",
        "simple",
        "modern",
        "clean",
        "elegant",
        "instagram",
        "tiktok",
        "youtube",
        "reels",
        "linkedin",
    ]
)


def find_name(text: str) -> str:
    """Return whom or what it is for: "for Acme", "the Globex logo", "「…」のロゴ"; empty where nobody is named."""
    for expression in (_NAME, _NAME_BEFORE, _NAME_CJK):
        for match in expression.finditer(text):
            words = [word for word in match.group(1).split() if word.lower() not in _NOT_A_NAME]
            while words and words[-1].lower() in {"of", "and", "&", "the"}:
                words.pop()
            name = " ".join(words).strip(" .,;:")
            if name and not name.replace(".", "").replace(",", "").isdigit():
                return name[:60]
    return ""


_DIRECTIVE = re.compile(
    r"^\s*(?:please\s+)?(?:can you\s+|could you\s+|i want(?: you to)?\s+|i(?:'d| would) like\s+|we need\s+|give me\s+)?"
    r"(?:create|make|build|design|generate|produce|render|animate|show|draw|do|write)?\s*(?:me|us)?\s*"
    r"(?:an?|the|some|my|our)?\s*(?:short|quick|nice|cool|beautiful|great|\d+\s?d|2d|3d)?\s*"
    r"(?:smooth|minimal|playful|cinematic)?\s*"
    r"(?:kinetic typography|animated video|animation|video|clip|film|movie|intro|motion graphics?|gif)?\s*"
    r"(?:that says|saying|that shows|showing|about|of|for|where|in which|with the words?|with)?\s+",
    re.I,
)
_TAIL = re.compile(
    r"(?:のアニメーション|のビデオ|の動画|アニメーション|動画)(?:を(?:作って|作成して)?(?:ください)?)?[。.]?\s*$|"
    r"[,、]?\s*(?:スムーズに|なめらかに|滑らかに|シンプルに|ポップに|楽しく)[。.]?\s*$"
)


def strip_directives(text: str) -> str:
    """Remove what speaks to the director ("create an animation of"), and keep what is to be seen."""
    shorter = _DIRECTIVE.sub("", text + " ", count=1).strip() if re.match(r"\s*[A-Za-z]", text) else text.strip()
    shorter = _TAIL.sub("", shorter).strip()
    return shorter or text.strip()


def clean_phrase(text: str) -> str:
    """Collapse white space, drop marks that cannot be read aloud, keep letters, digits, emoji and punctuation."""
    text = re.sub(r"[\x00-\x1f\x7f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", " ", text)
    text = re.sub(r"https?://\S+", " ", text)
    text = re.sub(r"[<>{}\[\]|\\^~*_#`]+", " ", text)
    return re.sub(r"\s+", " ", text).strip(" ,;:-–—")
