"""A project's files on this machine's disk, read and written from outside while hostile code may be changing them.

Blocking calls; the sandbox runs them in a thread. Every open goes through ``beneath``, every write is staged next to
the project and renamed into place, so a reader sees the old file or the new one and a full disk loses nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from koda_ray.errors import InvalidPath, KodaError, NotFound, QuotaExceeded, SandboxError, SandboxNotFound
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import FileEntry, FileStamp, Snapshot
from koda_ray.sandbox.beneath import Escapes, open_beneath, opened_beneath, path_of

__all__ = ["MAX_ENTRIES", "MAX_READ_BYTES", "ProjectTree"]

MAX_READ_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 50_000
_HIDDEN = frozenset({"node_modules", ".vite"})
_DIRECTORY = os.O_PATH | os.O_DIRECTORY
_Rule = Callable[[str], str]
_RACY_NS = 20_000_000  # a file changed this recently may change again within one tick of the file system's clock


@dataclass(frozen=True)
class _Found:
    path: str
    is_directory: bool
    is_link: bool
    stat: os.stat_result


class ProjectTree:
    """The directory of one project.

    Args:
        root: The project; hostile code may write to it, but not to the directory it lies in.
        stage: A directory on the same file system that only this program can write to.
        owner: User and group id that files are given to, or None to leave them this process's own.
        limit_note: Words that name the disk limit in errors, for example ``"SANDBOX_DISK_MB=1024"``.
        quota_bytes: What the project may hold, counted before each write; None where the file system itself is limited.
    """

    def __init__(
        self, root: Path, *, stage: Path, owner: int | None, limit_note: str, quota_bytes: int | None = None
    ) -> None:
        self._root = root
        self._stage = stage
        self._owner = owner
        self._limit_note = limit_note
        self._quota_bytes = quota_bytes

    # reading

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

    # writing

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files, each atomically: all paths are checked and all bytes are on disk before the first appears.

        Raises:
            InvalidPath: INVALID_PATH, before anything is written.
            SandboxError: WRITE_FAILED, the disk limit or what stands in the way is named.
        """
        checked = {policy.writable(path): (path, data) for path, data in files.items()}
        with self._opened() as root_fd:
            for name, (path, _) in checked.items():
                self._check_real_parent(root_fd, name, path)
            self._put(root_fd, {name: data for name, (_, data) in checked.items()}, confine=policy.writable)

    def restore(self, files: Mapping[str, bytes]) -> None:
        """Make the project's files exactly these; those that are equal already are left alone.

        Raises:
            InvalidPath: INVALID_PATH, before anything is written.
            SandboxError: WRITE_FAILED.
        """
        wanted = {policy.storable(path): data for path, data in files.items()}
        directories = {parent for name in wanted for parent in _parents(name)}
        with self._opened() as root_fd:
            found = list(self._walk(root_fd, ".", recursive=True))
            equal: set[str] = set()
            unwanted: list[str] = []
            for entry in found:
                plain = not entry.is_link and stat.S_ISREG(entry.stat.st_mode)
                if entry.is_directory:
                    if entry.path not in directories:
                        unwanted.append(entry.path)
                elif not plain or entry.path not in wanted:
                    unwanted.append(entry.path)
                elif entry.stat.st_size == len(wanted[entry.path]) and self._equals(root_fd, entry.path, wanted):
                    equal.add(entry.path)
            with self._staged({name: data for name, data in wanted.items() if name not in equal}) as staged:
                for name in unwanted:
                    self._remove(root_fd, name)
                self._place(root_fd, staged, confine=policy.storable)

    def remove(self, path: str) -> None:
        """Remove a file, a link or a directory with all in it; nothing happens when it is not there.

        Raises:
            InvalidPath: INVALID_PATH.
            SandboxError: WRITE_FAILED.
        """
        name = policy.writable(path)
        with self._opened() as root_fd:
            self._check_real_parent(root_fd, name, path)
            self._remove(root_fd, name)

    # inside

    @contextmanager
    def _opened(self) -> Generator[int]:
        try:
            fd = os.open(self._root, _DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
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
            raise _escape(name) from None
        except (FileNotFoundError, NotADirectoryError):
            raise _not_found(name) from None
        except OSError as error:
            raise SandboxError(f"{name!r} could not be read: {error.strerror}", code="READ_FAILED") from error

    def _check_directory(self, root_fd: int, name: str) -> None:
        try:
            with opened_beneath(root_fd, name, _DIRECTORY) as fd:
                real = path_of(fd, root_fd)
                if real is None:
                    raise _not_found(name)
                policy.readable(real)
        except Escapes:
            raise _escape(name) from None
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                f"there is no directory {name!r} in the project; list '.' to see what there is", code="FILE_NOT_FOUND"
            ) from None
        except OSError as error:
            raise SandboxError(f"{name!r} could not be listed: {error.strerror}", code="READ_FAILED") from error

    def _walk(self, root_fd: int, start: str, *, recursive: bool, everything: bool = False) -> Iterator[_Found]:
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
                        yield _Found(path, is_directory, stat.S_ISLNK(info.st_mode), info)
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

    def _equals(self, root_fd: int, name: str, wanted: Mapping[str, bytes]) -> bool:
        try:
            return self._read(root_fd, name) == wanted[name]
        except KodaError:
            return False

    def _check_real_parent(self, root_fd: int, name: str, path: str) -> None:
        """Follow the links of the directories that exist; the file must still be the agent's to write."""
        parts = name.split("/")
        for depth in range(len(parts) - 1, 0, -1):
            try:
                with opened_beneath(root_fd, "/".join(parts[:depth]), _DIRECTORY) as fd:
                    real = path_of(fd, root_fd)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                raise SandboxError(
                    f"{path!r} cannot be written: a part of its path is a file, not a directory", code="WRITE_FAILED"
                ) from None
            except Escapes:
                raise _escape(path) from None
            if real is None:
                raise _escape(path)
            policy.writable("/".join([*(() if real == "." else (real,)), *parts[depth:]]))
            return

    def _put(self, root_fd: int, files: Mapping[str, bytes], *, confine: _Rule) -> None:
        with self._staged(files) as staged:
            self._place(root_fd, staged, confine=confine)

    @contextmanager
    def _staged(self, files: Mapping[str, bytes]) -> Generator[dict[str, Path]]:
        self._check_quota(files)
        staged: dict[str, Path] = {}
        try:
            for name, data in files.items():
                path = self._stage / os.urandom(8).hex()
                staged[name] = path
                try:
                    _write_new(path, data, self._owner)
                except OSError as error:
                    raise self._write_failed(name, error) from error
            yield staged
        finally:
            for path in staged.values():
                path.unlink(missing_ok=True)

    def _check_quota(self, files: Mapping[str, bytes]) -> None:
        if self._quota_bytes is not None and files:
            used, _ = self.usage()
            if used + sum(map(len, files.values())) > self._quota_bytes:
                raise self._write_failed(next(iter(files)), OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)))

    def _place(self, root_fd: int, staged: Mapping[str, Path], *, confine: _Rule) -> None:
        for name, source in staged.items():
            parent, _, last = name.rpartition("/")
            try:
                self._make_directories(root_fd, parent)
                with opened_beneath(root_fd, parent or ".", _DIRECTORY) as fd:
                    real = path_of(fd, root_fd)
                    if real is None:
                        raise _escape(name)
                    confine(last if real == "." else f"{real}/{last}")
                    os.rename(source, last, dst_dir_fd=fd)
            except Escapes:
                raise _escape(name) from None
            except OSError as error:
                raise self._write_failed(name, error) from error

    def _make_directories(self, root_fd: int, path: str) -> None:
        for below in (*_parents(path), path) if path else ():
            try:
                os.close(open_beneath(root_fd, below, _DIRECTORY))
            except FileNotFoundError:
                parent, _, last = below.rpartition("/")
                with opened_beneath(root_fd, parent or ".", _DIRECTORY) as fd:
                    with suppress(FileExistsError):
                        os.mkdir(last, 0o755, dir_fd=fd)
                    if self._owner is not None:
                        os.chown(last, self._owner, self._owner, dir_fd=fd, follow_symlinks=False)

    def _remove(self, root_fd: int, name: str) -> None:
        parent, _, last = name.rpartition("/")
        try:
            with opened_beneath(root_fd, parent or ".", _DIRECTORY) as fd:
                if stat.S_ISDIR(os.stat(last, dir_fd=fd, follow_symlinks=False).st_mode):
                    shutil.rmtree(last, dir_fd=fd)
                else:
                    os.unlink(last, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except Escapes:
            raise _escape(name) from None
        except RecursionError:
            raise SandboxError(
                f"{name!r} holds directories that are nested too deep to remove; use the command `rm -r`",
                code="WRITE_FAILED",
            ) from None
        except OSError as error:
            raise self._write_failed(name, error) from error

    def _write_failed(self, name: str, error: OSError) -> SandboxError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return SandboxError(
                f"{name!r} could not be written: the sandbox's disk is full ({self._limit_note}); nothing was changed. "
                "Remove files that are not needed, or raise the limit",
                code="WRITE_FAILED",
                context={"path": name, "reason": "disk_full"},
            )
        return SandboxError(
            f"{name!r} could not be written: {error.strerror}",
            code="WRITE_FAILED",
            context={"path": name, "reason": errno.errorcode.get(error.errno or 0, "unknown").lower()},
        )


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _escape(path: str) -> InvalidPath:
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


def _write_new(path: Path, data: bytes, owner: int | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, 0o644)
        if owner is not None:
            os.fchown(fd, owner, owner)
    finally:
        os.close(fd)
