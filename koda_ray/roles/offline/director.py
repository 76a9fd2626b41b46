"""The model provider for machines without a model: it answers with rules, and says so in its name.

It speaks the same protocol as a real model and goes through the same loop, tools and sandbox: an orchestrator request
gets tool calls, a code generator request gets files as JSON, both streamed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from koda_ray.errors import ModelError
from koda_ray.llm.base import (
    Block,
    Completed,
    Message,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolInputDelta,
)
from koda_ray.roles.offline.codegen import answer_request
from koda_ray.roles.offline.policy import next_turn

__all__ = ["OfflineDirector"]

_CHUNK_CHARS = 400


class OfflineDirector:
    """A `ModelProvider` with a fixed vocabulary and no model inside; it needs no key, no network and no GPU."""

    name = "offline director: fixed vocabulary, no model"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request of either agent; it cannot sum a conversation up.

        Raises:
            ModelError: The code generator's request is not the JSON object it has to be; the message says what is
                missing. The same request fails again.
        """
        if request.agent.endswith("/summary"):
            raise ModelError("The offline director sums nothing up: its prompts are shortened by rule alone.")
        blocks: list[Block] = []
        if request.agent == "code_generator":
            text, calls = await asyncio.to_thread(answer_request, _last_text(request)), ()
        else:
            turn = await asyncio.to_thread(next_turn, request.messages, request.system)
            text, calls = turn.text, turn.calls
        if text:
            blocks.append({"type": "text", "text": text})
            for start in range(0, len(text), _CHUNK_CHARS):
                yield TextDelta(text=text[start : start + _CHUNK_CHARS])
                await asyncio.sleep(0)
        for call in calls:
            raw = json.dumps(call.input, ensure_ascii=False)
            for start in range(0, len(raw), _CHUNK_CHARS):
                yield ToolInputDelta(id=call.id, name=call.name, partial_json=raw[start : start + _CHUNK_CHARS])
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
        yield Completed(
            message=Message(role="assistant", content=tuple(blocks)),
            stop_reason="tool_use" if calls else "end_turn",
        )

    async def close(self) -> None:
        """Do nothing: no connection is held."""


def _last_text(request: ModelRequest) -> str:
    for message in reversed(request.messages):
        texts = [block["text"] for block in message.content if block["type"] == "text"]
        if message.role == "user" and texts:
            return "\n".join(texts)
    raise ModelError("The code generator's request holds no text; send one user message with a JSON object.")
