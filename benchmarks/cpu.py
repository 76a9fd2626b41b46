"""Processor time of everything that works for a figure: this process, those under it, and those that have ended.

What an ended process took is in the account of the living one that waited for it, so a sum over the living tree of own
and children's times misses nobody, as long as each is waited for. Browsers are the exception at their very end: the
first process of their name space ends without waiting. So take a reading while the browser still lives.

By kind of process (`tree_cpu_by_kind`), what ended counts as what its parent starts: under Python that is FFmpeg, and
whatever else it started and waited for; under a browser, renderers. So a process counts as the same before and after.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

__all__ = [
    "ProcessKind",
    "adopt_orphans",
    "children_cpu_s",
    "kind_of",
    "pinned_to",
    "reap_orphans",
    "tree_cpu_by_kind",
    "tree_cpu_s",
]

ProcessKind = Literal["python", "ffmpeg", "browser", "gpu", "renderer", "other"]
"""Python; FFmpeg; of a browser its first process, with its network service and what starts its processes, the one that
draws WebGL and composes, and the pages'; and isolation."""

_UNDER: dict[ProcessKind, ProcessKind] = {"python": "ffmpeg", "browser": "renderer"}

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_TOLD = 1 << 16
_PR_SET_CHILD_SUBREAPER = 36


class _Process(NamedTuple):
    """A process as the kernel tells of it, times in seconds; ``ended_s`` is of children that were waited for."""

    pid: int
    parent: int
    name: str
    own_s: float
    ended_s: float


def tree_cpu_s() -> float:
    """Return seconds of processor time of this process and everything under it so far."""
    return sum(tree_cpu_by_kind().values())


def tree_cpu_by_kind() -> dict[ProcessKind, float]:
    """Return seconds of processor time of this process and everything under it so far, by kind of process.

    It takes a millisecond: whoever is measured waits for it.
    """
    processes = _processes()
    under: dict[int, list[_Process]] = defaultdict(list)
    for process in processes.values():
        under[process.parent].append(process)
    total: dict[ProcessKind, float] = defaultdict(float)
    left = [processes[os.getpid()]]
    while left:
        process = left.pop()
        left += under[process.pid]
        kind = _kind(process, processes)
        total[kind] += process.own_s
        total[_UNDER.get(kind, kind)] += process.ended_s
    return dict(total)


def _processes() -> dict[int, _Process]:
    """Return all processes, by their ids."""
    while True:
        found = {name: _told(name, "stat") for name in os.listdir("/proc") if name.isdecimal()}
        if all(found.values()):  # else its parent, who may have been asked already, has its time by now
            return {int(pid): _process(int(pid), stat) for pid, stat in found.items()}


def _told(pid: str, what: str) -> str:
    """Return what the kernel says of a process; nothing where it has ended. Without more than system calls."""
    try:
        file = os.open(f"/proc/{pid}/{what}", os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        return os.read(file, _MOST_TOLD).decode(errors="replace")
    except ProcessLookupError:
        return ""
    finally:
        os.close(file)


def _process(pid: int, stat: str) -> _Process:
    """Read "pid (name) state parent ... utime stime cutime cstime ...", whose name may hold anything."""
    before, _, after = stat.rpartition(") ")
    fields = after.split()
    own, ended = (sum(map(int, fields[at : at + 2])) / _TICKS_PER_S for at in (11, 13))
    return _Process(pid, int(fields[1]), before.partition("(")[2], own, ended)


def _kind(process: _Process, processes: Mapping[int, _Process]) -> ProcessKind:
    if process.pid == os.getpid():
        return "python"
    if line := _told(str(process.pid), "cmdline").replace("\0", " ").split():  # a browser's part writes it with spaces
        return kind_of(process.name, line)
    parent = processes.get(process.parent)  # it ends, or has ended and nobody has waited for it yet
    kind = "other" if parent is None else _kind(parent, processes)
    return _UNDER.get(kind, kind)


def kind_of(name: str, line: Sequence[str]) -> ProcessKind:
    """Return what a process is, by its program's name and its command line."""
    if name.startswith(("python", "ffmpeg")):
        return "python" if name.startswith("python") else "ffmpeg"
    part = next((word.partition("=")[2] for word in line if word.startswith("--type=")), None)
    if name == "bwrap" or (part is None and not any(word.startswith("--headless") for word in line)):
        return "other"
    return "gpu" if part == "gpu-process" else "renderer" if part == "renderer" else "browser"


def children_cpu_s() -> float:
    """Return seconds of processor time of the processes under this one that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def adopt_orphans() -> None:
    """Become the parent of what a child leaves behind, so that its time arrives in `children_cpu_s`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this machine does not let a process adopt orphans")


def reap_orphans() -> int:
    """Wait for adopted processes that have ended, and return how many there were.

    Nobody else does, and every reading of the tree asks them too: after an hour of browsers that took as long as a
    second of a small video. Call it while nothing that is waited for elsewhere is about to end.
    """
    reaped = 0
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
            if child.status() == psutil.STATUS_ZOMBIE:
                reaped += os.waitpid(child.pid, os.WNOHANG)[0] != 0
    return reaped


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
