"""Reading what a JSON store's folder holds after whatever happened to it, and refusing what nobody may guess about.

A kill or a power cut leaves one thing that is not whole: the last line of the log, which was never acknowledged.
Everything else that is not as it was written (damaged, moved, somebody else's) is refused with the place and the way
out, and nothing is changed. This module reads; `json_log` writes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import JsonValue

from koda_ray.errors import StorageError
from koda_ray.state.json_files import Line, checksum_seed, frame, lines

__all__ = ["FORMAT_VERSION", "LOCK_NAME", "Apply", "LogHeader", "LogRead", "SnapshotRead", "StoreFolder", "TableChange"]

TableChange: TypeAlias = list[JsonValue]
"""What a commit does to one row, or to all rows of one owner; see `json_tables.Tables.apply`."""
Apply: TypeAlias = Callable[[TableChange], None]

LOCK_NAME = "lock"
_Kind: TypeAlias = Literal["snapshot", "log"]
FORMAT_VERSION = 2
"""Of the files; one that is higher was written by a newer koda_ray."""
_FILE = re.compile(r"(snapshot|log)-(\d{6,})\.json(\.part)?")


@dataclass(frozen=True)
class LogHeader:
    """What the first line of a file says: whose it is, and how many entries of the log came before it."""

    store: str
    generation: int
    entries: int

    def line(self, kind: _Kind) -> bytes:
        """Write it."""
        return frame(json.dumps({"koda_ray": kind, "version": FORMAT_VERSION, **vars(self)}), 0)


@dataclass(frozen=True)
class SnapshotRead:
    """A snapshot that was read whole."""

    header: LogHeader
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class LogRead:
    """A log as read: how many entries, how many bytes of it are whole, and the torn line after those, if any."""

    entries: int
    whole_bytes: int
    torn: Line | None


@dataclass(frozen=True)
class StoreFolder:
    """A JSON store's folder."""

    folder: Path

    def snapshot(self, generation: int) -> Path:
        """Where a generation's snapshot is."""
        return self.folder / f"snapshot-{generation:06}.json"

    def log(self, generation: int) -> Path:
        """Where a generation's log is."""
        return self.folder / f"log-{generation:06}.json"

    def generations(self, kind: _Kind) -> list[int]:
        """List what is there."""
        found = (_FILE.fullmatch(name) for name in os.listdir(self.folder))
        return sorted(int(match[2]) for match in found if match is not None and match[1] == kind and not match[3])

    def others(self, generation: int) -> list[Path]:
        """List the files of other generations, and those that were never finished."""
        keep = {self.snapshot(generation).name, self.log(generation).name}
        names = (name for name in os.listdir(self.folder) if _FILE.fullmatch(name) and name not in keep)
        return [self.folder / name for name in names]

    def refuse_foreign(self) -> None:
        """Refuse a folder without a store that holds something else."""
        foreign = sorted(name for name in os.listdir(self.folder) if name != LOCK_NAME and not _FILE.fullmatch(name))
        if foreign:
            raise self._refuse(
                f"{self.folder} is no JSON store and holds other files ({foreign[0]}): name a folder that is empty, or "
                "not there yet"
            )

    def refuse_orphan(self, generation: int) -> None:
        """Refuse a log with commits whose snapshot is not there; one without is what a kill leaves."""
        path = self.log(generation)
        data = path.read_bytes()
        if data != self._header(path, data, "log").line("log"):
            raise self._refuse(
                f"{path} has commits, and {self.snapshot(generation).name}, which they follow, is not there: bring "
                f"{self.folder} back from a backup; nothing was changed"
            )

    def read_snapshot(self, generation: int, apply: Apply) -> SnapshotRead:
        """Read a snapshot's rows. Raises StorageError where it is not whole."""
        path = self.snapshot(generation)
        data = path.read_bytes()
        header = self._header(path, data, "snapshot")
        if header.generation != generation:
            raise self._damaged(path, next(lines(data, 0)), f"is of generation {header.generation}: it was renamed")
        first = header.line("snapshot")
        count = rows = 0
        ended = False
        line = Line(2, len(first), b"", None, False)
        for line in lines(data, checksum_seed(first), offset=len(first), number=2):
            if line.text is None or ended:
                raise self._damaged(path, line, "is damaged" if line.is_ours else "was not written by koda_ray")
            about = json.loads(line.text)
            if "lines" in about:
                ended = about["lines"] == count
                continue
            for row in about["rows"]:
                apply(["put", about["table"], row])
            rows += len(about["rows"])
            count += 1
        if not ended:
            raise self._damaged(path, line, "is the last that is there, and more should follow")
        return SnapshotRead(header, rows, len(data))

    def read_log(self, header: LogHeader, apply: Apply) -> LogRead:
        """Read the log that follows a snapshot. Raises StorageError where more is wrong than a torn end."""
        path = self.log(header.generation)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise self._refuse(
                f"{path}, the log that follows {self.snapshot(header.generation).name}, is not there: bring it back "
                "from a backup; nothing was changed"
            ) from None
        if self._header(path, data, "log") != header:
            raise self._damaged(path, next(lines(data, 0)), "is of another store or generation than the snapshot")
        first = header.line("log")
        found = list(lines(data, checksum_seed(first), offset=len(first), number=2))
        good = next((index for index, line in enumerate(found) if line.text is None), len(found))
        self._refuse_damage(path, found[good:])
        whole = len(first)
        for number, line in enumerate(found[:good], header.entries + 1):
            about = json.loads(line.text or b"")
            if about["n"] != number:
                raise self._damaged(path, line, f"is entry {about['n']}, and {number} should follow")
            for commit in about["commits"]:
                for change in commit:
                    apply(change)
            whole = line.offset + len(line.raw)
        return LogRead(good, whole, found[good] if good < len(found) else None)

    def _header(self, path: Path, data: bytes, kind: _Kind) -> LogHeader:
        line = next(lines(data, 0), None)
        if line is None:
            raise self._damaged(path, Line(1, 0, b"", None, False), "is not there: the file is empty")
        try:
            about = json.loads(line.text or b"")
            version, header = about["version"], LogHeader(about["store"], about["generation"], about["entries"])
        except (ValueError, KeyError, TypeError):
            raise self._damaged(path, line, f"is not the first line of a {kind}") from None
        if version > FORMAT_VERSION:
            raise StorageError(
                f"{path} is of version {version}, newer than {FORMAT_VERSION} of this koda_ray: upgrade koda_ray",
                code="SCHEMA_NEWER",
                retryable=False,
            )
        if header.line(kind) != line.raw:
            raise self._damaged(path, line, f"is not the first line of a {kind} that koda_ray wrote")
        return header

    def _refuse_damage(self, path: Path, bad: list[Line]) -> None:
        """Refuse what no kill and no power cut leaves: only one line can be torn, the last, and it is ours."""
        if not bad or (len(bad) == 1 and bad[0].is_ours):
            return
        later = sum(line.text is not None for line in bad)
        raise self._damaged(
            path,
            bad[0],
            "is damaged" if bad[0].is_ours else "was not written by koda_ray",
            f", or go on without it and the {later} whole lines after it: truncate -s {bad[0].offset} {path}",
        )

    def _damaged(self, path: Path, line: Line, why: str, way_out: str = "") -> StorageError:
        error = self._refuse(
            f"{path} line {line.number} (byte {line.offset}) {why}; nothing was changed. Keep a copy of {self.folder}, "
            f"then bring it back from a backup{way_out}"
        )
        error.context |= {"path": str(path), "line": line.number, "offset": line.offset}
        return error

    def _refuse(self, message: str) -> StorageError:
        return StorageError(message, code="DAMAGED", retryable=False)
