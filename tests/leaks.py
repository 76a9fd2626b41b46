"""What a test left behind: processes, ports, and temporary folders that were not there when it began.

A process of a longer-lived fixture (a Ray, a server) may start and end others as it likes: only those that no process
from before the test has started are counted, nor what such a fixture starts anew in a test and says so (`adopt`).

Other programs of this machine may do as they like as well: outside this run's own temporary folder, a folder counts
only when the process that it is named after belongs to this run. Where that process is gone, nobody can say whose it
was, so its folder counts only while no other run is about.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from koda_ray.serve import runfile

__all__ = [
    "MARK",
    "ProcessSnapshot",
    "adopt",
    "descendants",
    "is_marked",
    "is_one_of_several",
    "keep",
    "lasting",
    "others",
    "ours",
    "strays",
]

T = TypeVar("T")

MARK = "KODA_TEST_RUN"
_DEADLINE_S = 60.0
_PAUSE_S = 0.05
# Rays and servers need short paths, so theirs lie here whatever TMPDIR says; named after their process
_OUTSIDE = (Path("/tmp"), Path("/tmp/ray"))
_OWNED = re.compile(r"koda-ray-(?P<server>\d+)-(?P<started>\d+)|session_[\d_-]+_(?P<ray>\d+)")
# a sandbox's socket, which does not say whose it is: a longer-lived fixture's until the whole run is over
_SOCKETS = re.compile(r"koda-[a-z0-9_]{8}")
_LISTENS = "0A"
_MOUNTS = Path("/proc/self/mounts")
# Python keeps these for the whole life of a process, on purpose.
_KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
# and rendering this one; that it ends with its process has a test of its own
_ZYGOTE = "koda-zygote"
_KEPT_FOLDERS = ("pytest-of-", "koda-interposer-", "koda-rasterizers-", "koda-shaders-", "koda-zygote-")

# not for what a test starts, which may be tests again
_SEVERAL = os.environ.pop("PYTEST_XDIST_WORKER", None) is not None
_ADOPTED: set[psutil.Process] = set()
_LASTING: set[str] = set()
_HOMES: set[Path] = set()


@dataclass(frozen=True)
class ProcessSnapshot:
    """The processes below this one, where this one listens, temporary files and what is mounted among them, at once."""

    processes: frozenset[psutil.Process]
    folders: frozenset[Path]
    ports: frozenset[str]
    whole: bool = False

    @classmethod
    def take(cls, *, whole: bool = False) -> ProcessSnapshot:
        """Look now; ``whole`` is for a whole run, after which longer-lived fixtures have no more excuses."""
        return cls(frozenset(_below()), frozenset(_folders(whole)), frozenset(_ports()), whole)

    def left_behind(self) -> list[str]:
        """Say what is new and does not go away by itself; end those processes and remove those folders."""
        processes = _wait(lambda: [process for process in _below() if self._is_new(process)])
        folders = _wait(lambda: sorted(path for path in _folders(self.whole) - self.folders if self._counts(path)))
        excused = set[str]() if self.whole else _LASTING
        ports = _wait(lambda: sorted(_ports() - self.ports - excused))
        return [*_end(processes), *map(str, _remove(folders)), *(f"port {port} of this process" for port in ports)]

    def _is_new(self, process: psutil.Process) -> bool:
        known = self.processes | _ADOPTED
        try:
            # in this order, since who its parents are is looked up among all of the machine's processes
            return process not in known and known.isdisjoint(process.parents())
        except psutil.NoSuchProcess:
            return False

    def _counts(self, folder: Path) -> bool:
        return self._is_ours(folder) and (self.whole or not _HOMES.intersection(folder.parents))

    def _is_ours(self, folder: Path) -> bool:
        named = _OWNED.fullmatch(folder.name)
        if folder.parent not in _OUTSIDE:
            return True
        if named is None:
            return not others()
        pid, started = int(named["server"] or named["ray"]), named["started"]
        if pid == os.getpid():
            return True
        try:
            process = psutil.Process(pid)
            if started is None or runfile.start_of(pid) == int(started):
                return is_marked(process) and self._is_new(process)
        except psutil.Error:
            pass
        return not others()


def adopt(pid: int) -> None:
    """Leave a process, with what it starts, to the fixture that started it: it ends with that, not with the test."""
    _ADOPTED.add(psutil.Process(pid))


def keep(home: Path) -> None:
    """Leave what is mounted below a folder to the fixture whose server has its data there, until the run is over."""
    _HOMES.add(home)


@contextmanager
def lasting() -> Iterator[None]:
    """Leave ports that are opened in the block to a longer-lived fixture, which some test is the first to ask for."""
    before = _ports()
    yield
    _LASTING.update(_ports() - before)


def ours() -> frozenset[psutil.Process]:
    """Return this run's other processes, also those that left the family."""
    marked = {process for process in psutil.process_iter() if is_marked(process) and _counts(process)}
    return frozenset(process for process in {*_below(), *marked} if process.pid != os.getpid())


