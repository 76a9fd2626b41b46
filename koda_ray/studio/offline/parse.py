"""From a person's words to a `Brief`: pure, total, and the same for the same words.

Every string gives a brief. What the vocabulary does not cover becomes kinetic typography of the prompt's own words, and
what had to be clamped or assumed is written into the brief's notes, so that the plan can say it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from koda_ray.studio.offline import extract, lexicon
from koda_ray.studio.offline.brief import (
    FPS,
    SIZES,
    Brief,
    Heard,
    Style,
    Subject,
)
from koda_ray.studio.offline.conflict import conflicts_in_prompt, without_negated
from koda_ray.studio.offline.count import natural_seconds
from koda_ray.studio.offline.find import (
    CROSSING,
    HERO_MOTIONS,
    LONG_PROMPT_CHARS,
    find_aspect,
    find_colours,
    find_count,
    find_direction,
    find_hero,
    find_impossible,
    find_scale,
    find_speed,
    find_style,
    language_of,
    normalise,
    only_directs,
    own_words,
    seed_of,
)
from koda_ray.studio.offline.summary import phrases_of
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

__all__ = ["parse_prompt", "settle_duration"]

_SUBJECT_WINDOW_CHARS = 240

_DEFAULT_STYLE: dict[Subject, Style] = {
    "ball": "playful",
    "shapes": "playful",
    "countdown": "playful",
    "hero": "playful",
    "title": "cinematic",
    "orbit": "cinematic",
    "particles": "cinematic",
}
_STYLE_BY_SUBJECT: dict[Subject, Style] = {
    "bars": "smooth",
    "line": "smooth",
    "pie": "smooth",
    "steps": "smooth",
    "card": "smooth",
    "countdown": "playful",
    "orbit": "cinematic",
    "hero": "playful",
}
_STYLE_BY_PARTICLES: dict[str, Style] = {
    "fireworks": "cinematic",
    "confetti": "playful",
    "snow": "smooth",
    "rain": "cinematic",
    "stars": "cinematic",
    "bubbles": "playful",
    "embers": "cinematic",
    "fireflies": "cinematic",
    "petals": "smooth",
}
_DURATION_S: dict[Subject, float] = {
    "ball": 5.0,
    "shapes": 5.0,
    "particles": 6.0,
    "logo": 5.0,
    "title": 6.0,
    "bars": 6.0,
    "line": 6.0,
    "pie": 6.0,
    "card": 6.0,
    "orbit": 8.0,
    "hero": 5.0,
    "image": 6.0,
}


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
    hero = find_hero(text)
    particle = [kind for _, _, kind in lexicon.find_all(text, lexicon.PARTICLES)]
    if has["ball"] and not re.search(r"\b(?:soccer|tennis|basket|foot)\s?ball\b", text, re.I):
        return "ball"
    if particle and particle[0] not in {"dust"} and not (quotes and has["title"]):
        if hero and CROSSING.search(text) and hero[0] not in {"⭐", "🌸"}:
            return "hero"
        return "title" if quotes else "particles"
    if quotes and (has["title"] or not hero):
        return "title"
    if hero and (CROSSING.search(text) or any(e.search(text) for e, _ in HERO_MOTIONS) or len(text.split()) <= 8):
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


def settle_duration(brief: Brief) -> Brief:
    """Give a brief whose duration nobody stated the one its subject needs."""
    if brief.duration_heard != "unknown":
        return brief
    if brief.subject == "steps":
        seconds = 1.0 + 1.6 * (2 + max(1, len(brief.steps)))
    elif brief.subject == "countdown":
        seconds = natural_seconds(brief)
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
    long = len(text) > LONG_PROMPT_CHARS
    head = text[:_SUBJECT_WINDOW_CHARS] if long else text
    picture = next((a["path"] for a in assets if a.get("mediaType", "").startswith("image/")), None)
    quotes, bare = extract.find_quotes(head)
    aspect, bare = find_aspect(bare)
    counting = lexicon.contains(bare, lexicon.SUBJECT_WORDS["countdown"])
    length = extract.find_length(extract.hide_count(bare) if counting else bare)
    if counting and length is None and extract.find_length(bare):
        notes.append("The seconds are read as where the count starts; its end takes two more.")
    if length and not counting:
        bare = length.rest
    price, unpriced = extract.find_price(bare)
    data, dropped = extract.find_data(_only_data(bare))
    subject = _find_subject(
        bare,
        quotes,
        picture=picture is not None and not re.search(r"\b(?:chart|graph|countdown)\b", bare, re.I),
        figures=len(data),
    )
    if long and subject not in ("bars", "line", "pie", "steps"):
        subject = "image" if picture else "kinetic"
    wanted = without_negated(bare)
    style, heard = find_style(wanted if not long else head)
    colours, background = find_colours(wanted)
    conflicts = () if long else conflicts_in_prompt(bare)
    cancelled = {conflict.cancels for conflict in conflicts}
    notes += [conflict.reading for conflict in conflicts]
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
        speed=1.0 if "speed" in cancelled else find_speed(wanted) or 1.0,
        scale=1.0 if "size" in cancelled else find_scale(wanted),
        particles=bool(found) and subject not in ("particles",),
        particle_kind=found[0] if found else "dust",
        image=_page_path(picture),
        impossible=impossible,
    )
    if (
        subject == "kinetic"
        and re.search(r"\w", text)
        and not set(re.findall(r"\w+", own_words(text).casefold())) - _GENERIC
    ):
        subject, quotes = "title", ("Coming soon",)
        notes.append("The prompt names no subject: it shows a title. Say what it should be about.")
        brief = replace(brief, subject=subject)
    count, note = find_count(bare, subject)
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
        start, stop, note = extract.find_countdown(bare)
        if note:
            notes.append(note)
        return replace(brief, heading=heading, texts=texts, count_from=start, count_to=stop)
    if subject == "steps":
        steps, count, dropped = extract.find_steps(brief.prompt if len(brief.prompt) < 2000 else bare)
        steps = tuple(step for step in steps if not only_directs(step))
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
        found = extract.find_name(unpriced)
        name = found or heading
        tail = quotes if found else quotes[1:]
        if not name:
            name = "Your brand" if subject == "logo" else "Your product"
            notes.append(f"No name was given: it shows “{name}”. Send yours, as in “for Acme”.")
        beside = lexicon.find_all(bare.replace(name, " "), lexicon.PARTICLES)
        return replace(brief, heading=name, texts=tail, price=price, particles=bool(beside))
    if subject == "title":
        return replace(brief, heading=(heading or _heading_from_words(bare) or "Untitled")[:160], texts=texts)
    if subject == "hero":
        hero = find_hero(bare) or ("⭐", "float")
        return replace(brief, hero=hero[0], hero_motion=hero[1], heading=heading, texts=texts)  # type: ignore[arg-type]
    if subject == "shapes":
        found = [shape for _, _, shape in lexicon.find_all(bare, lexicon.SHAPES)]
        return replace(brief, shapes=tuple(dict.fromkeys(found))[:5], heading=heading, texts=texts)
    if subject == "kinetic":
        words, left_out = phrases_of(own_words(brief.prompt) or brief.prompt)
        if left_out:
            notes.append("The prompt is longer than a video of words can hold: it shows its most telling sentences.")
        return replace(brief, words=words, heading=heading)
    if subject == "image" and brief.image is None:
        notes.append("No picture was uploaded: a drawn one stands in its place. Upload yours to see it move.")
    return replace(brief, heading=heading, texts=texts)


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


def _list_heading(text: str) -> str:
    before = re.split(r"[:：\n]", extract.strip_directives(text))[0]
    before = re.sub(
        r"\b(?:in|with|of)\s+(?:\w+\s+)?(?:steps?|phases?|stages?|items?|points?|milestones?)\b.*$|[,;].*$",
        "",
        before,
        flags=re.I,
    )
    before = re.sub(r"^(?:the|our|my|a|an)\s+", "", before.strip(" .,-"), flags=re.I)
    before = extract.clean_phrase(before)[:48]
    return before[:1].upper() + before[1:]
