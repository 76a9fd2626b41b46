"""What a call wrote, told whole in its result, so that the agent goes on with files as they are now.

A result holds as many files as fit; others are named, and so is what the person's editor writes as
well: whoever needs those reads them when they are needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from koda_ray.sandbox.policy import readable
from koda_ray.tools.code import THEATRE_STATE_PATH
from koda_ray.tools.truncation import MAX_TEXT_CHARS

__all__ = ["list_written", "read_back"]


def list_written(files: Mapping[str, str], *, max_chars: int = MAX_TEXT_CHARS) -> list[JsonValue]:
    """List files for a result, by path, with their size in bytes and as far as it fits with their text.

    Args:
        files: Their text, by path.
        max_chars: Characters that the list may take as JSON.
    """
    listed: list[dict[str, JsonValue]] = [
        {"path": readable(path), "bytes": len(text.encode())} for path, text in sorted(files.items())
    ]
    max_chars -= len(json.dumps(listed, ensure_ascii=False))
    for entry, (_, text) in zip(listed, sorted(files.items()), strict=True):
        size = len(json.dumps({"content": text}, ensure_ascii=False))
        if entry["path"] != THEATRE_STATE_PATH and size <= max_chars:
            entry["content"] = text
            max_chars -= size
    return [*listed]


def read_back(given: Mapping[str, JsonValue], result: str) -> Mapping[str, str | None]:
    """Read from a result which files the call wrote: their text, None where the result only names them."""
    return {str(file["path"]): file.get("content") for file in json.loads(result).get("files", ())}
