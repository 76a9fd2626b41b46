"""Tells which hard links would lead out of a sandbox, by what the process that asks for one has said.

The kernel refuses those by itself: a file has names on its own mount only, and what a sandbox may write to is mounted
apart from all else. So a look is for the report alone. It goes by words, and what becomes of them afterwards does not
matter; a link in the middle of a path is not followed, for one that leads out is reported where it lies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from koda_ray.sandbox.policy import PROJECT_ROOT

__all__ = ["leads_out"]

_OWN = (PROJECT_ROOT, "/home/user", "/tmp", "/dev/shm")
_NAMELESS = "/proc/"  # by which a file without a name is given one: it is the process's own
_HERE = -100  # AT_FDCWD
_MOST_BYTES = 4096
_PAGE_BYTES = 4096


def leads_out(pid: int, name: str, args: Sequence[int]) -> bool:
    """Whether a process asks for another name of a file that is not the sandbox's own; no where it cannot be told.

    Args:
        pid: The process, as this one sees it.
        name: ``link`` or ``linkat``.
        args: The call's arguments.
    """
    folder, at = (_HERE, args[0]) if name == "link" else (_signed(args[0]), args[1])
    try:
        text = _read_text(pid, at)
        path = text if text.startswith("/") else os.path.join(_path_of(pid, folder), text)
    except (OSError, ValueError):
        return False
    real = os.path.normpath(path)
    return not any(real == own or real.startswith(f"{own}/") for own in _OWN) and not real.startswith(_NAMELESS)


def _path_of(pid: int, folder: int) -> str:
    path = os.readlink(f"/proc/{pid}/cwd" if folder == _HERE else f"/proc/{pid}/fd/{folder}")
    if not path.startswith("/"):
        raise ValueError("no path is known")
    return path


def _read_text(pid: int, at: int) -> str:
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while b"\0" not in found and len(found) < _MOST_BYTES:
            # not beyond the page, since the next may not be there
            place = at + len(found)
            piece = os.pread(memory, _PAGE_BYTES - place % _PAGE_BYTES, place)
            if not piece:
                raise ValueError("no text is there")
            found += piece
    finally:
        os.close(memory)
    return os.fsdecode(found.partition(b"\0")[0])


def _signed(number: int) -> int:
    """Read a descriptor, of which a register's lower half counts."""
    low = number & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
