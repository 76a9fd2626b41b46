"""Change requests: functions from a brief and a sentence to another brief, and words for what was done.

A request that no rule knows is never dropped in silence: the picture is composed anew, which is the nearest thing to
"something else", and the director says what it does understand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from koda_ray.roles.offline import extract, lexicon
from koda_ray.roles.offline.brief import SIZES, Brief, Direction, Font
from koda_ray.roles.offline.conflict import conflicts_in_change
from koda_ray.roles.offline.find import find_aspect, find_colours, find_direction, find_style, normalise
from koda_ray.roles.offline.language import alternatives, expression, said
from koda_ray.roles.offline.subject import subject_of
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

__all__ = ["SUBJECTS_OWN", "WORDS_OWN", "apply_feedback", "more_or_less", "other_words", "pace_asked"]

_Change = tuple[Brief, str] | None


def _has(text: str, words: str) -> bool:
    return expression(words).search(text) is not None


def _factor(text: str, of: str) -> float | None:
    """Return "twice as", "3x as" or "50 %" of something as a factor."""
    match = re.search(
        rf"{alternatives('factor')}{alternatives('factor_of')}(?:{alternatives(of)})", text, re.IGNORECASE
    )
    if match is None:
        return None
    if match["word"]:
        return lexicon.MULTIPLES[match["word"].lower()]
    if match["num"]:
        return max(0.05, min(20.0, float(match["num"])))
    return 1 + min(400, float(match["pct"])) / 100


def _amount(text: str, usual: float) -> float:
    """Return how strong a change is: a bit, usual, or much, as a factor above 1."""
    if _has(text, "a_bit"):
        return 1 + (usual - 1) * 0.5
    if _has(text, "much"):
        return 1 + (usual - 1) * 1.7
    return usual


def more_or_less(text: str, of: str, more: str, less: str, usual: float) -> float | None:
    """Return the factor that is named, or that a comparative stands for."""
    factor = _factor(text, of)
    if factor is None and _has(text, more):
        factor = _amount(text, usual)
    if factor is None and _has(text, less):
        factor = 1 / _amount(text, usual)
    return factor


def pace_asked(text: str) -> float | None:
    """Return by how much motion is to be quicker, as a factor; None where nothing is said of it."""
    factor = _factor(text, "pace")
    slow = _factor(text, "slowness")
    if factor is None and slow is not None:
        factor = 1 / slow if slow >= 1 else slow
    if factor is None:
        factor = more_or_less(text, "pace", "faster", "slower", 1.4)
    return factor


def _speed(brief: Brief, text: str) -> _Change:
    factor = pace_asked(text)
    if factor is None:
        return None
    speed = max(0.1, min(8.0, brief.speed * factor))
    return replace(brief, speed=speed), said("changed.speed", factor=factor)


def _duration(brief: Brief, text: str) -> _Change:
    length = extract.find_length(subject_of(brief).without_own_seconds(text))
    if length and not length.absurd:
        if length.seconds > MAX_DURATION_S:
            return None  # said to the person as what cannot be done; the length stays
        seconds = length.seconds
        delta = expression("more_or_less_time").search(text)
        if delta and _has(text, "by_so_much"):
            seconds = brief.duration_s + (seconds if delta["more"] else -seconds)
    else:
        factor = more_or_less(text, "duration", "longer", "shorter", 1.5)
        if factor is None:
            return None
        seconds = brief.duration_s * factor
    seconds = round(max(MIN_SCENE_S, min(MAX_DURATION_S, seconds)), 1)
    return replace(brief, duration_s=seconds, duration_heard="explicit"), said("changed.length", seconds=seconds)


def _colour(brief: Brief, text: str) -> _Change:
    colours, background = find_colours(text)
    if not colours and background is None:
        return None
    done: list[str] = []
    if background is not None:
        brief, done = replace(brief.unpainted("ground"), background=background), [said("changed.background")]
    if colours:
        lettered = subject_of(brief).lettered
        only_text = _has(text, "lettering") and not lettered
        if only_text or lettered:
            brief = replace(brief.unpainted("heading"), repaint=(*brief.repaint, ("ink", colours[0])))
        if not only_text:
            brief = replace(brief.unpainted("subject"), accent=colours[0], colours=colours)
        done.append(said("changed.text_colour" if only_text else "changed.colour"))
    return brief, said("changed.and").join(done)


def _bounce(brief: Brief, text: str) -> _Change:
    if not _has(text, "bounce"):
        return None
    calmer = _has(text, "calmer")
    factor = 1 / _amount(text, 1.5) if calmer else _factor(text, "bounciness") or _amount(text, 1.4)
    bounce = max(0.2, min(2.5, brief.bounce * factor))
    return replace(brief, bounce=bounce), said("changed.more_bounce" if factor > 1 else "changed.less_bounce")


def _size(brief: Brief, text: str) -> _Change:
    factor = more_or_less(text, "size", "bigger", "smaller", 1.3)
    if factor is None:
        return None
    scale = max(0.4, min(1.9, brief.scale * factor))
    return replace(brief, scale=scale), said("changed.bigger" if factor > 1 else "changed.smaller")


_WHOLE = [word for word, value in lexicon.NUMBERS.items() if word.isascii() and value.is_integer()]
_NUMBER = rf"(\d+|{'|'.join(_WHOLE)}|{alternatives('one_of_them')})"


def _of_them(name: str, nouns: str) -> re.Pattern[str]:
    """Return an expression in which a number and the things that are counted stand as ``NUMBER`` and ``NOUNS``."""
    words = alternatives(name).replace("NUMBER", _NUMBER).replace("NOUNS", f"(?:{nouns})")
    return re.compile(words, re.I)


def _is_one(word: str) -> bool:
    return expression("one_of_them").fullmatch(word) is not None


def _count(brief: Brief, text: str) -> _Change:
    counted = subject_of(brief).counted
    if counted is None:
        return None
    more = _of_them("more_of_them", counted.again).search(text)
    match = _of_them("so_many_of_them", counted.again).search(text)
    now = brief.count or 1
    if more:
        word = next((g for g in more.groups() if g), "one")
        count = now + int(extract.number_of("1" if _is_one(word) else word) or 1)
    elif match and not _has(match.group(0), "so_many_times") and not _is_one(match.group(1)):
        count = int(extract.number_of(match.group(1)) or now)
    else:
        return None
    count = max(1, min(counted.most, count))
    return replace(brief, count=count), said("changed.count", count=count)


def other_words(text: str) -> str:
    """Return the words that are to be shown in place of others; empty where none are named."""
    quotes, _ = extract.find_quotes(text)
    words = quotes[-1] if quotes else ""
    if not words:
        told = expression("say").search(text)
        words = told.group(1).strip() if told else ""
    return extract.clean_phrase(words)[:160]


def _text(brief: Brief, text: str) -> _Change:
    words = other_words(text)
    if not words:
        return None
    return subject_of(brief).reworded(brief, words, aside=_has(text, "aside"))


def _own(brief: Brief, text: str) -> _Change:
    return subject_of(brief).changed(brief, text)


def _style(brief: Brief, text: str) -> _Change:
    if _has(text, "softer"):
        return replace(brief, easing="smooth"), said("changed.easing")
    style, heard = find_style(text)
    if style is None or heard != "explicit":
        return None
    if style == brief.style and not _has(text, "more_style"):
        return None
    return replace(brief, style=style, style_heard="explicit", easing=None), said("changed.style", style=style)


def _particles(brief: Brief, text: str) -> _Change:
    found = [kind for _, _, kind in lexicon.find_all(text, lexicon.PARTICLES)]
    if not found:
        return None
    if _has(text, "unwanted"):
        return replace(brief, particles=False), said("changed.no_particles")
    brief = brief.with_look("air", replace(brief.look("air"), shown=True))
    return subject_of(brief).in_air(brief, found[0])


def _shadow(brief: Brief, text: str) -> _Change:
    if not _has(text, "shadow"):
        return None
    keep = not _has(text, "unwanted")
    return replace(brief, shadow=keep), said("changed.shadow" if keep else "changed.no_shadow")


_OPPOSITE: dict[Direction, Direction] = {"left": "right", "right": "left", "up": "down", "down": "up"}


def _direction(brief: Brief, text: str) -> _Change:
    direction = _OPPOSITE[brief.direction or "right"] if _has(text, "reversed") else find_direction(text)
    if direction is None:
        return None
    return replace(brief, direction=direction), said("changed.direction", direction=direction)


_FONTS: tuple[Font, ...] = ("serif", "sans", "mono", "round")


def _font(brief: Brief, text: str) -> _Change:
    font = next((font for font in _FONTS if _has(text, font)), None)
    return None if font is None else (replace(brief, font=font), said("changed.font", font=font))


def _aspect(brief: Brief, text: str) -> _Change:
    aspect, _ = find_aspect(text)
    if aspect is None and _has(text, "vertical"):
        aspect = "9:16"
    if aspect is None and _has(text, "square") and not subject_of(brief).squares:
        aspect = "1:1"
    if aspect is None:
        return None
    width, height = SIZES[aspect]
    return replace(brief, width=width, height=height), said("changed.format", aspect=aspect)


def _tone(brief: Brief, text: str) -> _Change:
    if _has(text, "brighter"):
        return replace(brief, tone=min(0.2, brief.tone + 0.06)), said("changed.brighter")
    if _has(text, "darker"):
        return replace(brief, tone=max(-0.2, brief.tone - 0.06)), said("changed.darker")
    return None


def _compose(brief: Brief, text: str) -> _Change:
    if not _has(text, "something_else"):
        return None
    return replace(brief, variant=brief.variant + 1), said("changed.composition")


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
SUBJECTS_OWN = (_own, _count, _bounce, _shadow, _direction)
"""What is only ever said of the subject."""
WORDS_OWN = (_font,)
"""What is only ever said of words."""
_CANCELLED = {"speed": _speed, "size": _size, "tone": _tone}


def apply_feedback(
    brief: Brief, words: str, *, rules: tuple[Callable[[Brief, str], _Change], ...] = _RULES
) -> tuple[Brief, tuple[str, ...]]:
    """Apply one change request.

    Args:
        brief: What was asked for so far.
        words: The request.
        rules: What is listened for, all by default.

    Returns:
        The changed brief and, in words, each change made; empty where no rule knew the request, and then the brief
        has another composition.
    """
    text = normalise(words)
    _, unquoted = extract.find_quotes(text)
    done: list[str] = []
    conflicts = conflicts_in_change(unquoted)
    cancelled = {_CANCELLED[conflict.cancels] for conflict in conflicts if conflict.cancels}
    for rule in rules:
        if rule in cancelled:
            continue
        change = rule(brief, text if rule in (_text, _own) else unquoted)
        if change is not None:
            brief, what = change
            done.append(what)
    if not done and not cancelled and text:
        return replace(brief, variant=brief.variant + 1), ()
    return brief, tuple(done)
