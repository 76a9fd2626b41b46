"""Truncation of results: texts are cut before they become JSON, so that what a model gets is JSON still."""

from __future__ import annotations

import json

from koda_ray.agent.runner import MAX_RESULT_CHARS

__all__ = ["MAX_TEXT_CHARS", "head", "head_and_tail"]

MAX_TEXT_CHARS = MAX_RESULT_CHARS - 2_000
"""How much of a result its texts may take together, as JSON; what is left is for the fields around them."""


def head(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return as much of a text's beginning as takes ``max_chars`` characters when written as JSON."""
    while (size := len(json.dumps(text, ensure_ascii=False))) > max_chars:
        text = text[: len(text) * max_chars // size]
    return text


def head_and_tail(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return a text whose middle gave way, as in the output of a long command; ``max_chars`` as in `head`."""
    first = head(text, max_chars)
    if first == text:
        return text
    half = (max_chars - 100) // 2
    first, last = head(text, half), head(text[::-1], half)[::-1]
    return f"{first}\n[... {len(text) - len(first) - len(last)} characters left out ...]\n{last}"
