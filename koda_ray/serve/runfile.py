"""Where a running server says that it runs: one small file beside the database.

The CLI looks here. A file that a killed server left behind is told by its process: that is gone, or another program
has its number by now.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from koda_ray.config import data_dir

__all__ = ["RunFile", "read", "remove", "runfile_path", "start_of", "write"]


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """A server; ``started`` is its process's start in clock ticks since boot, ``preview_url`` the preview's origin."""

    url: str
    pid: int
    started: int
    preview_url: str | None = None


def runfile_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return where the file lies: ``KODA_RUNFILE``, or ``server.json`` in the folder of the database."""
    found = os.environ if environment is None else environment
    if "KODA_RUNFILE" in found:
        return Path(found["KODA_RUNFILE"])
    return Path(found.get("DATABASE_PATH") or data_dir(found) / "koda.db").parent / "server.json"


def write(path: Path, *, url: str, preview_url: str | None) -> RunFile:
    """Announce this process, in one step; return what was announced."""
    made = RunFile(url=url, pid=os.getpid(), started=start_of(os.getpid()) or 0, preview_url=preview_url)
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    temp.write_text(json.dumps(asdict(made)))
    temp.replace(path)
    return made


def read(path: Path) -> RunFile | None:
    """Return the server that runs; None where there is no file, or nobody behind it any more."""
    try:
        data = json.loads(path.read_text())
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
    found = read(path)
    if found is not None and found.pid == os.getpid():
        path.unlink(missing_ok=True)


def start_of(pid: int) -> int | None:
    """Return a living process's start time in clock ticks. Source: proc(5), /proc/pid/stat, fields 3 and 22."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
