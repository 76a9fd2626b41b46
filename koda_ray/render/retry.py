"""Storage that is away for a moment costs a moment: its calls are made again, for half a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from koda_ray.errors import StorageError

__all__ = ["RETRY_S", "retried"]

RETRY_S = 30.0
_WAIT_S, _WAIT_MAX_S = 0.1, 2.0
T = TypeVar("T")


async def retried(call: Callable[[], Awaitable[T]], *, limit_s: float = RETRY_S) -> T:
    """Await a storage call, again while storage cannot be reached.

    Args:
        call: Makes the call; it may be made several times.
        limit_s: How long after the first call it is tried again, in seconds.

    Raises:
        StorageError: It failed to the end, or in a way that will not pass (a full disk).
    """
    end, wait_s = time.monotonic() + limit_s, _WAIT_S
    while True:
        try:
            return await call()
        except StorageError as error:
            if not _may_pass(error) or time.monotonic() >= end:
                raise
        await asyncio.sleep(wait_s)
        wait_s = min(_WAIT_MAX_S, wait_s * 2)


def _may_pass(error: StorageError) -> bool:
    return error.retryable and error.code != "DISK_FULL"
