"""Chat Completions' own shapes: our request as its body, its chunks as our events. Pure, no network.

Chat Completions and not Responses, because that is what others speak too: vLLM and so Ray Serve, llama.cpp, Ollama,
SGLang, TGI, and the hosted ones that call themselves compatible. They differ in small things, and what is read here
is read with that in mind: reasoning under two names that OpenAI has not, calls without an index or all under the same
one, a message of calls that "stopped", usage in each chunk or in none.

Source: OpenAI API reference, Chat Completions (streaming); vLLM, reasoning outputs and tool calling.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from koda_ray.errors import ModelStreamBroken
from koda_ray.llm.base import (
    Block,
    Completed,
    Message,
    ModelEvent,
    ModelRequest,
    StopReason,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from koda_ray.llm.inputs import parsed_input

if TYPE_CHECKING:
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

__all__ = ["PROVIDER", "OpenAIAssembler", "body", "without_pictures"]

PROVIDER = "openai"

_REASONING = ("reasoning_content", "reasoning")
_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_GAVE_UP = frozenset({"abort", "aborted", "cancelled", "canceled", "error"})
"""What servers that speak this API say where they stopped in the middle; an unknown reason is an end."""


def body(request: ModelRequest, *, original: bool, max_tokens: int | None = None) -> CompletionCreateParamsStreaming:
    """Write a request as the API wants it.

    Args:
        request: What is asked.
        original: OpenAI itself is asked, whose newer models know only the newer name of the token limit; others know
            the older one.
        max_tokens: The longest answer that the server allows, where that is less than what is asked for.
    """
    messages: list[dict[str, JsonValue]] = []
    if system := "\n\n".join(part for part in request.system if part):
        messages.append({"role": "system", "content": system})
    turn = _turn(request.messages)
    for index, message in enumerate(request.messages):
        if message.role == "user":
            messages.extend(_heard(message))
        else:
            messages.extend(_said(message, request.model, reasons=index > turn))
    limit = request.max_tokens if max_tokens is None else min(request.max_tokens, max_tokens)
    made: dict[str, object] = {
        "model": request.model,
        "messages": messages,
        "max_completion_tokens" if original else "max_tokens": limit,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        made["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in request.tools
        ]
    return cast("CompletionCreateParamsStreaming", made)


def without_pictures(request: ModelRequest) -> ModelRequest:
    """Return a request that a model takes which sees nothing: where a picture was, that there was one."""

    def told(block: Block) -> Block:
        return {"type": "text", "text": "(A picture, which you cannot see.)"} if block["type"] == "image" else block

    messages = tuple(replace(each, content=tuple(map(told, each.content))) for each in request.messages)
    return request if messages == request.messages else replace(request, messages=messages)


def _turn(messages: tuple[Message, ...]) -> int:
    """Find where the present turn begins: the last message of the user that answers no call."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and all(block["type"] != "tool_result" for block in message.content):
            return index
    return -1


def _heard(message: Message) -> list[dict[str, JsonValue]]:
    """Write a user's message: each result as a message of its own, then the words and pictures."""
    made: list[dict[str, JsonValue]] = []
    parts: list[dict[str, JsonValue]] = []
    for block in message.content:
        if block["type"] == "tool_result":
            failed = block["is_error"] and not block["content"].startswith('{"error"')
            content = f"Error: {block['content']}" if failed else block["content"]
            made.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": content})
        elif block["type"] == "text":
            parts.append({"type": "text", "text": block["text"]})
        elif block["type"] == "image":
            source = block["source"]
            url = f"data:{source['media_type']};base64,{source['data']}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    if all(part["type"] == "text" for part in parts):
        # the templates of many open models take a string only
        if text := "\n\n".join(str(part["text"]) for part in parts):
            made.append({"role": "user", "content": text})
    else:
        made.append({"role": "user", "content": cast("JsonValue", parts)})
    return made


def _said(message: Message, model: str, *, reasons: bool) -> list[dict[str, JsonValue]]:
    """Write an assistant's message; its reasoning goes back to the model whose it is, while its calls are answered."""
    text = "".join(block["text"] for block in message.content if block["type"] == "text")
    calls: list[JsonValue] = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"], ensure_ascii=False)},
        }
        for block in message.content
        if block["type"] == "tool_use"
    ]
    if not text and not calls:
        return []
    made: dict[str, JsonValue] = {"role": "assistant", "content": text or None}
    for block in message.content:
        if (
            reasons
            and block["type"] == "thinking"
            and block["provider"] == PROVIDER
            and block["data"]["model"] == model
        ):
            made[str(block["data"]["field"])] = block["data"]["text"]
    if calls:
        made["tool_calls"] = calls
    return [made]


