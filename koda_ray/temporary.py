"""Where temporary files lie, told without writing any.

Python's own answer is the first folder in which it can write a file. On a full disk that is another one than before, or
none: so who clears a disk that is full, or says that it is, would look at another.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["temporary_folder"]

_NAMES = ("TMPDIR", "TEMP", "TMP")
_USUAL = ("/tmp", "/var/tmp", "/usr/tmp")


def temporary_folder() -> Path:
    """Return the folder for temporary files, however full its disk is.

    Source: Python's documentation of ``tempfile.gettempdir``, for the order.
    """
    if tempfile.tempdir is not None:
        return Path(os.fsdecode(tempfile.tempdir))
    for name in (*filter(None, map(os.environ.get, _NAMES)), *_USUAL):
        folder = Path(name).absolute()
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path.cwd()
