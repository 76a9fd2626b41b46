"""Single properties of a prompt: its language, style, format, colours, direction, pace, size, count.

Each finder looks for one thing in the words and says None where they do not name it; what follows from what was found
is `parse`'s to decide.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from koda_ray.roles.offline import extract, lexicon
from koda_ray.roles.offline.brief import SIZES, Aspect, Direction, Heard, Impossible, Language, Style, known_style
from koda_ray.roles.offline.colour import HEX, parse_hex
from koda_ray.roles.offline.language import alternatives, expression, grouped, listed, said, script
from koda_ray.roles.offline.subject import Countable
from koda_ray.types import MAX_DURATION_S

__all__ = [
    "LONG_PROMPT_CHARS",
    "find_aspect",
    "find_colours",
    "find_count",
    "find_direction",
    "find_impossible",
    "find_scale",
    "find_speed",
    "find_style",
    "language_of",
    "names_nothing",
    "normalise",
    "only_directs",
    "own_words",
    "seed_of",
]

LONG_PROMPT_CHARS = 400


def normalise(text: str) -> str:
    """Fold full-width forms and odd spaces, keep line breaks; at most 20,000 characters."""
    text = unicodedata.normalize("NFKC", text[:20_000]).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(re.sub(r"[^\S\n]+", " ", line).strip() for line in text.split("\n")).strip()


def seed_of(text: str) -> int:
    """Return a 32-bit seed that depends on every character of the prompt but not on case or spacing."""
    folded = re.sub(r"\s+", " ", normalise(text)).casefold()
    return int.from_bytes(hashlib.sha256(folded.encode("utf-8", "surrogatepass")).digest()[:4], "big")


def language_of(text: str) -> Language:
    """Return ``ja``, ``zh``, ``ko`` or ``en`` (everything else) by the scripts in the text."""
    kana, han, hangul, latin = (len(script(language).findall(text)) for language in ("ja", "zh", "ko", "en"))
    if kana and (kana + han) * 3 > latin:
        return "ja"
    if han and han * 3 > latin:
        return "zh"
    if hangul and hangul * 3 > latin:
        return "ko"
    return "en"


def find_style(text: str) -> tuple[Style | None, Heard]:
    """Return the style that is named, or that the words suggest."""
    named = lexicon.first_of(text, lexicon.STYLE_WORDS)
    if named:
        return known_style(named[0]), "explicit"
    clue = lexicon.first_of(text, lexicon.STYLE_CLUES)
    if clue:
        return known_style(clue[0]), "inferred"
    return None, "unknown"


_ASPECTS: dict[str, Aspect] = {aspect: aspect for aspect in SIZES}
_FORMATS: tuple[tuple[re.Pattern[str], Aspect], ...] = tuple(
    (re.compile(words, re.I), _ASPECTS[aspect]) for aspect, many in grouped("formats").items() for words in many
)


def find_aspect(text: str) -> tuple[Aspect | None, str]:
    """Return the picture's shape where a format or platform is named, and the text without it."""
    for words, aspect in _FORMATS:
        if words.search(text):
            return aspect, words.sub(" ", text)
    return None, text


_GROUND = f"(?:{alternatives('ground')})"
_GROUND_AFTER = re.compile(rf"\W*{alternatives('ground_before')}{_GROUND}", re.I)
_GROUND_BEFORE = re.compile(rf"{_GROUND}\W*(?:{alternatives('ground_is')})?\W*$", re.I)


def find_colours(text: str) -> tuple[tuple[str, ...], str | None]:
    """Return the colours named for things, the first six in reading order, and the background's where it is named."""
    found = lexicon.find_all(text, lexicon.COLOURS)
    found += [(m.start(), m.group(0), parse_hex(m.group(0))) for m in HEX.finditer(text)]
    colours: list[str] = []
    background: str | None = None
    for start, phrase, value in sorted(found):
        before, after = text[max(0, start - 26) : start], text[start + len(phrase) : start + len(phrase) + 24]
        if _GROUND_AFTER.match(after) or _GROUND_BEFORE.search(before) or expression("on_plain").search(before):
            background = value
        elif value not in colours:
            colours.append(value)
    return tuple(colours[:6]), background


