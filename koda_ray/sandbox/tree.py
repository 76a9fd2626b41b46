"""A project's files on this machine's disk, written from outside while hostile code may be changing them.

Every write is staged next to the project and renamed into place, so a reader sees the old file or the new one and a
full disk loses nothing. Blocking calls, as in ``reading``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from koda_ray.errors import KodaError, SandboxError
from koda_ray.sandbox import policy
from koda_ray.sandbox.beneath import Escapes, open_beneath, opened_beneath, path_of
from koda_ray.sandbox.reading import DIRECTORY, MAX_READ_BYTES, DirectoryEntry, TreeReader, escape

__all__ = ["DiskLimit", "ProjectTree", "Restored", "digest"]

_WAYS = {
    errno.EISDIR: "a directory has that name: remove it, or choose another",
    errno.ENOTDIR: "a part of its path is a file: remove that, or choose another path",
    errno.ENOTEMPTY: "a directory with files in it has that name: remove it, or choose another",
    errno.ENAMETOOLONG: "choose shorter names: 255 bytes each, 4096 in all",
    errno.EACCES: "its directory cannot be changed: give it mode 755, or choose another",
    errno.EPERM: "its directory cannot be changed: choose another",
    errno.EROFS: "its directory cannot be changed: choose another",
}


@dataclass(frozen=True)
class Restored:
    """What became of files that were restored.

    Attributes:
        missing: Those that were said to be there, and are not, or are others.
        written_bytes: How many bytes were given of those that were not there already.
    """

    missing: tuple[str, ...] = ()
    written_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class DiskLimit:
    """How much a project may hold.

    Args:
        size_bytes: Of all its files.
        words: How errors name it, for example ``"1024 MB, SANDBOX_DISK_MB"``.
        counted: Whether it is counted before each write; otherwise the file system itself holds the project to it.
    """

    size_bytes: int
    words: str
    counted: bool = False


def digest(data: bytes) -> str:
    """Name a file's content."""
    return hashlib.sha256(data).hexdigest()


