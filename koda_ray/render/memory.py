"""How much memory a browser and everything under it use, and its end when that is more than its share.

A page may allocate without end, and the kernel would end whatever it likes best. So each browser has a cap, a share of
the machine, and is looked at so often that memory filled as fast as memory can be is caught soon after it passes it.
Control groups would need rights that an ordinary user in a container has not; what a process holds can be read by all.

The process that works with the browser is looked at too: what it keeps for a page is bounded piece by piece, and this
is the wall behind that.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from koda_ray.errors import InvalidInput, PageError
from koda_ray.processes import family

__all__ = [
    "MIN_MB",
    "OUT_OF_MEMORY",
    "MemoryLimit",
    "MemoryWatch",
    "helper_threads",
    "machine_bytes",
    "tree_bytes",
    "usual_browsers",
]

OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""The code of the `PageError` that says that a page used more than its browser may."""

MIN_MB = 256
_MIB = 1 << 20
_SHARE = 0.6
# a page of 1920x1080 with WebGL takes 270 MiB, at twice the pixels for each of CSS 370
_LEAST_BYTES = 512 * _MIB
_BROWSER_BYTES = 1 << 30
_MOST_BYTES = 8 << 30
# V8 keeps a page's objects within 4 GiB; near that it collects garbage for minutes before it gives up
_MOST_PRIVATE_BYTES = 3 << 30
_LEAST_WORKER_BYTES = 1 << 30
_KEEP_SHARE = 0.25
_KEEP_LEAST_BYTES = 512 * _MIB
_FASTEST_BYTES_S = 4 << 30
_SHORTEST_S, _LONGEST_S = 0.05, 1.0
_CGROUP = Path("/sys/fs/cgroup")


def usual_browsers() -> int:
    """Return how many browsers this machine runs at once: a third more than processors, where memory has room for them.

    A page's frame passes through six processes one after the other, so that two browsers leave a quarter of two
    processors idle: 36 ms a frame of a small WebGL page, where three take 25.
    """
    processors = len(os.sched_getaffinity(0))
    fitting = int(machine_bytes() * _SHARE) // _BROWSER_BYTES
    return max(processors, min(math.ceil(processors * 4 / 3), fitting))


def helper_threads(pages: int) -> int:
    """Return how many threads a page is drawn with, where so many are drawn at once on this machine.

    None where there is no more than one processor for each: helpers would only wait for each other then.
    """
    share = len(os.sched_getaffinity(0)) // max(1, pages)
    return share if share > 1 else 0


@dataclass(frozen=True)
class MemoryLimit:
    """How much memory a browser may use.

    Args:
        megabytes: In MiB; a share of the machine's memory when None.
        browsers: How many share the machine; one when None.

    Raises:
        InvalidInput: The cap is too small for a browser.
    """

    megabytes: int | None = None
    browsers: int | None = None

    def __post_init__(self) -> None:
        if self.megabytes is not None and self.megabytes < MIN_MB:
            raise InvalidInput(f"{self.megabytes} MiB of memory for a browser: give {MIN_MB} or more")

    def among(self, browsers: int) -> MemoryLimit:
        """Return the limit where so many browsers share the machine, unless it says how many."""
        return self if self.browsers else replace(self, browsers=browsers)

    @property
    def cap_bytes(self) -> int:
        """What a browser with all of its processes may use on this machine."""
        if self.megabytes is not None:
            return self.megabytes * _MIB
        share = int(machine_bytes() * _SHARE / (self.browsers or 1))
        return max(_LEAST_BYTES, min(_MOST_BYTES, share))

    @property
    def private_bytes(self) -> int:
        """What one process may hold alone; as much as all of them where somebody chose the cap."""
        return self.cap_bytes if self.megabytes is not None else min(_MOST_PRIVATE_BYTES, self.cap_bytes)

    @property
    def worker_bytes(self) -> int:
        """By how much the process that works with the browser may grow meanwhile, its kept bundles included."""
        return max(_LEAST_WORKER_BYTES, self.cap_bytes)

    @property
    def keep_bytes(self) -> int:
        """What a browser without a page may use; one that uses more is not used again."""
        return max(_KEEP_LEAST_BYTES, int(self.cap_bytes * _KEEP_SHARE))


