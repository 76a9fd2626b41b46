"""Storage that is away for a moment costs a moment: its calls are made again, for half a minute."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential

from koda_ray.errors import StorageError

__all__ = ["PATIENCE_S", "patiently"]

PATIENCE_S = 30.0
T = TypeVar("T")


async def patiently(call: Callable[[], Awaitable[T]], *, limit_s: float = PATIENCE_S) -> T:
    """Await a storage call, again while storage cannot be reached.

    Args:
        call: Makes the call; it may be made several times.
        limit_s: How long after the first failure it is tried again, in seconds.

    Raises:
        StorageError: It failed to the end, or in a way that will not pass (a full disk).
    """
    tries = AsyncRetrying(
        retry=retry_if_exception(_may_pass),
        stop=stop_after_delay(limit_s),
        wait=wait_exponential(multiplier=0.1, max=2.0),
        reraise=True,
    )

    async def attempt() -> T:
        return await call()

    return await tries(attempt)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, StorageError) and error.retryable and error.code != "DISK_FULL"
