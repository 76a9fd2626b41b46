"""Waiting for a server that a test started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["wait_for"]

_START_S = 120.0
_LOOK_S = 0.05


def wait_for(server: subprocess.Popen[bytes], answers: Callable[[], bool], *, log: Path) -> None:
    """Wait until a server answers, and fail with what it said where it ends instead, or never does.

    Args:
        server: Its process.
        answers: Asks it.
        log: What it says goes there.
    """
    deadline = time.monotonic() + _START_S
    while not answers():
        assert server.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(_LOOK_S)
