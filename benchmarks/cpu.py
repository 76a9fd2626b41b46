"""Processor time of everything that works for a figure: this process, those under it, and those that have ended.

What an ended process took is in the account of the living one that waited for it, so a sum over the living tree of own
and children's times misses nobody, as long as each is waited for. Browsers are the exception at their very end: the
first process of their name space ends without waiting. So take a reading while the browser still lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Generator
from pathlib import Path

import psutil

__all__ = ["adopt_orphans", "children_cpu_s", "pinned_to", "tree_cpu_s"]

_PR_SET_CHILD_SUBREAPER = 36


def tree_cpu_s() -> float:
    """Return seconds of processor time of this process and everything under it so far."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def children_cpu_s() -> float:
    """Return seconds of processor time of the processes under this one that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def adopt_orphans() -> None:
    """Become the parent of what a child leaves behind, so that its time arrives in `children_cpu_s`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this machine does not let a process adopt orphans")


@contextlib.contextmanager
def pinned_to(core: int) -> Generator[None]:
    """Have this thread, and what it starts, run on one core for the block; after it, all of this process on all.

    Threads that were begun in the block live on, and what they start would stay on that core with them.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)
