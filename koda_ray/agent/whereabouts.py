"""Which process an agent is in, written so that whoever comes after a crash can tell that it is no more.

A process's number alone does not tell: it is given again, and the first one of a container always has the same.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

__all__ = ["here", "is_gone"]

_SAME_S = 2.0  # the kernel counts from its start, and when that was is corrected now and then


def here() -> str:
    """Name this process: machine, number, and when it began."""
    return f"{socket.gethostname()}:{os.getpid()}:{_begun(os.getpid()) or 0:.0f}"


def is_gone(host: str | None) -> bool:
    """Whether a process of this machine that `here` named has ended; False for what cannot be told from here."""
    if host is None:
        return True
    machine, _, rest = host.partition(":")
    number, _, begun = rest.partition(":")
    if machine != socket.gethostname() or not (number.isdigit() and begun.isdigit()):
        return False
    since = _begun(int(number))
    return since is None or abs(since - int(begun)) > _SAME_S


def _begun(pid: int) -> float | None:
    import psutil  # whoever only runs one agent needs none of it

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return process.create_time()
    return None
