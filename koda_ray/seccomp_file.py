"""The filter of system calls as an open file, for whoever puts it round what it starts."""

from __future__ import annotations

import os
import platform
from functools import lru_cache

from koda_ray.seccomp import MACHINES, filter_program

__all__ = ["filter_fd"]


def filter_fd(*, heard: bool = False, nesting: bool = False) -> int | None:
    """Put the filter into a memory file for whoever takes it; the caller closes it. None as for the program."""
    program = filter_program(heard=heard, nesting=nesting)
    if program is None:
        _warn_of_none(platform.machine())
        return None
    fd = os.memfd_create("koda-seccomp", os.MFD_CLOEXEC)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@lru_cache(maxsize=1)
def _warn_of_none(machine: str) -> None:
    """Say once that what is confined may make any call."""
    from koda_ray.logs import get_logger  # imported by the first who has something to say

    get_logger(__name__).warning(
        "no filter of system calls",
        why=f"the numbers of {machine}'s calls are not known here, but those of {' and '.join(MACHINES)}",
        what="generated code is held by its namespaces and its lack of rights, and may make every call of the kernel",
        way_out="run it on a machine of those, or under gVisor (SANDBOX_RUNTIME=runsc)",
    )
