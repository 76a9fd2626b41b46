"""Change requests: functions from a brief and a sentence to another brief, and words for what was done.

A request that no rule knows is never dropped in silence: the picture is composed anew, which is the nearest thing to
"something else", and the director says what it does understand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from koda_ray.studio.offline import extract, lexicon
from koda_ray.studio.offline.brief import SIZES, Aspect, Brief, known_style
from koda_ray.studio.offline.conflict import conflicts_in_change
from koda_ray.studio.offline.find import find_aspect, find_colours, find_direction, find_style, normalise
from koda_ray.studio.offline.subject import subject_of
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

__all__ = ["ANSWERS", "apply_answer", "apply_feedback", "apply_options"]

_Change = tuple[Brief, str] | None

_NEGATED = re.compile(r"\b(?:no|without|remove|drop|delete|lose|less|fewer|hide|get rid of|turn off)\b|なし|消し", re.I)
_MULTIPLE = {"twice": 2.0, "double": 2.0, "doubled": 2.0, "half": 0.5, "halve": 0.5, "triple": 3.0, "thrice": 3.0}
_FACTOR = (
    r"(?:(?P<word>twice|doubled?|halve|half|thrice|triple)|(?P<num>\d+(?:\.\d+)?)\s?(?:x\b|times\b)|(?P<pct>\d+)\s?%)"
)
_A_BIT = re.compile(r"\b(?:a bit|a little|slightly|somewhat|a touch|a tad)\b|少し|ちょっと", re.I)
_MUCH = re.compile(r"\b(?:much|way|a lot|far|very|really|even)\b|もっと|ずっと", re.I)


def _factor(text: str, subject: str) -> float | None:
    match = re.search(rf"{_FACTOR}\s*(?:as\s+|the\s+|more\s+)?(?:{subject})", text, re.I)
    if match is None:
        return None
    if match["word"]:
        return _MULTIPLE[match["word"].lower()]
    if match["num"]:
        return max(0.05, min(20.0, float(match["num"])))
    return 1 + min(400, float(match["pct"])) / 100


def _amount(text: str, usual: float) -> float:
    """Return how strong a change is: a bit, usual, or much, as a factor above 1."""
    if _A_BIT.search(text):
        return 1 + (usual - 1) * 0.5
    if _MUCH.search(text):
        return 1 + (usual - 1) * 1.7
    return usual


def _speed(brief: Brief, text: str) -> _Change:
    factor = _factor(text, r"fast|quick|speed")
    if factor is None:
        slow = _factor(text, r"slow")
        if slow is not None:
            factor = 1 / slow if slow >= 1 else slow
    if factor is None:
        if re.search(
            r"\b(?:fast|faster|quick|quicker|speed (?:it )?up|snappier|hurry|too slow)\b|速く|早く", text, re.I
        ):
            factor = _amount(text, 1.4)
        elif re.search(r"\b(?:slow|slower|slow (?:it )?down|too fast|calmer)\b|遅く|ゆっくり", text, re.I):
            factor = 1 / _amount(text, 1.4)
    if factor is None:
        return None
    speed = max(0.1, min(8.0, brief.speed * factor))
    return replace(brief, speed=speed), f"motion {factor:.3g} times as fast"


def _duration(brief: Brief, text: str) -> _Change:
    length = extract.find_length(subject_of(brief).without_own_seconds(text))
    seconds: float | None = None
    if length and not length.absurd:
        if length.seconds > MAX_DURATION_S:
            return None  # said to the person as what cannot be done; the length stays
        seconds = length.seconds
        delta = re.search(r"\b(?P<more>longer|more|extra|add)\b|\b(?P<less>shorter|less|cut|trim|remove)\b", text, re.I)
        if delta and re.search(r"\b(?:by|seconds? (?:longer|shorter|more|less)|extra|add|cut|trim)\b", text, re.I):
            seconds = brief.duration_s + (seconds if delta["more"] else -seconds)
    if seconds is None:
        factor = _factor(text, r"long|length|duration")
        if factor is None and re.search(r"\b(?:longer|extend|lengthen)\b|長く", text, re.I):
            factor = _amount(text, 1.5)
        if factor is None and re.search(r"\b(?:shorter|shorten|too long)\b|短く", text, re.I):
            factor = 1 / _amount(text, 1.5)
        if factor is None:
            return None
        seconds = brief.duration_s * factor
    seconds = round(max(MIN_SCENE_S, min(MAX_DURATION_S, seconds)), 1)
    return replace(brief, duration_s=seconds, duration_heard="explicit"), f"length {seconds:g} s"


_TEXT_PART = re.compile(
    r"\b(?:text|title|letters?|words?|font|caption|headline|name|numbers?|digits?|label\w*)\b|文字", re.I
)


def _colour(brief: Brief, text: str) -> _Change:
    colours, background = find_colours(text)
    if not colours and background is None:
        return None
    said: list[str] = []
    if background is not None:
        brief, said = replace(brief, background=background), ["background recoloured"]
    if colours:
        lettered = subject_of(brief).lettered
        if _TEXT_PART.search(text) and not lettered:
            brief = replace(brief, repaint=(*brief.repaint, ("ink", colours[0])))
            said.append("text recoloured")
        else:
            brief = replace(brief, accent=colours[0], colours=colours)
            if lettered:
                brief = replace(brief, repaint=(*brief.repaint, ("ink", colours[0])))
            said.append("recoloured")
    return brief, " and ".join(said)


def _bounce(brief: Brief, text: str) -> _Change:
    words = r"\b(?:bounc\w*|springy|springier|elastic\w*|overshoot|higher|squash\w*)\b|弾|跳ね"
    if not re.search(words, text, re.I):
        return None
    if re.search(r"\b(?:less|lower|no|without|reduce|tone down|not so)\b|控えめ", text, re.I):
        factor = 1 / _amount(text, 1.5)
    else:
        factor = _factor(text, r"bounc\w*|high\w*") or _amount(text, 1.4)
    bounce = max(0.2, min(2.5, brief.bounce * factor))
    return replace(brief, bounce=bounce), ("more" if factor > 1 else "less") + " bounce"


def _size(brief: Brief, text: str) -> _Change:
    factor = _factor(text, r"big|large|size")
    if factor is None and re.search(r"\b(?:bigger|larger|big|large|huge|enlarge|too small)\b|大きく", text, re.I):
        factor = _amount(text, 1.3)
    if factor is None and re.search(r"\b(?:smaller|small|tiny|shrink|too big|too large)\b|小さく", text, re.I):
        factor = 1 / _amount(text, 1.3)
    if factor is None:
        return None
    scale = max(0.4, min(1.9, brief.scale * factor))
    return replace(brief, scale=scale), ("bigger" if factor > 1 else "smaller")


def _count(brief: Brief, text: str) -> _Change:
    counted = subject_of(brief).counted
    if counted is None:
        return None
    nouns = counted.again
    number = r"(\d+|" + "|".join(w for w in lexicon.NUMBERS if w.isascii() and w not in ("half", "quarter")) + r"|a|an)"
    more = re.search(
        rf"\b(?:add\s+(?:another|{number}\s+more|{number})|{number}\s+more|another)\s+(?:{nouns})\b", text, re.I
    )
    match = re.search(rf"\b(?:only\s+|just\s+|with\s+)?{number}\s+(?:\w+\s+)?(?:{nouns})\b", text, re.I)
    now = brief.count or 1
    if more:
        word = next((g for g in more.groups() if g), "one")
        count = now + int(extract.number_of("1" if word in ("a", "an") else word) or 1)
    elif match and not re.search(r"\d+(?:x| times)", match.group(0)):
        count = int(extract.number_of("1" if match.group(1).lower() in ("a", "an") else match.group(1)) or now)
        if match.group(1).lower() in ("a", "an"):
            return None
    else:
        return None
    count = max(1, min(counted.most, count))
    return replace(brief, count=count), f"{count} of them"


_SAY = re.compile(
    r"\b(?:say|says|read|reads|write|change (?:the )?(?:text|title|name|headline|caption) to|"
    r"(?:text|title|name|headline|caption) (?:should (?:be|say)|to|is)|rename (?:it )?to|call it)"
    r"\s*:?\s+(.+?)(?:\s+instead)?[.!]?$",
    re.I,
)


def _text(brief: Brief, text: str) -> _Change:
    quotes, _ = extract.find_quotes(text)
    words = quotes[-1] if quotes else ""
    if not words:
        said = _SAY.search(text)
        words = said.group(1).strip() if said else ""
    if not words:
        return None
    words = extract.clean_phrase(words)[:160]
    if not words:
        return None
    aside = bool(re.search(r"\b(?:subtitle|tagline|caption|slogan|below)\b", text, re.I))
    return subject_of(brief).reworded(brief, words, aside=aside)


def _style(brief: Brief, text: str) -> _Change:
    if re.search(r"\bsmoother\b|\bsofter\b", text, re.I):
        return replace(brief, easing="smooth"), "softer easing curves"
    style, heard = find_style(text)
    more = re.search(r"\bmore (playful|smooth|minimal|cinematic|dramatic|fun)\b", text, re.I)
    if style is None or heard != "explicit":
        return None
    if style == brief.style and not more:
        return None
    return replace(brief, style=style, style_heard="explicit", easing=None), f"{style} style"


def _particles(brief: Brief, text: str) -> _Change:
    found = [kind for _, _, kind in lexicon.find_all(text, lexicon.PARTICLES)]
    if not found:
        return None
    if _NEGATED.search(text):
        return replace(brief, particles=False), "particles removed"
    return subject_of(brief).in_air(brief, found[0])


def _shadow(brief: Brief, text: str) -> _Change:
    if not re.search(r"\bshadows?\b|影", text, re.I):
        return None
    keep = not _NEGATED.search(text)
    return replace(brief, shadow=keep), "shadow " + ("on" if keep else "off")


def _direction(brief: Brief, text: str) -> _Change:
    if re.search(r"\b(?:reverse|opposite|other way|mirror)\b|逆", text, re.I):
        opposite = {"left": "right", "right": "left", "up": "down", "down": "up"}
        direction = opposite[brief.direction or "right"]
    else:
        direction = find_direction(text)
    if direction is None:
        return None
    return replace(brief, direction=direction), f"moving {direction}"  # type: ignore[arg-type]


_FONTS = {
    "serif": r"(?<!sans[ -])\bserif\b|\bclassic font\b|\btimes\b|明朝",
    "sans": r"\bsans(?:[ -]serif)?\b|\bhelvetica\b|\binter\b|ゴシック",
    "mono": r"\bmono(?:space)?d?\b|\btypewriter\b|\bcode font\b",
    "round": r"\brounded (?:font|letters|type)\b|\bround font\b|\bhand-?writ\w+\b|丸ゴシック",
}


def _font(brief: Brief, text: str) -> _Change:
    for name, expression in _FONTS.items():
        if re.search(expression, text, re.I):
            return replace(brief, font=name), f"{name} type"  # type: ignore[arg-type]
    return None


def _aspect(brief: Brief, text: str) -> _Change:
    aspect, _ = find_aspect(text)
    if aspect is None and re.search(r"\b(?:vertical|portrait)\b", text, re.I):
        aspect = "9:16"
    if aspect is None and re.search(r"\bsquare\b", text, re.I) and not subject_of(brief).squares:
        aspect = "1:1"
    if aspect is None:
        return None
    width, height = SIZES[aspect]
    return replace(brief, width=width, height=height), f"format {aspect}"


def _own(brief: Brief, text: str) -> _Change:
    return subject_of(brief).changed(brief, text)


def _tone(brief: Brief, text: str) -> _Change:
    if re.search(r"\b(?:brighter|lighter|more light|too dark)\b|明るく", text, re.I):
        return replace(brief, tone=min(0.2, brief.tone + 0.06)), "brighter"
    if re.search(r"\b(?:darker|too bright|dimmer)\b|暗く", text, re.I):
        return replace(brief, tone=max(-0.2, brief.tone - 0.06)), "darker"
    return None


def _compose(brief: Brief, text: str) -> _Change:
    if not re.search(
        r"\b(?:different|another|new)\s+(?:layout|composition|version|look|colou?rs?|palette|idea|design|one)\b|"
        r"\b(?:try again|variation|something else|surprise me|change (?:the )?colou?rs?)\b|別の",
        text,
        re.I,
    ):
        return None
    return replace(brief, variant=brief.variant + 1), "another composition and palette"


_RULES: tuple[Callable[[Brief, str], _Change], ...] = (
    _text,
    _aspect,
    _duration,
    _speed,
    _own,
    _count,
    _bounce,
    _size,
    _colour,
    _style,
    _particles,
    _shadow,
    _direction,
    _font,
    _tone,
    _compose,
)


_CANCELLED = {"speed": _speed, "size": _size, "tone": _tone}


def apply_feedback(brief: Brief, words: str) -> tuple[Brief, tuple[str, ...]]:
    """Apply one change request.

    Returns:
        The changed brief and, in words, each change made; empty where no rule knew the request, and then the brief
        has another composition.
    """
    text = normalise(words)
    _, unquoted = extract.find_quotes(text)
    said: list[str] = []
    conflicts = conflicts_in_change(unquoted)
    cancelled = {_CANCELLED[conflict.cancels] for conflict in conflicts if conflict.cancels}
    for rule in _RULES:
        if rule in cancelled:
            continue
        change = rule(brief, text if rule in (_text, _own) else unquoted)
        if change is not None:
            brief, what = change
            said.append(what)
    if not said and not cancelled and text:
        return replace(brief, variant=brief.variant + 1), ()
    return brief, tuple(said)


ANSWERS: dict[str, tuple[str, str]] = {
    "playful": ("Playful & bouncy", "Overshoots, squash and stretch, bright colours, quick and springy"),
    "smooth": ("Smooth & minimal", "Slow in, slow out, plenty of space, nothing that is not needed"),
    "cinematic": ("Cinematic & dramatic", "Dark and deep, a slow camera, light, dust and letterbox"),
    "other": ("Something else", "Say it in your own words"),
}
"""The style question's options: id to label and description."""

