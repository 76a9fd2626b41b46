"""Claude, through the `anthropic` SDK: streaming, tool use, prompt caching, and errors by what a caller can do.

The SDK costs about 75 MB of memory and 0.7 s to import, and a session that works offline never needs it: it is
imported at the first call, off the event loop. Left alone it also reads credentials, headers and an address from the
environment; what is sent here depends on the arguments alone.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from koda_ray.errors import ModelAuth
from koda_ray.llm.anthropic_errors import Translator
from koda_ray.llm.anthropic_wire import Assembler, body
from koda_ray.llm.base import Completed, ModelEvent, ModelRequest
from koda_ray.llm.retry import RetryPolicy, with_retry

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

__all__ = ["AnthropicProvider"]

_CONNECT_S = 10.0
_BASE_URL = "https://api.anthropic.com"


class AnthropicProvider:
    """Answers requests with a Claude model.

    Args:
        api_key: Sent by the SDK in a header; never part of an error, log line or repr.
        base_url: Another server that speaks the Messages API; Anthropic's own when None.
        retry: How often a call is tried before its first event.
        idle_timeout_s: Longest silence on an open stream (the API pings every few seconds).
        call_timeout_s: Longest time for one whole answer.

    Raises:
        ModelAuth: MODEL_AUTH, the key cannot be one.
    """

    def __init__(
        self,
        api_key: str,
        *,
        base_url: str | None = None,
        retry: RetryPolicy | None = None,
        idle_timeout_s: float = 90.0,
        call_timeout_s: float = 900.0,
    ) -> None:
        if not api_key or not api_key.isascii() or any(not char.isprintable() or char == " " for char in api_key):
            raise ModelAuth("ANTHROPIC_API_KEY holds nothing, or characters that no key has: copy the key again")
        self._api_key = api_key
        self._base_url = base_url
        self._retry = retry or RetryPolicy()
        self._idle_timeout_s = idle_timeout_s
        self._call_timeout_s = call_timeout_s
        self._errors = Translator(api_key, base_url, idle_timeout_s, call_timeout_s)
        self._client: AsyncAnthropic | None = None

    @property
    def name(self) -> str:
        """``anthropic``."""
        return "anthropic"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request; closing the iterator closes the connection.

        Raises:
            ModelOverloaded: MODEL_OVERLOADED (429, 529, 5xx) or MODEL_UNREACHABLE, after the policy's attempts.
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did.
            ModelAuth: MODEL_AUTH, the key is wrong, not allowed, or out of credit.
            ModelError: MODEL_CONTEXT_OVERFLOW or MODEL_ERROR; trying again does not help.
        """
        client = await self._connected()
        answer, event = await with_retry(lambda: self._begin(client, request), self._retry, provider=self.name)
        try:
            while not isinstance(event, Completed):
                yield event
                event = await answer.next()
        finally:
            await answer.close()
        # after closing: a reader that stops here and forgets the iterator holds no connection
        yield event

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> AsyncAnthropic:
        if self._client is None:
            await asyncio.to_thread(importlib.import_module, "anthropic")
            from anthropic import AsyncAnthropic, Timeout

            if self._client is None:
                timeout = Timeout(self._idle_timeout_s, connect=_CONNECT_S)
                client = AsyncAnthropic(
                    api_key=self._api_key, base_url=self._base_url or _BASE_URL, max_retries=0, timeout=timeout
                )
                # ANTHROPIC_AUTH_TOKEN (older SDKs) and ANTHROPIC_CUSTOM_HEADERS: another program's credentials.
                # The SDK has no argument that turns the headers off; a test watches over this.
                client.auth_token = None
                client._custom_headers = {}  # pyright: ignore[reportPrivateUsage]
                self._client = client
        return self._client

    async def _begin(self, client: AsyncAnthropic, request: ModelRequest) -> tuple[_Answer, ModelEvent]:
        """Open a stream and read up to its first event."""
        deadline = asyncio.get_running_loop().time() + self._call_timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                stream = await client.messages.create(**body(request))
        except Exception as error:
            raise self._errors.translated(error, request.model) from None
        answer = _Answer(self._errors, stream, request.model, deadline)
        try:
            return answer, await answer.next()
        except BaseException:
            await answer.close()
            raise


class _Answer:
    """One open stream."""

    def __init__(
        self, errors: Translator, stream: AsyncStream[RawMessageStreamEvent], model: str, deadline: float
    ) -> None:
        self._errors = errors
        self._stream = stream
        self._events = aiter(stream)
        self._model = model
        self._deadline = deadline
        self._assembler = Assembler()

    async def next(self) -> ModelEvent:
        """Read on to the next event that a reader should see; the last is Completed."""
        try:
            async with asyncio.timeout_at(self._deadline):
                async for raw in self._events:
                    if (event := self._assembler.feed(raw)) is not None:
                        return event
        except Exception as error:
            raise self._errors.translated(error, self._model) from None
        return self._assembler.completed()

    async def close(self) -> None:
        await self._stream.close()
