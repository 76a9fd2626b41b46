"""Showing the result: a rendered preview, and the running page."""

from __future__ import annotations

import json
from contextlib import suppress

from pydantic import BaseModel

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.commands import Fail, Previewed
from koda_ray.errors import StorageError
from koda_ray.state.store import Batch
from koda_ray.tools.workbench import Failure, Workbench, moved

__all__ = ["render_tools"]


class _NoInput(BaseModel):
    """Nothing to say."""


def render_tools(bench: Workbench) -> list[Tool]:
    """Make the preview tools."""

    async def render_preview(given: _NoInput, call: ToolCall) -> ToolOutcome:
        result = await bench.preview(cause_id=call.id)
        if isinstance(result, Failure):
            fail = Fail(message=result.message, code=result.code, details=result.details or None)
            batch = Batch()
            with suppress(StorageError):  # it may be why it failed; the files were stored as they were written
                batch = await bench.checkpoint("error")
            moved(bench, fail, batch=batch)
            return ToolOutcome(content=f"{result.code}: {result.message}", is_error=True, retryable=False, batch=batch)
        batch = await bench.checkpoint("preview")
        moved(bench, Previewed(result), batch=batch)
        return ToolOutcome(content=json.dumps({"status": "ready", "duration": result.duration}), batch=batch)

    async def start_preview(given: _NoInput, call: ToolCall) -> ToolOutcome:
        return ToolOutcome(content=json.dumps({"streamUrl": await bench.start_stream()}))

    return [
        Tool(
            name="render_preview",
            description="Build the project, try it in a browser (errors go to the code generator, three corrections at "
            "most) and render the preview video that the person sees. Call it once all todos but the last are done.",
            input_model=_NoInput,
            effect="idempotent",
            run=render_preview,
            timeout_s=3600,
        ),
        Tool(
            name="sandbox_start_preview",
            description="Start the live page, so that the person can watch it change while you work.",
            input_model=_NoInput,
            effect="idempotent",
            run=start_preview,
            timeout_s=60,
        ),
    ]
