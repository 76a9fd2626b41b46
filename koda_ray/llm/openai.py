"""OpenAI's models, and every server that speaks its API, through the `openai` SDK.

With a base URL it is somebody else's server: vLLM, Ray Serve, Ollama and the like, which need no key. Left alone the
SDK also reads credentials, headers and an address from the environment; what is sent here depends on the arguments
alone. It is imported at the first call, off the event loop.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from koda_ray.llm.base import ModelEvent, ModelRequest
from koda_ray.llm.failures import Endpoint, missing_sdk, usable_key
from koda_ray.llm.openai_errors import translated
from koda_ray.llm.openai_wire import OpenAIAssembler, body, without_pictures
from koda_ray.llm.retry import RetryPolicy
from koda_ray.llm.streams import OpenAnswer, answered

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk

__all__ = ["OpenAIProvider"]

_CONNECT_S = 10.0
_BASE_URL = "https://api.openai.com/v1"
_NO_KEY = "none"


class OpenAIProvider:
    """Answers requests with a model behind Chat Completions.

    Args:
        api_key: Sent by the SDK in a header; never part of an error, log line or repr. None where a server of
            one's own asks for none.
        base_url: Another server that speaks the API, up to its ``/v1``; OpenAI's own when None.
        max_tokens: The longest answer that the server allows; requests may ask for more, and get this.
        retry: How often a call is tried before its first event.
        idle_timeout_s: Longest silence on an open stream; a model that reasons says nothing for minutes.
        call_timeout_s: Longest time for one whole answer.

    Raises:
        ModelAuth: MODEL_AUTH, the key cannot be one, or OpenAI is to be asked without.
    """

    def __init__(
        self,
        api_key: str | None,
        *,
        base_url: str | None = None,
        max_tokens: int | None = None,
        retry: RetryPolicy | None = None,
        idle_timeout_s: float = 300.0,
        call_timeout_s: float = 900.0,
    ) -> None:
        key = _NO_KEY if api_key is None and base_url is not None else usable_key(api_key or "", "OPENAI_API_KEY")
        self._peer = Endpoint(
            name="OpenAI" if base_url is None else "the model's server",
            api_key="" if key == _NO_KEY else key,
            key_setting="OPENAI_API_KEY",
            base_url=base_url or _BASE_URL,
            url_setting="OPENAI_BASE_URL",
            idle_timeout_s=idle_timeout_s,
            call_timeout_s=call_timeout_s,
        )
        self._original = base_url is None
        self._blind: set[str] = set()
        self._max_tokens = max_tokens
        self._retry = retry or RetryPolicy()
        self._client: AsyncOpenAI | None = None

    @property
    def name(self) -> str:
        """``openai``."""
        return "openai"

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request; closing the iterator closes the connection.

        Raises:
            ModelOverloaded: MODEL_OVERLOADED (429, 5xx) or MODEL_UNREACHABLE, after the policy's attempts.
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did.
            ModelAuth: MODEL_AUTH, the key is wrong, not allowed, or out of credit.
            ModelError: MODEL_CONTEXT_OVERFLOW or MODEL_ERROR; trying again does not help.
            Missing: MISSING, the SDK is not installed.
        """
        return answered(lambda: self._begin(request), self._retry, provider=self.name)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            try:
                await asyncio.to_thread(importlib.import_module, "openai")
            except ModuleNotFoundError as error:
                raise missing_sdk("openai", "openai") from error
            from openai import AsyncOpenAI, Timeout

            if self._client is None:
                peer = self._peer
                client = AsyncOpenAI(
                    api_key=peer.api_key or _NO_KEY,
                    base_url=peer.base_url,
                    max_retries=0,
                    timeout=Timeout(peer.idle_timeout_s, connect=_CONNECT_S),
                )
                # OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_ADMIN_KEY and OPENAI_CUSTOM_HEADERS: another program's.
                # The SDK has no arguments that turn them off; a test watches over this.
                client.organization = client.project = client.admin_api_key = None
                client._custom_headers = {}  # pyright: ignore[reportPrivateUsage]
                self._client = client
        return self._client

    async def _asked(self, client: AsyncOpenAI, request: ModelRequest) -> AsyncStream[ChatCompletionChunk]:
        """Send a request; to a model of somebody else's server that takes no pictures, without them from then on."""
        from openai import BadRequestError, UnprocessableEntityError

        seen = request if request.model not in self._blind else without_pictures(request)
        try:
            return await client.chat.completions.create(
                **body(seen, original=self._original, max_tokens=self._max_tokens)
            )
        except (BadRequestError, UnprocessableEntityError):
            told = without_pictures(seen)
            if self._original or told == seen:
                raise
            stream = await client.chat.completions.create(
                **body(told, original=self._original, max_tokens=self._max_tokens)
            )
            self._blind.add(request.model)
            return stream

    async def _begin(self, request: ModelRequest) -> OpenAnswer[ChatCompletionChunk]:
        """Open a stream."""
        client = await self._connected()
        deadline = asyncio.get_running_loop().time() + self._peer.call_timeout_s
        ours = partial(translated, peer=self._peer, model=request.model)
        try:
            async with asyncio.timeout_at(deadline):
                stream = await self._asked(client, request)
        except Exception as error:
            raise ours(error, streaming=False) from None
        return OpenAnswer(
            aiter(stream),
            OpenAIAssembler(request.model),
            close=stream.close,
            translated=partial(ours, streaming=True),
            deadline=deadline,
        )
