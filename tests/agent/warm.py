"""Processes that die by SIGKILL at a chosen instant, hundreds of them: forked from one that has imported everything.

``python -m tests.agent.warm MODULE`` reads one JSON list of arguments a line, forks, calls ``MODULE.live(*arguments)``
in the fork, and answers with how it ended: an exit status, or minus a signal. `Warm` is its other end.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic
from anthropic._models import construct_type
from anthropic.types import RawMessageStreamEvent

from koda_ray.agent import voice

__all__ = ["Clock", "Warm", "load_all"]

ROOT = Path(__file__).parents[2]
_LATE = (
    "alembic.command",
    "anyio._backends._asyncio",
    "koda_ray.llm.anthropic",
    "koda_ray.state.migrate",
    "opentelemetry.propagate",
    "psutil",
    "sqlite3",
    "tenacity.asyncio",
)


def load_all(more: Iterable[str] = ()) -> None:
    """Load what a life would load when it comes to it, and make what it would make of types: forks share that."""
    for name in (*_LATE, *more):
        importlib.import_module(name)
    AsyncAnthropic(api_key="test-key")
    construct_type(value={"type": "message_stop"}, type_=RawMessageStreamEvent)


class Clock:
    """Counts instants and ends the process at the chosen one; 0 for never. The count is kept for a life that ends."""

    def __init__(self, dies_at: int) -> None:
        self.now = 0
        self._dies_at = dies_at

    def tick(self, _: str) -> None:
        self.now += 1
        if self.now == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Warm:
    """Starts lives of one module."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.agent.warm", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, *arguments: Any) -> int:
        """Live one life and return how it ended: 0, or minus the signal's number."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


def main(module: str) -> None:
    voice.PIECE_S = math.inf  # what comes by the clock would be more instants in one life than in another
    live = importlib.import_module(module).live
    load_all()
    gc.freeze()  # a collection in a fork would copy what all of them share
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the answers have that pipe for themselves
            try:
                live(*json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
