"""What is written down of a sandbox next to its files, so that any process can find, connect to, or remove it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

__all__ = ["Owner", "Record", "created_at_s", "is_sandbox_id"]

_FILE = "sandbox.json"
_FORGOTTEN = "removed.json"
_LOCK = ".lock"
_ID = re.compile(r"sbx_[0-9a-f]{32}")


@dataclass(frozen=True)
class Owner:
    """A process of this machine, told apart from later ones of the same number by its start."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def this_process(cls) -> Owner:
        """The process that runs this."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> Owner:
        """A process of this machine that runs."""
        return cls(pid, _start_ticks(pid), _boot_id())

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return self.boot_id == _boot_id() and self.start_ticks == _start_ticks(self.pid) != 0


@dataclass(frozen=True)
class Record:
    """A sandbox's identity, what it is made of on this machine, and who owns its processes.

    Attributes:
        state: ``warm`` is one that was made ahead, which has no session yet.
        container: Its name at an engine.
        kind: What one that was made ahead is made of: it is handed out only where the same is wanted.
        image: What it started from; empty for the template.
    """

    id: str
    session_id: str
    user_id: str
    state: Literal["creating", "warm", "ready"]
    disk: Literal["tmpfs", "directory"]
    user: int | None
    groups: tuple[str, ...]
    owner: Owner
    preview_socket: str
    container: str = ""
    kind: str = ""
    image: str = ""

    def write(self, directory: Path) -> None:
        """Write it durably enough to outlive this process: in one step, over the one before."""
        path = directory / _FILE
        # several threads of one process may be at it: each has a file of its own to rename
        temporary = directory / f".{_FILE}.{os.getpid()}.{threading.get_ident()}"
        temporary.write_text(json.dumps(asdict(self)))
        temporary.rename(path)

    @classmethod
    def read(cls, directory: Path, *, forgotten: bool = False) -> Record | None:
        """Read it; None where there is none, or only half of one.

        Args:
            directory: The sandbox's.
            forgotten: Whether to read what ``forget`` left for the removal.
        """
        try:
            value = json.loads((directory / (_FORGOTTEN if forgotten else _FILE)).read_text())
            owner = Owner(**value.pop("owner"))
            return cls(groups=tuple(value.pop("groups")), owner=owner, **value)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @classmethod
    def change(cls, directory: Path, change: Callable[[Record], Record]) -> Record | None:
        """Write it anew, as long as the sandbox exists; whoever forgets it meanwhile waits, so nothing brings it back.

        Args:
            directory: The sandbox's.
            change: Makes the new one; what it makes besides is there before anybody clears the sandbox away.

        Returns:
            The new one; None where the sandbox does not exist, or not any more.
        """
        with _alone(directory):
            record = cls.read(directory)
            if record is not None:
                record = change(record)
                record.write(directory)
            return record

    @staticmethod
    def forget(directory: Path) -> None:
        """From here on the sandbox does not exist; what its removal needs to know stays."""
        with _alone(directory), suppress(FileNotFoundError):
            (directory / _FILE).rename(directory / _FORGOTTEN)

    def forget_socket(self, directory: Path) -> None:
        """Remove the folder of the preview's socket where the sandbox's own path was too long to hold one."""
        if not self.preview_socket.startswith(f"{directory}/"):
            shutil.rmtree(Path(self.preview_socket).parent, ignore_errors=True)


@contextmanager
def _alone(directory: Path) -> Generator[None]:
    """Keep all other processes and threads from changing a record; blocks. A folder that is gone has none."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def is_sandbox_id(text: str) -> bool:
    """Whether a text is an id that this program makes (``sbx_`` and 32 hexadecimal digits)."""
    return _ID.fullmatch(text) is not None


def created_at_s(sandbox_id: str) -> float:
    """When an id was made, in seconds since 1970: it is a UUIDv7, which begins with the time."""
    return int(sandbox_id.removeprefix("sbx_")[:12], 16) / 1000


def _start_ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


@lru_cache(maxsize=1)
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
