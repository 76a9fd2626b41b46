"""What a person answers to the director's questions, and the settings that came with their request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from koda_ray.roles.offline.brief import SIZES, Aspect, Brief, Style, known_style
from koda_ray.roles.offline.feedback import apply_feedback
from koda_ray.roles.offline.find import find_aspect, find_style, normalise
from koda_ray.roles.offline.language import choices
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S, Answered

__all__ = ["ANSWERS", "apply_answer", "apply_options"]

ANSWERS: dict[str, tuple[str, str]] = {id_: (label, about) for id_, label, about in choices("styles")}
"""The style question's options: id to label and description."""

_LENGTHS = {"length-300": 300.0, "length-60": 60.0, "length-30": 30.0, "length-15": 15.0}


def apply_answer(brief: Brief, answer: Answered) -> Brief:
    """Apply the answer to a question: the option that was taken, then the person's own words."""
    brief = replace(brief, impossible=None)
    if answer.option_id in _LENGTHS:
        brief = replace(brief, duration_s=_LENGTHS[answer.option_id], duration_heard="explicit")
    style, words = known_style(answer.option_id), normalise(answer.text or "")
    if style is None:
        style, words = _named_option(words)
    if style is not None:
        brief = replace(brief, style=style, style_heard="explicit")
    return _in_own_words(brief, words) if words else brief


def _named_option(words: str) -> tuple[Style | None, str]:
    """Return the style whose option a person names by its label or id, and what else they say."""
    for id_, (label, _) in ANSWERS.items():
        style = known_style(id_)
        rest, named = re.subn(rf"^{id_}$|{re.escape(label)}", "", words, flags=re.I)
        if style is not None and named:
            return style, rest.strip(" :,-—")
    return None, words


def _in_own_words(brief: Brief, words: str) -> Brief:
    changed, done = apply_feedback(brief, words)
    if not done:
        changed = brief
    if changed.style_heard != "unknown":
        return changed
    style, _ = find_style(words)
    return replace(changed, style=style or brief.style, style_heard="explicit" if style else "inferred")


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
    take = options.get("take")
    return _taken(brief, take) if isinstance(take, int) and not isinstance(take, bool) else brief


def _taken(brief: Brief, take: int) -> Brief:
    """Make one of several takes: another composition, and another style where none was named."""
    brief = replace(brief, variant=brief.variant + take - 1)
    if brief.style_heard != "unknown":
        return brief
    styles = get_args(Style)
    style = styles[(styles.index(brief.style) + take - 1) % len(styles)]
    return replace(brief, style=style, style_heard="inferred")
