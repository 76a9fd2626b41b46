"""Showing the result: a rendered preview, the running page, and one frame of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from pydantic import BaseModel, Field, JsonValue

from koda_ray.agent.toolkit import Agreement, Tool, ToolCall, ToolOutcome
from koda_ray.commands import Fail
from koda_ray.errors import StorageError
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch
from koda_ray.tools.touched import touches
from koda_ray.tools.workbench import Failure, Workbench, with_phase_commands
from koda_ray.tools.written import list_written, read_back

__all__ = ["render_tools"]


_SAME = (
    "No file differs from those of the preview that the person has: it is shown as it was, and there is no new version."
)


class _NoInput(BaseModel):
    """Nothing to say."""


class _PictureInput(BaseModel):
    """One frame."""

    seek_to: float = Field(default=0.0, ge=0, le=3600, description="Seconds from the start")
    width: int = Field(default=1920, ge=16, le=4096)
    height: int = Field(default=1080, ge=16, le=4096)


def _changed(corrected: Mapping[str, str]) -> str:
    """Say which files are others now than the agent knows."""
    return f"Changed meanwhile: {', '.join(sorted(corrected))}; read them before you go on." if corrected else ""


def render_tools(workbench: Workbench) -> list[Tool]:
    """Make the preview tools."""

    async def render_preview(given: _NoInput, call: ToolCall) -> ToolOutcome:
        return await _render_preview(workbench, call)

    async def start_preview(given: _NoInput, call: ToolCall) -> ToolOutcome:
        return ToolOutcome(content=json.dumps({"streamUrl": await workbench.start_stream()}))

    async def screenshot(given: _PictureInput, call: ToolCall) -> ToolOutcome:
        made = await workbench.picture(given.seek_to, width_px=given.width, height_px=given.height)
        told = {"url": made.url, "atS": made.at_s, "widthPx": given.width, "heightPx": given.height}
        taken = NewEvent(type="picture_taken", data={**told, "agent": call.agent}, cause_id=call.id)
        shown: dict[str, JsonValue] = {"imageUrl": made.url, "timestamp": made.at_s, "duration": made.duration_s}
        return ToolOutcome.json(shown, batch=Batch(events=[taken]))

    return [
        Tool(
            name="render_preview",
            description="Build the project, try it in a browser (errors go to the code generator, three corrections at "
            "most) and render the preview video that the person sees. Call it once all todos but the last are done. "
            "The result shows files that were corrected as they are now.",
            input_model=_NoInput,
            effect="idempotent",
            run=render_preview,
            files=read_back,
            paths=(),  # its corrections are held to the rules for generate_code
            timeout_s=3600,
        ),
        Tool(
            name="sandbox_start_preview",
            description="Start the live page, so that the person can watch it change while you work.",
            input_model=_NoInput,
            effect="idempotent",
            keys=touches("project"),
            run=start_preview,
            timeout_s=60,
            guarded=False,
        ),
        Tool(
            name="sandbox_screenshot",
            description="Take a picture of the page at one time, exactly as a render would show it. What keeps the "
            "project from building or the page from getting there comes back as an error, with file and line.",
            input_model=_PictureInput,
            effect="pure",
            keys=touches("project"),
            run=screenshot,
            timeout_s=180,
        ),
    ]


async def _render_preview(workbench: Workbench, call: ToolCall) -> ToolOutcome:
    result = await workbench.preview(cause_id=call.id, agreed=call.agreed)
    corrected = await workbench.corrected(cause_id=call.id)
    changed = _changed(corrected)
    if isinstance(result, Agreement):
        return ToolOutcome(content="", wants=replace(result, done=changed))
    if isinstance(result, Failure) and result.mendable:
        words = "\n".join(filter(None, (f"{result.code}: {result.message}", result.details, changed)))
        return ToolOutcome(content=words, is_error=True)
    if isinstance(result, Failure):
        fail = Fail(message=result.message, code=result.code, details=result.details or None)
        batch = Batch()
        with suppress(StorageError):  # it may be why it failed; the files were stored as they were written
            batch = await workbench.checkpoint("error")
        with_phase_commands(workbench, fail, batch=batch)
        words = "\n".join(filter(None, (f"{result.code}: {result.message}", changed)))
        return ToolOutcome(content=words, is_error=True, retryable=False, batch=batch)
    if result == workbench.state.preview:
        same: dict[str, JsonValue] = {"status": "unchanged", "duration": result.duration, "message": _SAME}
        return ToolOutcome.json(same, batch=await workbench.show(result))
    batch = await workbench.show(result)
    shown: dict[str, JsonValue] = {"status": "ready", "duration": result.duration}
    if corrected:
        shown["files"] = list_written(corrected)
    return ToolOutcome(content=json.dumps(shown, ensure_ascii=False), batch=batch)
