"""How full a machine's memory is, and how long a session that rests stays on it because of that.

Each session looks for itself, and all by one rule: the fuller the machine, the shorter they stay. So those that were
used longest ago go first, and no more of them than are needed to make room, without anybody who counts them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["LOOK_S", "Crowding", "memory_share", "stay_s"]

LOOK_S = 5.0
"""Between two looks of one session, in seconds: fifty on a machine look ten times a second together."""

_GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def stay_s(usual_s: float, *, share: float, high: float) -> float:
    """Return how long a session stays after it was used, in seconds.

    Args:
        usual_s: On a machine with room.
        share: How much of the machine's memory is taken, from 0 to 1.
        high: The share from which on it is shorter, to nothing where all of it is taken; 1 for never.
    """
    if share <= high or high >= 1.0:
        return usual_s
    return usual_s * max(0.0, 1.0 - share) / (1.0 - high)


class Crowding:
    """What one session knows of how full its machine is.

    Args:
        usual_s: As of `stay_s`.
        high: As of `stay_s`.
        clock: Tells time, in seconds.
    """

    def __init__(self, usual_s: float, *, high: float, clock: Callable[[], float]) -> None:
        self._usual_s = usual_s
        self._high = high
        self._clock = clock
        self._looked_at, self._share = -math.inf, 0.0

    def stay_s(self) -> float:
        """Return how long the session stays after it was used, by what was seen `LOOK_S` ago at most, in seconds."""
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at, self._share = self._clock(), memory_share()
        return stay_s(self._usual_s, share=self._share, high=self._high)


def memory_share() -> float:
    """Return how much of this machine's memory is taken, or of the container's that we are in, from 0 to 1.

    What files were read into does not count: it is given back when it is wanted. Source: proc_meminfo(5), the kernel's
    admin-guide/cgroup-v2.
    """
    return max((0.0, *_shares()))


def _shares() -> Iterator[float]:
    with contextlib.suppress(OSError, KeyError, ZeroDivisionError):
        machine = _numbers("/proc/meminfo")
        yield 1.0 - machine["MemAvailable:"] / machine["MemTotal:"]
    for folder, limit, used, given_back in _GROUPS:
        with contextlib.suppress(OSError, ValueError, KeyError, ZeroDivisionError):  # not there, or "max"
            taken = int(Path(folder, used).read_text()) - _numbers(f"{folder}/memory.stat")[given_back]
            yield min(1.0, taken / int(Path(folder, limit).read_text()))


def _numbers(file: str) -> dict[str, int]:
    lines = (line.split() for line in Path(file).read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}
