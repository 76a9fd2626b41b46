"""Sees which files of a project change: inotify says when to look, and looking says what there is.

What changed is the difference between two looks, not the kernel's events. So no event can be lost or believed that
hostile code has made up, a thousand writes to one file are one change, a queue that runs over means one more look, and
where inotify cannot be had the same is done by looking from time to time. Looking is bounded in what it costs: between
two looks lies several times what the last one took.

The same code watches from outside (this machine's sandboxes) and inside (a container's first process, the helper of a
sandbox elsewhere). Directories are watched through descriptors that were opened ``beneath`` the project.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Literal, Protocol, TypeVar, cast

from koda_ray.errors import SandboxError
from koda_ray.sandbox.base import FileChange, FileStamp
from koda_ray.sandbox.policy import is_storable
from koda_ray.sandbox.reading import TreeReader

__all__ = ["MAX_BATCH", "Watcher", "checked_changes", "differences", "in_batches", "watch"]

MAX_BATCH = 1000
"""The most changes that are told at once."""

_KINDS: dict[str, Literal["added", "modified", "removed"]] = {
    "added": "added",
    "modified": "modified",
    "removed": "removed",
}
_MAX_DIRECTORIES = 4096  # of the kernel's watches, which all programs of a user share
_INIT = 0o4000 | 0o2000000  # IN_NONBLOCK, IN_CLOEXEC; Source: linux/inotify.h
# modify, attrib, close_write, moved_from, moved_to, create, delete, delete_self, move_self; only of directories
_MASK = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x01000000
_RACY_NS = 20_000_000  # what changed within one tick of the file system's clock cannot be told apart
_SETTLE_S = 0.3
_QUIET_S = 0.02
_POLL_S = 0.5
_DISTRUST_S = 10.0  # how long inotify's silence is believed
_REST = 4


T = TypeVar("T")


class _InThread(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Watcher:
    """Looks at the files below a directory, and knows when it is worth it. Blocking calls, but for ``stirred``.

    Args:
        tree: The project.
        path: The directory, normalised.
        known: What an earlier look found; what is there now when None.
    """

    def __init__(self, tree: TreeReader, path: str, *, known: Mapping[str, FileStamp] | None = None) -> None:
        self._tree = tree
        self._path = path
        self._known = known
        self._fd = _inotify("inotify_init1", _INIT)
        self._looking = Lock()
        self._closed = False
        self._whole = False
        self._rested_at = 0.0
        self.stamps: dict[str, FileStamp] = {}
        """What the last look found."""

    def look(self) -> list[FileChange]:
        """Look, and say what has changed since the look before, sorted by path; the first one says so of ``known``."""
        with self._looking:
            found = self._settled()
        if self._closed:
            self.close()
        changes = [] if self._known is None else differences(self._known, found)
        self._known = self.stamps = found
        return changes

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is worth looking; false when it is not by then."""
        if self._fd < 0 or not self._whole:
            time.sleep(min(timeout_s, _POLL_S))
            return True
        return bool(select.select([self._fd], [], [], timeout_s)[0])

    async def stirred(self) -> None:
        """As ``wait``, without blocking and at most until silence is not believed any more."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._rested_at - time.monotonic()))
        if self._fd < 0 or not self._whole:
            await asyncio.sleep(_POLL_S)
            return
        ready = asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            async with asyncio.timeout(_DISTRUST_S):
                await ready.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        """Let go of the kernel's watches, once nobody looks any more; may be called twice."""
        self._closed = True
        if self._looking.acquire(blocking=False):  # else the look that goes on in another thread does it
            fd, self._fd = self._fd, -1
            self._looking.release()
            if fd >= 0:
                os.close(fd)

    # inside

    def _settled(self) -> dict[str, FileStamp]:
        """Look until nothing is so fresh that its next change could not be told, or for a moment at most."""
        began = time.monotonic()
        while True:
            self._drain()
            looked = time.monotonic()
            found = self._scan()
            took_s = time.monotonic() - looked
            newest = max((stamp.changed_ns for stamp in found.values()), default=0)
            if time.time_ns() - newest > _RACY_NS or time.monotonic() - began > _SETTLE_S:
                self._rested_at = time.monotonic() + _REST * took_s
                return found
            time.sleep(_QUIET_S)

    def _scan(self) -> dict[str, FileStamp]:
        left = _MAX_DIRECTORIES
        self._whole = self._fd >= 0

        def entered(fd: int) -> None:
            nonlocal left
            left -= 1
            if left < 0 or _inotify("inotify_add_watch", self._fd, f"/proc/self/fd/{fd}".encode(), _MASK) < 0:
                self._whole = False

        return self._tree.stamps(self._path, entered=entered if self._fd >= 0 else None)

    def _drain(self) -> None:
        with suppress(OSError):
            while self._fd >= 0 and os.read(self._fd, 65536):
                pass


def differences(before: Mapping[str, FileStamp], after: Mapping[str, FileStamp]) -> list[FileChange]:
    """Say what leads from one look to another, sorted by path."""
    found = [FileChange(path=path, kind="removed") for path in before.keys() - after.keys()]
    for path, stamp in after.items():
        if path not in before:
            found.append(FileChange(path=path, kind="added"))
        elif before[path] != stamp:
            found.append(FileChange(path=path, kind="modified"))
    return sorted(found, key=lambda change: change.path)


def in_batches(changes: Sequence[FileChange]) -> list[tuple[FileChange, ...]]:
    """Divide changes into pieces that can be told at once."""
    return [tuple(changes[start : start + MAX_BATCH]) for start in range(0, len(changes), MAX_BATCH)]


def checked_changes(value: object) -> tuple[FileChange, ...]:
    """Read changes that were told from inside a sandbox, where hostile code runs.

    Raises:
        SandboxError: PROVIDER_ERROR, they are none.
    """
    found: list[FileChange] = []
    for change in cast("list[object]", value if isinstance(value, list) else [None]):
        match change:
            case [str(path), str(kind)] if kind in _KINDS and is_storable(path):
                found.append(FileChange(path=path, kind=_KINDS[kind]))
            case _:
                raise SandboxError(
                    "the sandbox told of changes to what is no file; make another sandbox and restore the last "
                    "checkpoint into it"
                )
    return tuple(found)


async def watch(tree: TreeReader, path: str, *, in_thread: _InThread) -> AsyncGenerator[tuple[FileChange, ...]]:
    """Tell changes as ``Sandbox.watch`` does.

    Args:
        tree: The project.
        path: The directory, as it was given.
        in_thread: Runs what blocks.
    """
    watcher = Watcher(tree, await in_thread(lambda: tree.check_directory(path)))
    try:
        await in_thread(watcher.look)
        yield ()
        while True:
            await watcher.stirred()
            for batch in in_batches(await in_thread(watcher.look)):
                yield batch
    finally:
        watcher.close()


def _inotify(name: str, *arguments: int | bytes) -> int:
    """Call the kernel's; negative where it refuses, or where there is none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return -1 if call is None else int(call(*arguments))
