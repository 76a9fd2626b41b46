"""What one sandbox may use, and how firmly this machine can hold it to that.

A limit is *hard* when the kernel enforces it, *soft* when a watchdog looks every quarter of a second and ends the
sandbox's processes. A hard memory limit needs a cgroup that this user may write to, a hard disk limit the right to
mount (a tmpfs of fixed size). Without a cgroup processes are counted by user (root's sandboxes have one each) or by
user namespace, and a sandbox is kept on as many processors as its limit. ``limit_report`` says which is which, for
``koda doctor``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from koda_ray.sandbox import cgroup
from koda_ray.sandbox.disk import can_mount
from koda_ray.sandbox.processors import are_firm, processors_of

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["LimitLine", "ResourceLimits", "limit_report"]

_MB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ResourceLimits:
    """The limits of one sandbox; ``cpus`` in whole processors' worth of time.

    ``disk_bytes`` is what the project and its caches may hold; ``scratch_bytes`` is each process's own ``/tmp``.
    """

    memory_bytes: int = 2048 * _MB
    pids: int = 256
    disk_bytes: int = 1024 * _MB
    cpus: float = 2.0
    scratch_bytes: int = 256 * _MB
    open_files: int = 8192
    soft: bool = False
    """Whether they are held by watchdog even where the kernel could; for tests of the watchdog."""

    @classmethod
    def of(cls, settings: Settings) -> ResourceLimits:
        """Read the limits from settings (SANDBOX_MEMORY_MB, SANDBOX_PIDS, SANDBOX_DISK_MB)."""
        memory = settings.sandbox_memory_mb * _MB
        return cls(
            memory_bytes=memory,
            pids=settings.sandbox_pids,
            disk_bytes=settings.sandbox_disk_mb * _MB,
            cpus=float(max(1, min(4, os.cpu_count() or 1))),
            scratch_bytes=min(256 * _MB, memory // 8),
        )

    @property
    def tmpfs_bytes(self) -> int:
        """The size of a project's tmpfs: it is charged to the memory limit, so at most half of that."""
        return min(self.disk_bytes, self.memory_bytes // 2)

    def disk_size(self, disk: Literal["tmpfs", "directory"]) -> int:
        """The bytes that a project's disk of a kind may hold."""
        return self.tmpfs_bytes if disk == "tmpfs" else self.disk_bytes

    @property
    def inodes(self) -> int:
        """How many files and directories a project's tmpfs may hold."""
        return max(16_384, self.tmpfs_bytes // 8192)


@dataclass(frozen=True, kw_only=True)
class LimitLine:
    """One limit, its value in words, and how it is held here."""

    name: Literal["memory", "pids", "cpu", "disk", "network"]
    value: str
    kind: Literal["hard", "soft", "none"]
    how: str


def limit_report(limits: ResourceLimits, *, root: Path) -> tuple[LimitLine, ...]:
    """Say for each limit whether this machine holds it hard, soft or not at all.

    Args:
        limits: The limits that sandboxes will be given.
        root: Where sandboxes will lie (SANDBOX_PATH).
    """
    found = cgroup.find()
    mounts = can_mount(root)
    memory = f"{limits.memory_bytes // _MB} MB"
    disk = f"{(limits.tmpfs_bytes if mounts else limits.disk_bytes) // _MB} MB"

    def line(name: Literal["memory", "pids"], value: str, fallback: LimitLine) -> LimitLine:
        if found is not None and name in found.controllers:
            return LimitLine(name=name, value=value, kind="hard", how=f"cgroup v{found.version}")
        return fallback

    return (
        line(
            "memory",
            memory,
            LimitLine(
                name="memory",
                value=memory,
                kind="soft",
                how="watchdog over what processes and file systems hold in memory; no writable cgroup",
            ),
        ),
        line(
            "pids",
            f"{limits.pids} processes",
            LimitLine(
                name="pids",
                value=f"{limits.pids} processes",
                kind="hard",
                how="RLIMIT_NPROC of the sandbox's own user"
                if os.geteuid() == 0
                else "RLIMIT_NPROC in the sandbox's user namespace, one for each program that uses it",
            ),
        ),
        _by_quota(limits, found) or _by_processors(limits),
        LimitLine(name="disk", value=disk, kind="hard", how="tmpfs of fixed size, charged to the memory limit")
        if mounts
        else LimitLine(name="disk", value=disk, kind="soft", how="watchdog that counts bytes; no right to mount"),
        LimitLine(
            name="network",
            value="none, or what SANDBOX_EGRESS_HOSTS lists",
            kind="hard",
            how="a network namespace with nothing but loopback; the way out is a proxy's Unix socket",
        ),
    )


def _by_quota(limits: ResourceLimits, found: cgroup.CgroupRoot | None) -> LimitLine | None:
    """Say that a control group bounds processor time, where one was seen to."""
    if found is None or not cgroup.can_hold_processors(found, limits.cpus):
        return None
    return LimitLine(name="cpu", value=f"{limits.cpus:g} processors", kind="hard", how=f"cgroup v{found.version}")


def _by_processors(limits: ResourceLimits) -> LimitLine:
    """Say how processors are bounded without a control group."""
    some = len(processors_of("", limits.cpus))
    if not some:
        return LimitLine(name="cpu", value="all processors", kind="hard", how="it may use as many as there are")
    how = "the sandbox's processors (sched_setaffinity), whoever else uses them; no cgroup holds it to less"
    return LimitLine(name="cpu", value=f"{some} processors", kind="hard" if are_firm() else "soft", how=how)