def strays(*, spare: frozenset[psutil.Process] = frozenset()) -> list[str]:
    """Say which processes of this test run are still there, also those that left the family; and end them.

    Args:
        spare: What a longer-lived fixture still wants.
    """
    return _end(_wait(lambda: list(ours() - spare)))


def is_marked(process: psutil.Process) -> bool:
    """Whether a process was started by this run, also where it left the family."""
    try:
        return bool(os.environ.get(MARK)) and process.environ().get(MARK) == os.environ[MARK]
    except psutil.Error:
        return False


def is_one_of_several() -> bool:
    """Whether other processes run tests of the same run beside this one (pytest-xdist's workers)."""
    return _SEVERAL


def others() -> bool:
    """Whether other tests or servers run on this machine."""
    if is_one_of_several():
        return True
    family = {process.pid for process in (psutil.Process(), *psutil.Process().parents())}
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if ("pytest" in words or "koda_ray" in words) and process.pid not in family and not is_marked(process):
            return True
    return False


def _ports() -> set[str]:
    """Where this process listens for TCP connections. Source: proc(5), /proc/pid/net/tcp."""
    own: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor that lists them
            own.add(os.readlink(entry))
    if not any(link.startswith("socket:") for link in own):
        return set()
    found: set[str] = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in _lines(Path("/proc/self/net", table))[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in own:
                address, _, port = fields[1].partition(":")
                words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
                packed = struct.pack(f"={len(words)}I", *words)
                found.add(f"{socket.inet_ntop(family, packed)}:{int(port, 16)}")
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below one, by asking the kernel for each one's children. Source: proc(5), children."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()):
                yield child
                yield from descendants(child)


def _below() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in descendants(os.getpid()):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return [process for process in found if _counts(process)]


def _counts(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
        kept = process.ppid() == os.getpid() and process.name() == _ZYGOTE
        return process.status() != psutil.STATUS_ZOMBIE and not kept and not any(word in command for word in _KEPT)
    except psutil.Error:
        return False


def _folders(whole: bool) -> set[Path]:
    root = Path(tempfile.gettempdir())
    if not root.name.startswith("kt-"):
        return set()
    found: set[Path] = set()
    for path in root.iterdir():
        # what was compiled once for all browsers stays, and is no leak
        if path.name.startswith(_KEPT_FOLDERS):
            continue
        # folders that a process keeps for good (koda-render-0) count by what is in them
        found.update(path.iterdir() if path.name.startswith("koda-") and path.is_dir() else [path])
    for folder in _OUTSIDE:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            found.update(Path(entry.path) for entry in entries if _is_named(entry.name, whole) and _is_own(entry))
    below = f"{root}/"
    found.update(Path(place) for place in (line.split()[1] for line in _lines(_MOUNTS)) if place.startswith(below))
    return found


def _is_named(name: str, whole: bool) -> bool:
    return _OWNED.fullmatch(name) is not None or (whole and _SOCKETS.fullmatch(name) is not None)


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except OSError:
        return False


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
