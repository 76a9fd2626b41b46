"""Processes and those below them, of which most were started by others than us: what a browser or a sandbox runs.

Source: proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["family", "threads"]


def family(pids: Iterable[int]) -> list[int]:
    """Return processes and all below them; nothing of those that end meanwhile."""
    found = list(pids)
    for parent in found:
        found += _children(parent)
    return found


def threads(pid: int) -> list[int]:
    """Return the threads of a process, by the kernel's ids; none of one that has ended."""
    with suppress(OSError):
        return [int(thread) for thread in os.listdir(f"/proc/{pid}/task")]
    return []


def _children(pid: int) -> list[int]:
    if not _kernel_lists_children():
        import psutil

        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    found: list[int] = []
    for thread in threads(pid):
        with suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


@cache
def _kernel_lists_children() -> bool:
    return Path("/proc/thread-self/children").exists()
