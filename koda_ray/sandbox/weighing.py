"""Counts what a directory takes on disk, whatever the code that fills it does to hide some of it.

It is walked by descriptors where paths would be too long for the kernel, and a folder that its owner has closed is
opened for as long as it is counted. What cannot be counted all the same counts as too much: nothing is left out.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress

from koda_ray.errors import QuotaExceeded
from koda_ray.sandbox.beneath import opened_beneath

__all__ = ["weigh"]

_PATH_BYTES = 3800  # with one more name it is still shorter than the 4096 that the kernel takes
_MOST_HELD = 128
_ATTEMPTS = 3
_OPEN = 0o700
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})  # or turned into something else


class _Uncounted(Exception):
    """There is a folder that could not be counted, and why."""


def weigh(root_fd: int) -> tuple[int, int]:
    """Count the bytes on disk, and the files and directories, of everything below a directory; blocks.

    Raises:
        QuotaExceeded: QUOTA_EXCEEDED, something cannot be counted; it is named.
        OSError: The directory itself cannot be read.
    """
    words = ""
    for _ in range(_ATTEMPTS):  # somebody else who counts may just have closed again what this one needs
        try:
            return _below(root_fd, ".", held=0)
        except _Uncounted as uncounted:
            words = str(uncounted)
    raise QuotaExceeded(
        f"{words}, so nobody knows whether what it holds is within the limit that SANDBOX_DISK_MB sets; give it mode "
        "755, or remove it",
        context={"limit": "disk"},
    )


def _below(fd: int, name: str, *, held: int) -> tuple[int, int]:
    size = entries = 0
    waiting = deque(["."])
    deep: list[str] = []
    closed: list[str] = []
    while waiting:
        path = waiting.popleft()
        try:
            with opened_beneath(fd, path, os.O_RDONLY | _FOLDER) as folder, os.scandir(folder) as found:
                for entry in found:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    size += info.st_blocks * 512
                    entries += 1
                    if stat.S_ISDIR(info.st_mode):
                        below = entry.name if path == "." else f"{path}/{entry.name}"
                        (waiting if len(os.fsencode(below)) <= _PATH_BYTES else deep).append(below)
        except PermissionError:
            if path == "." and held:
                raise _Uncounted(f"the folder {name!r} cannot be looked into") from None
            closed.append(path)
        except OSError as error:
            if error.errno not in _GONE or (path == "." and not held):
                raise
    for path in (*closed, *deep):
        full = f"{name}/{path}".removeprefix("./")[-200:]
        if held == _MOST_HELD:
            raise _Uncounted(f"the folder {full!r} lies too deep, or below too many that are closed, to be counted")
        try:
            with opened_beneath(fd, path, os.O_PATH | _FOLDER) as inner, _opened_up(inner, full, path in closed):
                more = _below(inner, full, held=held + 1)
        except PermissionError:
            raise _Uncounted(f"the folder {full!r} cannot be looked into") from None
        except OSError as error:
            if error.errno not in _GONE:
                raise
        else:
            size, entries = size + more[0], entries + more[1]
    return size, entries


@contextmanager
def _opened_up(fd: int, name: str, closed: bool) -> Generator[None]:
    """Let this user, who owns it, look into a folder while the block runs."""
    before = stat.S_IMODE(os.fstat(fd).st_mode)
    after = before | _OPEN
    if not closed or before == after:
        yield
        return
    path = f"/proc/self/fd/{fd}"  # its own mode cannot be set through a descriptor that reads nothing
    try:
        os.chmod(path, after)
    except OSError:
        raise _Uncounted(f"the folder {name!r} (mode {before:03o}) cannot be looked into") from None
    try:
        yield
    finally:
        with suppress(OSError):
            if stat.S_IMODE(os.fstat(fd).st_mode) == after:
                os.chmod(path, before)
