"""Gemini, through the `google-genai` SDK: streaming, tool use, and errors by what a caller can do.

The SDK hides the connection under four generators, which close it some time after they are forgotten, and it reads
over what Gemini says of a call that it could not parse. So the HTTP client is ours: it notes the response of each
call and how it ended, and closing an answer closes that. Left alone the SDK also reads
keys, an address, a project and modes of its own from the environment; what is sent here depends on the arguments
alone. It is imported at the first call, off the event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from koda_ray.llm.base import ModelEvent, ModelRequest
from koda_ray.llm.failures import Endpoint, missing_sdk, usable_key
from koda_ray.llm.gemini_errors import translated
from koda_ray.llm.gemini_wire import GeminiAssembler, config, contents
from koda_ray.llm.retry import RetryPolicy
from koda_ray.llm.streams import OpenAnswer, answered

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import GenerateContentResponse
    from httpx2 import AsyncClient, Request, Response

__all__ = ["GeminiProvider"]

_CONNECT_S = 10.0
_COUNT_S = 20.0
_BASE_URL = "https://generativelanguage.googleapis.com"

_TAIL_BYTES = 65_536

_exchange: ContextVar[_Exchange | None] = ContextVar("gemini_exchange", default=None)


class GeminiProvider:
    """Answers requests with a Gemini model.

    Args:
        api_key: Sent by the SDK in a header; never part of an error, log line or repr.
        base_url: Another server that speaks the API; Google's own when None.
        retry: How often a call is tried before its first event.
        idle_timeout_s: Longest silence on an open stream; a model that reasons says nothing for minutes.
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
        idle_timeout_s: float = 300.0,
        call_timeout_s: float = 900.0,
    ) -> None:
        self._peer = Endpoint(
            name="Gemini",
            api_key=usable_key(api_key, "GEMINI_API_KEY"),
            key_setting="GEMINI_API_KEY",
            base_url=base_url or _BASE_URL,
            url_setting="GEMINI_BASE_URL",
            idle_timeout_s=idle_timeout_s,
            call_timeout_s=call_timeout_s,
        )
        self._retry = retry or RetryPolicy()
        self._client: Client | None = None
        self._http: AsyncClient | None = None

    @property
    def name(self) -> str:
        """``gemini``."""
        return "gemini"

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request; closing the iterator closes the connection.

        Raises:
            ModelOverloaded: MODEL_OVERLOADED (429, 5xx) or MODEL_UNREACHABLE, after the policy's attempts.
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did.
            ModelAuth: MODEL_AUTH, the key is wrong or not allowed.
            ModelError: MODEL_CONTEXT_OVERFLOW or MODEL_ERROR; trying again does not help.
            Missing: MISSING, the SDK is not installed.
        """
        return answered(lambda: self._begin(request), self._retry, provider=self.name)

    async def count(self, request: ModelRequest) -> int | None:
        """Have a prompt's tokens counted, by the endpoint for it. Raises as `stream`, without other attempts.

        The endpoint takes neither instructions nor tools from the SDK: the tokens of instructions and of tools' input
        schemas are estimated, at four characters each; what tools say of themselves does not count.
        """
        client = await self._connected()
        try:
            async with asyncio.timeout(_COUNT_S):
                counted = await client.aio.models.count_tokens(model=request.model, contents=[*contents(request)])
        except Exception as error:
            raise translated(error, peer=self._peer, model=request.model, streaming=False) from None
        rest = sum(map(len, request.system)) + sum(len(json.dumps(tool.input_schema)) for tool in request.tools)
        return None if counted.total_tokens is None else counted.total_tokens + rest // 4

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        http, self._http = self._http, None
        if client is not None:
            client.close()
        if http is not None:
            await http.aclose()

    async def _connected(self) -> Client:
        if self._client is None:
            try:
                await asyncio.to_thread(importlib.import_module, "google.genai")
            except ModuleNotFoundError as error:
                raise missing_sdk("gemini", "google-genai") from error
            if self._client is None:
                self._client, self._http = _connect(self._peer)
        return self._client

    async def _begin(self, request: ModelRequest) -> OpenAnswer[GenerateContentResponse]:
        """Open a stream."""
        client = await self._connected()
        deadline = asyncio.get_running_loop().time() + self._peer.call_timeout_s
        ours = partial(translated, peer=self._peer, model=request.model)
        exchange = _Exchange()
        token = _exchange.set(exchange)
        try:
            async with asyncio.timeout_at(deadline):
                events = await client.aio.models.generate_content_stream(
                    model=request.model, contents=[*contents(request)], config=config(request)
                )
                # nothing is sent before the first chunk is asked for
                first = await anext(events, None)
        except Exception as error:
            await exchange.close()
            raise ours(error, streaming=exchange.begun) from None
        except BaseException:
            await exchange.close()
            raise
        finally:
            _exchange.reset(token)
        return OpenAnswer(
            _after(first, events),
            GeminiAssembler((tool.name for tool in request.tools), exchange.finish_message),
            close=exchange.close,
            translated=partial(ours, streaming=True),
            deadline=deadline,
        )


class _Exchange:
    """What the HTTP client saw of one call."""

    def __init__(self) -> None:
        self._response: Response | None = None
        self._tail = b""

    @property
    def begun(self) -> bool:
        """Whether an answer began that is no error."""
        return self._response is not None and self._response.is_success

    def note(self, response: Response) -> None:
        """Keep a response, and from now on the end of what is read of it."""
        self._response = response
        read = response.aiter_bytes

        async def noted(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
            async for chunk in read(chunk_size):
                self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
                yield chunk

        response.aiter_bytes = noted

    def finish_message(self) -> str:
        """Find what the last event says of how the answer ended."""
        for line in reversed(self._tail.decode(errors="replace").splitlines()):
            if line.startswith("data: "):
                try:
                    event = _Ending.model_validate_json(line.removeprefix("data: "))
                except ValueError:
                    return ""
                return event.candidates[0].finish_message if event.candidates else ""
        return ""

    async def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        if self._response is not None:
            await self._response.aclose()


class _Candidate(BaseModel):
    finish_message: str = Field("", alias="finishMessage")


class _Ending(BaseModel):
    candidates: list[_Candidate] = []


async def _after(
    first: GenerateContentResponse | None, rest: AsyncIterator[GenerateContentResponse]
) -> AsyncIterator[GenerateContentResponse]:
    if first is not None:
        yield first
    async for each in rest:
        yield each


def _connect(peer: Endpoint) -> tuple[Client, AsyncClient]:
    """Make the SDK's client over an HTTP client of ours."""
    from google.genai import Client
    from google.genai.client import DebugConfig
    from google.genai.types import HttpOptions
    from httpx2 import AsyncClient

    # the SDK sets no limit of its own unless it may tell the server of it, and then one for all phases of a call
    limits = {"connect": _CONNECT_S, "read": peer.idle_timeout_s, "write": peer.idle_timeout_s, "pool": _CONNECT_S}

    async def limit(request: Request) -> None:
        request.extensions["timeout"] = limits

    async def note(response: Response) -> None:
        exchange = _exchange.get()
        if exchange is not None:
            exchange.note(response)

    http = AsyncClient(event_hooks={"request": [limit], "response": [note]})
    client = Client(
        vertexai=False,
        api_key=peer.api_key,
        debug_config=DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
        http_options=HttpOptions(base_url=peer.base_url, api_version="v1beta", httpx_async_client=http),
    )
    return client, http
