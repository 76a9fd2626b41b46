"""A model provider in this process with a function in the model's place, as strict about requests as the real API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

from koda_ray.errors import ModelError
from koda_ray.llm.anthropic_wire import body
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
from tests.llm.prompts import complaint_about

__all__ = ["Break", "Given", "Provider", "calls", "says"]


class Break(Exception):
    """Raise ``error`` after the deltas instead of finishing."""

    def __init__(self, error: Exception, *blocks: Block) -> None:
        super().__init__(str(error))
        self.error = error
        self.blocks = blocks


Given = dict[str, Any]


def says(text: str) -> Block:
    return {"type": "text", "text": text}


def calls(name: str, given: Given | None = None, *, id: str = "") -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": given or {}}


class Provider:
    """Asks ``model`` with the request as the API would get it; a list answers step by step.

    Calls without an id are numbered from 1 in every answer, as some providers do.
    """

    name = "scripted"

    def __init__(
        self,
        model: Callable[[Given], Sequence[Block]] | Sequence[Sequence[Block] | Break],
        *,
        tick: Callable[[str], None] = lambda _: None,
        stop: StopReason | None = None,
    ) -> None:
        self._model = model if callable(model) else None
        self._steps = [] if callable(model) else list(model)
        self._tick = tick
        self._stop = stop
        self.requests: list[Given] = []
        self.closed_early = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        sent = json.loads(json.dumps(body(request)))
        self.requests.append(sent)
        if (complaint := complaint_about(sent)) is not None:
            raise ModelError(f"the API would refuse this: {complaint}")
        self._tick("model asked")
        broken: Exception | None = None
        if self._model is not None:
            blocks = self._model(sent)
        else:
            step = self._steps.pop(0)
            broken, blocks = (step.error, step.blocks) if isinstance(step, Break) else (None, step)
        finished = False
        try:
            made: list[Block] = []
            for number, block in enumerate(blocks, start=1):
                if block["type"] == "tool_use":
                    block = cast("Block", {**block, "id": block["id"] or f"call_{number}"})
                    assert block["type"] == "tool_use"
                    yield ToolInputDelta(id=block["id"], name=block["name"], partial_json=json.dumps(block["input"]))
                elif block["type"] == "text":
                    yield TextDelta(text=block["text"])
                made.append(block)
                self._tick("model streaming")
            if broken is not None:
                raise broken
            stop: StopReason = "tool_use" if any(b["type"] == "tool_use" for b in made) else "end_turn"
            finished = True
            yield Completed(
                message=Message(role="assistant", content=tuple(made)),
                stop_reason=self._stop or stop,
                usage=Usage(input_tokens=10, output_tokens=5),
            )
        finally:
            self.closed_early += not finished

    async def close(self) -> None:
        pass
