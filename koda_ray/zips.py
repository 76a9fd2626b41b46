"""Zips from strangers: how much their tables of contents hold is known before any of it is read.

Python's `zipfile` reads the whole table when it opens a file, and makes an object of some 400 bytes for each entry, so
a zip of 64 MB that holds nothing but entries takes half a gigabyte before anybody can count them. What the end record
says of the number of entries is only a claim, which `zipfile` does not look at either; what it goes by is the table's
size. So its own reading is watched: a table that is too large is never read, and in one that is read the headers are
counted before anything is made of them. That holds for zip64 and for whichever end record `zipfile` settles on.

Source: APPNOTE.TXT 6.3.10 of PKWARE, sections 4.3.12 (central directory) and 4.3.16 (end record).
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

from koda_ray.errors import InvalidInput

__all__ = ["ENTRY_BYTES", "open_zip"]

ENTRY_BYTES = 512
"""How long an entry's header may be in the mean, with its name: two or three times what archivers write."""
_HEADER_BYTES = 46
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADER = b"PK\x01\x02"
_LENGTHS_AT = 28
_TAIL_BYTES = (1 << 16) + 22
"""An end record with the longest comment, which `zipfile` looks for in one piece."""


class _Watched(io.BufferedIOBase):
    """A file as `zipfile` reads it while it opens it.

    Args:
        file: What is read.
        most_entries: How many headers the table may have.
    """

    def __init__(self, file: IO[bytes], *, most_entries: int) -> None:
        self._file = file
        self._most = most_entries
        self._most_bytes = max(most_entries * ENTRY_BYTES, _TAIL_BYTES)
        self.is_open = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if (
            whence == io.SEEK_SET and offset < 0
        ):  # where an entry says it lies: a disk would say so as if it were broken
            raise zipfile.BadZipFile("an entry lies before the beginning of the file")
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        if self.is_open:
            return self._file.read(-1 if size is None else size)
        # to the end is how the end record is read, which is short
        wanted = self._most_bytes + 1 if size is None or size < 0 else size
        if size is not None and size > self._most_bytes:
            raise InvalidInput(
                f"the zip's table of contents has {size:,} bytes; at most {self._most:,} entries are taken, which need "
                f"{self._most_bytes:,}: leave out what is not needed"
            )
        data = self._file.read(wanted)
        if _entries_in(data) > self._most:
            raise InvalidInput(
                f"the zip holds over {self._most:,} entries, which is how many are taken: leave out what is not needed"
            )
        return data


def _entries_in(table: bytes) -> int:
    """Count the headers that follow each other from the beginning on, as `zipfile` goes through them."""
    count, at = 0, 0
    while table.startswith(_HEADER, at) and at + _HEADER_BYTES <= len(table):
        at += _HEADER_BYTES + sum(struct.unpack_from("<HHH", table, at + _LENGTHS_AT))
        count += 1
    return count


@contextmanager
def open_zip(file: IO[bytes], *, most_entries: int) -> Generator[zipfile.ZipFile]:
    """Open a zip for reading, whatever somebody put into it.

    Args:
        file: The zip, which can be sought in; it stays open.
        most_entries: How many entries it may hold, folders among them.

    Raises:
        InvalidInput: INVALID_INPUT, it is no zip, one that cannot be read (in the block as well), or holds too many.
    """
    watched = _Watched(file, most_entries=most_entries)
    try:
        with zipfile.ZipFile(watched) as opened:
            watched.is_open = True
            for entry in opened.infolist():
                if not entry.filename:
                    raise zipfile.BadZipFile("an entry has no name")
                if entry.compress_type not in _METHODS:
                    raise InvalidInput(
                        f"the zip holds {entry.filename[:120]!r} by compression method {entry.compress_type}, which is "
                        "not taken: make it by deflate (8), as zip does, or without compression"
                    )
            yield opened
    except OSError as error:
        if error.errno is not None:  # a disk that is full, a file that is in the way
            raise
        raise _unreadable(error) from error
    # `zipfile`'s own errors, and those that numbers, names and streams of nonsense end with in it
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
        OverflowError,
        struct.error,
        zlib.error,
    ) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> InvalidInput:
    return InvalidInput(f"this is not a zip that can be read ({error}); send one made of the folder")
