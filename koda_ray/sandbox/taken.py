"""What a sandbox's processes take that no folder of the project shows: memory, and files without a name.

Read from ``/proc``, which answers an ordinary user about its own sandboxes as it does root. Memory is what processes
have mapped that no disk holds, what lies in the file systems that each command has in memory, and files in memory that
are only held open. The same page may be in two of them, or in two processes, so that the cheap sum is too high at
times: only where it passes the limit is it looked at page by page.

Not seen are descriptors on their way through a socket, and System V segments that nobody has attached.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from koda_ray.processes import family, threads
from koda_ray.sandbox.isolation import SCRATCH

__all__ = ["memory_bytes", "nameless"]

_MAPPED = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)
_SHARE = re.compile(rb"^Pss_(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)
_MAPPING = re.compile(
    rb"^[0-9a-f]+-[0-9a-f]+ \S{4} [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+).*\n"
    rb"(?:.*\n)*?Pss:\s+(\d+) kB\n(?:.*\n)*?Anonymous:\s+(\d+) kB$",
    re.MULTILINE,
)
_NAMELESS = re.compile(
    rb"^([0-9a-f]+-[0-9a-f]+) \S{4} [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) .* \(deleted\)$", re.MULTILINE
)
_MOST_MAPPINGS_BYTES = 16 << 20
_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_FILES = 2

_libc = ctypes.CDLL(None)


def memory_bytes(
    launchers: Collection[int], *, disks: Sequence[Path] = (), held: Mapping[int, int], enough: int
) -> int:
    """Count the memory that processes and all below them take.

    What begins, ends or is let go while it is looked at may count twice: who acts upon it looks again.

    Args:
        launchers: What was started; the first process of each namespace is right below.
        disks: Directories in memory that are theirs.
        held: The files in memory that they hold open, as ``nameless`` finds them.
        enough: Up to here the sum may be too high; beyond, each page is counted once.
    """
    folders = _folders(launchers, disks)
    elsewhere = sum(folders.values()) + sum(held.values())
    pids = family(launchers)
    mapped = {pid: _sum(_MAPPED, pid, "status") or 0 for pid in pids}
    total = elsewhere + sum(mapped.values())
    if total <= enough:
        return total
    shares = {pid: _sum(_SHARE, pid, "smaps_rollup") for pid in pids}
    each = sum(mapped[pid] if share is None else share for pid, share in shares.items())
    return elsewhere + each - (min(elsewhere, _twice(pids, folders, held)) if elsewhere else 0)


def nameless(pids: Iterable[int], device: int | None = None) -> dict[int, int]:
    """Find the files that have no name any more, since processes hold them open or have them mapped.

    Args:
        pids: The processes.
        device: The file system; None for the kernel's own in memory, where what is mapped counts as memory already.

    Returns:
        The bytes that each file takes, by inode.
    """
    found: dict[int, int] = {}
    for pid in pids:
        if device is not None:
            for inode, size in _mapped(pid, device).items():
                found[inode] = max(size, found.get(inode, 0))
    for pid in pids:
        for task in threads(pid):
            if task != pid and _shares_descriptors(pid, task):
                continue
            with suppress(OSError), os.scandir(f"/proc/{pid}/task/{task}/fd") as fds:
                found |= _opened(fds, _memory_device() if device is None else device)
    return found


def _shares_descriptors(pid: int, task: int) -> bool:
    """Whether a thread has its process's descriptors, as nearly all have; False where the kernel does not say."""
    call = _KCMP.get(platform.machine())
    return call is not None and _libc.syscall(call, pid, task, _KCMP_FILES, 0, 0) == 0


def _opened(fds: Iterator[os.DirEntry[str]], device: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for fd in fds:
        with suppress(OSError):
            info = fd.stat()
            if info.st_nlink == 0 and info.st_dev == device and stat.S_ISREG(info.st_mode):
                found[info.st_ino] = info.st_blocks * 512
    return found


def _mapped(pid: int, device: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for task, text in _read(pid, "maps"):
        for span, major, minor, inode in _NAMELESS.findall(text):
            if os.makedev(int(major, 16), int(minor, 16)) == device:
                try:
                    found[int(inode)] = os.stat(f"/proc/{task}/map_files/{span.decode()}").st_blocks * 512
                except OSError:  # for root alone; what is mapped of it will do
                    first, last = (int(end, 16) for end in span.split(b"-"))
                    found[int(inode)] = found.get(int(inode), 0) + last - first
    return found


def _folders(launchers: Iterable[int], disks: Iterable[Path]) -> dict[int, int]:
    """Return the bytes that lie in each file system in memory, by its device."""
    used: dict[int, int] = {}
    ours = os.stat("/")
    roots: list[str] = []
    for launcher in launchers:
        with suppress(OSError, ValueError):
            for first in map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_bytes().split()):
                root = f"/proc/{first}/root"
                if not os.path.samestat(os.stat(f"{root}/"), ours):  # else it has not entered its own yet
                    roots.append(root)
    for path in (*disks, *(f"{root}{folder}" for root in roots for folder in SCRATCH)):
        with suppress(OSError):
            file_system = os.statvfs(path)
            used[os.stat(path).st_dev] = (file_system.f_blocks - file_system.f_bfree) * file_system.f_frsize
    return used


def _twice(pids: Iterable[int], folders: Collection[int], held: Collection[int]) -> int:
    """Count what is mapped of files that were counted where they lie."""
    total, left = 0, _MOST_MAPPINGS_BYTES
    memory = _memory_device()
    for pid in pids:
        for _, text in _read(pid, "smaps", left) if left > 0 else ():
            left -= len(text)
            for major, minor, inode, share, private in _MAPPING.findall(text):
                device = os.makedev(int(major, 16), int(minor, 16))
                if device in folders or (device == memory and int(inode) in held):
                    total += max(0, int(share) - int(private)) * 1024
    return total


def _sum(field: re.Pattern[bytes], pid: int, file: str) -> int | None:
    for _, text in _read(pid, file):
        if sizes := field.findall(text):
            return sum(map(int, sizes)) * 1024
    return None


def _read(pid: int, file: str, most: int = -1) -> Iterator[tuple[int, bytes]]:
    """Read what a process says of its memory; where its first thread has ended, another one says it."""
    for task in (pid, *(other for other in threads(pid) if other != pid)):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/{file}", "rb") as opened:
            text = opened.read(most)
            if text and (file != "status" or b"\nVmRSS:" in text):
                yield task, text
                return


@cache
def _memory_device() -> int:
    """The device of the kernel's own file system in memory, where files without a name are made."""
    fd = os.memfd_create("koda-probe")
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)
