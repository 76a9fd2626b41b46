"""The code generator: a request for files in, complete files out, streamed to whoever watches.

It has no tools and no memory: everything it may use stands in the request, so the same request means the same work.
Its answer is one JSON object; what has arrived of it is parsed as it grows, so that a person sees each file being
written. ``code_chunk`` events carry ``{path, offset, delta}`` and never the text so far.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import cast

import jiter
from pydantic import BaseModel, Field, JsonValue, ValidationError
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from koda_ray.errors import InvalidInput, KodaError
from koda_ray.events import NewEvent
from koda_ray.llm.base import Completed, Message, ModelEvent, ModelProvider, ModelRequest, TextBlock, TextDelta, Usage

__all__ = ["COALESCE_S", "CodeGenerator", "GeneratedFile", "GeneratedFiles", "parse_answer"]

COALESCE_S = 0.05
ATTEMPTS = 3
"""Tries of one request when the stream breaks or the answer is not the JSON that was asked for."""

Emit = Callable[[NewEvent], Awaitable[None]]
OnUsage = Callable[[Usage], Awaitable[None]]


class GeneratedFile(BaseModel):
    """One complete file."""

    path: str = Field(min_length=1, max_length=1024)
    content: str = Field(max_length=8_000_000)


class GeneratedFiles(BaseModel):
    """The code generator's answer."""

    files: list[GeneratedFile] = Field(max_length=200)
    summary: str = Field(default="", max_length=4000)


def parse_answer(text: str) -> GeneratedFiles:
    """Read the generator's answer, with or without a code fence around it.

    Raises:
        InvalidInput: There is no JSON object, or it is not of the asked form; the message says where.
    """
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise InvalidInput(f"the answer holds no JSON object; it begins {text[:80]!r}", code="CODEGEN_INVALID")
    try:
        answer = GeneratedFiles.model_validate_json(text[begin : end + 1])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        raise InvalidInput(f"the answer is not valid at {where}: {first['msg']}", code="CODEGEN_INVALID") from None
    paths = [file.path for file in answer.files]
    if len(set(paths)) != len(paths):
        raise InvalidInput(f"the answer names a path twice: {sorted(paths)}", code="CODEGEN_INVALID")
    return answer


class CodeGenerator:
    """Asks a model for files.

    Args:
        provider: Who answers.
        model: The model's name.
        instructions: The system prompt, stable parts first.
    """

    def __init__(self, *, provider: ModelProvider, model: str, instructions: tuple[str, ...]) -> None:
        self._provider = provider
        self._model = model
        self._instructions = instructions

    async def generate(
        self,
        request: Mapping[str, JsonValue],
        *,
        emit: Emit,
        on_usage: OnUsage | None = None,
        cause_id: str | None = None,
    ) -> GeneratedFiles:
        """Ask for files until a whole, valid answer came.

        Raises:
            InvalidInput: CODEGEN_INVALID after three answers that were not the JSON asked for.
            ModelError: The provider failed for good.
        """
        text = json.dumps(request, ensure_ascii=False)
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            retry=retry_if_exception(_worth_another_try),
            reraise=True,
        ):
            with attempt:
                answer, usage = await self._stream(text, emit, cause_id)
                if on_usage is not None:
                    await on_usage(usage)
                return parse_answer(answer)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _stream(self, text: str, emit: Emit, cause_id: str | None) -> tuple[str, Usage]:
        request = ModelRequest(
            agent="code_generator",
            model=self._model,
            system=self._instructions,
            messages=(Message(role="user", content=(TextBlock(type="text", text=text),)),),
        )
        parts: list[str] = []
        chunks = _Chunks(emit, cause_id)
        async with aclosing(cast("AsyncGenerator[ModelEvent]", self._provider.stream(request))) as events:
            async for event in events:
                match event:
                    case TextDelta(text=delta):
                        parts.append(delta)
                        await chunks.arrived(parts)
                    case Completed(stop_reason="max_tokens"):
                        raise InvalidInput(
                            "the answer was cut off at the limit of its length; ask for fewer files at once",
                            code="CODEGEN_TOO_LONG",
                        )
                    case Completed(message=message, usage=usage):
                        await chunks.flush(parts)
                        whole = "".join(block["text"] for block in message.content if block["type"] == "text")
                        return whole, usage
                    case _:
                        pass
        raise InvalidInput("the answer ended before it was complete", code="CODEGEN_INVALID")


def _worth_another_try(error: BaseException) -> bool:
    return isinstance(error, KodaError) and (error.retryable or error.code == "CODEGEN_INVALID")


class _Chunks:
    """Turns a growing JSON text into ``code_chunk`` events, at most one batch each 50 ms."""

    def __init__(self, emit: Emit, cause_id: str | None) -> None:
        self._emit = emit
        self._cause_id = cause_id
        self._sent: dict[str, int] = {}
        self._last = 0.0

    async def arrived(self, parts: list[str]) -> None:
        if time.monotonic() - self._last >= COALESCE_S:
            await self.flush(parts)

    async def flush(self, parts: list[str]) -> None:
        for path, content in _partial_files("".join(parts)):
            offset = self._sent.get(path, 0)
            if len(content) > offset:
                data: dict[str, JsonValue] = {"path": path, "offset": offset, "delta": content[offset:]}
                await self._emit(NewEvent(type="code_chunk", data=data, cause_id=self._cause_id))
                self._sent[path] = len(content)
        self._last = time.monotonic()


def _partial_files(text: str) -> list[tuple[str, str]]:
    """Read the files of an answer that has not ended; the last one's content may be cut."""
    begin = text.find("{")
    if begin < 0:
        return []
    try:
        value = cast("object", jiter.from_json(text[begin:].encode(), partial_mode="trailing-strings"))
    except ValueError:  # a fence after the object, or not JSON: the whole answer is judged when it is whole
        return []
    files = cast("dict[str, object]", value).get("files") if isinstance(value, dict) else None
    found: list[tuple[str, str]] = []
    for file in cast("list[object]", files) if isinstance(files, list) else []:
        fields = cast("dict[str, object]", file) if isinstance(file, dict) else {}
        path, content = fields.get("path"), fields.get("content")
        if isinstance(path, str) and isinstance(content, str):
            found.append((path, content))
    return found
