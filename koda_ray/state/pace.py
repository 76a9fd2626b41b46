"""Writes of one key, so far apart as a bucket wants them: R2 takes one a second of each, and refuses others with 429.

A process that would write a key again waits until it may. Two that write the same key know nothing of each other:
what is refused then is tried again by the bucket's client, and keys that are written again and again are one process's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["KeyPace"]

_KNOWN = 10_000
"""So many keys are remembered before those are forgotten that may be written again anyhow."""


class KeyPace:
    """When each key may be written again; may be used from any thread.

    Args:
        apart_s: The least between the end of a write and the beginning of the next one of its key, in seconds.
        clock: Counts seconds.
    """

    def __init__(self, apart_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._apart_s = apart_s
        self._clock = clock
        self._free_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """Return how long it is until a key may be written, in seconds; 0 where it may now."""
        with self._lock:
            return max(0.0, self._free_at.get(key, 0.0) - self._clock())

    @contextmanager
    def turn(self, key: str) -> Generator[None]:
        """Write a key in the block, once it may be written; blocks until then."""
        time.sleep(self._take(key))
        try:
            yield
        finally:
            with self._lock:
                self._free_at[key] = max(self._free_at.get(key, 0.0), self._clock() + self._apart_s)

    def _take(self, key: str) -> float:
        """Take the next turn of a key; return how long it is until then."""
        with self._lock:
            now = self._clock()
            if len(self._free_at) >= _KNOWN:
                self._free_at = {known: at for known, at in self._free_at.items() if at > now}
            begins = max(now, self._free_at.get(key, now))
            self._free_at[key] = begins + self._apart_s
            return begins - now
