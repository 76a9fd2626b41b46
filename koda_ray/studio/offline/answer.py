"""What a person answers to the director's question, and the settings that came with their request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from koda_ray.studio.offline.brief import SIZES, Aspect, Brief, known_style
from koda_ray.studio.offline.feedback import apply_feedback
from koda_ray.studio.offline.find import find_aspect, find_style, normalise
from koda_ray.studio.offline.language import choices
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

__all__ = ["ANSWERS", "apply_answer", "apply_options", "own_words_of", "with_own_words"]

ANSWERS: dict[str, tuple[str, str]] = {id_: (label, about) for id_, label, about in choices("styles")}
"""The style question's options: id to label and description."""

_OWN_WORDS = " — "

_LENGTHS = {"length-300": 300.0, "length-60": 60.0, "length-30": 30.0, "length-15": 15.0}
_NO_STYLE = ("words", "drawn", "other", "custom", "retry", "again")
"""Options that settle that a style was asked for, and not which."""


def with_own_words(style: str, words: str) -> str:
    """Return a plan's style with what the person said of it in their own words."""
    return f"{style}{_OWN_WORDS}{words[:300]}" if words else style


def own_words_of(style: str) -> str:
    """Return the person's own words that a plan's style keeps; the session keeps no answer but the last."""
    return style.partition(_OWN_WORDS)[2]


def apply_answer(brief: Brief, words: str) -> Brief:
    """Apply the answer to a question: an option's id, its label, or free text."""
    text = normalise(words)
    folded = text.casefold()
    for key, seconds in _LENGTHS.items():
        if key in folded:
            return replace(brief, duration_s=seconds, duration_heard="explicit", impossible=None)
    brief = replace(brief, impossible=None)
    for key, (label, _) in ANSWERS.items():
        style = known_style(key)
        if style and (folded == key or label.casefold() in folded):
            rest = re.sub(re.escape(label), "", text, flags=re.I).strip(" :,-—")
            brief = replace(brief, style=style, style_heard="explicit")
            return apply_feedback(brief, rest)[0] if rest and folded != key else brief
    if folded in _NO_STYLE:
        return replace(brief, style_heard="inferred" if brief.style_heard == "unknown" else brief.style_heard)
    changed, done = apply_feedback(brief, text)
    if not done:
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
