"""Single properties of a prompt: its language, style, format, colours, direction, pace, size, count.

Each finder looks for one thing in the words and says None where they do not name it; what follows from what was found
is `parse`'s to decide.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from koda_ray.studio.offline import extract, lexicon
from koda_ray.studio.offline.brief import Aspect, Direction, Heard, Impossible, Language, Style, known_style
from koda_ray.studio.offline.colour import HEX, parse_hex
from koda_ray.studio.offline.subject import Counted
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
    kana = len(re.findall(r"[ぁ-ヿ]", text))
    han = len(re.findall(r"[㐀-鿿]", text))
    hangul = len(re.findall(r"[가-힣]", text))
    latin = len(re.findall(r"[A-Za-z]", text))
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


_FORMAT = r"(?:video|format|version|aspect|ratio|clip|post|orientation|mode|animation|film|canvas|reel|size)"


_ASPECT_RULES: tuple[tuple[re.Pattern[str], Aspect], ...] = (
    (
        re.compile(
            rf"\b(?:vertical|portrait)\s+(?:\w+\s+)?{_FORMAT}|\b(?:in|as|make it)\s+(?:a\s+)?(?:vertical|portrait)\b",
            re.I,
        ),
        "9:16",
    ),
    (
        re.compile(r"\b(?:tik\s?tok|reels?|snapchat|youtube shorts|9\s?[:x]\s?16|1080x1920)\b|\bvertical\s*$", re.I),
        "9:16",
    ),
    (
        re.compile(
            r"\b(?:instagram|insta|ig|facebook)\s+stor(?:y|ies)\b|\bfor (?:my )?stories\b|"
            r"\bvertical(?:ly)?\b(?=\s*[,.)]|$)",
            re.I,
        ),
        "9:16",
    ),
    (re.compile(r"縦型|縦長|ティックトック|竖屏|縦動画|リール|ショート動画"), "9:16"),
    (re.compile(r"\b4\s?:\s?5\b|\binstagram feed\b|1080x1350", re.I), "4:5"),
    (
        re.compile(
            rf"\bsquare\s+{_FORMAT}|\b(?:in|as|make it|for)\s+(?:a\s+)?square\b(?!\s+\w)|\b1\s?[:x]\s?1\b|"
            r"\binstagram post\b|1080x1080|,\s*square\s*$|正方形",
            re.I,
        ),
        "1:1",
    ),
    (
        re.compile(
            rf"\b(?:landscape|wide)\s+{_FORMAT}|\bwide\s?screen\b|\byoutube\b|\b16\s?[:x]\s?9\b|1920x1080|"
            r"\b(?:in|make it)\s+(?:landscape|wide)\b|横長|\blinkedin\b",
            re.I,
        ),
        "16:9",
    ),
)


def find_aspect(text: str) -> tuple[Aspect | None, str]:
    """Return the picture's shape where a format or platform is named, and the text without it."""
    for expression, aspect in _ASPECT_RULES:
        if expression.search(text):
            return aspect, expression.sub(" ", text)
    return None, text


_GROUND = r"(?:background|backdrop|bg|背景)"


def find_colours(text: str) -> tuple[tuple[str, ...], str | None]:
    """Return the colours named for things, in reading order, and the background's where it is named."""
    table = {**lexicon.COLOURS}
    found: list[tuple[int, str, str]] = lexicon.find_all(text, table)
    found += [(m.start(), m.group(0), parse_hex(m.group(0))) for m in HEX.finditer(text)]
    colours: list[str] = []
    background: str | None = None
    for start, phrase, value in sorted(found):
        before, after = text[max(0, start - 26) : start], text[start + len(phrase) : start + len(phrase) + 24]
        if (
            re.match(rf"\W*(?:coloured |colored )?(?:gradient )?{_GROUND}", after, re.I)
            or re.search(rf"{_GROUND}\W*(?:is|in|to|should be|colou?r|of|は|を)?\W*$", before, re.I)
            or (re.search(r"\bon (?:an? )?(?:plain |solid |pure )?$", before, re.I))
        ):
            background = value
        elif value not in colours:
            colours.append(value)
    return tuple(colours[:6]), background


_DIRECTIONS: tuple[tuple[re.Pattern[str], Direction], ...] = (
    (re.compile(r"\b(?:from )?(?:the )?right (?:to|→) (?:the )?left\b|右から左", re.I), "left"),
    (re.compile(r"\b(?:from )?(?:the )?left (?:to|→) (?:the )?right\b|左から右", re.I), "right"),
    (
        re.compile(r"\b(?:bottom (?:to|→) (?:the )?top|upwards?|going up|from below|rising|rises)\b|下から上", re.I),
        "up",
    ),
    (
        re.compile(r"\b(?:top (?:to|→) (?:the )?bottom|downwards?|going down|from above|falling)\b|上から下", re.I),
        "down",
    ),
    (re.compile(r"\b(?:from the right|to the left|leftwards?|left)\b|左へ|左に", re.I), "left"),
    (re.compile(r"\b(?:from the left|to the right|rightwards?)\b|右へ|右に", re.I), "right"),
)


def find_direction(text: str) -> Direction | None:
    """Return where things are to move, where the words say so."""
    for expression, direction in _DIRECTIONS:
        if expression.search(text):
            return direction
    return None


_TIMES = r"(?:(?P<word>twice|double|half|thrice|triple)|(?P<num>\d+(?:\.\d+)?)\s?(?:x|times))"


_FASTER = re.compile(rf"(?:{_TIMES}\s*(?:as\s+)?(?:the\s+)?(?:fast|quick|speed))", re.I)


