"""What a test left behind: processes and temporary folders that were not there when it began.

A process of a longer-lived fixture (a Ray, a server) may start and end others as it likes: only those that no process
from before the test has started are counted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

__all__ = ["MARK", "Snapshot", "strays"]

T = TypeVar("T")

MARK = "KODA_TEST_RUN"
_DEADLINE_S = 10.0
_PAUSE_S = 0.05
# Python keeps these for the whole life of a process, on purpose.
_KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True)
class Snapshot:
    """The processes below this one, the temporary files and what is mounted among them, at one moment."""

    processes: frozenset[psutil.Process]
    folders: frozenset[Path]

    @classmethod
    def take(cls) -> Snapshot:
        """Look now."""
        return cls(frozenset(_below()), frozenset(_folders()))

    def left_behind(self) -> list[str]:
        """Say what is new and does not go away by itself; end those processes and remove those folders."""
        processes = _wait(lambda: [process for process in _below() if self._is_new(process)])
        folders = _wait(lambda: sorted(_folders() - self.folders))
        return [*_end(processes), *(f"{path}" for path in _remove(folders))]

    def _is_new(self, process: psutil.Process) -> bool:
        try:
            return process not in self.processes and not self.processes.intersection(process.parents())
        except psutil.NoSuchProcess:
            return False


def strays() -> list[str]:
    """Say which processes of this test run are still there, also those that left the family; and end them."""
    mark = os.environ.get(MARK, "")

    def look() -> list[psutil.Process]:
        found = {*_below()}
        for process in psutil.process_iter():
            try:
                if mark and process.pid != os.getpid() and process.environ().get(MARK) == mark and _counts(process):
                    found.add(process)
            except psutil.Error:
                continue
        return list(found)

    return _end(_wait(look))


def _below() -> list[psutil.Process]:
    # most tests start nothing, and the kernel says so for next to nothing
    tasks = Path("/proc/self/task")
    try:
        if not any((task / "children").read_text().strip() for task in tasks.iterdir()):
            return []
    except OSError:
        pass
    return [process for process in psutil.Process().children(recursive=True) if _counts(process)]


def _counts(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and not any(kept in command for kept in _KEPT)
    except psutil.Error:
        return False


def _folders() -> set[Path]:
    root = Path(tempfile.gettempdir())
    if not root.name.startswith("kt-"):
        return set()
    found: set[Path] = set()
    for path in root.iterdir():
        if path.name.startswith("pytest-of-"):
            continue
        # folders that a process keeps for good (koda-render-0) count by what is in them
        found.update(path.iterdir() if path.name.startswith("koda-") and path.is_dir() else [path])
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mounted = Path(line.split()[1])
        if mounted.is_relative_to(root):
            found.add(mounted)
    return found


def _wait(look: Callable[[], list[T]]) -> list[T]:
    deadline = time.monotonic() + _DEADLINE_S
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return found


def _end(processes: Iterable[psutil.Process]) -> list[str]:
    named: list[str] = []
    for process in processes:
        try:
            named.append(f"process {process.pid}: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.Error:
            continue
    return named


def _remove(paths: list[Path]) -> list[Path]:
    for path in paths:
        if path.is_mount():
            subprocess.run(["umount", "-l", str(path)], check=False)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return paths
