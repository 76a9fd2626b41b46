"""A project's files on this machine's disk, read from outside while hostile code may be changing them.

Blocking calls; the sandbox runs them in a thread. Every open goes through ``beneath``, so no symbolic link leads out,
and what is read is bounded while it is read: each file, all together, their number, their depth. Sizes are those that
a reader sees: of a sparse file a disk's limit counts nothing.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from koda_ray.errors import InvalidPath, KodaError, NotFound, QuotaExceeded, SandboxError, SandboxNotFound
from koda_ray.hearsay import unbroken
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import FileEntry, FileStamp, Skip, Snapshot, is_unread
from koda_ray.sandbox.beneath import Escapes, open_beneath, opened_beneath, path_of
from koda_ray.sandbox.fitting import left_out
from koda_ray.sandbox.weighing import weigh

__all__ = ["DIRECTORY", "MAX_ENTRIES", "MAX_READ_BYTES", "DirectoryEntry", "TreeReader", "escape"]

MAX_READ_BYTES = 256 * 1024 * 1024
"""What one file may have, and all together that are read at once."""
MAX_ENTRIES = 50_000
_MAX_PROJECT_BYTES = 1024**3
DIRECTORY = os.O_PATH | os.O_DIRECTORY
_HIDDEN = frozenset({"node_modules", ".vite"})
_RACY_NS = 20_000_000  # a file changed this recently may change again within one tick of the file system's clock


@dataclass(frozen=True)
class DirectoryEntry:
    """One entry of a directory, not followed."""

    path: str
    is_directory: bool
    is_link: bool
    stat: os.stat_result


@dataclass
class _Survey:
    """What a snapshot will hold, before any file is read.

    Attributes:
        left_bytes: By how much the files may have grown together until they are read.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    folders: set[str] = field(default_factory=set[str])
    modes: dict[str, int] = field(default_factory=dict[str, int])
    skipped: dict[str, Skip] = field(default_factory=dict[str, Skip])
    left_bytes: int = 0


class _Larger(SandboxError):
    """A file has more bytes than are read of it."""


