"""Wake readers of this process at the moment of a commit; readers elsewhere find out by looking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

__all__ = ["Notifier"]


class Notifier:
    """Who waits for which stream. Waiters may live in any event loop; `notify` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[asyncio.Event, asyncio.AbstractEventLoop]] = {}

    @property
    def streams(self) -> frozenset[str]:
        """Those that somebody waits for."""
        with self._lock:
            return frozenset(self._waiting)

    @contextmanager
    def subscribe(self, stream_id: str, *, rings: asyncio.Event | None = None) -> Generator[asyncio.Event]:
        """Give an event that is set after every commit to the stream; whoever waits for it clears it.

        With ``rings``, that is set too, each time: for whoever waits for one of many.
        """
        event, loop = asyncio.Event() if rings is None else _Ringing(rings), asyncio.get_running_loop()
        with self._lock:
            self._waiting.setdefault(stream_id, {})[event] = loop
        try:
            yield event
        finally:
            with self._lock:
                waiters = self._waiting[stream_id]
                del waiters[event]
                if not waiters:
                    del self._waiting[stream_id]

    def notify(self, stream_id: str) -> None:
        """Wake everybody who waits for the stream."""
        with self._lock:
            waiters = list(self._waiting.get(stream_id, {}).items())
        for event, loop in waiters:
            with suppress(RuntimeError):  # its loop has been closed: nobody waits any more
                loop.call_soon_threadsafe(event.set)

    def notify_all(self, stream_ids: Iterable[str]) -> None:
        """Wake everybody who waits for one of several streams."""
        for stream_id in stream_ids:
            self.notify(stream_id)


class _Ringing(asyncio.Event):
    """An event that sets another one with itself."""

    def __init__(self, rings: asyncio.Event) -> None:
        super().__init__()
        self._rings = rings

    def set(self) -> None:
        super().set()
        self._rings.set()
