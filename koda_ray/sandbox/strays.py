"""Finds and ends processes of a sandbox that no object here holds: those of another owner, or of one that is gone."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from koda_ray.sandbox.egress.process import PROGRAM

__all__ = ["DOORWAY", "HOLDER", "kill_marked", "kill_users_of"]

HOLDER = "koda_ray.sandbox.holder"
"""The module that holders run."""

DOORWAY = "koda_ray.sandbox.doorway"
"""The module that doors run."""

_TIMEOUT_S = 10.0
_Find = Callable[[], Iterator[int]]


def kill_users_of(directory: Path) -> None:
    """End every isolated process whose walls name a sandbox's directory, with its namespaces, and its own helpers.

    Those are its egress proxies, its holders and its doors.
    """
    prefix = os.fsencode(directory) + b"/"
    programs = {PROGRAM.encode(), HOLDER.encode(), DOORWAY.encode()}
    _kill(
        lambda: (
            pid
            for pid, words in _files("cmdline")
            if (words[0] == b"bwrap" or not programs.isdisjoint(words))
            and any(word.startswith(prefix) for word in words)
        )
    )


def kill_marked(name: str, value: str) -> None:
    """End every process of this user whose environment holds a variable with that value."""
    marker = f"{name}={value}".encode()
    _kill(lambda: (pid for pid, words in _files("environ") if marker in words))


def _kill(find: _Find) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        held: list[int] = []
        for pid in find():
            with suppress(OSError):
                held.append(os.pidfd_open(pid))
        if not held:
            return
        try:
            for fd in held:
                with suppress(OSError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            for fd in held:
                select.select([fd], [], [], 1.0)
        finally:
            for fd in held:
                os.close(fd)


def _files(name: str) -> Iterator[tuple[int, list[bytes]]]:
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != own:
            with suppress(OSError):
                words = Path(f"/proc/{entry.name}/{name}").read_bytes().rstrip(b"\0").split(b"\0")
                yield int(entry.name), words
