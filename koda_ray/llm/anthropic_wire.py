"""The Messages API's own shapes: our request as its body, its events as ours. Pure, no network.

Source: Anthropic Messages API (streaming events, prompt caching: at most four breakpoints, matched on exact prefixes
in the order tools, system, messages; an older entry is found up to 20 blocks before a breakpoint).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

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
    from anthropic.types import MessageCountTokensParams, MessageDeltaUsage, RawMessageStreamEvent
    from anthropic.types import Usage as ApiUsage
    from anthropic.types.message_create_params import MessageCreateParamsStreaming
    from anthropic.types.raw_content_block_delta_event import RawContentBlockDeltaEvent
    from anthropic.types.raw_content_block_start_event import RawContentBlockStartEvent

__all__ = ["PROVIDER", "AnthropicAssembler", "body", "count_request"]

PROVIDER = "anthropic"

_MESSAGE_BREAKPOINTS = 2
_STOP: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "refusal": "refusal",
}


def body(request: ModelRequest) -> MessageCreateParamsStreaming:
    """Write a request as the API wants it.

    Breakpoints follow the first system part (and so the tools, which come before it), what is left of old turns or else
    the last system part, and the stable end of the last two messages of the user: the newer one is written to the
    cache, the older one is where the request before this one ended. They never cover the volatile blocks.
    """
    made = _prompt(request)
    return cast("MessageCreateParamsStreaming", {**made, "max_tokens": request.max_tokens, "stream": True})


def count_request(request: ModelRequest) -> MessageCountTokensParams:
    """Write a request as the API wants it where only its tokens are counted."""
    return cast("MessageCountTokensParams", _prompt(request))


def _prompt(request: ModelRequest) -> dict[str, object]:
    system: list[dict[str, JsonValue]] = [{"type": "text", "text": part} for part in request.system if part]
    tools: list[dict[str, JsonValue]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in request.tools
    ]
    messages: list[tuple[str, list[dict[str, JsonValue]]]] = []
    for message in request.messages:
        blocks = [sent for block in message.content if (sent := _block(block)) is not None]
        if blocks:
            messages.append((message.role, blocks))
    if system or tools:
        _mark((system or tools[-1:])[0])
    if request.settled_blocks and messages:
        _mark(messages[0][1][request.settled_blocks - 1])
    elif len(system) > 1:
        _mark(system[-1])
    marked = 0
    for index in range(len(messages) - 1, -1, -1):
        role, blocks = messages[index]
        stable = len(blocks) - (request.volatile_blocks if index == len(messages) - 1 else 0)
        if role == "user" and stable > 0 and marked < _MESSAGE_BREAKPOINTS:
            _mark(blocks[stable - 1])
            marked += 1
    made: dict[str, object] = {
        "model": request.model,
        "messages": [{"role": role, "content": blocks} for role, blocks in messages],
    }
    if system:
        made["system"] = system
    if tools:
        made["tools"] = tools
    return made


def _mark(block: dict[str, JsonValue]) -> None:
    block["cache_control"] = {"type": "ephemeral"}


def _block(block: Block) -> dict[str, JsonValue] | None:
    if block["type"] == "thinking":
        return dict(block["data"]) if block["provider"] == PROVIDER else None
    return cast("dict[str, JsonValue]", dict(block))


@dataclass
class _Part:
    """A content block that is still streaming."""

    kind: Literal["text", "tool_use", "thinking", "redacted_thinking", "other"]
    text: list[str] = field(default_factory=list[str])
    id: str = ""
    name: str = ""
    given: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    signature: str = ""
    closed: bool = False


class AnthropicAssembler:
    """Puts one message together from its events, and is strict about what a whole message is."""

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}
        self._usage = Usage()
        self._stop: StopReason | None = None
        self._ended = False

    def feed(self, event: RawMessageStreamEvent) -> tuple[ModelEvent, ...]:
        """Take one event and return what a reader should see of it.

        Raises:
            ModelStreamBroken: MODEL_STREAM_BROKEN, the event does not fit those before it.
        """
        seen = self._take(event)
        return () if seen is None else (seen,)

    def completed(self) -> Completed:
        """Return the whole message.

        Raises:
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did.
        """
        if not self._ended or self._stop is None or not all(part.closed for part in self._parts.values()):
            raise ModelStreamBroken(
                f"the stream ended inside the message, after {len(self._parts)} content blocks; nothing of it is kept"
            )
        blocks = [made for _, part in sorted(self._parts.items()) if (made := _finish(part)) is not None]
        return Completed(
            message=Message(role="assistant", content=tuple(blocks)), stop_reason=self._stop, usage=self._usage
        )

    def _take(self, event: RawMessageStreamEvent) -> ModelEvent | None:
        if event.type == "message_start":
            self._count(event.message.usage)
        elif event.type == "content_block_start":
            self._parts[event.index] = _begin(event)
            first = self._parts[event.index]
            if first.kind == "text" and first.text:
                return TextDelta(text=first.text[0])
        elif event.type == "content_block_delta":
            return self._delta(event)
        elif event.type == "content_block_stop":
            self._part(event.index).closed = True
        elif event.type == "message_delta":
            self._count(event.usage)
            if event.delta.stop_reason is not None:
                self._stop = _STOP.get(event.delta.stop_reason, "end_turn")
        elif event.type == "message_stop":
            self._ended = True
        return None

    def _part(self, index: int) -> _Part:
        part = self._parts.get(index)
        if part is None:
            raise ModelStreamBroken(f"the stream continued content block {index}, which it never began")
        return part

    def _delta(self, event: RawContentBlockDeltaEvent) -> ModelEvent | None:
        part, delta = self._part(event.index), event.delta
        if delta.type == "text_delta":
            part.text.append(delta.text)
            return TextDelta(text=delta.text) if delta.text else None
        if delta.type == "input_json_delta":
            part.text.append(delta.partial_json)
            if delta.partial_json:
                return ToolInputDelta(id=part.id, name=part.name, partial_json=delta.partial_json)
        elif delta.type == "thinking_delta":
            part.text.append(delta.thinking)
        elif delta.type == "signature_delta":
            part.signature += delta.signature
        return None

    def _count(self, usage: ApiUsage | MessageDeltaUsage) -> None:
        """Take over cumulative counts; what an event leaves out stays as it was."""
        now = self._usage
        self._usage = Usage(
            input_tokens=_or(usage.input_tokens, now.input_tokens),
            output_tokens=_or(usage.output_tokens, now.output_tokens),
            cache_read_tokens=_or(usage.cache_read_input_tokens, now.cache_read_tokens),
            cache_write_tokens=_or(usage.cache_creation_input_tokens, now.cache_write_tokens),
        )


def _or(value: int | None, before: int) -> int:
    return before if value is None else value


def _begin(event: RawContentBlockStartEvent) -> _Part:
    block = event.content_block
    if block.type == "text":
        return _Part(kind="text", text=[block.text] if block.text else [])
    if block.type == "tool_use":
        given = cast("dict[str, JsonValue]", block.input or {})
        return _Part(kind="tool_use", id=block.id, name=block.name, given=given)
    if block.type == "thinking":
        return _Part(kind="thinking", text=[block.thinking], signature=block.signature)
    if block.type == "redacted_thinking":
        return _Part(kind="redacted_thinking", text=[block.data])
    return _Part(kind="other")


def _finish(part: _Part) -> Block | None:
    text = "".join(part.text)
    if part.kind == "text":
        return {"type": "text", "text": text} if text else None
    if part.kind == "tool_use":
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(text, part.given)}
    if part.kind == "thinking":
        data: dict[str, JsonValue] = {"type": "thinking", "thinking": text, "signature": part.signature}
        return {"type": "thinking", "provider": PROVIDER, "data": data}
    if part.kind == "redacted_thinking":
        return {"type": "thinking", "provider": PROVIDER, "data": {"type": "redacted_thinking", "data": text}}
    return None


def _input(text: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return parsed_input(text) if text.strip() else given
