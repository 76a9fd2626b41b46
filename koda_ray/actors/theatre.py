"""Theatre's state as a checkpoint tells it, read from a file that the project, its page and its viewers may write.

The file itself is saved as it is. What is told of it beside the session's state has to be stored as JSON and read
again, so it is held to what both can do: text that is Unicode, finite numbers, and a depth far below the limit at which
a parser or a writer gives up.
"""

from __future__ import annotations

import json
import math
from typing import cast

__all__ = ["MAX_DEPTH", "MAX_STATE_BYTES", "theatre_state"]

MAX_STATE_BYTES = 8 * 1024 * 1024
"""As much as the template's dev server takes (``vite/theatre-state.ts``)."""
MAX_DEPTH = 100
"""Levels of objects and lists, as there; Theatre's own editor makes states of a dozen."""


def theatre_state(data: bytes | None) -> dict[str, object] | None:
    """Read the state; None where there is none, or none that could be stored.

    Args:
        data: The file's bytes; None where there is no file.
    """
    if data is None or len(data) > MAX_STATE_BYTES:
        return None
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):  # half an edit by hand, or deeper than anybody edits
        return None
    if not isinstance(value, dict) or not _can_be_stored(cast("object", value)):
        return None
    return cast("dict[str, object]", value)


def _can_be_stored(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for each in level:
            match each:
                case str():
                    if not _is_text(each):
                        return False
                case float():
                    if not math.isfinite(each):
                        return False
                case dict():
                    inside = cast("dict[str, object]", each)
                    if not all(map(_is_text, inside)):
                        return False
                    below += inside.values()
                case list():
                    below += cast("list[object]", each)
                case _:
                    pass
        if not below:
            return True
        level = below
    return False


def _is_text(text: str) -> bool:
    """Whether there is no half of a surrogate pair in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
