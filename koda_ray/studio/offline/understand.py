"""Everything a person has said so far, as one brief: prompt, answer, options and change requests in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koda_ray.studio.offline.answer import apply_answer, apply_options
from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.feedback import apply_feedback
from koda_ray.studio.offline.parse import parse_prompt

__all__ = ["parse_brief"]


def parse_brief(
    prompt: str,
    *,
    style: str | None = None,
    answer: str | None = None,
    options: Mapping[str, object] | None = None,
    feedback: Sequence[str] = (),
    assets: Sequence[Mapping[str, str]] = (),
) -> Brief:
    """Read everything a person has said so far.

    Args:
        prompt: The first request.
        style: A style's id or free words for it, as the session keeps them.
        answer: The answer to the question, an option's id or free text.
        options: ``duration`` in seconds, ``aspect`` such as ``9:16``, ``fps``; they win over the prompt.
        feedback: Change requests, oldest first.
        assets: Uploaded files as ``{"id", "name", "mediaType", "path"}``.

    Returns:
        The brief with every change applied in order.
    """
    brief = parse_prompt(prompt, assets=assets)
    brief = apply_options(brief, options or {})
    for words in dict.fromkeys(w for w in (style, answer) if w):
        brief = apply_answer(brief, words)
    for words in feedback:
        brief, _ = apply_feedback(brief, words)
    return brief
