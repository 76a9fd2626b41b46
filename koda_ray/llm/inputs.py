"""A tool call's input, as the text that a model streamed: parsed, or kept with the place where it stops being JSON."""

from __future__ import annotations

import json
from typing import cast

from pydantic import JsonValue

from koda_ray.llm.base import INVALID_INPUT

__all__ = ["flaw", "parsed_input"]


def parsed_input(text: str) -> dict[str, JsonValue]:
    """Read an input; what is no JSON object comes back as its text under `INVALID_INPUT`."""
    try:
        value = cast("JsonValue", json.loads(text))
    except ValueError:
        return {INVALID_INPUT: text}
    return value if isinstance(value, dict) else {INVALID_INPUT: text}


def flaw(text: str) -> tuple[str, str]:
    """Say where a text stops being a JSON object, and why.

    Args:
        text: The input; words before its first brace are somebody's who could not read it either.

    Returns:
        The path of the innermost member that was begun (``files.0.content``, or ``(input)`` for the whole), and the
        problem with its line and column.

    Example:
        >>> flaw('{"files": [{"path": "a", "content": "b')
        ('files.0.content', 'Unterminated string starting at: line 1 column 37 (char 36)')
    """
    begin = text.find("{") if text[:1].isalpha() and text not in ("null", "true", "false") else 0
    text = text[max(0, begin) :]
    try:
        value = cast("JsonValue", json.loads(text))
    except json.JSONDecodeError as error:
        return _path(text[: error.pos]) or "(input)", str(error)
    return "(input)", f"a JSON object was expected, not {type(value).__name__}"


def _path(valid: str) -> str:
    """Follow a valid beginning of a JSON text to the member that it ends in."""
    path: list[str | int | None] = []
    text, index = "", 0
    while index < len(valid):
        char = valid[index]
        if char == '"':
            end = index + 1
            while end < len(valid) and valid[end] != '"':
                end += 2 if valid[end] == "\\" else 1
            text, index = valid[index + 1 : end], end
        elif char == "{":
            path.append(None)
        elif char == "[":
            path.append(0)
        elif char in "}]" and path:
            path.pop()
        elif char == ":" and path:
            path[-1] = cast("str", json.loads(f'"{text}"', strict=False))
        elif char == "," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        index += 1
    return ".".join(str(part) for part in path if part is not None)
