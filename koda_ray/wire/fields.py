"""What many bodies hold: words of a person, ids, and the limits of both."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from koda_ray.types import MAX_PROMPT_CHARS

__all__ = ["MAX_TEXT_CHARS", "Id", "Text"]

MAX_TEXT_CHARS = MAX_PROMPT_CHARS
"""Longest feedback, answer or message in characters: the same as a prompt's."""


Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS)]


Id = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
