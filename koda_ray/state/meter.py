"""Counting what is asked of a store, and how long it took."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from koda_ray.errors import StorageError
from koda_ray.state.tiers import StoreMetrics

__all__ = ["Meter"]


class Meter:
    """Counts of one store in this process. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = {"read": 0, "write": 0}
        self._seconds = {"read": 0.0, "write": 0.0}
        self._slowest_write_s = 0.0
        self._failures = 0

    @contextmanager
    def timed(self, kind: Literal["read", "write"]) -> Generator[None]:
        """Count what runs in the block."""
        began = time.perf_counter()
        failed = False
        try:
            yield
        except StorageError:
            failed = True
            raise
        finally:
            took = time.perf_counter() - began
            with self._lock:
                self._calls[kind] += 1
                self._seconds[kind] += took
                self._failures += failed
                if kind == "write":
                    self._slowest_write_s = max(self._slowest_write_s, took)

    def metrics(self, backend: str, rows: dict[str, int], size_bytes: int | None) -> StoreMetrics:
        """Say what was counted, beside what the store itself knows."""
        with self._lock:
            mean = {kind: 1000 * self._seconds[kind] / max(1, calls) for kind, calls in self._calls.items()}
            return StoreMetrics(
                backend=backend,
                reads=self._calls["read"],
                writes=self._calls["write"],
                failures=self._failures,
                read_ms=mean["read"],
                write_ms=mean["write"],
                slowest_write_ms=1000 * self._slowest_write_s,
                rows=rows,
                size_bytes=size_bytes,
            )