_ANSWER_LENGTHS = {"length-300": 300.0, "length-60": 60.0, "length-30": 30.0, "length-15": 15.0}


def apply_answer(brief: Brief, words: str) -> Brief:
    """Apply the answer to a question: an option's id, its label, or free text."""
    text = normalise(words)
    folded = text.casefold()
    for key, seconds in _ANSWER_LENGTHS.items():
        if key in folded:
            return replace(brief, duration_s=seconds, duration_heard="explicit", impossible=None)
    brief = replace(brief, impossible=None)
    for key, (label, _) in ANSWERS.items():
        style = known_style(key)
        if style and (folded == key or label.casefold() in folded):
            rest = re.sub(re.escape(label), "", text, flags=re.I).strip(" :,-—")
            brief = replace(brief, style=style, style_heard="explicit")
            return apply_feedback(brief, rest)[0] if rest and folded != key else brief
    if folded in ("words", "drawn", "other", "custom", "retry", "again"):
        return replace(brief, style_heard="inferred" if brief.style_heard == "unknown" else brief.style_heard)
    changed, said = apply_feedback(brief, text)
    if not said:
        changed = brief
    if changed.style_heard == "unknown":
        style, _ = find_style(text)
        changed = replace(changed, style=style or brief.style, style_heard="explicit" if style else "inferred")
    return changed


def apply_options(brief: Brief, options: Mapping[str, object]) -> Brief:
    """Apply the settings that came with the request; values out of range are pulled into it."""
    duration, aspect, fps = options.get("duration"), options.get("aspect"), options.get("fps")
    if isinstance(duration, int | float) and not isinstance(duration, bool) and duration > 0:
        seconds = round(max(MIN_SCENE_S, min(MAX_DURATION_S, float(duration))), 2)
        impossible = None if brief.impossible == "too_long" else brief.impossible
        brief = replace(brief, duration_s=seconds, duration_heard="explicit", impossible=impossible)
    if isinstance(aspect, str):
        sizes: dict[str, Aspect] = {key: key for key in SIZES}
        known = sizes.get(aspect) or find_aspect(aspect)[0]
        if known:
            width, height = SIZES[known]
            brief = replace(brief, width=width, height=height)
    if isinstance(fps, int) and not isinstance(fps, bool):
        brief = replace(brief, fps=max(1, min(120, fps)))
    return brief
