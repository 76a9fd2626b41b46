"""Which processors a sandbox has, where no control group counts its time: as many as its limit, always the same ones.

The kernel keeps a process, and what it starts, on the processors that it was given. It could give itself others; the
filter of system calls does not let it (``sched_setaffinity``).
"""

from __future__ import annotations

import math
import os
import platform
import zlib
from collections.abc import Collection

from koda_ray.seccomp import filter_program

__all__ = ["are_firm", "processors_of"]


def processors_of(sandbox_id: str, cpus: float, *, there: Collection[int] | None = None) -> tuple[int, ...]:
    """Choose a sandbox's processors; sandboxes begin at different ones.

    Args:
        sandbox_id: Its id: the choice is the same for whoever asks.
        cpus: How many it may use; a part of one counts as one.
        there: Those of the machine that this program may use itself, which is asked when None.

    Returns:
        Their numbers; none where it may use all that there are.
    """
    found = sorted(os.sched_getaffinity(0) if there is None else there)
    wanted = math.ceil(cpus)
    if wanted >= len(found):
        return ()
    first = zlib.crc32(sandbox_id.encode()) % len(found)
    return tuple(sorted((found[first:] + found[:first])[:wanted]))


def are_firm() -> bool:
    """Whether a sandbox's processes cannot give themselves other processors: there is a filter for this machine."""
    return filter_program(platform.machine()) is not None