_FACTOR = {"twice": 2.0, "double": 2.0, "half": 0.5, "thrice": 3.0, "triple": 3.0}


def find_speed(text: str) -> float | None:
    """Return how much faster than usual things are to move ("slowly" 0.65, "fast" 1.5, "twice as fast" 2)."""
    times = _FASTER.search(text)
    if times:
        return _FACTOR[times["word"].lower()] if times["word"] else max(0.1, min(10.0, float(times["num"])))
    if re.search(r"\b(?:very|super|really) (?:fast|quick(?:ly)?)\b|\brapid(?:ly)?\b|超高速", text, re.I):
        return 2.0
    if re.search(r"\b(?:fast|quick(?:ly)?|speedy|snappy)\b|速く|素早く", text, re.I):
        return 1.5
    if re.search(r"\b(?:very|super|really) slow(?:ly)?\b|\bslow[ -]motion\b", text, re.I):
        return 0.5
    if re.search(r"\bslow(?:ly)?\b|ゆっくり", text, re.I):
        return 0.65
    return None


def find_scale(text: str) -> float:
    """Return the size that is asked for, relative to usual ("big" 1.25, "tiny" 0.6)."""
    if re.search(r"\b(?:huge|giant|enormous|gigantic)\b|巨大", text, re.I):
        return 1.5
    if re.search(r"\b(?:big|large)\b|大きな|大きい", text, re.I):
        return 1.25
    if re.search(r"\b(?:tiny|mini|miniature)\b", text, re.I):
        return 0.6
    if re.search(r"\bsmall\b|小さな|小さい", text, re.I):
        return 0.75
    return 1.0


_IMPOSSIBLE: tuple[tuple[re.Pattern[str], Impossible], ...] = (
    (
        re.compile(
            r"\b(?:live[\s-]action|real footage|stock footage|documentary|"
            r"photo-?realistic (?:video|people|person|human)|"
            r"deep\s?fake|film (?:me|my|a real)|real (?:people|actors?|humans?)|lip[\s-]?sync)\b|実写",
            re.I,
        ),
        "live_action",
    ),
    (
        re.compile(r"\b(?:playable|video ?game|interactive|web ?site|mobile app|web app)\b", re.I),
        "interactive",
    ),
)


def find_impossible(text: str, seconds: float | None) -> Impossible | None:
    """Return why the request cannot be made into an animation here, or None."""
    if seconds is not None and seconds > MAX_DURATION_S:
        return "too_long"
    if len(text) > LONG_PROMPT_CHARS:
        return None
    for expression, why in _IMPOSSIBLE:
        if expression.search(text) and not re.search(r"\b(?:trailer|advert\w*|ad|promo\w*)\b", text, re.I):
            return why
    return None


def find_count(text: str, counted: Counted | None) -> tuple[int | None, str | None]:
    """Return how many things are asked for, and a note where the figure had to be changed."""
    if counted is None:
        return None, None
    number = r"(-?\d+|" + "|".join(w for w in lexicon.NUMBERS if w.isascii()) + r")"
    match = re.search(rf"(?<![\w.]){number}\s+(?:[a-z-]+\s+){{0,2}}?(?:{counted.nouns})\b", text, re.I)
    cjk = re.search(r"(\d+|[一二三四五六七八九十]+)\s*(?:つ|個|匹|羽|台|本|枚|発|个)", text)
    if match is None and cjk is None:
        return None, None
    raw = (match or cjk).group(1)  # type: ignore[union-attr]
    value = extract.number_of(raw.lstrip("-"))
    if value is None or value != int(value) or value < 1 or raw.startswith("-"):
        return None, f"“{raw}” is not a number of things that can be shown; one is shown instead."
    if value > counted.most:
        return counted.most, (f"{int(value)} is more than the picture holds legibly; {counted.most} are shown.")
    return int(value), None


_DIRECTIVE_WORD = re.compile(
    r"^(?:in|an?|the|with|and|for|please|very|style|styled|look|feel|video|animation|colou?rs?|background|on|at|fps|hd|4k|"
    r"long|seconds?|letters|text|font)$",
    re.I,
)


def only_directs(part: str) -> bool:
    """Return whether a part of the prompt names nothing but a style, a colour or a format."""
    rest = part.strip(" ,、;.!?。！？\n").casefold()
    if not rest:
        return True
    for phrase in sorted((w for w in _DIRECTING if w in rest), key=len, reverse=True):
        rest = lexicon.pattern(phrase).sub(" ", rest)
    words = [w for w in re.split(r"[^\w]+", rest) if w]
    return all(_DIRECTIVE_WORD.match(w) or w in ("に", "で", "な") for w in words)


_DIRECTING = {w for words in lexicon.STYLE_WORDS.values() for w in words} | set(lexicon.COLOURS)


def own_words(text: str) -> str:
    """Return the prompt without what only directs: its length, its format, a style or colours named by themselves."""
    if len(text) > LONG_PROMPT_CHARS:
        return text
    length = extract.find_length(text)
    _, text = find_aspect(length.rest if length else text)
    parts = re.split(r"(?<=[,、;.!?。！？\n])", text)
    return "".join(part for part in parts if not only_directs(part)).strip(" ,、;")


def names_nothing(text: str) -> bool:
    """Return whether a prompt says no more than that there shall be a video."""
    return bool(re.search(r"\w", text)) and not set(re.findall(r"\w+", own_words(text).casefold())) - _GENERIC


_GENERIC = frozenset(
    [
        "a",
        "an",
        "the",
        "film",
        "movie",
        "video",
        "clip",
        "animation",
        "feature",
        "something",
        "anything",
        "it",
        "full",
        "length",
        "make",
        "create",
        "long",
    ]
)
