"""Unpacks a zip that somebody sent into an empty folder: files and links among them, inside it, so much and no more."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from koda_ray.errors import InvalidInput

__all__ = ["MAX_FILES", "MAX_UNPACKED_BYTES", "unpack"]

MAX_FILES = 50_000
MAX_UNPACKED_BYTES = 2 * 1024**3
_CHUNK_BYTES = 1024 * 1024
_MAX_TARGET_BYTES = 4095  # of a link; Source: linux/limits.h
_MAX_FOLLOWED = 40  # links that lead to links, as the kernel has it


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
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            if len(entries) > MAX_FILES:
                raise InvalidInput(
                    f"the zip holds {len(entries)} files; {MAX_FILES} are taken: leave out what sandboxes do not need"
                )
            left = MAX_UNPACKED_BYTES
            links: dict[PurePosixPath, str] = {}
            for entry in entries:
                path = _checked(entry)
                if path in links:
                    raise _two_things(path)
                if stat.S_ISLNK(entry.external_attr >> 16):
                    links[path] = _target(opened, entry)
                else:
                    left -= _unpack(opened, entry, folder / path, left)
            _link(folder, links)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InvalidInput(f"the body is not a zip that can be read ({error}); send one made of the folder") from None
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
                raise InvalidInput(
                    f"the zip holds more than {MAX_UNPACKED_BYTES >> 20} MB; leave out what sandboxes do not need"
                )
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


def _two_things(path: PurePosixPath) -> InvalidInput:
    return InvalidInput(
        f"the zip says of {path.name[:120]!r} that it is both a file and a folder, or a link besides; make it anew of "
        "the folder"
    )
