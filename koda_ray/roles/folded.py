"""A code generator's request as blocks whose beginning stays the same from one request to the next.

All files stand in every request, whole, and most of them have not changed since the last one. So what changes seldom
comes first, then the files in groups, in the order in which they changed, then the task. A file that changed stands
again at the end where taking its old text out would write much anew that is the same; when as much of the files is
old as is not, they are put together anew. Joined, with whatever white space between them, the blocks are one JSON
object, in which of a path that stands twice the last one counts. What was sent is remembered in this process only: the
provider's cache does not live longer either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from koda_ray.llm.base import TextBlock

__all__ = ["Folder"]

_FIRST = ("prompt", "style", "answers", "plan", "options", "assets")
_MOST_GROUPS = 100
_MOST_OLD_CHARS = 160_000
"""Characters of old texts beside the present ones; about 40,000 tokens."""

_Group = dict[str, JsonValue]


class Folder:
    """Folds one session's requests."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []

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
        # the comma comes with the next group: what stands there stays as it is
        groups = [(", " if place else "") + ", ".join(_items(group)) for place, group in enumerate(self._groups)]
        tail = "}" + "".join(f", {item}" for item in _items(rest)) + "}"
        return [{"type": "text", "text": text} for text in (head, *groups, tail)], 1 + settled

    def _regroup(self, files: Mapping[str, JsonValue]) -> int:
        """Bring the groups up to date, with little that was sent before sent anew; return how many do not change."""
        places = {path: place for place, group in enumerate(self._groups) for path in group}  # the last one counts
        present = {path: self._groups[place][path] for path, place in places.items()}
        new = {path: content for path, content in files.items() if path not in present or present[path] != content}
        keep = min((places[path] for path in new if path in places), default=len(self._groups))
        if _chars({path: present[path] for path, place in places.items() if place >= keep and path not in new}) > (
            _chars(new)
        ):
            keep = len(self._groups)
        old = sum(
            len(str(content))
            for place, group in enumerate(self._groups[:keep])
            for path, content in group.items()
            if places[path] != place or path in new
        )
        gone = not present.keys() <= files.keys()
        if gone or old > min(_chars(files), _MOST_OLD_CHARS) or keep >= _MOST_GROUPS:
            keep = 0 if keep >= _MOST_GROUPS else self._unspoilt(files, places)
        kept = self._groups[:keep]
        order = sorted(places, key=lambda path: places[path])
        same = {p: present[p] for p in order if places[p] >= keep and p in files and p not in new}
        settled = [*kept, *([same] if same else [])]
        self._groups = [*settled, *([new] if new else [])]
        return len(settled)

    def _unspoilt(self, files: Mapping[str, JsonValue], places: Mapping[str, int]) -> int:
        """Count the first groups in which nothing is old or gone."""
        for place, group in enumerate(self._groups):
            if any(places[path] != place or path not in files or files[path] != group[path] for path in group):
                return place
        return len(self._groups)


def _chars(files: Mapping[str, JsonValue]) -> int:
    return sum(len(str(content)) for content in files.values())


def _items(values: Mapping[str, JsonValue]) -> list[str]:
    return [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
