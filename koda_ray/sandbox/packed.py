"""How a question to the helper inside a sandbox, and its answer, are written: a JSON header, then files' bytes.

Both ends use it. What comes out of a sandbox was written where hostile code runs, so reading checks every length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

__all__ = ["MAX_ANSWER_BYTES", "MAX_FILES_BYTES", "Header", "Malformed", "pack", "unpack"]

Header = dict[str, object]
"""A JSON object; the key ``files`` is ours."""

MAX_ANSWER_BYTES = 512 * 1024 * 1024
"""How long an answer may be."""
_LENGTH_BYTES = 4
_MAX_HEADER_BYTES = 64 * 1024 * 1024
MAX_FILES_BYTES = MAX_ANSWER_BYTES - _MAX_HEADER_BYTES - _LENGTH_BYTES
"""What all files of an answer may have together."""


class Malformed(ValueError):
    """The bytes are not what ``pack`` makes."""


def pack(header: Mapping[str, object], files: Mapping[str, bytes] | None = None) -> bytes:
    """Write a header and files; their order is kept."""
    files = files or {}
    listed = [[name, len(data)] for name, data in files.items()]
    text = json.dumps({**header, "files": listed}).encode()
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "big"), text, *files.values()])


def unpack(data: bytes) -> tuple[Header, dict[str, bytes]]:
    """Read what ``pack`` wrote.

    Raises:
        Malformed: It is cut off, too long, or something else altogether.
    """
    size = int.from_bytes(data[:_LENGTH_BYTES], "big")
    start = _LENGTH_BYTES + size
    if len(data) < start or size > _MAX_HEADER_BYTES:
        raise Malformed(f"a header of {size} bytes does not fit into {len(data)}")
    try:
        header: object = json.loads(data[_LENGTH_BYTES:start])
    except (ValueError, RecursionError):
        raise Malformed("the header is not JSON") from None
    if not isinstance(header, dict):
        raise Malformed("the header is not an object")
    known = cast("Header", header)
    files: dict[str, bytes] = {}
    for name, length in _listed(known.pop("files", None)):
        files[name] = data[start : start + length]
        start += length
    if start != len(data):
        raise Malformed(f"the files end at byte {start} of {len(data)}")
    return known, files


def _listed(value: object) -> list[tuple[str, int]]:
    if not isinstance(value, list):
        raise Malformed("the list of files is none")
    found: list[tuple[str, int]] = []
    for entry in cast("list[object]", value):
        match entry:
            case [str(name), int(length)] if length >= 0:
                found.append((name, length))
            case _:
                raise Malformed("the list of files holds something else")
    return found
