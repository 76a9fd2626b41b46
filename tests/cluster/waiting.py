"""Waiting for what is to come true on a cluster, and giving up where it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

__all__ = ["NotInTimeError", "comes_true"]

_IN_TIME_S = 240.0


class NotInTimeError(Exception):
    """What should have come true has not. No `SystemExit`: a loop ends at once with that, and nobody can say more."""


async def comes_true(what: Callable[[], Awaitable[object]], why: str, within_s: float = _IN_TIME_S) -> float:
    """Wait until something is so; return how long that took, in seconds."""
    began = time.monotonic()
    while not await what():
        if time.monotonic() - began > within_s:
            raise NotInTimeError(f"not in time: {why}")
        await asyncio.sleep(0.1)
    return time.monotonic() - began
