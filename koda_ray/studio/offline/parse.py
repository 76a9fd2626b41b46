"""From a person's words to a `Brief`: pure, total, and the same for the same words.

Every string gives a brief. What the vocabulary does not cover becomes kinetic typography of the prompt's own words, and
what had to be clamped or assumed is written into the brief's notes, so that the plan can say it.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace

from koda_ray.studio.offline import extract, lexicon
from koda_ray.studio.offline.brief import (
    FPS,
    SIZES,
    Aspect,
    Brief,
    Direction,
    Heard,
    Impossible,
    Style,
    Subject,
    known_style,
)
from koda_ray.studio.offline.colour import HEX, parse_hex
from koda_ray.studio.offline.summary import phrases_of
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

__all__ = [
    "find_aspect",
    "find_colours",
    "find_direction",
    "find_speed",
    "find_style",
    "language_of",
    "normalise",
    "parse_prompt",
    "seed_of",
    "settle_duration",
]

_LONG_PROMPT_CHARS = 400
_SUBJECT_WINDOW_CHARS = 240

_DEFAULT_STYLE: dict[Subject, Style] = {
    "ball": "playful", "shapes": "playful", "countdown": "playful", "hero": "playful",
    "title": "cinematic", "orbit": "cinematic", "particles": "cinematic",
}  # fmt: skip
_STYLE_BY_SUBJECT: dict[Subject, Style] = {
    "bars": "smooth", "line": "smooth", "pie": "smooth", "steps": "smooth", "card": "smooth",
    "countdown": "playful", "orbit": "cinematic", "hero": "playful",
}  # fmt: skip
_STYLE_BY_PARTICLES: dict[str, Style] = {
    "fireworks": "cinematic", "confetti": "playful", "snow": "smooth", "rain": "cinematic", "stars": "cinematic",
    "bubbles": "playful", "embers": "cinematic", "fireflies": "cinematic", "petals": "smooth",
}  # fmt: skip
_DURATION_S: dict[Subject, float] = {
    "ball": 5.0, "shapes": 5.0, "particles": 6.0, "logo": 5.0, "title": 6.0, "bars": 6.0, "line": 6.0, "pie": 6.0,
    "card": 6.0, "orbit": 8.0, "hero": 5.0, "image": 6.0,
}  # fmt: skip


def normalise(text: str) -> str:
    """Fold full-width forms and odd spaces, keep line breaks; at most 20,000 characters."""
    text = unicodedata.normalize("NFKC", text[:20_000]).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(re.sub(r"[^\S\n]+", " ", line).strip() for line in text.split("\n")).strip()


def seed_of(text: str) -> int:
    """Return a 32-bit seed that depends on every character of the prompt but not on case or spacing."""
    folded = re.sub(r"\s+", " ", normalise(text)).casefold()
    return int.from_bytes(hashlib.sha256(folded.encode("utf-8", "surrogatepass")).digest()[:4], "big")


def language_of(text: str) -> str:
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
    (re.compile(rf"\b(?:vertical|portrait)\s+{_FORMAT}|\b(?:in|as|make it)\s+(?:a\s+)?(?:vertical|portrait)\b", re.I), "9:16"),
    (re.compile(r"\b(?:tik\s?tok|reels?|snapchat|youtube shorts|9\s?[:x]\s?16|1080x1920)\b|\bvertical\s*$", re.I), "9:16"),
    (re.compile(r"\b(?:instagram|insta|ig|facebook)\s+stor(?:y|ies)\b|\bfor (?:my )?stories\b|\bvertical(?:ly)?\b(?=\s*[,.)]|$)", re.I), "9:16"),
    (re.compile(r"縦型|縦長|ティックトック|竖屏|縦動画|リール|ショート動画"), "9:16"),
    (re.compile(r"\b4\s?:\s?5\b|\binstagram feed\b|1080x1350", re.I), "4:5"),
    (re.compile(rf"\bsquare\s+{_FORMAT}|\b(?:in|as|make it|for)\s+(?:a\s+)?square\b(?!\s+\w)|\b1\s?[:x]\s?1\b|\binstagram post\b|1080x1080|,\s*square\s*$|正方形", re.I), "1:1"),
    (re.compile(rf"\b(?:landscape|wide)\s+{_FORMAT}|\bwide\s?screen\b|\byoutube\b|\b16\s?[:x]\s?9\b|1920x1080|\b(?:in|make it)\s+(?:landscape|wide)\b|横長|\blinkedin\b", re.I), "16:9"),
)  # fmt: skip


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


def _find_scale(text: str) -> float:
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
    (re.compile(
        r"\b(?:live[\s-]action|real footage|stock footage|documentary|photo-?realistic (?:video|people|person|human)|"
        r"deep\s?fake|film (?:me|my|a real)|real (?:people|actors?|humans?)|lip[\s-]?sync)\b|実写", re.I), "live_action"),
    (re.compile(r"\b(?:playable|video ?game|interactive|web ?site|mobile app|web app)\b(?!.*\b(?:trailer|ad|promo)\b)", re.I),
     "interactive"),
)  # fmt: skip


def find_impossible(text: str, seconds: float | None) -> Impossible | None:
    """Return why the request cannot be made into an animation here, or None."""
    if seconds is not None and seconds > MAX_DURATION_S:
        return "too_long"
    if len(text) > _LONG_PROMPT_CHARS:
        return None
    for expression, why in _IMPOSSIBLE:
        if expression.search(text):
            return why
    return None


_HERO_MOTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:bounc\w+|jump\w*|hop(?:s|ping)?|leap\w*)\b|弾む|跳ねる|ジャンプ", re.I), "bounce"),
    (re.compile(r"\b(?:spin\w*|rotat\w+|twirl\w*|turn(?:s|ing)? around)\b|回転|回る", re.I), "spin"),
    (
        re.compile(
            r"\b(?:launch\w*|ris(?:es?|ing)|lift\w*|takes? off|ascend\w*|soar\w* up)\b|打ち上げ|昇る|上がる", re.I
        ),
        "rise",
    ),
    (re.compile(r"\b(?:fall(?:s|ing)?|drop(?:s|ping)?|descend\w*)\b|落ちる|降る", re.I), "fall"),
    (re.compile(r"\b(?:float\w*|hover\w*|drift\w*|levitat\w*)\b|浮かぶ|漂う", re.I), "float"),
)
_CROSS = re.compile(
    r"\b(?:cross\w*|across|fl(?:y|ies|ying)|driv(?:e|es|ing)|swim\w*|walk\w*|run(?:s|ning)?|rac(?:e|es|ing)|sail\w*|"
    r"pass(?:es|ing)?(?: by)?|slid\w+|roll\w*|mov(?:e|es|ing)|travel\w*|zoom\w*|chas\w+|ride|rides|riding|crawl\w*|"
    r"gallop\w*|march\w*|parade\w*)\b|横切|飛ぶ|飛んで|走る|泳ぐ|歩く|進む|通り過ぎ",
    re.I,
)


def _find_hero(text: str) -> tuple[str, str] | None:
    """Return (drawing or emoji, motion) where a thing the director can draw is named."""
    heroes = lexicon.find_all(text, lexicon.HEROES)
    if not heroes:
        emoji = re.search(r"[\U0001F300-\U0001FAFF\u2600-\u27BF]\ufe0f?", text)
        if emoji is None or not (_CROSS.search(text) or any(e.search(text) for e, _ in _HERO_MOTIONS)):
            return None
        hero = emoji.group(0)
    else:
        hero = heroes[0][2]
    for expression, motion in _HERO_MOTIONS:
        if expression.search(text):
            return hero, motion
    if hero in {"rocket"} and not _CROSS.search(text):
        return hero, "rise"
    if hero in {"balloon", "hot-air-balloon"} and not _CROSS.search(text):
        return hero, "rise"
    if _CROSS.search(text) or hero in {"paper-plane", "boat"}:
        return hero, "cross"
    return hero, "float"


def _find_subject(text: str, quotes: Sequence[str], *, picture: bool, figures: int) -> Subject:
    """Choose the subject: the most specific word wins, and a plain quoted text is a title."""
    words = lexicon.SUBJECT_WORDS
    has = {key: lexicon.contains(text, phrases) for key, phrases in words.items()}
    if has["bars"]:
        return "bars"
    if has["line"]:
        return "line"
    if has["pie"] and (figures >= 2 or not re.search(r"\b(?:apple|cherry|a) pie\b", text, re.I)):
        return "pie"
    if has["countdown"]:
        return "countdown"
    if has["chart"] and (figures >= 2 or re.search(r"\b(?:chart|graph)s?\b|グラフ|チャート|图表", text, re.I)):
        return "line" if re.search(r"\b(?:trend|over time|stock|price history|推移)\b", text, re.I) else "bars"
    if has["logo"]:
        return "logo"
    if picture:
        return "image"
    if has["card"] and not re.search(r"\b(?:product launch|product roadmap|product team)\b", text, re.I):
        return "card"
    if re.search(r"\btitle\b|タイトル", text, re.I) and quotes:
        return "title"
    if has["steps"]:
        return "steps"
    if has["orbit"]:
        return "orbit"
    hero = _find_hero(text)
    particle = [kind for _, _, kind in lexicon.find_all(text, lexicon.PARTICLES)]
    if has["ball"] and not re.search(r"\b(?:soccer|tennis|basket|foot)\s?ball\b", text, re.I):
        return "ball"
    if particle and particle[0] not in {"dust"} and not (quotes and has["title"]):
        if hero and _CROSS.search(text) and hero[0] not in {"⭐", "🌸"}:
            return "hero"
        return "title" if quotes else "particles"
    if quotes and (has["title"] or not hero):
        return "title"
    if hero and (_CROSS.search(text) or any(e.search(text) for e, _ in _HERO_MOTIONS) or len(text.split()) <= 8):
        return "hero"
    if lexicon.find_all(text, lexicon.SHAPES) or has["shapes"]:
        return "shapes"
    if particle:
        return "particles"
    if has["title"] and re.search(r"\b(?:title|headline|slogan|text|lettering)\b", text, re.I):
        return "title"
    if has["image"] and re.search(
        r"\b(?:animate|animated|my|this|the|an?)\s+(?:\w+\s+)?(?:image|photo|picture)", text, re.I
    ):
        return "image"
    return "kinetic"


_SAID = re.compile(
    r"\b(?:title[d]?|saying|says?|said|reads?|reading|text|headline|slogan|words?|lettering)\b\s*(?:card|sequence)?\s*"
    r"(?:saying|of|for|that (?:says|reads)|is|:|-)?\s*[:\-]?\s*(.+)$",
    re.I,
)
_TRAILING = re.compile(
    r"\s*[,;.]?\s*\b(?:in|with|on|for|and|over|using|that|which|against)\s+(?:an?\s+|the\s+)?(?:\w+\s+){0,3}?"
    r"(?:particles?|style|background|backdrop|colou?rs?|font|letters?|animation|seconds?|confetti|snow|glow|dust)\b.*$|"
    r"\s*,\s*(?:playful|smooth|cinematic|minimal|bouncy|clean|dramatic|elegant|blue|red|green|white|black)\b.*$",
    re.I,
)


def _heading_from_words(text: str) -> str:
    said = _SAID.search(text)
    words = said.group(1) if said else extract.strip_directives(text)
    words = _TRAILING.sub("", words).strip(" .,;:-")
    return extract.clean_phrase(words)[:90]


def _topic(text: str) -> str:
    """Return what a chart or list is about: "bar chart of monthly sales: ..." gives "Monthly sales"."""
    match = re.search(
        r"\b(?:chart|graph|roadmap|list|timeline|agenda|steps|histogram|breakdown|checklist)\b\s*"
        r"(?:of|about|for|showing|with|comparing|on|:)?\s*(?:the|our|my)?\s*([^\d:;,.\n]{3,60})",
        text,
        re.I,
    )
    if not match:
        return ""
    words = re.split(
        r"\b(?:in|growing|grow|with|from|rising|as|over|using|and|by|animated|smooth|playful|cinematic|of|for|showing|"
        r"steps?|going|that|where|which|values?|data|figures?|numbers?)\b|[(「\"“'‘=–—-]",
        match.group(1),
        maxsplit=1,
        flags=re.I,
    )[0].strip(" :,-.")
    words = re.sub(rf"^(?:{'|'.join(c for c in lexicon.COLOURS if c.isascii())})$", "", words, flags=re.I)
    return words[:1].upper() + words[1:] if len(words) > 2 else ""


_SAMPLES: dict[str, tuple[float, ...]] = {
    "bars": (24, 38, 52, 47, 68, 86),
    "line": (18, 26, 22, 39, 44, 61, 58, 79),
    "pie": (42, 27, 18, 13),
}
_LABELS: dict[str, tuple[str, ...]] = {
    "bars": ("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    "line": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug"),
    "pie": ("Search", "Direct", "Social", "Other"),
}
_STEP_NAMES = ("Discover", "Plan", "Build", "Test", "Launch", "Learn", "Grow", "Repeat")
_STEPS_OF: dict[int, tuple[str, ...]] = {
    1: ("Launch",),
    2: ("Plan", "Launch"),
    3: ("Plan", "Build", "Launch"),
    4: ("Discover", "Plan", "Build", "Launch"),
    5: ("Discover", "Plan", "Build", "Test", "Launch"),
}


def _counted(text: str, brief_subject: Subject) -> tuple[int | None, str | None]:
    """Return how many things are asked for, and a note where the figure had to be changed."""
    nouns = {
        "ball": r"balls?|spheres?",
        "shapes": "|".join(s for s in lexicon.SHAPES if s.isascii()) + "|shapes?",
        "orbit": r"planets?|moons?|satellites?|electrons?|things?|dots?|balls?|spheres?",
        "hero": "|".join(sorted((h for h in lexicon.HEROES if h.isascii()), key=len, reverse=True)) + r"|\w+s",
        "particles": r"fireworks?|stars?|bubbles?|particles?|fireflies|petals?|snowflakes?|leaves",
    }.get(brief_subject)
    if nouns is None:
        return None, None
    number = r"(-?\d+|" + "|".join(w for w in lexicon.NUMBERS if w.isascii()) + r")"
    match = re.search(rf"(?<![\w.]){number}\s+(?:[a-z-]+\s+){{0,2}}?(?:{nouns})\b", text, re.I)
    cjk = re.search(r"(\d+|[一二三四五六七八九十]+)\s*(?:つ|個|匹|羽|台|本|枚|発|个)", text)
    if match is None and cjk is None:
        return None, None
    raw = (match or cjk).group(1)  # type: ignore[union-attr]
    value = extract.number_of(raw.lstrip("-"))
    if value is None or value != int(value) or value < 1 or raw.startswith("-"):
        return None, f"“{raw}” is not a number of things that can be shown; one is shown instead."
    most = 400 if brief_subject == "particles" else 9
    if value > most:
        return most, f"{int(value)} is more than the picture holds legibly; {most} are shown."
    return int(value), None


def settle_duration(brief: Brief) -> Brief:
    """Give a brief whose duration nobody stated the one its subject needs."""
    if brief.duration_heard != "unknown":
        return brief
    if brief.subject == "steps":
        seconds = 1.0 + 1.6 * (2 + max(1, len(brief.steps)))
    elif brief.subject == "countdown":
        numbers = brief.count_from - brief.count_to + 1
        seconds = numbers + 2.0 if numbers <= 60 else 10.0
    elif brief.subject == "kinetic":
        letters = sum(len(phrase) for phrase in brief.words)
        seconds = 2.0 + 1.15 * len(brief.words) + letters / 60
        seconds = max(5.0, min(24.0, seconds))
    else:
        seconds = _DURATION_S[brief.subject]
    return replace(brief, duration_s=round(seconds * 2) / 2)


def parse_prompt(prompt: str, *, assets: Sequence[Mapping[str, str]] = ()) -> Brief:
    """Read a prompt alone.

    Args:
        prompt: Any text; beyond 20,000 characters it is cut.
        assets: Uploaded files as ``{"id", "name", "mediaType", "path"}``.

    Returns:
        A brief whose notes say what was clamped or assumed.
    """
    text = normalise(prompt)
    notes: list[str] = []
    long = len(text) > _LONG_PROMPT_CHARS
    head = text[:_SUBJECT_WINDOW_CHARS] if long else text
    picture = next((a["path"] for a in assets if a.get("mediaType", "").startswith("image/")), None)
    quotes, bare = extract.find_quotes(head)
    aspect, bare = find_aspect(bare)
    counting = lexicon.contains(bare, lexicon.SUBJECT_WORDS["countdown"])
    length = extract.find_length(_hide_count(bare) if counting else bare)
    if length:
        bare = _hide_count(bare) and length.rest if not counting else bare
    price, unpriced = extract.find_price(bare)
    data, dropped = extract.find_data(_only_data(bare))
    subject = _find_subject(
        bare, quotes, picture=picture is not None and not re.search(r"\b(?:chart|graph|countdown)\b", bare, re.I),
        figures=len(data),
    )  # fmt: skip
    if long and subject not in ("bars", "line", "pie", "steps"):
        subject = "image" if picture else "kinetic"
    style, heard = find_style(bare if not long else head)
    colours, background = find_colours(bare)
    found = [kind for _, _, kind in lexicon.find_all(bare, lexicon.PARTICLES)]
    seconds, duration_heard = _length(length, notes)
    impossible = find_impossible(bare, length.seconds if length else None)
    width, height = SIZES[aspect or "16:9"]
    language = language_of(text)
    brief = Brief(
        prompt=text,
        subject=subject,
        seed=seed_of(prompt),
        language=language if language in ("ja", "zh", "ko") else "en",  # type: ignore[arg-type]
        duration_s=seconds,
        duration_heard=duration_heard,
        width=width,
        height=height,
        fps=FPS,
        accent=colours[0] if colours else None,
        colours=colours,
        background=background,
        direction=find_direction(bare),
        speed=find_speed(bare) or 1.0,
        scale=_find_scale(bare),
        particles=bool(found) and subject not in ("particles",),
        particle_kind=found[0] if found else "dust",
        image=_page_path(picture),
        impossible=impossible,
    )
    if (
        subject == "kinetic"
        and re.search(r"\w", text)
        and not set(re.findall(r"\w+", _own_words(text).casefold())) - _GENERIC
    ):
        subject, quotes = "title", ("Coming soon",)
        notes.append("The prompt names no subject: it shows a title. Say what it should be about.")
        brief = replace(brief, subject=subject)
    count, note = _counted(bare, subject)
    if note:
        notes.append(note)
    brief = replace(brief, count=count)
    brief = _fill(brief, bare=bare, unpriced=unpriced, quotes=quotes, price=price, notes=notes)
    if subject in ("bars", "line", "pie"):
        brief = _with_data(brief, data, dropped, quotes, bare, notes)
    brief = _with_style(brief, style, heard, specific=long or len(text.split()) > 24)
    return settle_duration(replace(brief, notes=tuple(notes)))


def _length(length: extract.Length | None, notes: list[str]) -> tuple[float, Heard]:
    if length is None:
        return 5.0, "unknown"
    if length.absurd:
        notes.append("A video cannot be zero or fewer seconds long; a length that suits the subject is used.")
        return 5.0, "unknown"
    if length.seconds > MAX_DURATION_S:
        return MAX_DURATION_S, "explicit"
    if length.seconds < MIN_SCENE_S:
        notes.append(f"{length.seconds:g} s is too short for one scene; {MIN_SCENE_S:g} s is the least.")
        return MIN_SCENE_S, "explicit"
    return round(length.seconds * 2) / 2 if length.seconds > 10 else round(length.seconds, 1), "explicit"


def _page_path(path: str | None) -> str | None:
    """Turn ``public/assets/x.jpg`` into the address the page loads it from."""
    return None if path is None else "/" + path.removeprefix("public/").lstrip("/")


def _hide_count(text: str) -> str:
    """Hide "from 5 seconds" of a count down, which is where it starts and not how long it lasts."""
    return re.sub(r"\b(?:from|at)\s+\d+\s*(?:seconds?|secs?|s)?\b|\b\d+[\s-]?second(?=\s+count)", " ", text, flags=re.I)


def _only_data(text: str) -> str:
    """Drop figures that are not data: counts of things, frame rates, sizes."""
    return re.sub(r"\b\d+\s?(?:fps|px|k resolution|p)\b|\b\d{3,4}x\d{3,4}\b|\b(?:4k|8k|hd)\b", " ", text, flags=re.I)


def _with_style(brief: Brief, style: Style | None, heard: Heard, *, specific: bool) -> Brief:
    fallback = _DEFAULT_STYLE.get(brief.subject, "smooth")
    if style is not None:
        return replace(brief, style=style, style_heard=heard)
    if brief.subject == "particles" and brief.particle_kind in _STYLE_BY_PARTICLES:
        return replace(brief, style=_STYLE_BY_PARTICLES[brief.particle_kind], style_heard="inferred")
    if brief.subject in _STYLE_BY_SUBJECT:
        return replace(brief, style=_STYLE_BY_SUBJECT[brief.subject], style_heard="inferred")
    return replace(brief, style=fallback, style_heard="inferred" if specific else "unknown")


def _with_data(
    brief: Brief,
    data: tuple[extract.Datum, ...],
    dropped: int,
    quotes: Sequence[str],
    bare: str,
    notes: list[str],
) -> Brief:
    if dropped:
        notes.append(f"{dropped} further figures were left out: {len(data)} are as many as stay legible.")
    if brief.subject == "pie" and any(d.value < 0 for d in data):
        notes.append("A pie chart cannot show negative values; they are left out.")
        data = tuple(d for d in data if d.value > 0)
    absurd = [d for d in data if not math.isfinite(d.value) or abs(d.value) >= 1e12]
    if absurd:
        notes.append("Figures of a trillion and more are left out of the chart.")
        data = tuple(d for d in data if d not in absurd)
    if all(d.value == 0 for d in data):
        data = ()
    sample = not data
    if sample:
        names = quotes if len(quotes) > 1 else _LABELS[brief.subject]
        values = _SAMPLES[brief.subject]
        data = tuple(extract.Datum(label=label, value=value) for label, value in zip(names, values, strict=False))
        notes.append("No figures were given: the chart shows sample values. Send yours, as in “12, 30, 45, 70”.")
    elif len(quotes) >= len(data) and not any(d.label for d in data):
        data = tuple(replace(d, label=label) for d, label in zip(data, quotes, strict=False))
        quotes = quotes[len(data) :]
    heading = quotes[0] if quotes and not sample else _topic(bare)
    if any(heading.casefold() == d.label.casefold() for d in data):
        heading = ""
    return replace(brief, data=data, sample_data=sample, heading=heading)


def _fill(brief: Brief, *, bare: str, unpriced: str, quotes: tuple[str, ...], price: str, notes: list[str]) -> Brief:
    """Give the brief the words and figures that its subject shows."""
    heading, texts = (quotes[0] if quotes else ""), quotes[1:]
    subject = brief.subject
    if subject == "countdown":
        start, stop = extract.find_countdown(bare)
        return replace(brief, heading=heading, texts=texts, count_from=start, count_to=stop)
    if subject == "steps":
        steps, count, dropped = extract.find_steps(brief.prompt if len(brief.prompt) < 2000 else bare)
        steps = tuple(step for step in steps if not _only_directs(step))
        if not steps and len(quotes) > 1:
            steps, heading = quotes[:8], ""
        if dropped:
            notes.append(f"{dropped} further steps were left out: {len(steps)} are as many as stay legible.")
        quarterly = bool(re.search(r"\bquarter(?:ly|s)?\b|四半期", bare, re.I))
        kickers: tuple[str, ...] = ()
        if not steps:
            number = max(1, min(8, count or (4 if quarterly else 3)))
            steps = _STEPS_OF.get(number, _STEP_NAMES[:number])
            notes.append(
                "The steps were not named: they carry common names. Send yours, as in “steps: Plan, Build, Launch”."
            )
        if quarterly and len(steps) <= 4:
            kickers = tuple(f"Q{i + 1}" for i in range(len(steps)))
        return replace(brief, steps=steps, step_kickers=kickers, heading=heading or _list_heading(bare), texts=texts)
    if subject in ("logo", "card"):
        name = heading or extract.find_name(unpriced)
        tail = quotes[1:] if quotes else ()
        if not name:
            name = "Your brand" if subject == "logo" else "Your product"
            notes.append(f"No name was given: it shows “{name}”. Send yours, as in “for Acme”.")
        beside = lexicon.find_all(bare.replace(name, " "), lexicon.PARTICLES)
        return replace(brief, heading=name, texts=tail, price=price, particles=bool(beside))
    if subject == "title":
        return replace(brief, heading=(heading or _heading_from_words(bare) or "Untitled")[:160], texts=texts)
    if subject == "hero":
        hero = _find_hero(bare) or ("⭐", "float")
        return replace(brief, hero=hero[0], hero_motion=hero[1], heading=heading, texts=texts)  # type: ignore[arg-type]
    if subject == "shapes":
        found = [shape for _, _, shape in lexicon.find_all(bare, lexicon.SHAPES)]
        return replace(brief, shapes=tuple(dict.fromkeys(found))[:5], heading=heading, texts=texts)
    if subject == "kinetic":
        words, left_out = phrases_of(_own_words(brief.prompt) or brief.prompt)
        if left_out:
            notes.append("The prompt is longer than a video of words can hold: it shows its most telling sentences.")
        return replace(brief, words=words, heading=heading)
    if subject == "image" and brief.image is None:
        notes.append("No picture was uploaded: a drawn one stands in its place. Upload yours to see it move.")
    return replace(brief, heading=heading, texts=texts)


_DIRECTIVE_WORD = re.compile(
    r"^(?:in|an?|the|with|and|for|please|very|style|styled|look|feel|video|animation|colou?rs?|background|on|at|fps|hd|4k|"
    r"long|seconds?|letters|text|font)$",
    re.I,
)


def _only_directs(part: str) -> bool:
    """Return whether a part of the prompt names nothing but a style, a colour or a format."""
    rest = part.strip(" ,、;.!?。！？\n").casefold()
    if not rest:
        return True
    for phrase in sorted((w for w in _DIRECTING if w in rest), key=len, reverse=True):
        rest = lexicon.pattern(phrase).sub(" ", rest)
    words = [w for w in re.split(r"[^\w]+", rest) if w]
    return all(_DIRECTIVE_WORD.match(w) or w in ("に", "で", "な") for w in words) and rest != part.strip().casefold()


_DIRECTING = {w for words in lexicon.STYLE_WORDS.values() for w in words} | set(lexicon.COLOURS)


def _own_words(text: str) -> str:
    """Return the prompt without what only directs: its length, its format, a style or colours named by themselves."""
    if len(text) > _LONG_PROMPT_CHARS:
        return text
    length = extract.find_length(text)
    _, text = find_aspect(length.rest if length else text)
    parts = re.split(r"(?<=[,、;.!?。！？\n])", text)
    return "".join(part for part in parts if not _only_directs(part)).strip(" ,、;")


_GENERIC = frozenset(
    "a an the film movie video clip animation feature something anything it full length make create long".split()
)


def _list_heading(text: str) -> str:
    before = re.split(r"[:：\n]", extract.strip_directives(text))[0]
    before = re.sub(
        r"\b(?:in|with|of)\s+(?:\w+\s+)?(?:steps?|phases?|stages?|items?|points?|milestones?)\b.*$|[,;].*$", "", before,
        flags=re.I,
    )  # fmt: skip
    before = re.sub(r"^(?:the|our|my|a|an)\s+", "", before.strip(" .,-"), flags=re.I)
    before = extract.clean_phrase(before)[:48]
    return before[:1].upper() + before[1:]
