"""The code generator: a request for files in, complete files out, streamed to whoever watches.

It has no tools and no memory: everything it may use stands in the request, so the same request means the same work.
Its answer is one JSON object; what has arrived of it is parsed as it grows, so that a person sees each file being
written. ``code_chunk`` events carry ``{path, offset, delta}`` and never the text so far.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel, Field, JsonValue, ValidationError
from pydantic_core import from_json

from koda_ray.agent.hooks import Hooks, Stop
from koda_ray.agent.purse import Purse
from koda_ray.errors import HookStopped, InvalidInput, KodaError
from koda_ray.events import NewEvent
from koda_ray.llm.base import (
    Completed,
    Message,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    ModelSwitched,
    TextBlock,
    TextDelta,
    Usage,
    substitutes_of,
)
from koda_ray.roles.folded import Folder
from koda_ray.state.charges import ChargeEntry
from koda_ray.state.records import Batch
from koda_ray.types import new_id

__all__ = ["COALESCE_S", "CodeGenerator", "GeneratedFile", "GeneratedFiles", "Written", "parse_answer"]

COALESCE_S = 0.05
ATTEMPTS = 3
"""Tries of one request when the stream breaks or the answer is not the JSON that was asked for."""
_WAIT_S = 0.2
"""The wait after the first is up to this long, in seconds; after the second, twice that."""

Announce = Callable[[NewEvent], Awaitable[None]]
OnUsage = Callable[[Usage, float | None], Awaitable[None]]
Commit = Callable[[Batch], Awaitable[object]]


class GeneratedFile(BaseModel):
    """One complete file."""

    path: str = Field(min_length=1, max_length=1024)
    content: str = Field(max_length=8_000_000)


class GeneratedFiles(BaseModel):
    """The code generator's answer."""

    files: list[GeneratedFile] = Field(max_length=200)
    summary: str = Field(default="", max_length=4000)


@dataclass(frozen=True, kw_only=True)
class Written:
    """Files that were generated; ``charges`` say what they cost, and belong into the commit that keeps them."""

    files: Sequence[GeneratedFile]
    summary: str
    charges: Sequence[ChargeEntry] = ()


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
        purse: Pays for its answers; nothing is counted when None.
        hooks: Who is heard before and after its model calls, the same as with the other agents; nobody when None.
    """

    def __init__(
        self,
        *,
        provider: ModelProvider,
        model: str,
        instructions: tuple[str, ...],
        purse: Purse | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._provider = provider
        self._model = model
        self._instructions = instructions
        self._purse = purse
        self._hooks = hooks
        self._folder = Folder()

    async def generate(
        self,
        request: Mapping[str, JsonValue],
        *,
        emit: Announce,
        on_usage: OnUsage | None = None,
        cause_id: str | None = None,
        commit: Commit | None = None,
    ) -> Written:
        """Ask for files until a whole, valid answer came, three times at most.

        Answers that are neither cost nothing; one that somebody stops is paid for as far as it had come.

        Args:
            request: What is wanted, with all that it may need.
            emit: Hears of files as they are written.
            on_usage: Hears what the answer took, and its price in dollars where that is known.
            cause_id: Whom the events are for.
            commit: Stores what is reserved; nothing is counted when None.

        Raises:
            InvalidInput: CODEGEN_INVALID after three answers that were not the JSON asked for; CODEGEN_TOO_LONG after
                one that was cut off at the limit of its length.
            ModelError: The provider failed for good.
            BudgetExceeded: An answer is more than there is left; nothing was asked.
            HookStopped: A hook ends it here; an answer that was there by then is paid for.
        """
        blocks, settled = self._folder.fold(request)
        made = 0
        while True:
            made += 1
            try:
                return await self._attempt(blocks, settled, emit, cause_id, on_usage, commit)
            except KodaError as error:
                if made == ATTEMPTS or not _worth_another_try(error):
                    raise
            await asyncio.sleep(random.uniform(0.0, _WAIT_S * made))

    async def _attempt(
        self,
        blocks: Sequence[TextBlock],
        settled: int,
        emit: Announce,
        cause_id: str | None,
        on_usage: OnUsage | None,
        commit: Commit | None,
    ) -> Written:
        request = ModelRequest(
            agent="code_generator",
            model=self._model,
            system=self._instructions,
            messages=(Message(role="user", content=tuple(blocks)),),
            volatile_blocks=1,
            settled_blocks=settled,
            discards=True,
        )
        if self._hooks is not None:
            heard = await self._hooks.before_model(request)
            if isinstance(heard, Stop):
                raise _stopped(heard)
            request = heard
        purse, call_id = self._purse if commit is not None else None, new_id("msg")
        if purse is not None and commit is not None:
            request = await purse.begin(call_id, request, commit, substitutes=substitutes_of(self._provider))
        parts: list[str] = []
        try:
            completed = used = await self._stream(request, emit, cause_id, parts)
            if self._hooks is not None:
                completed, stop = await self._hooks.after_model(request, completed)
                if stop is not None:
                    if purse is not None and commit is not None:
                        await commit(Batch(charges=[purse.settle(call_id, request, used)[0]]))
                    raise _stopped(stop)
            parsed = parse_answer(_whole(completed))
        except (Exception, asyncio.CancelledError) as error:
            chars = sum(map(len, parts))
            entries = purse.unanswered(call_id, request, error, chars=chars) if purse is not None else []
            if entries and commit is not None:
                with suppress(KodaError):  # what stays held is found by the next one who asks
                    await commit(Batch(charges=entries))
            raise
        charges: list[ChargeEntry] = []
        cost_usd: float | None = None
        if purse is not None:
            settle, cost_usd = purse.settle(call_id, request, used)
            charges.append(settle)
        if on_usage is not None:
            await on_usage(used.usage, cost_usd)
        return Written(files=parsed.files, summary=parsed.summary, charges=charges)

    async def _stream(self, request: ModelRequest, emit: Announce, cause_id: str | None, parts: list[str]) -> Completed:
        chunks = _Chunks(emit, cause_id)
        async with aclosing(cast("AsyncGenerator[ModelEvent]", self._provider.stream(request))) as events:
            async for event in events:
                match event:
                    case TextDelta(text=delta):
                        parts.append(delta)
                        await chunks.arrived(parts)
                    case ModelSwitched():
                        parts.clear()
                        chunks = _Chunks(emit, cause_id)
                    case Completed(stop_reason="max_tokens"):
                        raise InvalidInput(
                            "the answer was cut off at the limit of its length; ask for fewer files at once",
                            code="CODEGEN_TOO_LONG",
                        )
                    case Completed():
                        await chunks.flush(parts)
                        return event
                    case _:
                        pass
        raise InvalidInput("the answer ended before it was complete", code="CODEGEN_INVALID")


def _whole(completed: Completed) -> str:
    return "".join(block["text"] for block in completed.message.content if block["type"] == "text")


def _stopped(stop: Stop) -> HookStopped:
    return HookStopped(f"a hook stopped the code generator: {stop.reason}")


def _worth_another_try(error: KodaError) -> bool:
    return error.retryable or error.code == "CODEGEN_INVALID"


class _Chunks:
    """Turns a growing JSON text into ``code_chunk`` events, at most one batch each 50 ms."""

    def __init__(self, emit: Announce, cause_id: str | None) -> None:
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
        value = cast("object", from_json(text[begin:].encode(), allow_partial="trailing-strings"))
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
