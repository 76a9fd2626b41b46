"""The measurable parts of a prompt: durations, sizes, counts, quoted texts, figures and steps.

Each function takes the normalised prompt and returns what it found, or nothing; none of them guesses. What is found is
cut out of the text where it would otherwise be read twice ("8s" is not a bar of eight).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from koda_ray.studio.offline.brief import Datum
from koda_ray.studio.offline.lexicon import NUMBERS

__all__ = [
    "Length",
    "clean_phrase",
    "find_countdown",
    "find_data",
    "find_length",
    "find_name",
    "find_price",
    "find_quotes",
    "find_steps",
    "hide_count",
    "number_of",
    "strip_directives",
]

_WORD_NUMBER = "|".join(sorted((word for word in NUMBERS if word.isascii()), key=len, reverse=True))
_NUM = rf"(?:\d+(?:[.,]\d+)?|{_WORD_NUMBER})"
_CJK_NUM = r"(?:\d+(?:\.\d+)?|[一二三四五六七八九十]+)"


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
    (re.compile(rf"(?<![\w.:])(-?\s?{_NUM})(?:\s+and\s+a\s+half)?[\s-]*(?:hours?|hrs?)\b", re.I), 3600.0),
    (re.compile(rf"{_NOT_A_LENGTH}(?<![\w.:])(-?\s?{_NUM})[\s-]*(?:{_MINUTE_WORDS})\b", re.I), 60.0),
    (re.compile(rf"{_NOT_A_LENGTH}(?<![\w.:$€£])(-?\s?{_NUM})[\s-]*(?:{_SECOND_WORDS})\b(?!['’])", re.I), 1.0),
    (re.compile(rf"({_CJK_NUM})\s*時間"), 3600.0),
    (re.compile(rf"({_CJK_NUM})\s*(?:分間|分(?!の|け)|分钟)"), 60.0),
    (re.compile(rf"({_CJK_NUM})\s*(?:秒間|秒|초)"), 1.0),
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


_COUNT_FROM_TO = re.compile(rf"(?:from|von|de)\s+({_NUM})\s*(?:down\s+)?(?:to|until|till|bis|-|–|→)\s*({_NUM})", re.I)
_COUNT_FROM = re.compile(rf"(?:from|at|von|of)\s+({_NUM})\b", re.I)
_SECONDS = r"[\s-]*(?:seconds?|secs?|s)\b"
_COUNT_BEFORE = re.compile(rf"\b({_NUM})(?:{_SECONDS})?[\s-]*(?:long\s+)?(?:count\s?down|count-down)", re.I)
_COUNT_AFTER = re.compile(rf"(?:count\s?down|count-down)\s+(?:of\s+)?({_NUM})\b", re.I)
_COUNT_CJK = re.compile(rf"({_CJK_NUM})\s*(?:秒)?\s*(?:から|の)")


_HIGHEST = 9999


def hide_count(text: str) -> str:
    """Hide seconds that say where a count down starts, and not how long it lasts.

    "From 5 seconds" always does; "10 second countdown" does where it says nothing else about where to start.
    """
    start = rf"\b(?:from|at)\s+{_NUM}(?:{_SECONDS})?"
    if re.search(start, text, re.I):
        return re.sub(start, " ", text, flags=re.I)
    return re.sub(rf"\b{_NUM}{_SECONDS}(?=\s+count)|(?<=\bcountdown of)\s+{_NUM}{_SECONDS}", " ", text, flags=re.I)


def find_countdown(text: str) -> tuple[int, int, str]:
    """Return first, last, and a note on what had to be changed; 5 to 1 where no figure is given, at most 9,999."""
    both = _COUNT_FROM_TO.search(text)
    if both:
        first, last = number_of(both.group(1)), number_of(both.group(2))
    else:
        first, last = None, 1.0
        for expression in (_COUNT_FROM, _COUNT_BEFORE, _COUNT_AFTER, _COUNT_CJK):
            match = expression.search(text)
            if match:
                first = number_of(match.group(1))
                break
    start = int(first) if first is not None else 5
    stop = int(last) if last is not None else 1
    notes: list[str] = []
    if both and start < stop:
        start, stop = stop, start
        notes.append(f"A count down goes downwards: it counts from {start} to {stop}.")
    if start > _HIGHEST:
        notes.append(f"{start} is more than can be counted here: it starts at {_HIGHEST}.")
    start = max(1, min(_HIGHEST, start))
    return start, max(0, min(start - 1, stop)), " ".join(notes)


_FIGURE = re.compile(
    r"(?P<lead>[$€£¥])?\s?(?P<sign>[-−])?(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s?"
    r"(?P<unit>%|[kKmMbB](?![a-z])|[万億]|°[CF]?|percent\b)?"
)
_DATA_STOP = re.compile(
    r"\b(?:(?-i:a|an)|the|of|with|and|for|to|values?|numbers?|figures?|data|showing|show|shows|displaying|bars?|lines?|pie|"
    r"donut|doughnut|charts?|graphs?|plot|trend|columns?|histogram|growing|grow|grows|rising|animated?|animate|"
    r"animation|create|make|draw|please|is|are|was|at|by|percent|in|our|my|from|compare|comparing|slices?|points?|"
    r"use|take|change|now|instead|should|be|make|it|new|video|smooth|smoothly|minimal|playful|cinematic|clean|simple|elegant|"
    r"modern|up)\b|棒グラフ|折れ線グラフ|円グラフ|グラフ|チャート|柱状图|折线图|饼图|[「」()\[\]{}\"“”のをで]",
    re.I,
)
_MULTIPLIER = {"k": 1.0, "m": 1.0, "b": 1.0}


def find_data(text: str, *, limit: int = 12) -> tuple[tuple[Datum, ...], int]:
    """Read labelled figures: "12, 30, 45", "Q1: 12, Q2: 30", "Apples 40%", one on each line.

    Args:
        text: The prompt without durations, sizes and quotes that are titles.
        limit: How many figures a chart can show legibly.

    Returns:
        At most ``limit`` figures, and how many were left out.
    """
    text = re.sub(r"(?<=\d)\s+(?:and|&|と|und|et|y)\s+(?=[$€£-]?\d)", ", ", text)
    if re.search(r"\d, ", text) or len(re.findall(r"\d,\d", text)) == 1:
        text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d),(?=\d)", ", ", text)
    data: list[Datum] = []
    for part in re.split(r"[,;、，\n/|]|\s(?:and|&|vs\.?|versus)\s|(?<=\d)\s*と", text):
        figures = list(_FIGURE.finditer(part))
        figures = [m for m in figures if not _glued(part, m)]
        if not figures:
            continue
        years = [m for m in figures if re.fullmatch(r"(?:19|20)\d\d", m["number"]) and not m["sign"] and not m["unit"]]
        if len(figures) == 2 and years and years[0] is figures[0]:
            figures = figures[1:]
        bare = not re.search(r"[^\W\d_]", _DATA_STOP.sub(" ", part))
        chosen = figures if bare else figures[-1:]
        label = _DATA_STOP.sub(" ", part[: chosen[0].start()] + " " + part[chosen[-1].end() :])
        label = re.sub(r"\s+", " ", label).strip(" :=-–—.!?*•")
        if re.search(r"[:：]", label):
            label = re.split(r"[:：]", label)[-1].strip()
        for figure in chosen:
            value = float(figure["number"].replace(",", "")) * (-1 if figure["sign"] else 1)
            unit = "%" if figure["unit"] == "percent" else figure["unit"] or figure["lead"] or ""
            data.append(Datum(label=label[:24] if len(chosen) == 1 else "", value=value, unit=unit))
    return tuple(data[:limit]), max(0, len(data) - limit)


def _glued(part: str, figure: re.Match[str]) -> bool:
    """Return whether the digits belong to a word ("Q1", "3D", "H2O") and are no figure."""
    before = part[figure.start("number") - 1 : figure.start("number")]
    after = part[figure.end("number") : figure.end("number") + 1]
    return bool(re.fullmatch(r"[A-Za-z_#]", before) or (re.fullmatch(r"[A-Za-z]", after) and not figure["unit"]))


_STEP_LINE = re.compile(
    r"^\s*(?:\d{1,2}[.):]|[-*•・]|step\s+\d+[:.)]?|第[一二三四五六七八九十\d]+[、:.]?)\s*(.+)$", re.I | re.M
)
_STEP_INLINE = re.compile(r"(?:^|\s)\(?\d{1,2}[.)]\s+([^\d(][^()]*?)(?=(?:[,;]?\s+\(?\d{1,2}[.)]\s)|$)")
_STEP_COLON = re.compile(r"[:：]\s*([^:：]{3,400})$")
_STEP_COUNT = re.compile(
    rf"\b({_NUM})\s+(?:\w+\s+){{0,2}}?(?:steps?|phases?|stages?|items?|milestones?|points?|things|tips|reasons|parts)\b",
    re.I,
)
_STEP_COUNT_CJK = re.compile(rf"({_CJK_NUM})\s*(?:つの|個の|段階|ステップ|步)")


def find_steps(text: str, *, limit: int = 8) -> tuple[tuple[str, ...], int | None, int]:
    """Read the steps of a list.

    Returns:
        The named steps (empty where none are named), how many were asked for (None where not said), and how many
        named steps were left out.
    """
    counted = _STEP_COUNT.search(text) or _STEP_COUNT_CJK.search(text)
    count = number_of(counted.group(1)) if counted else None
    lines = [match.strip(" .;,") for match in _STEP_LINE.findall(text)]
    if len(lines) < 2:
        lines = [match.strip(" .;,") for match in _STEP_INLINE.findall(text)]
    if len(lines) < 2:
        colon = _STEP_COLON.search(text.strip().rstrip("."))
        if colon:
            parts = re.split(r"[,;、，→>]|->|\s(?:and|then|und|et)\s", colon.group(1))
            lines = [part for part in (re.sub(r"^(?:and|then)\s+", "", p.strip(" .")) for p in parts) if part]
    if len(lines) < 2:
        lines = []
    steps = tuple(line[:1].upper() + line[1:48] for line in lines)
    return steps[:limit], None if count is None else int(count), max(0, len(steps) - limit)


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
