"""Instants at which a process can be killed, by name, and who is told of them.

    MOMENT#N          the Nth time that a breakpoint is entered (TOOL_EXECUTING#2), a piece of an answer streams
                      (streaming#3) or a tool begins or has acted (charge begins#1)
    write#N:before    the Nth write to the store of this process is asked for
    write#N:during    in its transaction: everything was done, nothing is committed
    write#N:half      half of its line is in the log (JSON store)
    write#N:after     it is durable, and nobody has been told

They are hooks in the test's process, around the real store and the real loop; the product knows nothing of them.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from koda_ray.agent import alone
from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.loop import AgentLoop
from koda_ray.events import Envelope
from koda_ray.state.json_files import Files
from koda_ray.state.json_store import JSONStore
from koda_ray.state.sql import SqlStore

__all__ = ["HalfWriting", "Points", "watch_loop", "watch_store"]

T = TypeVar("T")


class Points:
    """Tells each point that is reached, and ends the process at one.

    Args:
        tell: A pipe's end; what was written to it is told however the process ends.
        dies_at: Where; nowhere when None.
        seen: The number of the last event that a reader was given before.
    """

    def __init__(self, tell: int, dies_at: str | None = None, *, seen: int = 0) -> None:
        self._tell = tell
        self._dies_at = dies_at
        self._reached: Counter[str] = Counter()
        self.writing: str | None = None
        self.seen = seen

    def tell(self, word: str, value: object) -> None:
        """Tell whoever watches."""
        os.write(self._tell, f"{word} {json.dumps(value)}\n".encode())

    def moment(self, name: str) -> None:
        """Reach a point that is named by how often it was reached."""
        self._reached[name] += 1
        self.reach(f"{name}#{self._reached[name]}")

    def saw(self, event: Envelope) -> None:
        """Tell that a reader was given an event."""
        self.tell("saw", [event.seq, event.id])
        self.seen = event.seq

    def write(self) -> str:
        """Name the next write to the store."""
        self._reached["write"] += 1
        return f"write#{self._reached['write']}"

    def reach(self, name: str) -> None:
        """Reach a point."""
        if name == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.tell("at", name)


def watch_store(store: SqlStore | JSONStore, points: Points) -> None:
    """Make points of a store's writes, and tell the events that it has acknowledged."""
    database: Any = store.database
    plain = database.write

    async def write(work: Callable[[Any], T], then: Callable[[T], None] | None = None) -> T:
        name = points.write()

        def during(transaction: Any) -> T:
            result = work(transaction)
            points.reach(f"{name}:during")
            return result

        points.reach(f"{name}:before")
        points.writing = name
        try:
            result = await plain(during, then)
        finally:
            points.writing = None
        if isinstance(result, list) and result and isinstance(result[0], Envelope):
            points.tell("acknowledged", [[event.seq, event.id] for event in result])
        points.reach(f"{name}:after")
        return result

    database.write = write


class HalfWriting(Files):
    """A disk that can be left with half of a line."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._last: str | None = None

    def write(self, descriptor: int, data: memoryview) -> int:
        writing = self._points.writing
        if writing in (None, self._last):
            return super().write(descriptor, data)
        self._last = writing
        done = super().write(descriptor, data[: len(data) // 2])
        self._points.reach(f"{writing}:half")
        return done


def watch_loop(points: Points) -> None:
    """Make points of the breakpoints of every agent that this process opens from now on."""

    class Watched(AgentLoop):
        def _move(self, to: Breakpoint) -> None:
            super()._move(to)
            points.moment(to)

    alone.AgentLoop = Watched  # type: ignore[misc]
