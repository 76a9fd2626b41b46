"""The one model protocol: a request in, a stream of typed events out, the finished message last.

Blocks are plain JSON in the shape of the Messages API, because that is what is stored: history must read the same
whichever provider wrote it.

Source: Anthropic Messages API, content blocks and streaming events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypedDict, runtime_checkable

from pydantic import JsonValue

__all__ = [
    "INVALID_INPUT",
    "Block",
    "Completed",
    "CountsTokens",
    "ImageBlock",
    "ImageSource",
    "Message",
    "ModelEvent",
    "ModelProvider",
    "ModelRequest",
    "ModelSwitched",
    "StopReason",
    "Substitutes",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ToolInputDelta",
    "ToolResultBlock",
    "ToolSpec",
    "ToolUseBlock",
    "Usage",
    "substitutes_of",
]

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


class ImageSource(TypedDict):
    """A picture's bytes in base64; ``media_type`` is ``image/png``, ``image/jpeg``, ``image/webp`` or ``image/gif``."""

    type: Literal["base64"]
    media_type: str
    data: str


class ImageBlock(TypedDict):
    """A picture for the model to look at; of a user's message only."""

    type: Literal["image"]
    source: ImageSource


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


Block = TextBlock | ImageBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock


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

    ``system`` is in parts, stable first: a cache breakpoint follows the first one. ``agent`` names who asks: it routes
    and labels, and real models never see it. The first ``settled_blocks`` blocks of the first message stay as they are
    for many requests (what is left of old turns), and a cache breakpoint follows them. The last ``volatile_blocks``
    blocks of the last message differ in every request (the present state): a cache breakpoint belongs before them.
    ``discards`` says that the reader forgets what
    streamed when it hears of another model (`ModelSwitched`), so that an answer may begin anew after its first words.
    """

    agent: str
    model: str
    system: tuple[str, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 32_000
    volatile_blocks: int = 0
    settled_blocks: int = 0
    discards: bool = False


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
class ModelSwitched:
    """Another model answers from here on; what streamed before, if anything did, is void.

    ``code`` is that of the error for which ``failed`` was given up: just now, or a little while ago.
    """

    failed: str
    model: str
    code: str


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The whole message; always the last event of a stream that did not raise.

    ``model`` names who answered where that is another than was asked; empty otherwise.
    """

    message: Message
    stop_reason: StopReason
    usage: Usage = field(default_factory=Usage)
    model: str = ""


ModelEvent = TextDelta | ToolInputDelta | ModelSwitched | Completed


class ModelProvider(Protocol):
    """Something that answers requests.

    ``stream`` yields deltas and then one `Completed`. It raises the ModelError tree: ModelOverloaded and
    ModelStreamBroken may be tried again, the others may not; and Missing where a key or an SDK is not there. Once
    something was yielded nothing is tried again, but by another model, after a `ModelSwitched`, for a reader that
    `discards`.
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


@runtime_checkable
class CountsTokens(Protocol):
    """A provider that can be asked how long a prompt is before it is answered."""

    async def count(self, request: ModelRequest) -> int | None:
        """Count a prompt's tokens; None where the model's provider does not tell. Raises the ModelError tree."""
        ...


@runtime_checkable
class Substitutes(Protocol):
    """A provider that may answer with another model than the one that is asked."""

    @property
    def substitutes(self) -> Sequence[str]:
        """The models that may."""
        ...


def substitutes_of(provider: ModelProvider) -> Sequence[str]:
    """List the models that may answer in place of the one that is asked; none for most providers."""
    return provider.substitutes if isinstance(provider, Substitutes) else ()
