"""The one model protocol: a request in, a stream of typed events out, the finished message last.

Blocks are plain JSON in the shape of the Messages API, because that is what is stored: history must read the same
whichever provider wrote it.

Source: Anthropic Messages API, content blocks and streaming events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypedDict

from pydantic import JsonValue

__all__ = [
    "INVALID_INPUT",
    "AgentName",
    "Block",
    "Completed",
    "Message",
    "ModelEvent",
    "ModelProvider",
    "ModelRequest",
    "StopReason",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ToolInputDelta",
    "ToolResultBlock",
    "ToolSpec",
    "ToolUseBlock",
    "Usage",
]

AgentName = Literal["orchestrator", "code_generator"]
StopReason = Literal["end_turn", "tool_use", "max_tokens", "refusal"]

INVALID_INPUT = "__invalid_json__"
"""The one key of a tool call's ``input`` whose text was no JSON object; its value is that text.

A finished message stays valid JSON, is stored as it is, and the loop answers such a call with an error that the model
can act on, without running anything.
"""


class TextBlock(TypedDict):
    """Words."""

    type: Literal["text"]
    text: str


class ToolUseBlock(TypedDict):
    """A tool that the model wants run; ``id`` pairs it with its result."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, JsonValue]


class ToolResultBlock(TypedDict):
    """What the tool gave back."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: str
    is_error: bool


class ThinkingBlock(TypedDict):
    """A model's own reasoning as its provider sealed it: sent back unchanged to that provider, and to no other."""

    type: Literal["thinking"]
    provider: str
    data: dict[str, JsonValue]


Block = TextBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it; ``input_schema`` is JSON Schema of an object."""

    name: str
    description: str
    input_schema: dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Everything a model call depends on.

    ``system`` is in parts, stable first: a cache breakpoint follows the last one. ``agent`` names who asks: it routes
    and labels, and real models never see it. The last ``volatile_blocks`` blocks of the last message differ in every
    request (the present state): a cache breakpoint belongs before them.
    """

    agent: AgentName
    model: str
    system: tuple[str, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 32_000
    volatile_blocks: int = 0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """More text."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ToolInputDelta:
    """More of a tool call's input, as raw JSON text."""

    id: str
    name: str
    partial_json: str


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The whole message; always the last event of a stream that did not raise."""

    message: Message
    stop_reason: StopReason
    usage: Usage = field(default_factory=Usage)


ModelEvent = TextDelta | ToolInputDelta | Completed


class ModelProvider(Protocol):
    """Something that answers requests.

    ``stream`` yields deltas and then one `Completed`. It raises the ModelError tree: ModelOverloaded and
    ModelStreamBroken may be tried again, the others may not. It retries nothing that has already yielded.
    """

    @property
    def name(self) -> str:
        """Provider and nature, for people: ``anthropic`` or ``offline director: fixed vocabulary, no model``."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request."""
        ...

    async def close(self) -> None:
        """Release connections; may be called twice."""
        ...
