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
from pathlib import Path

__all__ = ["copy_folder"]


def copy_folder(source: Path, target: Path, *, user: int | None = None, stop: threading.Event | None = None) -> None:
    """Copy a folder whole; sockets, pipes and devices are left out.

    Args:
        source: What is copied.
        target: Made here; must not be there yet.
        user: User and group id that everything is given to; None to leave it this process's own.
        stop: Ends it between two files.

    Raises:
        OSError: With the file's name; ECANCELED after ``stop``.
    """
    target.mkdir()
    made = [(source, target)]
    for here, there in made:  # grows by what is found
        with os.scandir(here) as entries:
            for entry in entries:
                if stop is not None and stop.is_set():
                    raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED), entry.path)
                path = there / entry.name
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    path.symlink_to(os.readlink(entry.path))
                elif stat.S_ISDIR(mode):
                    path.mkdir()
                    made.append((Path(entry.path), path))
                    continue
                elif stat.S_ISREG(mode):
                    shutil.copyfile(entry.path, path)
                    shutil.copystat(entry.path, path)
                    path.chmod(stat.S_IMODE(mode) & 0o777)
                else:
                    continue
                if user is not None:
                    os.chown(path, user, user, follow_symlinks=False)
    for here, there in reversed(made):  # last, because a folder may not be writable
        there.chmod(stat.S_IMODE(here.stat().st_mode) & 0o777 | 0o700)
        if user is not None:
            os.chown(there, user, user)
