"""How the files of two checkpoints differ, as text: of each file that is another one, which lines came and went.

Who made the files is not trusted, and telling lines apart takes the cube of their number at worst: a file that is long,
or that comes once an answer has enough of them, is only named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from koda_ray.state.checkpoint import Manifest, StoredFile
from koda_ray.state.keys import blob_key
from koda_ray.state.storage import Storage
from koda_ray.wire import FileDiff

__all__ = ["MOST_FILES", "files_that_differ", "told_apart"]

MOST_FILES = 200
"""How many files are told of in one answer."""
_FILE_BYTES = 128 * 1024
_FILE_LINES = 1_000
_ALL_BYTES = 4 * 1024 * 1024
_ALL_LINES = 20_000
"""How long what is told apart for one answer may be together, of both checkpoints."""


def files_that_differ(before: Manifest | None, after: Manifest | None) -> list[str]:
    """Return the paths of files that only one of two checkpoints has, or that are others there, in order."""
    old, new = _files(before), _files(after)
    return sorted(path for path in {*old, *new} if _hash(old.get(path)) != _hash(new.get(path)))


async def told_apart(
    storage: Storage, before: Manifest | None, after: Manifest | None, paths: list[str]
) -> tuple[FileDiff, ...]:
    """Say how files of two checkpoints of one user differ; by which lines, as long as there is room.

    Raises:
        NotFound: A file's bytes are missing.
    """
    old, new = _files(before), _files(after)
    manifest = after or before
    if manifest is None:
        return ()
    short: set[str] = set()
    left_bytes = _ALL_BYTES
    for path in paths:
        sizes = [entry.size for files in (old, new) if (entry := files.get(path)) is not None]
        if max(sizes, default=0) <= _FILE_BYTES and sum(sizes) <= left_bytes:
            short.add(path)
            left_bytes -= sum(sizes)
    hashes = {entry.sha256 for files in (old, new) for path in short if (entry := files.get(path)) is not None}
    blobs = await storage.get_many(blob_key(manifest.user_id, each) for each in hashes)

    def lines(path: str, entry: StoredFile | None) -> list[str] | None:
        if path not in short:
            return None
        return [] if entry is None else _lines(blobs[blob_key(manifest.user_id, entry.sha256)])

    def work() -> tuple[FileDiff, ...]:
        left_lines = _ALL_LINES
        told: list[FileDiff] = []
        for path in paths:
            before, after = lines(path, old.get(path)), lines(path, new.get(path))
            if before is not None and after is not None:
                if len(before) + len(after) > left_lines:
                    before = None
                else:
                    left_lines -= len(before) + len(after)
            told.append(_differs(path, old.get(path), new.get(path), before, after))
        return tuple(told)

    return await asyncio.to_thread(work)


def _differs(
    path: str, old: StoredFile | None, new: StoredFile | None, before: list[str] | None, after: list[str] | None
) -> FileDiff:
    from difflib import unified_diff

    change = "added" if old is None else "removed" if new is None else "changed"
    if before is None or after is None:
        return FileDiff(path=path, change=change)
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    lines = list(unified_diff(before, after, *names, lineterm=""))
    body = lines[2:]
    return FileDiff(
        path=path,
        change=change,
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        diff="\n".join(lines),
    )


def _lines(data: bytes) -> list[str] | None:
    """Return a text's lines; None of what is no text, or long."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= _FILE_LINES and "\0" not in "".join(lines[:9]) else None


def _files(manifest: Manifest | None) -> Mapping[str, StoredFile]:
    return {} if manifest is None else manifest.files


def _hash(entry: StoredFile | None) -> str | None:
    return None if entry is None else entry.sha256
