"""A code generator's request as blocks whose beginning stays the same from one request to the next.

All files stand in every request, whole, and most of them have not changed since the last one. So what changes seldom
comes first, then the files in groups, those that were changed last at the end, then the task. Joined, with whatever
white space between them, the blocks are one JSON object. Which files changed is remembered in this process only: the
provider's cache does not live longer either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from koda_ray.llm.base import TextBlock

__all__ = ["Folder"]

_FIRST = ("prompt", "style", "answer", "plan", "options", "assets")
_MOST_GROUPS = 12


class Folder:
    """Folds one session's requests."""

    def __init__(self) -> None:
        self._groups: list[dict[str, JsonValue]] = []

    def fold(self, request: Mapping[str, JsonValue]) -> tuple[list[TextBlock], int]:
        """Write a request as blocks.

        Args:
            request: What is asked; ``files`` are contents by path.

        Returns:
            The blocks, and how many of them were there before or will stay; the last one differs every time.
        """
        files = cast("dict[str, JsonValue]", request.get("files") or {})
        settled = self._regroup(files)
        first = {name: request[name] for name in _FIRST if name in request}
        rest = {name: value for name, value in request.items() if name not in (*_FIRST, "files")}
        head = "{" + "".join(f"{item}, " for item in _items(first)) + '"files": {'
        groups = [", ".join(_items(group)) for group in self._groups]
        groups = [text + ("," if place + 1 < len(groups) else "") for place, text in enumerate(groups)]
        tail = "}" + "".join(f", {item}" for item in _items(rest)) + "}"
        return [{"type": "text", "text": text} for text in (head, *groups, tail)], 1 + settled

    def _regroup(self, files: Mapping[str, JsonValue]) -> int:
        """Put what changed into the last group, without touching those before the first one with a change."""
        kept: list[dict[str, JsonValue]] = []
        while len(kept) < len(self._groups) and all(
            path in files and files[path] == content for path, content in self._groups[len(kept)].items()
        ):
            kept.append(self._groups[len(kept)])
        known = {path: content for group in self._groups[len(kept) :] for path, content in group.items()}
        same = {path: content for path, content in known.items() if files.get(path) == content}
        placed = {*same, *(path for group in kept for path in group)}
        new = {path: content for path, content in files.items() if path not in placed}
        if len(kept) >= _MOST_GROUPS:
            kept = [{path: content for group in kept for path, content in group.items()}]
        settled = [*kept, *([same] if same else [])]
        self._groups = [*settled, *([new] if new else [])]
        return len(settled)


def _items(values: Mapping[str, JsonValue]) -> list[str]:
    return [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
