"""How a provider tries again: before the first event only, with jitter, and as late as the other side asks.

One policy for all providers, so that the SDKs' own retries are switched off: two layers would multiply.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from koda_ray.errors import ModelError

__all__ = ["RETRY_AFTER", "RetryPolicy", "with_retry"]

RETRY_AFTER = "retry_after_s"
"""Key of an error's context that holds how many seconds the other side asked to wait."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Bounds of trying again; waits double from ``first_wait_s`` up to ``max_wait_s``.

    No wait begins that would end after ``total_s``, counted from the first attempt.
    """

    attempts: int = 6
    total_s: float = 120.0
    first_wait_s: float = 0.5
    max_wait_s: float = 20.0


async def with_retry(begin: Callable[[], Awaitable[T]], policy: RetryPolicy, *, provider: str) -> T:
    """Call ``begin`` until it returns.

    Args:
        begin: Opens a stream up to its first event; cleans up after itself when it raises.
        policy: How often and how long.
        provider: Named in logs.

    Raises:
        ModelError: The last error; its ``context["attempts"]`` says how often ``begin`` was called.
    """
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay

    from koda_ray.logs import get_logger

    log = get_logger(__name__)

    def wait_s(state: RetryCallState) -> float:
        backoff = min(policy.max_wait_s, policy.first_wait_s * 2 ** (state.attempt_number - 1))
        asked = _asked(state.outcome.exception() if state.outcome is not None else None)
        # full jitter on our own guess; what was asked for is a lower bound, spread upwards
        return asked + backoff * random.uniform(0.0, 0.25) if asked else backoff * random.uniform(0.25, 1.0)

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        code = error.code if isinstance(error, ModelError) else "UNKNOWN"
        log.warning(
            "model_call_retry",
            provider=provider,
            attempt=state.attempt_number,
            code=code,
            wait_s=round(state.upcoming_sleep, 3),
        )

    made = 0

    async def attempt() -> T:
        nonlocal made
        made += 1
        return await begin()

    retrying = AsyncRetrying(
        sleep=asyncio.sleep,
        retry=retry_if_exception(lambda error: isinstance(error, ModelError) and error.retryable),
        wait=wait_s,
        stop=stop_after_attempt(policy.attempts) | stop_before_delay(policy.total_s),
        before_sleep=tell,
        reraise=True,
    )
    try:
        return await retrying(attempt)
    except ModelError as error:
        error.context["attempts"] = made
        raise


def _asked(error: BaseException | None) -> float:
    if not isinstance(error, ModelError):
        return 0.0
    asked = error.context.get(RETRY_AFTER)
    return float(asked) if isinstance(asked, int | float) else 0.0
