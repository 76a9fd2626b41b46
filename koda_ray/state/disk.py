"""Objects as files of a local folder, written so that a name never shows half a file, whatever is killed.

fsspec's local file system neither syncs nor renames, and a checkpoint's promise rests on both; so disk has its own
few lines. Everything here blocks and raises OSError; `Storage` moves it to threads and gives the errors their names.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

__all__ = ["TEMP_FOLDER", "Disk", "Stored"]

TEMP_FOLDER = ".tmp"
"""Files on their way; in one folder, so that a listing never meets them and a sweep finds them."""

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, order=True)
class Stored:
    """An object's name, its size in bytes, and when it was written or last touched."""

    key: str
    size_bytes: int
    at: datetime


class Disk:
    """A folder of objects.

    Args:
        root: The folder; made on the first write.
    """

    parallel = 8
    """How many objects are worth moving at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, key: str) -> Path:
        """Return where an object lies, whether it is there or not."""
        return self.root / key

    def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
        """Write an object; once this returns, it outlives a power cut, or where it is not ``synced`` a killed process.

        A power cut may leave of one that is not synced a name with any bytes, or none.
        """
        with self._temp() as (temp, file):
            file.write(data)
            self._publish(temp, file, key, synced=synced)

    def put_file(self, key: str, source: Path) -> None:
        """Copy a file in."""
        with source.open("rb") as reader, self._temp() as (temp, file):
            shutil.copyfileobj(reader, file, _COPY_BYTES)
            self._publish(temp, file, key)

    def get(self, key: str) -> bytes:
        """Read an object whole."""
        return self.path(key).read_bytes()

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Read bytes ``[start, stop)``, fewer where the object ends first."""
        with self.path(key).open("rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def get_file(self, key: str, target: Path) -> None:
        """Copy an object out, replacing ``target`` in one step."""
        target.parent.mkdir(parents=True, exist_ok=True)
        temp = target.with_name(f".{uuid.uuid4().hex}.part")
        try:
            shutil.copyfile(self.path(key), temp)
            temp.replace(target)
        finally:
            temp.unlink(missing_ok=True)

    def copy(self, source: str, key: str) -> None:
        """Give an object a second name; the two are one file until either is written again."""
        with self._temp() as (temp, _):
            link = temp.with_name(uuid.uuid4().hex)
            try:
                os.link(self.path(source), link)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP):
                    raise
                self.put_file(key, self.path(source))  # a file system without links
                return
            try:
                target = self.path(key)
                _make_folder(target.parent)
                os.replace(link, target)
                _sync_folder(target.parent)
            finally:
                link.unlink(missing_ok=True)

    def size(self, key: str) -> int:
        """Return an object's size in bytes."""
        return self.look(key).size_bytes

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        return self.path(key).is_file()

    def list(self, prefix: str) -> list[str]:
        """List the keys below a prefix, unsorted."""
        found: list[str] = []
        for folder, folders, names in os.walk(self.root / prefix):
            relative = os.path.relpath(folder, self.root)
            if relative == ".":
                folders[:] = [name for name in folders if name != TEMP_FOLDER]
                found += names
            else:
                found += [f"{relative}/{name}" for name in names]
        return found

    def look(self, key: str) -> Stored:
        """Return an object's size and age."""
        path = self.path(key)
        found = path.stat()
        if path.is_dir():
            raise FileNotFoundError(str(path))
        return Stored(key, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))

    def look_below(self, prefix: str) -> list[Stored]:
        """Look at everything below a prefix, unsorted."""
        found: list[Stored] = []
        for key in self.list(prefix):
            with suppress(FileNotFoundError):  # gone meanwhile
                found.append(self.look(key))
        return found

    def folders(self, prefix: str) -> list[str]:
        """List the folders right below a prefix, unsorted."""
        try:
            with os.scandir(self.root / prefix) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def touch(self, key: str) -> None:
        """Have an object count as written now."""
        os.utime(self.path(key))

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens when it is not there."""
        self.path(key).unlink(missing_ok=True)

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix."""
        path = self.root / prefix
        if path.is_dir():
            shutil.rmtree(path, onerror=_skip_missing)

    def sweep(self, older_than_s: float) -> int:
        """Remove what killed writers left behind; return how many files went."""
        limit, swept = time.time() - older_than_s, 0
        for path in (self.root / TEMP_FOLDER).glob("*"):
            try:
                if path.stat().st_mtime < limit:
                    path.unlink()
                    swept += 1
            except FileNotFoundError:
                continue  # its writer finished meanwhile
        return swept

    @contextmanager
    def _temp(self) -> Generator[tuple[Path, BinaryIO]]:
        folder = self.root / TEMP_FOLDER
        path = folder / uuid.uuid4().hex
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            _make_folder(folder)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:  # buffered: a raw write may stop half-way without an error
                yield path, file
        finally:
            path.unlink(missing_ok=True)

    def _publish(self, temp: Path, file: BinaryIO, key: str, *, synced: bool = True) -> None:
        file.flush()
        if synced:
            os.fsync(file.fileno())
        target = self.path(key)
        try:
            os.replace(temp, target)
        except FileNotFoundError:
            _make_folder(target.parent)
            os.replace(temp, target)
        if synced:
            _sync_folder(target.parent)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each of them on disk before the next."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _skip_missing(_function: object, _path: str, info: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]
