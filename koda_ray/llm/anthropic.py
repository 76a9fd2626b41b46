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

from koda_ray.llm.anthropic_errors import translated
from koda_ray.llm.anthropic_wire import AnthropicAssembler, body, count_request
from koda_ray.llm.base import ModelEvent, ModelRequest
from koda_ray.llm.failures import Endpoint, usable_key
from koda_ray.llm.retry import RetryPolicy
from koda_ray.llm.streams import OpenAnswer, answered

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import RawMessageStreamEvent

__all__ = ["AnthropicProvider"]

_CONNECT_S = 10.0
_COUNT_S = 20.0
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
        self._peer = Endpoint(
            name="Anthropic",
            api_key=usable_key(api_key, "ANTHROPIC_API_KEY"),
            key_setting="ANTHROPIC_API_KEY",
            base_url=base_url or _BASE_URL,
            url_setting="ANTHROPIC_BASE_URL",
            idle_timeout_s=idle_timeout_s,
            call_timeout_s=call_timeout_s,
        )
        self._retry = retry or RetryPolicy()
        self._client: AsyncAnthropic | None = None

    @property
    def name(self) -> str:
        """``anthropic``."""
        return "anthropic"

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request; closing the iterator closes the connection.

        Raises:
            ModelOverloaded: MODEL_OVERLOADED (429, 529, 5xx) or MODEL_UNREACHABLE, after the policy's attempts.
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did.
            ModelAuth: MODEL_AUTH, the key is wrong, not allowed, or out of credit.
            ModelError: MODEL_CONTEXT_OVERFLOW or MODEL_ERROR; trying again does not help.
        """
        return answered(lambda: self._begin(request), self._retry, provider=self.name)

    async def count(self, request: ModelRequest) -> int | None:
        """Have a prompt's tokens counted, by the endpoint for it. Raises as `stream`, without other attempts."""
        client = await self._connected()
        try:
            async with asyncio.timeout(_COUNT_S):
                return (await client.messages.count_tokens(**count_request(request))).input_tokens
        except Exception as error:
            raise translated(error, self._peer, request.model) from None

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
                peer = self._peer
                timeout = Timeout(peer.idle_timeout_s, connect=_CONNECT_S)
                client = AsyncAnthropic(api_key=peer.api_key, base_url=peer.base_url, max_retries=0, timeout=timeout)
                # ANTHROPIC_AUTH_TOKEN (older SDKs) and ANTHROPIC_CUSTOM_HEADERS: another program's credentials.
                # The SDK has no argument that turns the headers off; a test watches over this.
                client.auth_token = None
                client._custom_headers = {}  # pyright: ignore[reportPrivateUsage]
                self._client = client
        return self._client

    async def _begin(self, request: ModelRequest) -> OpenAnswer[RawMessageStreamEvent]:
        """Open a stream."""
        client = await self._connected()
        deadline = asyncio.get_running_loop().time() + self._peer.call_timeout_s

        def ours(error: Exception) -> Exception:
            return translated(error, self._peer, request.model)

        try:
            async with asyncio.timeout_at(deadline):
                stream = await client.messages.create(**body(request))
        except Exception as error:
            raise ours(error) from None
        return OpenAnswer(aiter(stream), AnthropicAssembler(), close=stream.close, translated=ours, deadline=deadline)
