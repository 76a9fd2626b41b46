"""One control group for each sandbox: memory, processes and CPU time, by cgroup v1 or v2.

Groups are made below this process's own, so a limit that an administrator has put on the whole program holds for its
sandboxes too. Version 2 gives controllers only to children of groups without processes; there the nearest ancestor
that has them enabled is used. Where no group can be made, None says so and the watchdog takes over.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

__all__ = [
    "CgroupRoot",
    "can_hold_processors",
    "enter_files",
    "find",
    "holds_processors",
    "kill_all",
    "make",
    "oom_kills",
    "pids",
    "pids_refused",
    "plan",
    "remove",
]

_WANTED = ("memory", "pids", "cpu")
_PERIOD_US = 100_000
_REMOVE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class CgroupRoot:
    """Where groups can be made: a directory for each controller (version 1) or the same one for all (version 2)."""

    version: Literal[1, 2]
    directories: tuple[tuple[str, Path], ...]

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers that can be used."""
        return frozenset(name for name, _ in self.directories)


@lru_cache(maxsize=1)
def find() -> CgroupRoot | None:
    """Find where this process may make groups; tried once for real, then remembered."""
    own = _own_groups()
    v1 = tuple((name, path) for name in _WANTED if (path := own.get(name)) is not None and _can_make(path, name))
    if any(name == "memory" for name, _ in v1):
        return CgroupRoot(1, v1)
    unified = own.get("")
    if unified is None:
        return None
    for base in (unified, *unified.parents):
        if not (base / "cgroup.procs").exists():
            break
        _enable(base)
        usable = tuple((name, base) for name in _WANTED if _can_make(base, name))
        if any(name == "memory" for name, _ in usable):
            return CgroupRoot(2, usable)
    return None


def plan(root: CgroupRoot, name: str) -> tuple[Path, ...]:
    """Say which groups ``make`` will make, so that they can be recorded before they exist."""
    return tuple(dict.fromkeys(base / name for _, base in root.directories))


def make(root: CgroupRoot, name: str, *, memory_bytes: int, pids: int, cpus: float) -> tuple[Path, ...]:
    """Make a sandbox's groups, with their limits.

    Returns:
        The groups' directories: they are all that is needed to use, end and remove them.
    """
    made: list[Path] = []
    for controller, base in root.directories:
        group = base / name
        if group not in made:
            group.mkdir(exist_ok=True)
            made.append(group)
        if controller == "memory" and root.version == 1:
            _write(group / "memory.limit_in_bytes", memory_bytes)
            with suppress(OSError):  # the file is there only when swap is accounted
                _write(group / "memory.memsw.limit_in_bytes", memory_bytes)
        elif controller == "memory":
            _write(group / "memory.max", memory_bytes)
            with suppress(OSError):
                _write(group / "memory.swap.max", 0)
        elif controller == "pids":
            _write(group / "pids.max", pids)
        elif controller == "cpu":
            _bound_processors(group, root.version, cpus)
    return tuple(made)


