"""Where a person wants files: refused before work is done for a place that takes none, and named where one fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from koda_ray.errors import InvalidInput, StorageError

__all__ = ["check_destination", "is_of_destination", "not_written"]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR,
           errno.ENAMETOOLONG)  # fmt: skip


def check_destination(folder: Path, *, what: str) -> None:
    """Refuse a folder that could not be made or written to.

    Args:
        folder: It need not be there yet.
        what: What would be written, for the message.

    Raises:
        InvalidInput: The folder, or the nearest above it that is there, takes no files.
    """
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise InvalidInput(f"{what} cannot be written: {folder} is no folder; name another place")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"{what} cannot be written: {folder} takes no files; name another place")


def is_of_destination(error: OSError) -> bool:
    """Whether an error is the place's, and not of what was read for it."""
    return error.errno in (*_FULL, *_CLOSED)


def not_written(destination: Path, error: OSError, *, way_out: str) -> StorageError:
    """Return the error that names a file or folder which could not be written."""
    if error.errno in _FULL:
        return StorageError(f"{destination} could not be written: the disk is full; {way_out}", code="DISK_FULL")
    return StorageError(f"{destination} could not be written: {error.strerror or error}; {way_out}")
