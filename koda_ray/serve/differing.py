"""How the files of two checkpoints differ, as text: of each file that is another one, which lines came and went.

Who made the files is not trusted, and telling lines apart takes the square of their number at worst: what is long is
only named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from koda_ray.state.checkpoint import Manifest, StoredFile
from koda_ray.state.storage import Storage, blob_key
from koda_ray.wire import FileDiff

__all__ = ["MOST_FILES", "files_that_differ", "told_apart"]

MOST_FILES = 200
"""How many files' lines are told apart for one answer."""
_MOST_BYTES = 128 * 1024
_MOST_LINES = 3_000


def files_that_differ(before: Manifest | None, after: Manifest | None) -> list[str]:
    """Return the paths of files that only one of two checkpoints has, or that are others there, in order."""
    old, new = _files(before), _files(after)
    return sorted(path for path in {*old, *new} if _hash(old.get(path)) != _hash(new.get(path)))


async def told_apart(
    storage: Storage, before: Manifest | None, after: Manifest | None, paths: list[str]
) -> tuple[FileDiff, ...]:
    """Say how files of two checkpoints of one user differ.

    Raises:
        NotFound: A file's bytes are missing.
    """
    old, new = _files(before), _files(after)
    manifest = after or before
    if manifest is None:
        return ()
    short = [path for path in paths if max(_size(old.get(path)), _size(new.get(path))) <= _MOST_BYTES]
    hashes = {entry.sha256 for files in (old, new) for path in short if (entry := files.get(path)) is not None}
    blobs = await storage.get_many(blob_key(manifest.user_id, each) for each in hashes)

    def work() -> tuple[FileDiff, ...]:
        def text(entry: StoredFile | None) -> list[str] | None:
            if entry is None:
                return []
            data = blobs.get(blob_key(manifest.user_id, entry.sha256))
            return None if data is None else _lines(data)

        return tuple(
            _differs(path, old.get(path), new.get(path), text(old.get(path)), text(new.get(path))) for path in paths
        )

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
    return lines if len(lines) <= _MOST_LINES and "\0" not in "".join(lines[:9]) else None


def _files(manifest: Manifest | None) -> Mapping[str, StoredFile]:
    return {} if manifest is None else manifest.files


def _hash(entry: StoredFile | None) -> str | None:
    return None if entry is None else entry.sha256


def _size(entry: StoredFile | None) -> int:
    return 0 if entry is None else entry.size
