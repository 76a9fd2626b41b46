"""The JSON store's write-ahead log and snapshots, in generations.

Generation N is ``snapshot-N`` (every row when it was made) and ``log-N`` (every commit since, in order). A commit is
durable when its line in the log is; whatever a group of commits changed is one line, so it is there whole or not at
all. When the log has grown, the next generation is made beside: first its empty log, then its snapshot, whose rename
is the moment at which the new one counts. A process that is killed in between leaves the old one.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koda_ray.errors import StorageError
from koda_ray.state.json_files import Files, Line, checksum_seed, frame
from koda_ray.state.json_recovery import Apply, LogHeader, StoreFolder

__all__ = ["COMPACT_BYTES", "Log", "Recovery", "failure"]

COMPACT_BYTES = 8 << 20
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Recovery:
    """What was found when the log was opened; ``cut`` says in words what was cut, and where it is kept."""

    generation: int
    rows: int
    entries: int
    cut: str | None


class Log:
    """The files of one JSON store; used by one thread.

    Args:
        folder: Where they are.
        files: How the operating system is called.
        compact_bytes: How large the log grows, at least, before it is turned into a snapshot.
    """

    def __init__(self, folder: Path, files: Files, *, compact_bytes: int = COMPACT_BYTES) -> None:
        self._folder = folder
        self._place = StoreFolder(folder)
        self._files = files
        self._compact_bytes = compact_bytes
        self._descriptor = -1
        self._header = LogHeader("", 0, 0)
        self._seed = 0
        self._entries = self._size_bytes = self._snapshot_bytes = self._compact_at = 0
        self._broken: str | None = None

    @property
    def size_bytes(self) -> int:
        """How large snapshot and log are together."""
        return self._size_bytes + self._snapshot_bytes

    @property
    def wants_compaction(self) -> bool:
        """Whether the log has grown enough."""
        return self._broken is None and self._size_bytes >= self._compact_at

    def open(self, apply: Apply) -> Recovery:
        """Read everything, in order.

        Args:
            apply: Gets every change.

        Raises:
            StorageError: Something is damaged or somebody else's (code DAMAGED), or newer (code SCHEMA_NEWER); nothing
                was changed.
            OSError: Something cannot be read or written.
        """
        place = self._place
        generation = max(place.generations("snapshot"), default=0)
        for orphan in place.generations("log"):
            if orphan > generation:
                place.refuse_orphan(orphan)
        if generation == 0:
            place.refuse_foreign()
            generation = 1
            self._make(LogHeader(uuid.uuid4().hex, generation, 0), [])
            self._files.sync_folder(self._folder)
        snapshot = place.read_snapshot(generation, apply)
        log = place.read_log(snapshot.header, apply)
        self._header, self._seed = snapshot.header, checksum_seed(snapshot.header.line("log"))
        self._entries = snapshot.header.entries + log.entries
        self._size_bytes, self._snapshot_bytes = log.whole_bytes, snapshot.size_bytes
        self._compact_at = max(self._compact_bytes, snapshot.size_bytes)
        self._descriptor = self._files.open(place.log(generation))
        cut = self._cut(log.torn) if log.torn is not None else None
        self._files.sync(self._descriptor)  # what is read from it now must not be lost by a power cut
        self._remove_others()
        return Recovery(generation, snapshot.rows, log.entries, cut)

    def close(self) -> None:
        """Close the files; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def append(self, commits: list[str]) -> None:
        """Write commits, all or none, and bring them to the disk.

        Args:
            commits: Each a JSON list of changes.

        Raises:
            StorageError: They could not be written. Where the disk does not say what it holds, the log takes nothing
                more until it is opened anew.
        """
        if self._broken is not None:
            raise StorageError(self._broken, retryable=False)
        data = frame(f'{{"n":{self._entries + 1},"commits":[{",".join(commits)}]}}', self._seed)
        try:
            self._files.write_all(self._descriptor, data)
        except BaseException as error:
            self._take_back(error)
            if isinstance(error, OSError):
                raise failure(self._folder, error) from error
            raise
        try:
            self._files.sync(self._descriptor)
        except OSError as error:
            # whether it is on the disk, and what else is not, nobody knows: the pages may be gone from memory
            self._take_back(error)
            self._break(f"its log could not be synced ({error.strerror})")
            raise failure(self._folder, error) from error
        self._size_bytes += len(data)
        self._entries += 1

    def check(self) -> None:
        """Ask the disk for an answer. Raises StorageError."""
        if self._broken is not None:
            raise StorageError(self._broken, retryable=False)
        try:
            self._files.sync(self._descriptor)
        except OSError as error:
            self._break(f"its log could not be synced ({error.strerror})")
            raise failure(self._folder, error) from error

    def compact(self, rows: Iterable[str]) -> None:
        """Make the next generation of these lines of rows, and go on with it.

        Raises:
            OSError: It could not be made; the store goes on with the one that it has, and tries again when the log has
                grown to twice its size.
        """
        self._compact_at = 2 * self._size_bytes
        header = LogHeader(self._header.store, self._header.generation + 1, self._entries)
        size_bytes = self._make(header, rows)
        try:
            self._files.sync_folder(self._folder)
            descriptor = self._files.open(self._place.log(header.generation))
        except OSError as error:
            self._break(f"its next generation could not be opened ({error.strerror})")
            raise
        os.close(self._descriptor)
        first = header.line("log")
        self._descriptor, self._header, self._seed = descriptor, header, checksum_seed(first)
        self._size_bytes, self._snapshot_bytes = len(first), size_bytes
        self._compact_at = max(self._compact_bytes, size_bytes)
        self._remove_others()

    def _make(self, header: LogHeader, rows: Iterable[str]) -> int:
        """Write a generation's two files; return the snapshot's size."""
        log, snapshot = self._place.log(header.generation), self._place.snapshot(header.generation)
        part = snapshot.with_name(f"{snapshot.name}.part")
        try:
            self._files.place(log, header.line("log"))
            self._files.sync_folder(self._folder)
            descriptor = self._files.create(part)
            try:
                size_bytes = self._write_snapshot(descriptor, header, rows)
                self._files.sync(descriptor)
            finally:
                os.close(descriptor)
            self._files.rename(part, snapshot)
        except OSError as error:
            if snapshot.exists():
                self._break(f"its next generation could not be made ({error.strerror})")
            else:
                for path in (part, log, log.with_name(f"{log.name}.part")):
                    with suppress(OSError):
                        self._files.remove(path)
            raise
        return size_bytes

    def _write_snapshot(self, descriptor: int, header: LogHeader, rows: Iterable[str]) -> int:
        first = header.line("snapshot")
        seed, waiting, size_bytes, count = checksum_seed(first), bytearray(first), 0, 0
        for row in rows:
            waiting += frame(row, seed)
            count += 1
            if len(waiting) >= _PART_BYTES:
                self._files.write_all(descriptor, bytes(waiting))
                size_bytes += len(waiting)
                waiting.clear()
        waiting += frame(json.dumps({"lines": count}), seed)
        self._files.write_all(descriptor, bytes(waiting))
        return size_bytes + len(waiting)

    def _cut(self, line: Line) -> str:
        path, kept = self._place.log(self._header.generation), ""
        if line.raw.endswith(b"\n"):
            # its end was written, so it may have been acknowledged: then the disk lost it, and somebody wants to look
            aside = self._folder / f"torn-{self._header.generation:06}-{line.offset}"
            self._files.place(aside, line.raw)
            kept = f"; they are kept in {aside}"
        self._files.truncate(self._descriptor, line.offset)
        return f"{path} line {line.number} (byte {line.offset}) was torn: {len(line.raw)} bytes were cut{kept}"

    def _take_back(self, error: BaseException) -> None:
        try:
            self._files.truncate(self._descriptor, self._size_bytes)
        except OSError:
            self._break(f"a write failed ({error}) and could not be taken back")

    def _break(self, why: str) -> None:
        self._broken = f"the JSON store {self._folder} takes no more writes: {why}; open it anew"

    def _remove_others(self) -> None:
        for path in self._place.others(self._header.generation):
            with suppress(OSError):  # the next time will do
                self._files.remove(path)


def failure(folder: Path, error: OSError) -> StorageError:
    """Name what the operating system said."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"the JSON store {folder} cannot grow: the disk is full; free some space and try again", code="DISK_FULL"
        )
    return StorageError(f"the JSON store {folder} failed: {error.strerror or error}")
