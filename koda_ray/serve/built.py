"""What was built of the page: the files of now, and those of builds before that pages which are open still ask for.

A page comes in parts, whose names have a hash of what is in them: after another build they have other names, and a
page that was opened before knows only those of its own. So ``./koda setup`` keeps the last builds of a week beside each
other (``web.builds/NUMBER``), and ``web`` is a link to the one of now, which is replaced at once. The link is followed
once, so that a server never gives away a mixture of two. Nothing but hashed files is given of a build before: of all
else there is one.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["HASHED", "BuiltPage", "PageFile", "builds_of"]

HASHED = "page/"
"""Where what never changes lies: its names have a hash."""
_INDEX = "index.html"


@dataclass(frozen=True)
class PageFile:
    """A file as it is given away, and packed where it is text."""

    body: bytes
    zipped: bytes | None
    media_type: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> PageFile:
        """Read one."""
        body = path.read_bytes()
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        zipped = gzip.compress(body, mtime=0) if media_type.startswith(("text/", "image/svg")) else None
        return cls(body, zipped, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


@dataclass(frozen=True)
class BuiltPage:
    """A build, held in memory; and where the hashed files lie that only builds before it had.

    Attributes:
        index: What every address of the page is answered with; None where nothing is built.
        files: The others of this build, by path below its folder.
        before: Those of builds before, which are read when they are asked for.
    """

    index: PageFile | None = None
    files: dict[str, PageFile] = field(default_factory=dict[str, PageFile])
    before: dict[str, Path] = field(default_factory=dict[str, Path])

    @classmethod
    def read(cls, folder: Path) -> BuiltPage:
        """Read what lies in a folder, and look what is kept beside it.

        Args:
            folder: What ``npm run build`` in ``web/`` made, or a link to that; it may be missing.
        """
        here = folder.resolve()
        files = {name: PageFile.read(path) for name, path in _files_in(here).items()}
        index = files.pop(_INDEX, None)
        if index is None:
            return cls()
        before: dict[str, Path] = {}
        for build in builds_of(folder):
            if build != here:
                before |= {name: path for name, path in _files_in(build).items() if name.startswith(HASHED)}
        return cls(index, files, {name: path for name, path in before.items() if name not in files})


def builds_of(folder: Path) -> list[Path]:
    """Return the builds that are kept for a folder of the page, the oldest first."""
    kept = folder.with_name(f"{folder.name}.builds")
    return sorted(path.resolve() for path in kept.iterdir() if path.is_dir()) if kept.is_dir() else []


def _files_in(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
