"""Zips: a project or its bundle out of a sandbox, and what somebody sent, which never leads out of its folder."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import IO

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.policy import PLAIN_FOLDER_MODE, PLAIN_MODE
from koda_ray.zips import open_zip

__all__ = [
    "MAX_FILES",
    "MAX_PROJECT_BYTES",
    "MAX_UNPACKED_BYTES",
    "ProjectFiles",
    "pack",
    "packed_bytes",
    "read_project",
    "unpack",
    "unpacked_bytes",
    "unpacked_on_disk",
]

MAX_FILES = 50_000
MAX_UNPACKED_BYTES = 2 * 1024**3
MAX_PROJECT_BYTES = 1024**3
"""Of a project that is put back, which is held in memory."""

_CHUNK_BYTES = 1024 * 1024
_BLOCK_BYTES = 4096
_HEADERS_BYTES = 256  # of an entry, in both places, without its name
_MAX_TARGET_BYTES = 4095  # of a link; Source: linux/limits.h
_MAX_FOLLOWED = 40  # links that lead to links, as the kernel has it


@dataclass(frozen=True, kw_only=True)
class ProjectFiles:
    """A project's files with what ``Sandbox.restore`` takes beside them."""

    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=dict[str, int])
    folders: Sequence[str] = ()


def pack(project: ProjectFiles, file: IO[bytes]) -> None:
    """Write a project into an open file as a zip; blocks. The same files make the same bytes: no entry has a time."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted({*project.files, *project.folders, *project.modes}):
            if path in project.files:
                info = zipfile.ZipInfo(path)
                info.external_attr = (stat.S_IFREG | project.modes.get(path, PLAIN_MODE)) << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, project.files[path])
            else:
                info = zipfile.ZipInfo(f"{path}/")
                info.external_attr = (stat.S_IFDIR | project.modes.get(path, PLAIN_FOLDER_MODE)) << 16
                archive.writestr(info, b"")


def packed_bytes(project: ProjectFiles) -> int:
    """Return how large `pack` makes the zip of a project at most: what does not shrink grows by five bytes a block."""
    names = {*project.files, *project.folders, *project.modes}
    headers = sum(_HEADERS_BYTES + 2 * len(os.fsencode(name)) for name in names)
    return _HEADERS_BYTES + headers + sum(len(data) + (len(data) >> 10) for data in project.files.values())


def unpacked_bytes(archive: Path) -> int:
    """Return how many bytes `read_project` will hold of a zip at most; blocks. Raises InvalidInput as that."""
    with _reading(archive) as opened:
        return min(MAX_PROJECT_BYTES, sum(entry.file_size for entry in opened.infolist()))


def read_project(archive: Path) -> ProjectFiles:
    """Read a zip as the files of a project; blocks.

    Args:
        archive: The zip.

    Raises:
        InvalidInput: INVALID_INPUT, it is no zip, holds a link or a path that leads out, or more than MAX_FILES or
            MAX_PROJECT_BYTES.
    """
    files: dict[str, bytes] = {}
    modes: dict[str, int] = {}
    folders: list[str] = []
    with _reading(archive) as opened:
        left = MAX_PROJECT_BYTES
        for entry in opened.infolist():
            path, mode = str(_checked(entry)), stat.S_IMODE(entry.external_attr >> 16)
            if entry.is_dir():
                folders.append(path)
            elif path in files:
                raise _two_things(PurePosixPath(path))
            elif stat.S_ISLNK(entry.external_attr >> 16):
                raise InvalidInput(f"the zip holds the link {path[:120]!r}; put files in its place (zip without -y)")
            else:
                with opened.open(entry) as source:
                    files[path] = source.read(left + 1)
                left -= len(files[path])
                if left < 0:  # what the zip says of itself is not believed
                    raise _too_large(MAX_PROJECT_BYTES)
            if mode:
                modes[path] = mode
    both = next((path for path in folders if path in files), None)
    if both is not None:
        raise _two_things(PurePosixPath(both))
    return ProjectFiles(files=files, modes=modes, folders=folders)


def unpacked_on_disk(archive: Path) -> int:
    """Return how much room `unpack` takes for a zip at most: whole blocks, and one for each file and folder; blocks.

    Raises:
        InvalidInput: As `unpack`, where the zip's table of contents shows it.
    """
    blocks, before = 0, tuple[str, ...]()
    with _reading(archive) as opened:
        entries = opened.infolist()
        if sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
            raise _too_large(MAX_UNPACKED_BYTES)
        for entry in entries:
            parts = PurePosixPath(entry.filename).parts
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, parts, strict=False)))
            blocks += max(1, len(parts) - shared) + -(-entry.file_size // _BLOCK_BYTES)
            before = parts
    return blocks * _BLOCK_BYTES


@contextmanager
def _reading(archive: Path) -> Generator[zipfile.ZipFile]:
    with archive.open("rb") as file, open_zip(file, most_entries=MAX_FILES) as opened:
        yield opened


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip; blocks. Links are made last, so nothing is ever written through one.

    Args:
        archive: The zip.
        folder: An empty folder.

    Raises:
        InvalidInput: INVALID_INPUT, it is no zip, holds a path or a link that leads out, or more than MAX_FILES or
            MAX_UNPACKED_BYTES.
    """
    try:
        with _reading(archive) as opened:
            left = MAX_UNPACKED_BYTES
            links: dict[PurePosixPath, str] = {}
            for entry in opened.infolist():
                path = _checked(entry)
                if path in links:
                    raise _two_things(path)
                if stat.S_ISLNK(entry.external_attr >> 16):
                    links[path] = _target(opened, entry)
                else:
                    left -= _unpack(opened, entry, folder / path, left)
            _link(folder, links)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _two_things(PurePosixPath(str(error.filename))) from None


