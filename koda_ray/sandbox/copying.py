"""Copies a folder as it is: files, modes, times, and links as links, never followed.

For images of local sandboxes, where an environment is to work as it did where it came from: a Python environment is
full of links to interpreters and of absolute paths.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Container
from pathlib import Path

from koda_ray.sandbox.ignored import Ignored

__all__ = ["copy_folder"]


def copy_folder(
    source: Path,
    target: Path,
    *,
    ignored: Ignored | None = None,
    user: int | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Copy a folder whole; sockets, pipes and devices are left out.

    Args:
        source: What is copied.
        target: Made here; must not be there yet.
        ignored: What stays out; nothing when None.
        user: User and group id that everything is given to; None to leave it this process's own.
        stop: Ends it between two files.

    Raises:
        OSError: With the file's name; ECANCELED after ``stop``.
    """
    target.mkdir()
    made = {source: target}
    for entry in (ignored or Ignored()).entries(source):
        if stop is not None and stop.is_set():
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED), entry.path)
        path = target / entry.name
        for above in _missing(entry.path.parent, made):  # what is named below a folder that stays out
            made[above] = target / above.relative_to(source)
            made[above].mkdir()
        if stat.S_ISDIR(entry.mode):
            path.mkdir()
            made[entry.path] = path
            continue
        if stat.S_ISLNK(entry.mode):
            path.symlink_to(os.readlink(entry.path))
        else:
            shutil.copyfile(entry.path, path)
            shutil.copystat(entry.path, path)
            path.chmod(stat.S_IMODE(entry.mode) & 0o777)
        if user is not None:
            os.chown(path, user, user, follow_symlinks=False)
    for here, there in reversed(made.items()):  # last, because a folder may not be writable
        there.chmod(stat.S_IMODE(here.stat().st_mode) & 0o777 | 0o700)
        if user is not None:
            os.chown(there, user, user)


def _missing(folder: Path, made: Container[Path]) -> list[Path]:
    missing: list[Path] = []
    while folder not in made:
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]
