"""A project's files on this machine's disk, written from outside while hostile code may be changing them.

Every write is staged next to the project and renamed into place, so a reader sees the old file or the new one and a
full disk loses nothing. Blocking calls, as in ``reading``.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from koda_ray.errors import KodaError, SandboxError
from koda_ray.sandbox import policy
from koda_ray.sandbox.beneath import Escapes, open_beneath, opened_beneath, path_of
from koda_ray.sandbox.reading import DIRECTORY, TreeReader, escape

__all__ = ["ProjectTree"]

_Rule = Callable[[str], str]


class ProjectTree(TreeReader):
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
        super().__init__(root)
        self._stage = stage
        self._owner = owner
        self._limit_note = limit_note
        self._quota_bytes = quota_bytes

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
                with opened_beneath(root_fd, "/".join(parts[:depth]), DIRECTORY) as fd:
                    real = path_of(fd, root_fd)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                raise SandboxError(
                    f"{path!r} cannot be written: a part of its path is a file, not a directory", code="WRITE_FAILED"
                ) from None
            except Escapes:
                raise escape(path) from None
            if real is None:
                raise escape(path)
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
                with opened_beneath(root_fd, parent or ".", DIRECTORY) as fd:
                    real = path_of(fd, root_fd)
                    if real is None:
                        raise escape(name)
                    confine(last if real == "." else f"{real}/{last}")
                    os.rename(source, last, dst_dir_fd=fd)
            except Escapes:
                raise escape(name) from None
            except OSError as error:
                raise self._write_failed(name, error) from error

    def _make_directories(self, root_fd: int, path: str) -> None:
        for below in (*_parents(path), path) if path else ():
            try:
                os.close(open_beneath(root_fd, below, DIRECTORY))
            except FileNotFoundError:
                parent, _, last = below.rpartition("/")
                with opened_beneath(root_fd, parent or ".", DIRECTORY) as fd:
                    with suppress(FileExistsError):
                        os.mkdir(last, 0o755, dir_fd=fd)
                    if self._owner is not None:
                        os.chown(last, self._owner, self._owner, dir_fd=fd, follow_symlinks=False)

    def _remove(self, root_fd: int, name: str) -> None:
        parent, _, last = name.rpartition("/")
        try:
            with opened_beneath(root_fd, parent or ".", DIRECTORY) as fd:
                if stat.S_ISDIR(os.stat(last, dir_fd=fd, follow_symlinks=False).st_mode):
                    shutil.rmtree(last, dir_fd=fd)
                else:
                    os.unlink(last, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except Escapes:
            raise escape(name) from None
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