def enter_files(groups: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files that a process writes its id to, to be counted."""
    return tuple(group / "cgroup.procs" for group in groups)


def pids(groups: tuple[Path, ...]) -> set[int]:
    """The processes in any of the groups."""
    found: set[int] = set()
    for group in groups:
        with suppress(OSError):
            found.update(int(line) for line in (group / "cgroup.procs").read_text().split())
    return found


def oom_kills(groups: tuple[Path, ...]) -> int:
    """How often the kernel has ended a process of the groups for memory."""
    return _event(groups, ("memory.oom_control", "memory.events"), "oom_kill")


def pids_refused(groups: tuple[Path, ...]) -> int:
    """How often the kernel has refused the groups a process; 0 while they are ended, when it refuses every one."""
    if any(_reads(group / "pids.max", "0") for group in groups):
        return 0
    return _event(groups, ("pids.events",), "max")


def holds_processors(groups: tuple[Path, ...]) -> bool:
    """Whether the groups bound how much processor time is used: they say so, whatever was written to them."""
    return any(_has_quota(group / file) for group in groups for file in ("cpu.max", "cpu.cfs_quota_us"))


def can_hold_processors(root: CgroupRoot, cpus: float) -> bool:
    """Whether a group made here holds so much processor time; tried for real, as a group above may allow less."""
    base = dict(root.directories).get("cpu")
    if base is None:
        return False
    probe = _probe(base)
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        _bound_processors(probe, root.version, cpus)
        return holds_processors((probe,))
    finally:
        with suppress(OSError):
            probe.rmdir()


def kill_all(groups: tuple[Path, ...]) -> bool:
    """Kill every process in the groups, also those that are being forked meanwhile.

    Returns:
        Whether none is left.
    """
    for group in groups:
        with suppress(OSError):
            _write(group / "pids.max", 0)
        with suppress(OSError):
            _write(group / "cgroup.kill", 1)
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    while living := pids(groups):
        for pid in living:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def remove(groups: tuple[Path, ...]) -> bool:
    """Kill what is in the groups and remove them; whether they are gone."""
    kill_all(groups)
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    for group in groups:
        while group.exists():
            with suppress(OSError):
                group.rmdir()
                break
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
    return True


def _event(groups: tuple[Path, ...], files: Sequence[str], wanted: str) -> int:
    for group in groups:
        for file in files:
            with suppress(OSError):
                for line in (group / file).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == wanted:
                        return int(value)
    return 0


def _reads(file: Path, wanted: str) -> bool:
    try:
        return file.read_text().strip() == wanted
    except OSError:
        return False


def _write(path: Path, value: int | str) -> None:
    # opened without O_CREAT: a file that the kernel does not offer must not be made
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _enable(base: Path) -> None:
    for name in _WANTED:
        with suppress(OSError):
            _write(base / "cgroup.subtree_control", f"+{name}")


def _bound_processors(group: Path, version: Literal[1, 2], cpus: float) -> None:
    """Set a quota and a weight, where the kernel takes them; ``holds_processors`` says whether it did.

    A group weighs as much as one thread beside it; a build has as many as it may use processors.
    """
    quota = max(1000, int(cpus * _PERIOD_US))
    with suppress(OSError):
        if version == 1:
            _write(group / "cpu.cfs_period_us", _PERIOD_US)
            _write(group / "cpu.cfs_quota_us", quota)
        else:
            _write(group / "cpu.max", f"{quota} {_PERIOD_US}")
    with suppress(OSError):
        if version == 1:
            _write(group / "cpu.shares", int(cpus * 1024))
        else:
            _write(group / "cpu.weight", min(10_000, int(cpus * 100)))


def _has_quota(file: Path) -> bool:
    """Whether a quota's file has one. Source: the kernel's cgroup-v2 (``max`` is none) and sched-bwc (-1 is none)."""
    try:
        return file.read_text().split()[0] not in ("max", "-1")
    except (OSError, IndexError):
        return False


def _probe(base: Path) -> Path:
    return base / f"koda-probe-{os.getpid()}-{os.urandom(3).hex()}"


def _can_make(base: Path, controller: str) -> bool:
    probe = _probe(base)
    limit = {
        "memory": ("memory.limit_in_bytes", "memory.max"),
        "pids": ("pids.max",),
        "cpu": ("cpu.cfs_quota_us", "cpu.max"),
    }
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return any((probe / file).exists() for file in limit[controller]) and os.access(base / "cgroup.procs", os.W_OK)
    finally:
        with suppress(OSError):
            probe.rmdir()


def _own_groups() -> dict[str, Path]:
    """This process's group in each hierarchy, by controller; the unified one by the empty name."""
    mounted = dict(_mounts())
    own: dict[str, Path] = {}
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return own
    for line in lines:
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if (mount := mounted.get(name)) is None:
                continue
            root, point = mount
            # in a container the mount shows a part of the hierarchy, and the path counts from the hierarchy's top
            below = path.removeprefix(root) if root != "/" and path.startswith(root) else path
            directory = point / below.lstrip("/")
            own[name] = directory if directory.is_dir() else point
    return own


def _mounts() -> Iterator[tuple[str, tuple[str, Path]]]:
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        fields, _, kind = line.partition(" - ")
        kind, _, options = kind.split(" ", 2)
        root, point = fields.split(" ")[3:5]
        if kind == "cgroup2":
            yield "", (root, Path(point))
        elif kind == "cgroup":
            for option in options.rsplit(" ", 1)[-1].split(","):
                yield option, (root, Path(point))