def _checked(entry: zipfile.ZipInfo) -> PurePosixPath:
    path = PurePosixPath(entry.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or not path.parts:
        raise InvalidInput(f"the zip holds {entry.filename[:120]!r}, which leads out of it; zip the folder from within")
    return path


def _unpack(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with opened.open(entry) as source, target.open("xb") as file:
        while data := source.read(_CHUNK_BYTES):
            size += len(data)
            if size > left:  # what the zip says of itself is not believed
                raise _too_large(MAX_UNPACKED_BYTES)
            file.write(data)
    target.chmod(0o755 if (entry.external_attr >> 16) & 0o100 else 0o644)
    return size


def _target(opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    with opened.open(entry) as source:
        data = source.read(_MAX_TARGET_BYTES + 1)
    if not data or len(data) > _MAX_TARGET_BYTES or b"\0" in data:
        raise InvalidInput(f"the zip holds the link {entry.filename[:120]!r}, which is none; make it anew (zip -y)")
    return os.fsdecode(data)


def _link(folder: Path, links: Mapping[PurePosixPath, str]) -> None:
    for path, target in links.items():
        _check_link(path, target, links)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for path, target in links.items():
        if os.path.lexists(folder / path):
            raise _two_things(path)
        os.symlink(target, folder / path)


def _check_link(path: PurePosixPath, target: str, links: Mapping[PurePosixPath, str]) -> None:
    """Go where a link leads, through the archive's other links; what is not there is nowhere, and harmless."""
    here, ahead, followed = list(path.parts[:-1]), target.split("/")[::-1], 1
    while ahead:
        part = ahead.pop()
        if target.startswith("/") or (part == ".." and not here):
            raise InvalidInput(
                f"the zip holds the link {str(path)[:120]!r} to {target[:120]!r}, which leads out of it; link to what "
                "is in the zip, by a relative path, or send what it leads to"
            )
        if part == "..":
            here.pop()
        elif part not in ("", "."):
            here.append(part)
            if (further := links.get(PurePosixPath(*here))) is not None:
                here.pop()
                ahead += further.split("/")[::-1]
                followed += 1
                if followed > _MAX_FOLLOWED:
                    raise InvalidInput(
                        f"the zip holds the link {str(path)[:120]!r}, which leads round in a circle; remove it"
                    )


def _too_large(most: int) -> InvalidInput:
    return InvalidInput(f"the zip holds more than {most >> 20} MB; leave out what sandboxes do not need")


def _two_things(path: PurePosixPath) -> InvalidInput:
    return InvalidInput(
        f"the zip says of {path.name[:120]!r} that it is both a file and a folder, or a link besides; make it anew of "
        "the folder"
    )