@dataclass
class _Call:
    """A tool call that is still streaming."""

    id: str
    name: str = ""
    text: list[str] = field(default_factory=list[str])


class OpenAIAssembler:
    """Puts one message together from its chunks.

    Args:
        model: Who answers; its reasoning is kept with that name.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._field = ""
        self._calls: list[_Call] = []
        self._at: dict[int | None, _Call] = {}
        self._usage = Usage()
        self._stop: StopReason | None = None
        self._refused = False

    def feed(self, event: ChatCompletionChunk) -> tuple[ModelEvent, ...]:
        """Take one chunk and return what a reader should see of it.

        Raises:
            ModelStreamBroken: MODEL_STREAM_BROKEN, the server says that it gave up.
        """
        if event.usage is not None:
            self._usage = _usage(event.usage)
        seen: list[ModelEvent] = []
        # servers leave out what the SDK's types call required
        for choice in (event.choices or [])[:1]:
            if choice.delta is not None:  # pyright: ignore[reportUnnecessaryComparison]
                seen.extend(self._delta(choice.delta))
            if choice.finish_reason is not None:
                if choice.finish_reason in _GAVE_UP:
                    raise ModelStreamBroken(
                        f"the server gave up inside the message ({choice.finish_reason}); nothing of it is kept"
                    )
                self._stop = _STOP.get(choice.finish_reason, "end_turn")
        return tuple(seen)

    def completed(self) -> Completed:
        """Return the whole message.

        Raises:
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did.
        """
        if self._stop is None:
            raise ModelStreamBroken("the stream ended inside the message; nothing of it is kept")
        blocks: list[Block] = []
        if self._reasoning:
            data: dict[str, JsonValue] = {
                "model": self._model,
                "field": self._field,
                "text": "".join(self._reasoning),
            }
            blocks.append({"type": "thinking", "provider": PROVIDER, "data": data})
        if text := "".join(self._text):
            blocks.append({"type": "text", "text": text})
        for call in self._calls:
            given = "".join(call.text)
            blocks.append(
                {
                    "type": "tool_use",
                    "id": call.id,
                    "name": call.name,
                    "input": parsed_input(given) if given.strip() else {},
                }
            )
        stop = "refusal" if self._refused else self._stop
        if stop in ("end_turn", "tool_use"):
            stop = "tool_use" if self._calls else "end_turn"
        return Completed(message=Message(role="assistant", content=tuple(blocks)), stop_reason=stop, usage=self._usage)

    def _delta(self, delta: ChoiceDelta) -> list[ModelEvent]:
        seen: list[ModelEvent] = []
        for name in _REASONING:
            said = (delta.model_extra or {}).get(name)
            if isinstance(said, str) and said:
                self._field = self._field or name
                if name == self._field:
                    self._reasoning.append(said)
        if delta.refusal:
            self._refused = True
        for said in (delta.content, delta.refusal):
            if said:
                self._text.append(said)
                seen.append(TextDelta(text=said))
        for part in delta.tool_calls or []:
            call = self._call(part)
            arguments = part.function.arguments if part.function is not None else None
            if arguments:
                call.text.append(arguments)
                seen.append(ToolInputDelta(id=call.id, name=call.name, partial_json=arguments))
        return seen

    def _call(self, part: ChoiceDeltaToolCall) -> _Call:
        """Find the call that a part continues, or begin it: another id is another call, whatever the index says."""
        index = cast("int | None", getattr(part, "index", None))
        call = self._at.get(index)
        name = (part.function.name if part.function is not None else None) or ""
        if call is None or (part.id and part.id != call.id):
            taken = {each.id for each in self._calls}
            call = _Call(id=part.id if part.id and part.id not in taken else f"call_{uuid.uuid4().hex[:24]}")
            self._calls.append(call)
            self._at[index] = call
        call.name = call.name or name
        return call


def _usage(usage: CompletionUsage) -> Usage:
    """Split the prompt's tokens, which the API counts together, into read, written and neither."""
    details = usage.prompt_tokens_details
    read = (details.cached_tokens if details is not None else None) or 0
    written = (details.cache_write_tokens if details is not None else None) or 0
    return Usage(
        input_tokens=max(0, (usage.prompt_tokens or 0) - read - written),
        output_tokens=usage.completion_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