class MemoryWatch:
    """Looks at a process and everything under it, and at this one, until it is closed or they use too much.

    Args:
        pid: The process.
        limit: What they may use.
        over: Hears once that they used more, as the error to end everything with.
    """

    def __init__(self, pid: int, limit: MemoryLimit, over: Callable[[PageError], None]) -> None:
        self._pid = pid
        self._cap, self._private_cap = limit.cap_bytes, limit.private_bytes
        self._keep = limit.keep_bytes
        self._worker_cap, self._worker_before = limit.worker_bytes, _held(os.getpid())[0]
        self._over = over
        self._looking = asyncio.create_task(self._look())

    def keeps_too_much(self) -> bool:
        """Whether the process holds more than one that nobody uses should."""
        return _look_at(self._pid, cap_bytes=self._keep).all > self._keep

    async def close(self) -> None:
        """Look no more."""
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            held = _look_at(self._pid, cap_bytes=self._cap)
            grown = _held(os.getpid())[0] - self._worker_before
            used, cap = (held.private, self._private_cap) if held.private > self._private_cap else (held.all, self._cap)
            if used > cap:
                words = (
                    f"the page used {_shown(used)} of memory and may use {_shown(cap)}: does it make canvases, "
                    "textures or arrays anew at each frame? Make them once, render it smaller, or allow more with "
                    "KODA_RENDER_MEMORY_MB"
                )
                break
            if grown > self._worker_cap:
                used, cap = grown, self._worker_cap
                words = (
                    f"what serves the page grew by {_shown(used)} of memory and may grow by {_shown(cap)}: does it ask "
                    "for files or log messages without end? Ask once, make files smaller, or allow more with "
                    "KODA_RENDER_MEMORY_MB"
                )
                break
            left = min(self._cap - held.all, self._private_cap - held.private, self._worker_cap - grown)
            await asyncio.sleep(min(_LONGEST_S, max(_SHORTEST_S, left / _FASTEST_BYTES_S)))
        self._over(PageError(words, code=OUT_OF_MEMORY, context={"used_bytes": used, "cap_bytes": cap}))


def tree_bytes(pid: int) -> int:
    """Return the memory that a process and those below it hold, in bytes, without what they read from files.

    What they share counts once: a page's layers lie in memory of the process that draws and of the one that shows them.
    """
    return _look_at(pid).all


@dataclass(frozen=True)
class _Held:
    """What all processes hold, and what the one with the most holds alone, in bytes."""

    all: int
    private: int


def _look_at(pid: int, *, cap_bytes: int = 0) -> _Held:
    """Add up a family. What two of them share may be the same for others or not: above ``cap_bytes`` it is counted."""
    each = {one: _held(one) for one in family([pid])}
    private = sum(alone for alone, _ in each.values())
    shared = [some for _, some in each.values()]
    most = max(alone for alone, _ in each.values())
    if private + sum(shared) <= cap_bytes:
        return _Held(private + max(shared), most)
    parts = [part for one, (_, some) in each.items() if some and (part := _part_of_shared(one)) is not None]
    return _Held(private + max(max(shared), sum(parts)), most)


def _part_of_shared(pid: int) -> int | None:
    """Return a process's part of the memory that it shares: each page by how many have it; None where nobody tells.

    The kernel walks over every page for it, so it is asked only where it matters. Source: proc_pid_smaps(5).
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss_Shmem:"):
                return int(line.split()[1]) * 1024
    return None


@cache
def machine_bytes() -> int:
    """Return the memory of this machine, or of the container we are in where that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _limit_files():
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(file.read_text()))
    return min(limits)


def _limit_files() -> Iterator[Path]:
    """Name the files that may hold a limit of a control group of ours, of version 2 and of version 1."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            inside = Path(path.lstrip("/"))
            if controllers and "memory" not in controllers.split(","):
                continue
            root, name = (_CGROUP / "memory", "memory.limit_in_bytes") if controllers else (_CGROUP, "memory.max")
            yield from (root / folder / name for folder in (inside, *inside.parents))


def _held(pid: int) -> tuple[int, int]:
    """Return what a process holds alone and what it may share with others; nothing when it is gone."""
    fields: dict[bytes, int] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            name, _, value = line.partition(b":")
            if name.startswith((b"Rss", b"VmSwap", b"VmRSS")):
                fields[name] = int(value.split()[0]) * 1024
    alone = fields.get(b"RssAnon", fields.get(b"VmRSS", 0)) + fields.get(b"VmSwap", 0)
    return alone, fields.get(b"RssShmem", 0)


def _shown(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB" if size >= 1024**3 else f"{size // _MIB} MiB"
