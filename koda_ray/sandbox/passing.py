"""Connections that are passed on to somewhere else: so many at most, each in a task, all broken off at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from koda_ray.sandbox.frames import relay

__all__ = ["PassOn", "Passing", "relay_both"]


PassOn = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[object, object, None]]
"""Leads one connection to somewhere else, and is over when that has ended."""


class Passing:
    """What goes on between those who connected and where they are led.

    Args:
        most: How many there may be at once; those beyond are closed at once.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_breaking_off = False

    @property
    def count(self) -> int:
        """How many are passed on now."""
        return len(self._tasks)

    def serve(self, pass_on: PassOn) -> PassOn:
        """Return what a server calls for each connection; whoever connected sees that it is closed at the end."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is None or self._is_breaking_off or len(self._tasks) >= self._most:
                writer.close()
                return
            self._tasks.add(task)
            try:
                await pass_on(reader, writer)
            except asyncio.CancelledError:
                if not self._is_breaking_off:
                    raise
            finally:
                self._tasks.discard(task)
                writer.close()

        return serve

    async def break_off(self) -> None:
        """End all that goes on; others may come after it."""
        self._is_breaking_off = True
        try:
            while tasks := tuple(self._tasks):
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        finally:
            self._is_breaking_off = False


async def relay_both(
    here: tuple[asyncio.StreamReader, asyncio.StreamWriter], there: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Pass bytes on both ways until both have ended."""
    await asyncio.gather(relay(here[0], there[1]), relay(there[0], here[1]))
