"""What one sandbox has used of what its proxy lets through: bytes each way, decisions in a second.

Who owns the proxy is told of bytes while they move, so that one that is killed takes no more than PROGRESS_BYTES of its
count with it: else whoever can have it killed would have a new budget each time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Literal

from koda_ray.sandbox.egress.rules import EgressLimits, Refused

__all__ = ["PROGRESS_BYTES", "Tally", "TrafficBudget", "Way"]

PROGRESS_BYTES = 128 * 1024
"""The most that is passed on, both ways together, before the owner is told."""

Way = Literal["sent", "received"]
_NAMES = {"sent": "SANDBOX_EGRESS_SENT_MB", "received": "SANDBOX_EGRESS_RECEIVED_MB"}


class Tally:
    """The bytes of one connection, counted against the whole budget before they are passed on."""

    def __init__(self, budget: TrafficBudget) -> None:
        self._budget = budget
        self.bytes: dict[Way, int] = {"sent": 0, "received": 0}

    def take(self, way: Way, count: int) -> None:
        """Count bytes that are about to be passed on.

        Raises:
            Refused: BYTES_SPENT; then they are not.
        """
        self._budget.take(way, count)
        self.bytes[way] += count


class TrafficBudget:
    """Counts what goes through one sandbox's proxy, all connections together.

    Args:
        limits: How much that may be.
        tell: Has the owner told what is ``spent``; bytes are passed on once that is done.
        used: How much it was before.
    """

    def __init__(
        self, limits: EgressLimits, *, tell: Callable[[], None], used: Mapping[Way, int] | None = None
    ) -> None:
        self._limits: dict[Way, int] = {"sent": limits.sent_bytes, "received": limits.received_bytes}
        self._used: dict[Way, int] = {"sent": 0, "received": 0, **(used or {})}
        self._tell = tell
        self._untold = 0
        self._per_second = limits.per_second
        self._burst = float(limits.burst)
        self._tokens = self._burst
        self._since = time.monotonic()

    def take(self, way: Way, count: int) -> None:
        """Count bytes; Refused BYTES_SPENT when they are more than is left."""
        if self._used[way] + count > self._limits[way]:
            raise self._refused(way)
        self._used[way] += count
        self._untold += count
        if self._untold >= PROGRESS_BYTES:
            self._tell()

    def spent(self) -> dict[Way, int]:
        """Return what was used so far; whoever asks tells the owner."""
        self._untold = 0
        return dict(self._used)

    def check(self) -> None:
        """Refuse another connection when nothing more may be sent or received; Refused BYTES_SPENT."""
        for way in self._limits:
            if self._used[way] >= self._limits[way]:
                raise self._refused(way)

    async def pace(self) -> None:
        """Wait until one more decision is due, so that neither this machine nor the audit is flooded with them."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._per_second)
        self._since = now
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._per_second)

    def _refused(self, way: Way) -> Refused:
        return Refused(
            "BYTES_SPENT",
            403,
            f"the sandbox has {way} the {self._limits[way] >> 20} MB that it may; whoever runs koda_ray can raise "
            f"{_NAMES[way]}",
        )
