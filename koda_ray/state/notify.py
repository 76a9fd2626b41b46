"""Wake readers of this process at the moment of a commit; readers elsewhere find out by looking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

__all__ = ["Notifier"]


class Notifier:
    """Who waits for which stream. Waiters may live in any event loop; `notify` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[asyncio.Event, asyncio.AbstractEventLoop]] = {}

    @contextmanager
    def subscribe(self, stream_id: str) -> Generator[asyncio.Event]:
        """Give an event that is set after every commit to the stream; whoever waits for it clears it."""
        event, loop = asyncio.Event(), asyncio.get_running_loop()
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
