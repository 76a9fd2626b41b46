"""An answer from its first event to its last, whichever SDK reads it: opening with retries, deadline, closing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar

from koda_ray.llm.base import Completed, ModelEvent
from koda_ray.llm.retry import RetryPolicy, with_retry

__all__ = ["Assembler", "OpenAnswer", "answered"]

Raw = TypeVar("Raw")
Raw_contra = TypeVar("Raw_contra", contravariant=True)


class Assembler(Protocol[Raw_contra]):
    """Puts one message together from a provider's own events."""

    def feed(self, event: Raw_contra) -> Iterable[ModelEvent]:
        """Take one event and return what a reader should see of it."""
        ...

    def completed(self) -> Completed:
        """Return the whole message; raises ModelStreamBroken when it is not whole."""
        ...


class OpenAnswer(Generic[Raw]):
    """One open stream.

    Args:
        events: The provider's own events.
        assembler: What they add up to.
        close: Closes the connection.
        translated: Turns what the SDK raises into our errors.
        deadline: When the answer has to be whole, in the loop's time.
    """

    def __init__(
        self,
        events: AsyncIterator[Raw],
        assembler: Assembler[Raw],
        *,
        close: Callable[[], Awaitable[None]],
        translated: Callable[[Exception], Exception],
        deadline: float,
    ) -> None:
        self._events = events
        self._assembler = assembler
        self._translated = translated
        self._deadline = deadline
        self._seen: deque[ModelEvent] = deque()
        self.close = close

    async def next(self) -> ModelEvent:
        """Read on to the next event that a reader should see; the last is Completed."""
        if self._seen:
            return self._seen.popleft()
        try:
            async with asyncio.timeout_at(self._deadline):
                async for raw in self._events:
                    self._seen.extend(self._assembler.feed(raw))
                    if self._seen:
                        return self._seen.popleft()
        except Exception as error:
            raise self._translated(error) from None
        return self._assembler.completed()


async def answered(
    begin: Callable[[], Awaitable[OpenAnswer[Raw]]], retry: RetryPolicy, *, provider: str
) -> AsyncGenerator[ModelEvent, None]:
    """Stream an answer; closing the iterator closes the connection.

    Args:
        begin: Opens the stream; called again as the policy says while nothing was read.
        retry: How often and how long.
        provider: Named in logs.
    """

    async def first() -> tuple[OpenAnswer[Raw], ModelEvent]:
        answer = await begin()
        try:
            return answer, await answer.next()
        except BaseException:
            await answer.close()
            raise

    answer, event = await with_retry(first, retry, provider=provider)
    try:
        while not isinstance(event, Completed):
            yield event
            event = await answer.next()
    finally:
        await answer.close()
    # after closing: a reader that stops here and forgets the iterator holds no connection
    yield event
