"""The JSON store's files at their lowest: system calls that can fail, lines with checksums, the lock of one process.

A line is ``LENGTH CHECKSUM JSON``, ended by a newline that JSON never holds, so a torn write is at most one line and a
line that follows a bad one can still be found. The checksum begins with one of the file's own first line: a line that
was copied from another file, or from another store, does not pass for one of this.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from koda_ray.errors import StorageError
from koda_ray.types import now

__all__ = ["Files", "FolderLock", "Line", "checksum_seed", "frame", "lines"]

_PREFIX = 18
_PREFIX_FORM = re.compile(rb"[0-9a-f]{8} [0-9a-f]{8} ")
_LOCK_BYTES = 4096
_PRIVATE = 0o600


class Files:
    """What the store asks of the operating system, in one place; every call may raise OSError."""

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the data; return how many bytes."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Bring a file, or a folder's names, to the disk."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size_bytes)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file its name, in one step."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def create(self, path: Path) -> int:
        """Make an empty file, for this user only."""
        return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)

    def open(self, path: Path) -> int:
        """Open a file to append to it."""
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write everything: a disk may take a part at a time."""
        left = memoryview(data)
        while left:
            left = left[self.write(descriptor, left) :]

    def sync_folder(self, folder: Path) -> None:
        """Bring a folder's names to the disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def place(self, path: Path, data: bytes) -> None:
        """Make a file that is there whole or not at all; its name is durable after `sync_folder`."""
        part = path.with_name(f"{path.name}.part")
        descriptor = self.create(part)
        try:
            self.write_all(descriptor, data)
            self.sync(descriptor)
        finally:
            os.close(descriptor)
        self.rename(part, path)


def frame(text: str, seed: int) -> bytes:
    """Write JSON (ASCII, without a newline) as a line."""
    data = text.encode("ascii")
    return b"%08x %08x %s\n" % (len(data), zlib.crc32(data, seed), data)


def checksum_seed(header: bytes) -> int:
    """Return where the checksums of a file begin, by its first line."""
    return zlib.crc32(header)


@dataclass(frozen=True)
class Line:
    """A line as found: its place, its bytes, and its JSON text, which is None where it is not whole.

    ``is_ours`` says that it looks like one of the store's that did not get to the disk whole, rather than like
    something that somebody else wrote.
    """

    number: int
    offset: int
    raw: bytes
    text: bytes | None
    is_ours: bool


def lines(data: bytes, seed: int, *, offset: int = 0, number: int = 1) -> Iterator[Line]:
    """Read a file's lines from an offset, good and bad."""
    while offset < len(data):
        end = data.find(b"\n", offset)
        stop = len(data) if end < 0 else end + 1
        raw = data[offset:stop]
        text = raw[_PREFIX:-1]
        whole = (
            end >= 0
            and _PREFIX_FORM.match(raw) is not None
            and int(raw[:8], 16) == len(text)
            and int(raw[9:17], 16) == zlib.crc32(text, seed)
        )
        yield Line(number, offset, raw, text if whole else None, whole or _is_torn(raw))
        offset, number = stop, number + 1


def _is_torn(raw: bytes) -> bool:
    """Whether a line that is not whole may be one of ours: cut short, or with blocks that were never written (NUL)."""
    if b"\0" in raw:
        return True
    start = raw[:_PREFIX]
    example = b"00000000 00000000 "
    return _PREFIX_FORM.match(start + example[len(start) :]) is not None


class FolderLock:
    """One process at a time: a lock that the operating system gives up with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            StorageError: Somebody has it (code STORE_LOCKED; the message says who), or this disk knows no locks.
        """
        descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(os.pread(descriptor, _LOCK_BYTES, 0))
            os.close(descriptor)
            raise StorageError(
                f"the JSON store {folder} is in use by {holder}, and it is for one process: end that one, or use "
                "SQLite (DATABASE_PROVIDER=sqlite), which takes many",
                code="STORE_LOCKED",
                retryable=True,
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        os.ftruncate(descriptor, 0)
        about = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "program": sys.argv[0][-200:],  # without its arguments, which may be a person's words
            "since": now().isoformat(timespec="seconds"),
        }
        os.pwrite(descriptor, json.dumps(about).encode(), 0)

    def release(self) -> None:
        """Give the lock up; may be called twice. The file stays: whoever waits for it has it open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)


def _holder(data: bytes) -> str:
    try:
        about = json.loads(data)
        pid, host = int(about["pid"]), str(about["host"])
        if (pid, host) == (os.getpid(), socket.gethostname()):
            return "this very process, which opened it before"
        return f"process {pid} on {host} ({about['program']}), since {about['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process, which is just starting or ending"
