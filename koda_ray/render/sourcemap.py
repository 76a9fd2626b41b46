"""Places in a built script, said in the words of its source: source maps read, nothing more.

Source: Source Map format, revision 3 (ECMA-426).
"""

from __future__ import annotations

import base64
import binascii
import bisect
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

__all__ = ["Position", "SourceMaps"]

_BASE64 = {
    character: value
    for value, character in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_COMMENT = re.compile(rb"//[#@] sourceMappingURL=(\S+)\s*$")
_TAIL_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Position:
    """A place in a source file; line and column count from 1."""

    file: str
    line: int
    column: int


class SourceMaps:
    """The source maps of a bundle, each read when it is first asked for.

    Args:
        files: The bundle's files by path.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._maps: dict[str, _Map | None] = {}

    def original(self, path: str, line: int, column: int) -> Position | None:
        """Return where a place of a built file comes from, or None where no map says.

        Args:
            path: The built file's path in the bundle.
            line: From 1.
            column: From 1.
        """
        if path not in self._maps:
            self._maps[path] = self._read(path)
        found = self._maps[path]
        return None if found is None else found.lookup(line - 1, column - 1)

    def _read(self, path: str) -> _Map | None:
        script = self._files.get(path)
        if script is None:
            return None
        comment = _COMMENT.search(script[-_TAIL_BYTES:].rstrip())
        data: bytes | None = None
        if comment is not None:
            url = comment.group(1).decode(errors="replace")
            if url.startswith("data:"):
                try:
                    data = base64.b64decode(url.partition(",")[2])
                except (binascii.Error, ValueError):
                    return None
            else:
                data = self._files.get(posixpath.normpath(posixpath.join(posixpath.dirname(path), url)))
        data = data if data is not None else self._files.get(path + ".map")
        if data is None:
            return None
        try:
            return _Map(cast("dict[str, object]", json.loads(data)), posixpath.dirname(path))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return None


class _Map:
    """One parsed map: for each built line, sorted columns and where they come from."""

    def __init__(self, data: dict[str, object], folder: str) -> None:
        root = str(data.get("sourceRoot") or "")
        self._sources = [_clean(root, str(source), folder) for source in cast("list[object]", data["sources"])]
        self._columns: list[list[int]] = []
        self._targets: list[list[tuple[int, int, int]]] = []
        source = line = column = 0
        for text in str(data["mappings"]).split(";"):
            columns: list[int] = []
            targets: list[tuple[int, int, int]] = []
            built = 0
            for segment in filter(None, text.split(",")):
                values = _decode(segment)
                built += values[0]
                if len(values) >= 4:
                    source += values[1]
                    line += values[2]
                    column += values[3]
                    columns.append(built)
                    targets.append((source, line, column))
            self._columns.append(columns)
            self._targets.append(targets)

    def lookup(self, line: int, column: int) -> Position | None:
        if not 0 <= line < len(self._columns):
            return None
        index = bisect.bisect_right(self._columns[line], column) - 1
        if index < 0:
            return None
        source, at_line, at_column = self._targets[line][index]
        if not 0 <= source < len(self._sources):
            return None
        return Position(self._sources[source], at_line + 1, at_column + 1)


def _clean(root: str, source: str, folder: str) -> str:
    """Return a source's path as the project knows it: without schemes, and without the way out of the build folder."""
    path = re.sub(r"^[a-z]+:/*", "", posixpath.join(root, source))
    path = posixpath.normpath(posixpath.join(folder, path)) if not path.startswith("/") else path.lstrip("/")
    while path.startswith("../"):
        path = path[3:]
    return path


def _decode(segment: str) -> list[int]:
    values: list[int] = []
    value = shift = 0
    for character in segment:
        digit = _BASE64[character]
        value |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            values.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return values
