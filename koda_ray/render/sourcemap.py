"""Places in a built script, said in the words of its source: source maps read, nothing more.

A map is as hostile as the page that brings it: what is read of one, and of all maps of a bundle, has an end, its
numbers are of 32 bits, and what is kept takes four of them a segment. Reading blocks, for seconds where a map is large.

Source: Source Map format, revision 3 (ECMA-426).
"""

from __future__ import annotations

import base64
import binascii
import bisect
import json
import posixpath
import re
import threading
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import cast

__all__ = ["MAX_MAP_BYTES", "Position", "SourceMaps"]

MAX_MAP_BYTES = 16 * 1024 * 1024
_MAX_MAPS_BYTES = 2 * MAX_MAP_BYTES

_BASE64 = {
    character: value
    for value, character in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_COMMENT = re.compile(rb"//[#@] sourceMappingURL=(\S+)\s*$")
_TAIL_BYTES = MAX_MAP_BYTES * 4 // 3 + 1024  # a map that lies in its script, in base64
_MAX_SHIFT = 30
_MAX_VALUE = 2**31 - 1
_MAX_NAME_CHARS = 1000
_MAX_SOURCES = 50_000
_MAX_SOURCES_CHARS = 4 * 1024 * 1024
_MAX_PARTS = 500_000
_PART = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A string, or what begins another value; of a whole map's there are as many as JSON's values, and more."""


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
        self._left_bytes = _MAX_MAPS_BYTES
        self._reading = threading.Lock()

    def read(self, paths: Iterable[str]) -> None:
        """Read the maps of built files that were not read yet; blocks.

        Args:
            paths: The built files' paths in the bundle.
        """
        with self._reading:
            for path in paths:
                if path not in self._maps:
                    self._maps[path] = self._read(path)

    def original(self, path: str, line: int, column: int) -> Position | None:
        """Return where a place of a built file comes from, or None where no map that was read says.

        Args:
            path: The built file's path in the bundle.
            line: From 1.
            column: From 1.
        """
        found = self._maps.get(path)
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
        if data is None or len(data) > min(MAX_MAP_BYTES, self._left_bytes):
            return None
        self._left_bytes -= len(data)
        try:
            return _Map(_parsed(data), posixpath.dirname(path))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError):
            return None


def _parsed(data: bytes) -> dict[str, object]:
    """Parse a map, unless so much would be built of it: an empty list is two bytes there, and sixty-four here."""
    if sum(1 for _ in islice(_PART.finditer(data), _MAX_PARTS + 1)) > _MAX_PARTS:
        raise ValueError("too many values")
    return cast("dict[str, object]", json.loads(data.decode("utf-8-sig", "surrogatepass")))


def _names(sources: list[object]) -> list[str | None]:
    if len(sources) > _MAX_SOURCES:
        raise ValueError("too many sources")
    names = [name[:_MAX_NAME_CHARS] if isinstance(name, str) else None for name in sources]
    if sum(len(name) for name in names if name) > _MAX_SOURCES_CHARS:
        raise ValueError("too long names of sources")
    return names


class _Map:
    """One parsed map: for each built line, sorted columns and where they come from, in four arrays of all lines."""

    def __init__(self, data: dict[str, object], folder: str) -> None:
        root = data.get("sourceRoot")
        self._root = root[:_MAX_NAME_CHARS] if isinstance(root, str) else ""
        mappings, sources = data["mappings"], data["sources"]
        if not isinstance(mappings, str) or not isinstance(sources, list):
            raise TypeError("not a map")
        self._sources = _names(cast("list[object]", sources))
        self._folder = folder
        self._starts = array("i", [0])
        self._columns, self._source, self._line, self._column = (array("i") for _ in range(4))
        self._parse(mappings)

    def _parse(self, mappings: str) -> None:
        built = source = line = column = 0
        values: list[int] = []
        value = shift = 0
        for character in f"{mappings};":
            if character in ",;":
                if shift:
                    raise ValueError("half a number")
                if values:
                    built += values[0]
                if len(values) >= 4:
                    source, line, column = source + values[1], line + values[2], column + values[3]
                    self._columns.append(built)
                    self._source.append(source)
                    self._line.append(line)
                    self._column.append(column)
                values.clear()
                if character == ";":
                    self._starts.append(len(self._columns))
                    built = 0
                continue
            digit = _BASE64[character]
            value |= (digit & 31) << shift
            shift += 5
            if shift > _MAX_SHIFT + 5 or value > 2 * _MAX_VALUE + 1:
                raise ValueError("a number of more than 32 bits")
            if not digit & 32:
                values.append(-(value >> 1) if value & 1 else value >> 1)
                if len(values) > 5:
                    raise ValueError("a segment of more than five numbers")
                value = shift = 0

    def lookup(self, line: int, column: int) -> Position | None:
        if not 0 <= line < len(self._starts) - 1:
            return None
        start, stop = self._starts[line], self._starts[line + 1]
        index = bisect.bisect_right(self._columns, column, start, stop) - 1
        if index < start or not 0 <= self._source[index] < len(self._sources):
            return None
        name = self._sources[self._source[index]]
        if name is None:
            return None
        file = _clean(self._root, name, self._folder)
        return Position(file, self._line[index] + 1, self._column[index] + 1)


def _clean(root: str, source: str, folder: str) -> str:
    """Return a source's path as the project knows it: without schemes, and without the way out of the build folder."""
    path = re.sub(r"^[a-z]+:/*", "", posixpath.join(root, source))
    path = posixpath.normpath(posixpath.join(folder, path)) if not path.startswith("/") else path.lstrip("/")
    while path.startswith("../"):
        path = path[3:]
    return path
