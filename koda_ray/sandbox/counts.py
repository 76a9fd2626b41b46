"""What code in a sandbox did not get, and nobody else is told of.

The kernel refuses memory, a process, room on the disk, a network; a port that is offered to everybody has its own
loopback only; a daemon ends with the command that it wanted to outlive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import Literal

__all__ = ["Counted", "Counts"]

Counted = Literal["memory", "processes", "disk", "network", "listen", "daemon", "bait", "trigger"]


class Counts:
    """What was refused since it was last asked.

    Args:
        ever: How often each was refused, ever: how often the kernel has ended something for its memory, refused a
            process, or not reached something; how often a process was ended that had left its command's session and
            outlived it; how often a file was read that only those read who look for other people's keys, or one was
            written that takes a machine down.
        offered: The ports that are offered to everybody now.
        disks: Folders on what has an end: one for each file system that bounds what is written.
    """

    def __init__(
        self,
        ever: Mapping[Counted, Callable[[], int]],
        *,
        offered: Callable[[], Set[Hashable]],
        disks: Sequence[str],
    ) -> None:
        self._counters = ever
        self._seen = {refused: count() for refused, count in self._counters.items()}
        self._states: Mapping[Counted, Callable[[], Set[Hashable]]] = {
            "disk": lambda: {folder for folder in disks if _is_full(folder)}, "listen": offered,
        }  # fmt: skip
        self._were: dict[Counted, Set[Hashable]] = {}

    def news(self) -> dict[Counted, int]:
        """Say how often each was refused since the last time: a disk each time that it fills up, a port once."""
        found: dict[Counted, int] = {}
        for refused, count in self._counters.items():
            now = count()
            if now > self._seen[refused]:
                found[refused] = now - self._seen[refused]
            self._seen[refused] = now
        for refused, state in self._states.items():
            are = state()
            if more := are - self._were.get(refused, frozenset()):
                found[refused] = len(more)
            self._were[refused] = are
        return found


def _is_full(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail == 0 or (found.f_files > 0 and found.f_ffree == 0)