class ProjectTree(TreeReader):
    """The directory of one project.

    Args:
        root: The project; hostile code may write to it, but not to the directory it lies in.
        stage: A directory on the same file system that only this program can write to.
        owner: User and group id that files are given to, or None to leave them this process's own.
        disk: How much it may hold, and so the files of one snapshot together.
        filled: Counts the bytes and the files that the sandbox holds; only the project's own where that is None.
    """

    def __init__(
        self,
        root: Path,
        *,
        stage: Path,
        owner: int | None,
        disk: DiskLimit,
        filled: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        super().__init__(root, most_bytes=disk.size_bytes)
        self._stage = stage
        self._owner = owner
        self._disk = disk
        self._filled = filled or self.usage

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files, each atomically: all paths are checked and all bytes are on disk before the first appears.

        A file that is there already keeps its mode: whoever rewrites a script has not said that it is none any more.

        Raises:
            InvalidPath: INVALID_PATH, before anything is written.
            SandboxError: WRITE_FAILED, the disk limit or what stands in the way is named.
        """
        checked = {policy.storable(path): (path, data) for path, data in files.items()}
        with self._opened() as root_fd:
            for name, (path, _) in checked.items():
                self._check_real_parent(root_fd, name, path)
            with self._staged({name: data for name, (_, data) in checked.items()}) as staged:
                self._place(root_fd, staged, keep_modes=True)

    def restore(
        self,
        files: Mapping[str, bytes],
        *,
        there: Mapping[str, str] | None = None,
        modes: Mapping[str, int] | None = None,
        folders: Sequence[str] = (),
        spared: Sequence[str] | None = (),
    ) -> Restored:
        """Make the project's files exactly these; those that are equal already are left alone.

        Args:
            files: Those whose bytes are known.
            there: The digests of all others, which should be there already. Where one is not, it is named, and no file
                is changed.
            modes: Permission bits of those that have others than ``PLAIN_MODE``, and of folders that have others than
                ``PLAIN_FOLDER_MODE``.
            folders: Those that are to be there though nothing is in them.
            spared: Paths that stay as they are, with all that is below; None for what no snapshot holds, where none of
                these files comes in its place.

        Raises:
            InvalidPath: INVALID_PATH, before anything is written.
            SandboxError: WRITE_FAILED.
        """
        wanted = {policy.storable(path): data for path, data in files.items()}
        digests = {policy.storable(path): known for path, known in (there or {}).items()}
        given = {policy.storable(path): mode for path, mode in (modes or {}).items()}
        names = wanted.keys() | digests.keys()
        bits = {path: policy.kept_mode(mode) for path, mode in given.items() if path in names}
        empty = {policy.storable(path) for path in folders}
        directories = empty | {parent for name in (*names, *empty) for parent in _parents(name)}
        with self._opened() as root_fd:
            left = self._unheld(root_fd) - names - directories if spared is None else {*spared}
            above = {parent for name in left for parent in _parents(name)} - directories
            equal: set[str] = set()
            placed_anew: dict[str, bytes] = {}
            unwanted: list[str] = []
            for entry in self._walk(root_fd, ".", recursive=True):
                if entry.path in left or entry.path.rpartition("/")[0] in left:
                    left.add(entry.path)
                    continue
                if entry.is_directory and entry.path in above:
                    continue
                plain = not entry.is_link and stat.S_ISREG(entry.stat.st_mode)
                if entry.is_directory:
                    if entry.stat.st_mode & 0o700 != 0o700:  # before it is listed, or what is in it removed
                        self._give_mode(root_fd, entry.path, policy.kept_folder_mode(entry.stat.st_mode))
                    if entry.path not in directories:
                        unwanted.append(entry.path)
                elif not plain or entry.path not in names:
                    unwanted.append(entry.path)
                elif (data := self._equal(root_fd, entry, wanted.get(entry.path), digests)) is not None:
                    if stat.S_IMODE(entry.stat.st_mode) == bits.get(entry.path, policy.PLAIN_MODE):
                        equal.add(entry.path)
                    else:
                        placed_anew[entry.path] = data
            missing = digests.keys() - wanted.keys() - placed_anew.keys() - equal
            if missing:
                return Restored(missing=tuple(sorted(missing)))
            new = {name: data for name, data in wanted.items() if name not in equal and name not in placed_anew}
            with self._staged(new | placed_anew, modes=bits) as staged:
                for name in unwanted:
                    self._remove(root_fd, name)
                self._place(root_fd, staged)
            for name in sorted(empty):
                self._place_folder(root_fd, name)
            for name in directories - left:
                mode = policy.kept_folder_mode(given.get(name, policy.PLAIN_FOLDER_MODE))
                self._give_mode(root_fd, name, mode)
        return Restored(written_bytes=sum(map(len, new.values())))

    def remove(self, path: str) -> None:
        """Remove a file, a link or a directory with all in it; nothing happens when it is not there.

        Raises:
            InvalidPath: INVALID_PATH.
            SandboxError: WRITE_FAILED.
        """
        name = policy.storable(path)
        with self._opened() as root_fd:
            self._check_real_parent(root_fd, name, path)
            self._remove(root_fd, name)

    # inside

    def _unheld(self, root_fd: int) -> set[str]:
        """Name what a snapshot would skip; files are opened for it, and not read."""
        found: set[str] = set()
        for entry in self._walk(root_fd, ".", recursive=True, closed=lambda path, _: found.add(path)):
            if not entry.is_directory and not self._can_be_held(root_fd, entry):
                found.add(entry.path)
        return found

    def _can_be_held(self, root_fd: int, entry: DirectoryEntry) -> bool:
        plain = not entry.is_link and stat.S_ISREG(entry.stat.st_mode)
        if not plain or not policy.is_storable(entry.path) or entry.stat.st_size > MAX_READ_BYTES:
            return False
        try:
            os.close(open_beneath(root_fd, entry.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        except (OSError, Escapes):
            return False
        return True

    def _equal(
        self, root_fd: int, entry: DirectoryEntry, wanted: bytes | None, digests: Mapping[str, str]
    ) -> bytes | None:
        """Return what a file holds, where that is what it is to hold."""
        if wanted is not None and entry.stat.st_size != len(wanted):
            return None
        try:
            data = self._read(root_fd, entry.path)
        except KodaError:
            return None
        return data if (digest(data) == digests[entry.path] if wanted is None else data == wanted) else None

    def _check_real_parent(self, root_fd: int, name: str, path: str) -> None:
        """Follow the links of the directories that exist; the file must still be one of the project."""
        parts = name.split("/")
        for depth in range(len(parts) - 1, 0, -1):
            try:
                with opened_beneath(root_fd, "/".join(parts[:depth]), DIRECTORY) as fd:
                    real = path_of(fd, root_fd)
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                raise SandboxError(
                    f"{path!r} cannot be written: {'/'.join(parts[:depth])!r} or what it lies in is a file, not a "
                    "directory; remove that, or choose another path",
                    code="WRITE_FAILED",
                    context={"path": path, "reason": "enotdir"},
                ) from None
            except Escapes:
                raise escape(path) from None
            if real is None:
                raise escape(path)
            policy.storable("/".join([*(() if real == "." else (real,)), *parts[depth:]]))
            return

    @contextmanager
    def _staged(
        self, files: Mapping[str, bytes], *, modes: Mapping[str, int] | None = None
    ) -> Generator[dict[str, Path]]:
        modes = modes or {}
        self._check_quota(files)
        staged: dict[str, Path] = {}
        try:
            for name, data in files.items():
                path = self._stage / os.urandom(8).hex()
                staged[name] = path
                try:
                    _write_new(path, data, self._owner, modes.get(name, policy.PLAIN_MODE))
                except OSError as error:
                    raise self._write_failed(name, error) from error
            yield staged
        finally:
            for path in staged.values():
                path.unlink(missing_ok=True)

    def _check_quota(self, files: Mapping[str, bytes]) -> None:
        if self._disk.counted and files:
            used, _ = self._filled()
            if used + sum(map(len, files.values())) > self._disk.size_bytes:
                raise self._write_failed(next(iter(files)), OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)))

    def _place(self, root_fd: int, staged: Mapping[str, Path], *, keep_modes: bool = False) -> None:
        for name, source in staged.items():
            parent, _, last = name.rpartition("/")
            try:
                self._make_directories(root_fd, parent)
                with opened_beneath(root_fd, parent or ".", DIRECTORY) as fd:
                    real = path_of(fd, root_fd)
                    if real is None:
                        raise escape(name)
                    policy.storable(last if real == "." else f"{real}/{last}")
                    mode = _mode_of(last, fd) if keep_modes else policy.PLAIN_MODE
                    if mode != policy.PLAIN_MODE:
                        os.chmod(source, mode)
                    os.rename(source, last, dst_dir_fd=fd)
            except Escapes:
                raise escape(name) from None
            except OSError as error:
                raise self._write_failed(name, error) from error

    def _place_folder(self, root_fd: int, name: str) -> None:
        try:
            self._make_directories(root_fd, name)
        except Escapes:
            raise escape(name) from None
        except OSError as error:
            raise self._write_failed(name, error) from error

    def _give_mode(self, root_fd: int, name: str, mode: int) -> None:
        """Give a folder a mode, where it has another; one that is not this user's keeps its own."""
        gone = suppress(FileNotFoundError, NotADirectoryError, PermissionError, Escapes)
        with gone, opened_beneath(root_fd, name, DIRECTORY | os.O_NOFOLLOW) as fd:
            if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
                os.chmod(f"/proc/self/fd/{fd}", mode)  # by name, something else could have taken its place

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
                f"{name!r} could not be written: the sandbox's disk is full ({self._disk.words}); nothing was changed. "
                "Remove files that are not needed, or raise the limit",
                code="WRITE_FAILED",
                context={"path": name, "reason": "disk_full"},
            )
        reason = errno.errorcode.get(error.errno or 0, "unknown").lower()
        way = _WAYS.get(error.errno or 0, "look at what is there, remove or rename it, and try again")
        return SandboxError(
            f"{name!r} could not be written: {error.strerror or reason}; {way}",
            code="WRITE_FAILED",
            context={"path": name, "reason": reason},
        )


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _mode_of(name: str, directory_fd: int) -> int:
    """Return the mode that a file is to keep; a plain one where there is none, or something else."""
    try:
        mode = os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return policy.PLAIN_MODE
    return policy.kept_mode(mode) if stat.S_ISREG(mode) else policy.PLAIN_MODE


def _write_new(path: Path, data: bytes, owner: int | None, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, mode)
        if owner is not None:
            os.fchown(fd, owner, owner)
    finally:
        os.close(fd)
