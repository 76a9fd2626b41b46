"""Folders in which images are put together, and their removal where a killed process has left them.

They lie with the temporary files, since they take gigabytes and TMPDIR says where there is room. Each holds a file that
its maker keeps locked: the kernel takes that lock back with the process, whatever ended it, in whichever container it
ran. What is this user's, has such a file and nobody's lock was left by one of ours; nothing else is ever touched.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from koda_ray.errors import SandboxError
from koda_ray.sandbox.disk import remove_tree, unmount
from koda_ray.temporary import temporary_folder

__all__ = ["clear_left", "scratch"]

_PREFIX = "koda-image-"
_LOCK = "lock"
_WORK = "work"


@contextmanager
def scratch() -> Generator[Path]:
    """Make a folder for the time of the block.

    Raises:
        OSError: It cannot be made.
    """
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = None
    try:
        lock = _locked(made)
        (made / _WORK).mkdir()
        yield made / _WORK
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def clear_left() -> list[str]:
    """Remove what killed processes of this user have left, and end what is mounted in it; blocks.

    Returns:
        The names of the folders that are gone. What a program of theirs still works in is left to the next time.
    """
    gone: list[str] = []
    for made in sorted(temporary_folder().glob(f"{_PREFIX}*")):
        lock = _left(made)
        if lock is None:
            continue
        try:
            if not _is_used(made):
                for mounted in _mounted_below(made):
                    unmount(mounted)
                if not _mounted_below(made):
                    remove_tree(made / _WORK)  # the lock goes last: without it nobody knows any more whose this is
                    (made / _LOCK).unlink()
                    made.rmdir()
                    gone.append(made.name)
        except (OSError, SandboxError) as error:
            from koda_ray.logs import get_logger  # imported by the first who has something to say

            get_logger(__name__).warning(
                "what a killed process left could not be removed", path=str(made), error=str(error)[:300]
            )
        finally:
            os.close(lock)
    return gone


def _locked(made: Path) -> int:
    """Put a locked file into a folder: it has its name once it is locked."""
    partial = made / f".{_LOCK}"
    lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    partial.rename(made / _LOCK)
    return lock


def _left(made: Path) -> int | None:
    """Take the lock of a folder that one of ours made and nobody has; None where it is anything else."""
    lock = None
    with suppress(OSError):
        folder = made.lstat()
        lock = os.open(made / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        ours = stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.fstat(lock).st_uid == os.geteuid()
        if ours and stat.S_ISREG(os.fstat(lock).st_mode):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    if lock is not None:
        os.close(lock)
    return None


def _is_used(made: Path) -> bool:
    """Whether a program that its maker started has outlived it, and still works there."""
    path = str(made)
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.fsencode(f"{path}/") in Path("/proc", process, "cmdline").read_bytes():
                return True
            if any(f"{os.readlink(f'/proc/{process}/{name}')}/".startswith(f"{path}/") for name in ("cwd", "root")):
                return True
    return False


def _mounted_below(made: Path) -> list[Path]:
    """Find what is mounted in a folder, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    found = (line.split()[4].encode().decode("unicode_escape") for line in lines)
    return sorted((Path(one) for one in found if one.startswith(f"{made}/")), reverse=True)
