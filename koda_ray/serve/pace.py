"""What a connection may keep us waiting: a while, which each byte that comes through gives back a little of.

A deadline for the next byte alone is none: one byte a minute would keep a place for ever. So there is a balance of
time. Waiting takes from it, what comes through adds to it, and it never has more than it began with: whoever is above
the least pace never runs out, and a fast one may pause for all of it.

Source: Apache httpd's ``mod_reqtimeout`` (``MinRate``, 500 bytes a second), ASP.NET's ``MinDataRate`` (240).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["LEAST_BYTES_PER_S", "STALLED_S", "LeastPace", "TooSlow"]

STALLED_S = 60.0
"""How long nothing may come through, in seconds."""
LEAST_BYTES_PER_S = 1024
"""What has to come through on average: a megabyte in 17 minutes, which a modem of 14,400 baud does."""
T = TypeVar("T")


class TooSlow(Exception):
    """The balance is used up, or what one wanted to wait for now."""


class LeastPace:
    """The balance of one transfer.

    Args:
        grace_s: What it begins with, and has at most, in seconds.
        least_bytes_per_s: How many bytes give back a second.
    """

    def __init__(self, grace_s: float, *, least_bytes_per_s: float = LEAST_BYTES_PER_S) -> None:
        self._most_s = grace_s
        self._left_s = grace_s
        self._least = least_bytes_per_s
        self._waited_s = 0.0

    @property
    def waited_s(self) -> float:
        """How long has been waited in all, in seconds."""
        return self._waited_s

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._left_s <= 0

    async def wait(self, waited_for: Awaitable[T], *, at_most_s: float | None = None) -> T:
        """Wait for the other side.

        Args:
            waited_for: What is given up when the time is over.
            at_most_s: No longer than so many seconds now, whatever is left.

        Raises:
            TooSlow: The time is over.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = asyncio.timeout(self._left_s if at_most_s is None else min(at_most_s, self._left_s))
        try:
            async with deadline:
                return await waited_for
        except TimeoutError:
            if deadline.expired():
                raise TooSlow from None
            raise
        finally:
            took_s = loop.time() - began
            self._waited_s += took_s
            self._left_s -= took_s

    def came(self, size_bytes: int) -> None:
        """Give back time for what came through."""
        self._left_s = min(self._most_s, self._left_s + size_bytes / self._least)
