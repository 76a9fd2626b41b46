"""One answer of the model as it streams: deltas out as they come, the finished message last, or nothing.

Providers number calls as they like, some from 1 in every answer. The ledger's keys must be unique for ever, so each
call gets an id of ours here, in its deltas and in the message alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import cast

from koda_ray.errors import ModelStreamBroken
from koda_ray.llm.base import (
    Block,
    Completed,
    Message,
    ModelProvider,
    ModelRequest,
    ModelSwitched,
    TextDelta,
    ToolInputDelta,
)
from koda_ray.types import new_id

__all__ = ["LoopEvent", "ModelAttempt", "ModelRetry"]


@dataclass(frozen=True, kw_only=True)
class ModelRetry:
    """The answer that was streaming broke off and is asked for again: forget its deltas."""

    attempt: int
    code: str
    wait_s: float


LoopEvent = TextDelta | ToolInputDelta | ModelSwitched | ModelRetry


class ModelAttempt:
    """One try of one model call.

    Args:
        provider: Who is asked.
        request: What is asked.
    """

    def __init__(self, provider: ModelProvider, request: ModelRequest) -> None:
        self._provider = provider
        self._request = request
        self._ids: dict[str, str] = {}
        self.began = False
        """Whether anything has streamed."""
        self.chars = 0
        """How much has streamed, in characters of text and of calls' input."""

    async def read(self, on_event: Callable[[LoopEvent], Awaitable[None]] | None = None) -> Completed:
        """Read the stream to its end; it is closed also when this is cancelled or fails.

        Raises:
            ModelError: As the provider raises it; MODEL_STREAM_BROKEN when it ended without a message.
        """
        events = self._provider.stream(self._request)
        try:
            async for event in events:
                if isinstance(event, Completed):
                    message = self._named_message(event.message)
                    return replace(event, message=message)
                # what another model's answer replaces is void
                self.began = not isinstance(event, ModelSwitched)
                match event:
                    case TextDelta():
                        self.chars += len(event.text)
                    case ToolInputDelta():
                        self.chars += len(event.partial_json)
                    case ModelSwitched():
                        self.chars = 0
                if on_event is not None:
                    await on_event(self._named(event))
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        raise ModelStreamBroken(f"{self._provider.name} ended its stream without finishing the message")

    def _named(self, event: TextDelta | ToolInputDelta | ModelSwitched) -> TextDelta | ToolInputDelta | ModelSwitched:
        if isinstance(event, ToolInputDelta):
            return ToolInputDelta(id=self._id(event.id), name=event.name, partial_json=event.partial_json)
        return event

    def _named_message(self, message: Message) -> Message:
        taken: set[str] = set()
        blocks: list[Block] = []
        for block in message.content:
            if block["type"] == "tool_use":
                # the same id twice in one answer is two calls
                ours = self._id(block["id"]) if block["id"] not in taken else new_id("cal")
                taken.add(block["id"])
                blocks.append(cast("Block", {**block, "id": ours}))
            else:
                blocks.append(block)
        return Message(role="assistant", content=tuple(blocks))

    def _id(self, theirs: str) -> str:
        if theirs not in self._ids:
            self._ids[theirs] = new_id("cal")
        return self._ids[theirs]