class TreeReader:
    """Reads the directory of one project.

    Args:
        root: The project; hostile code may write to it, but not to the directory it lies in.
        most_bytes: What the files of one snapshot may have together.
    """

    def __init__(self, root: Path, *, most_bytes: int = _MAX_PROJECT_BYTES) -> None:
        self._root = root
        self._most_bytes = most_bytes
        self._weighing = threading.Lock()  # a folder that is opened to be counted is closed again afterwards

    @property
    def device(self) -> int:
        """The file system that it lies on."""
        return os.stat(self._root).st_dev

    def read_files(
        self, paths: Sequence[str], *, before_bytes: int = 0, most_bytes: int | None = None
    ) -> dict[str, bytes]:
        """Read files, in order; the keys are the normalised paths.

        Args:
            paths: Which.
            before_bytes: What was read already, where one read is made of several calls.
            most_bytes: What they may have together, where that is less than MAX_READ_BYTES.

        Raises:
            InvalidPath: INVALID_PATH.
            NotFound: FILE_NOT_FOUND.
            QuotaExceeded: QUOTA_EXCEEDED, they have more than that together; ``sizeBytes`` says how many.
            SandboxError: READ_FAILED, not a plain file or larger than MAX_READ_BYTES.
        """
        found: dict[str, bytes] = {}
        read, most = before_bytes, _least(MAX_READ_BYTES, most_bytes)
        with self._opened() as root_fd:
            for name in dict.fromkeys(policy.readable(path) for path in paths):
                found[name] = self._read(root_fd, name, left_bytes=most - read, before_bytes=read)
                read += len(found[name])
        return found

    def list_files(
        self, path: str, *, recursive: bool, outside: Callable[[str], None] | None = None
    ) -> list[FileEntry]:
        """List a directory, sorted by path; installed packages, caches and the built ``dist`` are left out.

        Args:
            path: The directory.
            recursive: Whether what is below its directories is listed too.
            outside: Told of each link that is left out because it leads to what is not the sandbox's own.

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
                    path=unbroken(found.path),  # one that cannot be written cannot be asked for either; it is shown
                    type="directory" if found.is_directory else "file",
                    size_bytes=0 if found.is_directory else found.stat.st_size,
                )
                for found in self._walk(root_fd, name, recursive=recursive)
                if not found.is_link or self._leads_inside(root_fd, found.path, outside)
            ]
        return sorted(entries, key=lambda entry: entry.path)

    def check_directory(self, path: str) -> str:
        """Check that a path names a directory of the project and return it normalised."""
        name = policy.readable(path)
        with self._opened() as root_fd:
            self._check_directory(root_fd, name)
        return name

    def snapshot(
        self,
        known: Mapping[str, FileStamp] | None = None,
        *,
        found: Callable[[str, bytes], None] | None = None,
        most_bytes: int | None = None,
    ) -> Snapshot:
        """Collect every plain file, reading only those whose stamp is not the known one.

        What is left out is named in ``skipped``: where all files together have more bytes than are kept of a project,
        the largest are. A file of ``known`` that cannot be read any more, or that lies below a folder that cannot,
        counts as there and unchanged. A folder that holds nothing that is kept counts as empty.

        Args:
            known: The stamps of an earlier snapshot of the same files.
            found: Takes each file as it is read, in place of ``changed``, which then stays empty.
            most_bytes: What those that are kept may have together.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED when there are more than MAX_ENTRIES, what is kept of files that cannot be
                read any more leaves no room, or they have more than ``most_bytes``; ``sizeBytes`` says how many.
            SandboxError: READ_FAILED, nobody may list the project's own folder.
            SandboxNotFound: SANDBOX_NOT_FOUND, the project is gone.
        """
        known = known or {}
        stamps: dict[str, FileStamp] = {}
        changed: dict[str, bytes] = {}
        take = found or changed.__setitem__
        with self._opened() as root_fd:
            seen = self._survey(root_fd, known, most_bytes=most_bytes)
            for path, info in seen.files.items():
                if path in seen.skipped:
                    continue
                stamp = _stamp(info)
                if not stamp.changed_ns or known.get(path) != stamp:
                    try:
                        data = self._read(root_fd, path, most_bytes=info.st_size + seen.left_bytes)
                    except NotFound:
                        continue  # removed since it was listed
                    except _Larger:
                        seen.skipped[path] = "large"
                        continue
                    except KodaError:
                        seen.skipped[path] = "unreadable"
                        continue
                    seen.left_bytes -= max(0, len(data) - info.st_size)
                    stamp = replace(stamp, size_bytes=len(data))  # it may have grown, and that is what is held of it
                    take(path, data)
                stamps[path] = stamp
                if (mode := policy.kept_mode(info.st_mode)) != policy.PLAIN_MODE:
                    seen.modes[path] = mode
        for path in known.keys() - stamps.keys():
            if is_unread(path, seen.skipped):
                stamps[path] = known[path]
        self._check_fits(stamps)
        filled = {path.rpartition("/")[0] for path in (*seen.folders, *stamps)}
        return Snapshot(
            stamps=stamps,
            changed=changed,
            removed=tuple(sorted(set(known) - set(stamps))),
            skipped=seen.skipped,
            modes=seen.modes,
            folders=tuple(sorted(seen.folders - filled - stamps.keys())),
        )

    def stamps(self, path: str, *, entered: Callable[[int], None] | None = None) -> dict[str, FileStamp]:
        """Stamp every plain file below a directory, without reading any; nothing when the directory is gone.

        Args:
            path: The directory, normalised.
            entered: Told of each directory, as an open descriptor, before it is listed.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED when there are more than MAX_ENTRIES.
            SandboxNotFound: SANDBOX_NOT_FOUND, the project is gone.
        """
        found: dict[str, FileStamp] = {}
        with self._opened() as root_fd, suppress(FileNotFoundError, NotADirectoryError, Escapes):
            for entry in self._walk(root_fd, path, recursive=True, entered=entered):
                info = entry.stat
                if not entry.is_link and stat.S_ISREG(info.st_mode) and policy.is_storable(entry.path):
                    stamp = FileStamp(size_bytes=info.st_size, changed_ns=info.st_ctime_ns, inode=info.st_ino)
                    found[entry.path] = stamp
        return found

    def usage(self) -> tuple[int, int]:
        """Count the bytes on disk, and the files and directories, of everything in the project.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED, something cannot be counted; it is named.
        """
        with self._weighing, self._opened() as root_fd:
            return weigh(root_fd)

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

    def _survey(self, root_fd: int, known: Mapping[str, FileStamp], *, most_bytes: int | None) -> _Survey:
        """Look at everything without reading any file, and choose what is left out."""
        seen = _Survey()
        for entry in self._walk(root_fd, ".", recursive=True, closed=seen.skipped.__setitem__):
            if entry.is_directory:
                if policy.is_storable(entry.path):
                    seen.folders.add(entry.path)
                    if (mode := policy.kept_folder_mode(entry.stat.st_mode)) != policy.PLAIN_FOLDER_MODE:
                        seen.modes[entry.path] = mode
            elif entry.is_link:
                seen.skipped[entry.path] = self._kind_of_link(root_fd, entry.path)
            elif (why := _skip(entry)) is not None:
                seen.skipped[entry.path] = why
            else:
                seen.files[entry.path] = entry.stat
        kept = {path: stamp.size_bytes for path, stamp in known.items()}
        sizes = {path: info.st_size for path, info in seen.files.items()}
        left_bytes = self._most_bytes - sum(size for path, size in kept.items() if is_unread(path, seen.skipped))
        for path in left_out(sizes, kept, most_bytes=left_bytes):
            seen.skipped[path] = "large"
            sizes[path] = kept.get(path, 0)
        size = sum(sizes.values())
        if most_bytes is not None and size > most_bytes:
            raise QuotaExceeded(
                f"the project's files have {size:,} bytes, and there is room for {most_bytes:,}: end what writes to "
                "them, or remove what is large and not needed, and try again",
                context={"sizeBytes": size},
            )
        seen.left_bytes = max(0, _least(left_bytes, most_bytes) - size)
        return seen

    def _check_fits(self, stamps: Mapping[str, FileStamp]) -> None:
        total = sum(stamp.size_bytes for stamp in stamps.values())
        if total > self._most_bytes:
            raise QuotaExceeded(
                f"the project's files have {total >> 20} MB, those counted that cannot be read any more and stay as "
                f"they were; {self._most_bytes >> 20} MB are kept of a project, and a file with holes counts with its "
                "whole size: remove what is large and not needed, and try again"
            )

    def _read(
        self,
        root_fd: int,
        name: str,
        *,
        before_bytes: int = 0,
        left_bytes: int = MAX_READ_BYTES,
        most_bytes: int = MAX_READ_BYTES,
    ) -> bytes:
        try:
            with opened_beneath(root_fd, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as fd:
                real = path_of(fd, root_fd)
                if real is None:
                    raise _not_found(name)
                policy.readable(real)
                info = os.fstat(fd)
                if not stat.S_ISREG(info.st_mode):
                    special = "not a plain file; remove it, and write one in its place"
                    kind = "a directory; list it instead" if stat.S_ISDIR(info.st_mode) else special
                    raise SandboxError(f"{name!r} is {kind}", code="READ_FAILED")
                if info.st_size > min(most_bytes, MAX_READ_BYTES):
                    raise _Larger(
                        f"{name!r} has {info.st_size} bytes, more than the {MAX_READ_BYTES} that can be read at once; "
                        "read a part of it with a command such as `head -c`",
                        code="READ_FAILED",
                    )
                if info.st_size > left_bytes:
                    raise QuotaExceeded(
                        f"with {name!r} the files that were asked for have {info.st_size + before_bytes} bytes, more "
                        f"than the {left_bytes + before_bytes} that can be read at once; read fewer at a time, or "
                        "smaller ones",
                        context={"path": name, "sizeBytes": info.st_size + before_bytes},
                    )
                return _read_all(fd, info.st_size)
        except Escapes:
            raise escape(name) from None
        except (FileNotFoundError, NotADirectoryError):
            raise _not_found(name) from None
        except OSError as error:
            raise SandboxError(
                f"{name!r} could not be read: {error.strerror}; see with `ls -l` what it is, and who may read it",
                code="READ_FAILED",
            ) from error

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
            raise _unlisted(name, error) from error

    def _walk(
        self,
        root_fd: int,
        start: str,
        *,
        recursive: bool,
        entered: Callable[[int], None] | None = None,
        closed: Callable[[str, Skip], None] | None = None,
    ) -> Iterator[DirectoryEntry]:
        """Go through a directory; ``closed`` is told what cannot be looked at, or lies too deep."""
        waiting = deque([start])
        count = 0
        while waiting:
            below = waiting.popleft()
            try:
                fd = open_beneath(root_fd, below, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except PermissionError as error:
                if below == start:
                    raise _unlisted(start, error) from error
                if closed is not None:
                    closed(below, "unreadable")
                continue
            except OSError:
                if below == start:
                    raise
                continue  # removed, or turned into a link, since it was listed
            try:
                if entered is not None:
                    entered(fd)
                with os.scandir(fd) as entries:
                    for entry in entries:
                        path = entry.name if below == "." else f"{below}/{entry.name}"
                        if entry.name in _HIDDEN or path == "dist":
                            continue
                        try:
                            info = entry.stat(follow_symlinks=False)
                        except PermissionError as error:
                            if closed is not None and below == start:
                                raise _unlisted(start, error) from error
                            if closed is not None:
                                closed(below, "unreadable")
                            continue
                        except OSError:
                            continue
                        count += 1
                        if count > MAX_ENTRIES:
                            raise QuotaExceeded(
                                f"the project has more than {MAX_ENTRIES} files and directories; "
                                "remove what is not needed"
                            )
                        is_directory = stat.S_ISDIR(info.st_mode)
                        yield DirectoryEntry(path, is_directory, stat.S_ISLNK(info.st_mode), info)
                        if not is_directory or not recursive:
                            continue
                        if len(os.fsencode(path)) <= policy.MAX_PATH_BYTES:
                            waiting.append(path)
                        elif closed is not None:
                            closed(path, "deep")
            finally:
                os.close(fd)

    def _kind_of_link(self, root_fd: int, path: str) -> Skip:
        parent, _, last = path.rpartition("/")
        try:
            with opened_beneath(root_fd, parent or ".", DIRECTORY) as fd:
                return "outside" if policy.leads_out(path, os.readlink(last, dir_fd=fd)) else "link"
        except OSError:
            return "link"  # no more, but what it was nobody asks

    def _leads_inside(self, root_fd: int, path: str, outside: Callable[[str], None] | None) -> bool:
        with suppress(OSError), opened_beneath(root_fd, path, os.O_PATH) as fd:
            if path_of(fd, root_fd) is not None:
                return True
        if outside is not None and self._kind_of_link(root_fd, path) == "outside":
            outside(path)
        return False


def _least(most: int, wanted: int | None) -> int:
    return most if wanted is None else min(most, wanted)


def escape(path: str) -> InvalidPath:
    """Make the error for a path whose links lead out of the project."""
    return policy.invalid_path(path, "escape", "a symbolic link in it leads out of the project")


def _not_found(name: str) -> NotFound:
    return NotFound(
        f"there is no file {name!r} in the project; list the directory to see what there is",
        code="FILE_NOT_FOUND",
        context={"path": name},
    )


def _unlisted(name: str, error: OSError) -> SandboxError:
    return SandboxError(
        f"{name!r} could not be listed: {error.strerror}; see with `ls -ld` who may look into it", code="READ_FAILED"
    )


def _skip(entry: DirectoryEntry) -> Skip | None:
    """Say why a checkpoint cannot hold an entry that is no directory and no link, from its looks."""
    if not stat.S_ISREG(entry.stat.st_mode):
        return "special"
    if not policy.is_storable(entry.path):
        return "deep" if len(os.fsencode(entry.path)) > policy.MAX_PATH_BYTES else "name"
    return "large" if entry.stat.st_size > MAX_READ_BYTES else None


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
