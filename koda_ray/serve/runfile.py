"""Where a running server says that it runs: one small file beside the database.

The CLI looks here, and sends its key where the file says. So only a file that this user alone could have written
counts. One that a killed server left behind is told by its process: that is gone, or another program has its number by
now.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from koda_ray.config import DatabaseSettings
from koda_ray.errors import InvalidInput, KodaError

__all__ = ["RunFile", "read", "remove", "runfile_path", "start_of", "write"]

_MODE = 0o600
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """A server; ``started`` is its process's start in clock ticks since boot, ``preview_url`` the preview's origin."""

    url: str
    pid: int
    started: int
    preview_url: str | None = None


def runfile_path(settings: DatabaseSettings | None = None) -> Path:
    """Return where the file lies: ``KODA_RUNFILE``, or ``server.json`` in the folder of the database.

    Args:
        settings: The settings of a server; read anew, from wherever those are read, when None.
    """
    if named := os.environ.get("KODA_RUNFILE"):
        return Path(named)
    return (settings or DatabaseSettings()).database_path.parent / "server.json"


def write(path: Path, *, url: str, preview_url: str | None) -> RunFile:
    """Announce this process, in one step; return what was announced."""
    made = RunFile(url=url, pid=os.getpid(), started=start_of(os.getpid()) or 0, preview_url=preview_url)
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps(asdict(made)))
    temp.replace(path)
    return made


def read(path: Path) -> RunFile | None:
    """Return the server that runs; None where there is no file, or nobody behind it any more.

    Raises:
        InvalidInput: Somebody else than this user may have written the file.
    """
    try:
        data = json.loads(_own(path))
        found = RunFile(
            url=str(data["url"]),
            pid=int(data["pid"]),
            started=int(data["started"]),
            preview_url=data.get("preview_url"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if start_of(found.pid) == found.started else None


def remove(path: Path) -> None:
    """Take this process's announcement back; another's stays."""
    try:
        found = read(path)
    except KodaError:
        return  # it is not ours
    if found is not None and found.pid == os.getpid():
        path.unlink(missing_ok=True)


def _own(path: Path) -> bytes:
    """Read a file that is this user's alone; nothing of any other is read."""
    try:
        # what opens without waiting, and follows no link: one may lead to a file of ours that somebody else chose
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _refused(path, "it is no regular file") from None
        if error.errno == errno.EACCES and path.exists():
            raise _refused(path, "this user may not read it") from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "it is no regular file")
        if found.st_uid != os.geteuid():
            raise _refused(path, f"it belongs to user {found.st_uid}")
        if (mode := stat.S_IMODE(found.st_mode)) != _MODE:
            raise _refused(path, f"its mode is {mode:04o} and not {_MODE:04o}")
        return file.read(_MAX_BYTES)


def _refused(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} says where a server runs, and is not believed: {why}, so somebody else may have written it; remove it "
        "(a server of an older version that still runs is named by KODA_SERVER=URL)"
    )


def start_of(pid: int) -> int | None:
    """Return a living process's start time in clock ticks. Source: proc(5), /proc/pid/stat, fields 3 and 22."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