_DIRECTIONS: tuple[tuple[str, Direction], ...] = (
    ("right_to_left", "left"),
    ("left_to_right", "right"),
    ("upwards", "up"),
    ("downwards", "down"),
    ("leftwards", "left"),
    ("rightwards", "right"),
)


def find_direction(text: str) -> Direction | None:
    """Return where things are to move, where the words say so."""
    for words, direction in _DIRECTIONS:
        if expression(words).search(text):
            return direction
    return None


_SPEEDS = (("very_fast", 2.0), ("fast", 1.5), ("very_slow", 0.5), ("slow", 0.65))
_SCALES = (("huge", 1.5), ("large", 1.25), ("tiny", 0.6), ("small", 0.75))


def find_speed(text: str) -> float | None:
    """Return how much faster than usual things are to move ("slowly" 0.65, "fast" 1.5, "twice as fast" 2)."""
    times = expression("times_as_fast").search(text)
    if times:
        return lexicon.MULTIPLES[times["word"].lower()] if times["word"] else max(0.1, min(10.0, float(times["num"])))
    return next((speed for words, speed in _SPEEDS if expression(words).search(text)), None)


def find_scale(text: str) -> float:
    """Return the size that is asked for, relative to usual ("big" 1.25, "tiny" 0.6)."""
    return next((scale for words, scale in _SCALES if expression(words).search(text)), 1.0)


_IMPOSSIBLE: tuple[Impossible, ...] = ("live_action", "interactive")


def find_impossible(text: str, seconds: float | None) -> Impossible | None:
    """Return why the request cannot be made into an animation here, or None."""
    if seconds is not None and seconds > MAX_DURATION_S:
        return "too_long"
    if len(text) > LONG_PROMPT_CHARS:
        return None
    if expression("advertised").search(text):
        return None
    return next((why for why in _IMPOSSIBLE if expression(why).search(text)), None)


def find_count(text: str, counted: Countable | None) -> tuple[int | None, str | None]:
    """Return how many things are asked for, and a note where the figure had to be changed."""
    if counted is None:
        return None, None
    number = r"(-?\d+|" + "|".join(w for w in lexicon.NUMBERS if w.isascii()) + r")"
    match = re.search(rf"(?<![\w.]){number}\s+(?:[a-z-]+\s+){{0,2}}?(?:{counted.nouns})\b", text, re.I)
    cjk = re.search(rf"(\d+|{extract.NUMERAL})\s*(?:{alternatives('counter')})", text)
    if match is None and cjk is None:
        return None, None
    raw = (match or cjk).group(1)  # type: ignore[union-attr]
    value = extract.number_of(raw.lstrip("-"))
    if value is None or value != int(value) or value < 1 or raw.startswith("-"):
        return None, said("note.no_count", figure=raw)
    if value > counted.most:
        return counted.most, said("note.too_many", figure=int(value), most=counted.most)
    return int(value), None


_PAUSES = "".join(sorted(listed("pauses")))
_MARKS = _PAUSES + "".join(sorted(listed("stops")))


def only_directs(part: str) -> bool:
    """Return whether a part of the prompt names nothing but a style, a colour or a format."""
    rest = part.strip(_MARKS + " \n").casefold()
    if not rest:
        return True
    for phrase in sorted((w for w in _DIRECTING if w in rest), key=len, reverse=True):
        rest = lexicon.pattern(phrase).sub(" ", rest)
    words = [w for w in re.split(r"[^\w]+", rest) if w]
    return all(word in _DIRECTING_WORDS for word in words)


_DIRECTING_WORDS, _GENERIC = listed("directing"), listed("generic")
_DIRECTING = {w for words in lexicon.STYLE_WORDS.values() for w in words} | set(lexicon.COLOURS)


def own_words(text: str) -> str:
    """Return the prompt without what only directs: its length, its format, a style or colours named by themselves."""
    if len(text) > LONG_PROMPT_CHARS:
        return text
    length = extract.find_length(text)
    _, text = find_aspect(length.rest if length else text)
    parts = re.split(rf"(?<=[{re.escape(_MARKS)}\n])", text)
    return "".join(part for part in parts if not only_directs(part)).strip(_PAUSES + " ")


def names_nothing(text: str) -> bool:
    """Return whether a prompt says no more than that there shall be a video."""
    return bool(re.search(r"\w", text)) and not set(re.findall(r"\w+", own_words(text).casefold())) - _GENERIC
