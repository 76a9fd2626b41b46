"""A folder on its way into an image that somebody else builds: one archive, and the line that unpacks it there.

It is one file, because builders differ in what they make of links, modes, empty folders and odd names that they copy.
The folder is the project of the sandboxes, as it is, packages and all.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from koda_ray.errors import InvalidInput, SandboxError
from koda_ray.sandbox.policy import PROJECT_ROOT

if TYPE_CHECKING:
    from koda_ray.sandbox.images import Source

__all__ = ["PLACE", "UNPACK", "dockerfile_on_base", "write_project"]

PLACE = "/opt/koda/project.tar"
"""Where the archive is put in the image that is built."""

_ROOT = PurePosixPath(PROJECT_ROOT)
UNPACK = (
    f"rm -rf {_ROOT} && tar -x --no-same-owner -f {PLACE} -C {_ROOT.parent} && rm -f {PLACE}"
    f" && chown -hR user:user {_ROOT}"
)
"""What root runs there, then."""

_FROM = re.compile(r"[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?(\S+)", re.IGNORECASE)
_BASE = ("${BASE_IMAGE}", "$BASE_IMAGE")


def write_project(source: Source, path: Path) -> None:
    """Write a folder into an archive; sockets, pipes and devices are left out. Blocks.

    Raises:
        SandboxError: IMAGE_FAILED, a file of it cannot be read.
    """
    try:
        with tarfile.open(path, "w") as archive:
            archive.add(source.folder, _ROOT.name, recursive=False, filter=_plain)
            for entry in source.entries():
                archive.add(entry.path, f"{_ROOT.name}/{entry.name}", recursive=False, filter=_plain)
    except OSError as error:
        raise SandboxError(
            f"{source.folder} could not be copied: {error}; see that this user may read all of it and that the disk of "
            f"temporary files has room for {source.size_bytes >> 20} MB",
            code="IMAGE_FAILED",
        ) from error


def dockerfile_on_base(path: Path) -> tuple[str, list[str]]:
    """Read a Dockerfile that starts from the image of all sandboxes.

    Returns:
        All of it, and the lines after its FROM.

    Raises:
        InvalidInput: INVALID_INPUT, it starts from something else, or is no text.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} cannot be read as a Dockerfile: {error}; make it text in UTF-8 that this user may read"
        ) from None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if (found := _FROM.match(line)) is not None:
            if found[1] in _BASE:
                return text, lines[number + 1 :]
            break
    raise InvalidInput(
        f"what {path} builds cannot be a sandbox, because it does not start from the image of all sandboxes: begin it "
        "with the lines `ARG BASE_IMAGE` and `FROM ${BASE_IMAGE}`"
    )


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mode = info.mode & 0o777 | (0o700 if info.isdir() else 0o400)
    return info
