"""A project's files on this machine's disk, read from outside while hostile code may be changing them.

Blocking calls; the sandbox runs them in a thread. Every open goes through ``beneath``, so no symbolic link leads out,
and what is read is bounded: by size, by number, by depth.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from koda_ray.errors import InvalidPath, KodaError, NotFound, QuotaExceeded, SandboxError, SandboxNotFound
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import FileEntry, FileStamp, Snapshot
from koda_ray.sandbox.beneath import Escapes, open_beneath, opened_beneath, path_of

__all__ = ["DIRECTORY", "MAX_ENTRIES", "MAX_READ_BYTES", "Found", "TreeReader", "escape"]

MAX_READ_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 50_000
DIRECTORY = os.O_PATH | os.O_DIRECTORY
_HIDDEN = frozenset({"node_modules", ".vite"})
_RACY_NS = 20_000_000  # a file changed this recently may change again within one tick of the file system's clock


@dataclass(frozen=True)
class Found:
    """One entry of a directory, not followed."""

    path: str
    is_directory: bool
    is_link: bool
    stat: os.stat_result


class TreeReader:
    """Reads the directory of one project.

    Args:
        root: The project; hostile code may write to it, but not to the directory it lies in.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Read files, in order; the keys are the normalised paths.

        Raises:
            InvalidPath: INVALID_PATH.
            NotFound: FILE_NOT_FOUND.
            SandboxError: READ_FAILED, not a plain file or larger than MAX_READ_BYTES.
        """
        names = [policy.readable(path) for path in paths]
        with self._opened() as root_fd:
            return {name: self._read(root_fd, name) for name in names}

    def list_files(self, path: str, *, recursive: bool) -> list[FileEntry]:
        """List a directory, sorted by path; installed packages, caches and the built ``dist`` are left out.

        Raises:
            InvalidPath: INVALID_PATH.
            NotFound: FILE_NOT_FOUND when there is no such directory.
            QuotaExceeded: QUOTA_EXCEEDED when there are more than MAX_ENTRIES.
        """
        name = policy.readable(path)
        with self._opened() as root_fd:
            self._check_directory(root_fd, name)
            entries = [
                FileEntry(
                    path=found.path,
                    type="directory" if found.is_directory else "file",
                    size_bytes=0 if found.is_directory else found.stat.st_size,
                )
                for found in self._walk(root_fd, name, recursive=recursive)
                if not found.is_link or self._leads_inside(root_fd, found.path)
            ]
        return sorted(entries, key=lambda entry: entry.path)

    def check_directory(self, path: str) -> str:
        """Check that a path names a directory of the project and return it normalised."""
        name = policy.readable(path)
        with self._opened() as root_fd:
            self._check_directory(root_fd, name)
        return name

    def snapshot(self, known: Mapping[str, FileStamp] | None = None) -> Snapshot:
        """Collect every plain file, reading only those whose stamp is not the known one.

        Symbolic links, sockets, pipes and names that no checkpoint can hold are named in ``skipped``.
        """
        known = known or {}
        stamps: dict[str, FileStamp] = {}
        changed: dict[str, bytes] = {}
        skipped: list[str] = []
        with self._opened() as root_fd:
            for found in self._walk(root_fd, ".", recursive=True):
                if found.is_directory:
                    continue
                if found.is_link or not stat.S_ISREG(found.stat.st_mode) or not _is_storable(found.path):
                    skipped.append(found.path)
                    continue
                stamp = _stamp(found.stat)
                if stamp.changed_ns and known.get(found.path) == stamp:
                    stamps[found.path] = stamp
                    continue
                try:
                    changed[found.path] = self._read(root_fd, found.path)
                except NotFound:
                    continue  # removed since it was listed
                except KodaError:
                    skipped.append(found.path)
                    continue
                stamps[found.path] = stamp
        removed = tuple(sorted(set(known) - set(stamps)))
        return Snapshot(stamps=stamps, changed=changed, removed=removed, skipped=tuple(sorted(skipped)))

    def usage(self) -> tuple[int, int]:
        """Count the bytes on disk, and the files and directories, of everything in the project."""
        size = entries = 0
        with self._opened() as root_fd:
            for found in self._walk(root_fd, ".", recursive=True, everything=True):
                size += found.stat.st_blocks * 512
                entries += 1
        return size, entries

    # inside

    @contextmanager
    def _opened(self) -> Generator[int]:
        try:
            fd = os.open(self._root, DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SandboxNotFound(
                f"the sandbox of {self._root} is gone; make another and restore the last checkpoint into it"
            ) from None
        try:
            yield fd
        finally:
            os.close(fd)

    def _read(self, root_fd: int, name: str) -> bytes:
        try:
            with opened_beneath(root_fd, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as fd:
                real = path_of(fd, root_fd)
                if real is None:
                    raise _not_found(name)
                policy.readable(real)
                info = os.fstat(fd)
                if not stat.S_ISREG(info.st_mode):
                    kind = "a directory; list it instead" if stat.S_ISDIR(info.st_mode) else "not a plain file"
                    raise SandboxError(f"{name!r} is {kind}", code="READ_FAILED")
                if info.st_size > MAX_READ_BYTES:
                    raise SandboxError(
                        f"{name!r} has {info.st_size} bytes, more than the {MAX_READ_BYTES} that can be read at once",
                        code="READ_FAILED",
                    )
                return _read_all(fd, info.st_size)
        except Escapes:
            raise escape(name) from None
        except (FileNotFoundError, NotADirectoryError):
            raise _not_found(name) from None
        except OSError as error:
            raise SandboxError(f"{name!r} could not be read: {error.strerror}", code="READ_FAILED") from error

    def _check_directory(self, root_fd: int, name: str) -> None:
        try:
            with opened_beneath(root_fd, name, DIRECTORY) as fd:
                real = path_of(fd, root_fd)
                if real is None:
                    raise _not_found(name)
                policy.readable(real)
        except Escapes:
            raise escape(name) from None
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                f"there is no directory {name!r} in the project; list '.' to see what there is", code="FILE_NOT_FOUND"
            ) from None
        except OSError as error:
            raise SandboxError(f"{name!r} could not be listed: {error.strerror}", code="READ_FAILED") from error

    def _walk(self, root_fd: int, start: str, *, recursive: bool, everything: bool = False) -> Iterator[Found]:
        waiting = deque([start])
        count = 0
        while waiting:
            below = waiting.popleft()
            try:
                fd = open_beneath(root_fd, below, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                if below == start:
                    raise
                continue  # removed, or turned into a link, since it was listed
            try:
                with os.scandir(fd) as entries:
                    for entry in entries:
                        path = entry.name if below == "." else f"{below}/{entry.name}"
                        if not everything and (entry.name in _HIDDEN or path == "dist"):
                            continue
                        try:
                            info = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        count += 1
                        if count > MAX_ENTRIES and not everything:
                            raise QuotaExceeded(
                                f"the project has more than {MAX_ENTRIES} files and directories; "
                                "remove what is not needed"
                            )
                        is_directory = stat.S_ISDIR(info.st_mode)
                        yield Found(path, is_directory, stat.S_ISLNK(info.st_mode), info)
                        if is_directory and recursive and len(os.fsencode(path)) <= policy.MAX_PATH_BYTES:
                            waiting.append(path)
            finally:
                os.close(fd)

    def _leads_inside(self, root_fd: int, path: str) -> bool:
        try:
            with opened_beneath(root_fd, path, os.O_PATH) as fd:
                return path_of(fd, root_fd) is not None
        except OSError:
            return False


def escape(path: str) -> InvalidPath:
    """Make the error for a path whose links lead out of the project."""
    return policy.invalid_path(path, "escape", "a symbolic link in it leads out of the project")


def _not_found(name: str) -> NotFound:
    return NotFound(
        f"there is no file {name!r} in the project; list the directory to see what there is",
        code="FILE_NOT_FOUND",
        context={"path": name},
    )


def _is_storable(path: str) -> bool:
    try:
        return policy.storable(path) == path
    except InvalidPath:
        return False


def _stamp(info: os.stat_result) -> FileStamp:
    recent = time.time_ns() - info.st_ctime_ns < _RACY_NS
    return FileStamp(size_bytes=info.st_size, changed_ns=0 if recent else info.st_ctime_ns, inode=info.st_ino)


def _read_all(fd: int, size: int) -> bytes:
    chunks: list[bytes] = []
    left = size + 1  # one more, so that a file that grew is noticed and cut where it was
    while left > 0:
        chunk = os.read(fd, min(left, 1 << 20))
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)[:size] if left <= 0 else b"".join(chunks)
