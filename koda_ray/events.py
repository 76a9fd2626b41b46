"""What happened, in order: one envelope, three channels, one sequence for each stream.

A stream is a session's, or a job's where a render stands on its own. ``seq`` starts at 1 and has no gaps; a reader
says the last number it saw and gets what came after it. Events are written with the state they describe, in one
transaction, so whoever reads the log sees nothing that did not happen.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from koda_ray.types import Model, new_id, now

__all__ = ["CHANNELS", "EPHEMERAL", "WIRE_NAMES", "Channel", "Envelope", "EventType", "NewEvent"]

Channel = Literal["progress", "control", "monitor"]
EventType = Literal[
    "state_change",
    "todo_update",
    "thinking",
    "message",
    "code_chunk",
    "file_written",
    "preview_ready",
    "stream_ready",
    "render_start",
    "render_progress",
    "render_complete",
    "approval_requested",
    "approval_resolved",
    "tool_start",
    "tool_end",
    "sandbox",
    "checkpoint",
    "usage",
    "model_retry",
    "error",
    "activated",
    "passivated",
]

CHANNELS: dict[str, Channel] = {
    "state_change": "control",
    "approval_requested": "control",
    "approval_resolved": "control",
    "preview_ready": "control",
    "stream_ready": "control",
    "error": "control",
    "tool_start": "monitor",
    "tool_end": "monitor",
    "sandbox": "monitor",
    "checkpoint": "monitor",
    "usage": "monitor",
    "model_retry": "monitor",
    "activated": "monitor",
    "passivated": "monitor",
}
"""The channel of each type; those not named here are progress."""

WIRE_NAMES: dict[str, str] = {
    "state_change": "STATE_CHANGE",
    "todo_update": "TODO_UPDATE",
    "thinking": "THINKING",
    "message": "MESSAGE",
    "file_written": "FILE_WRITTEN",
    "preview_ready": "PREVIEW_READY",
    "render_progress": "RENDER_PROGRESS",
    "error": "ERROR",
    "tool_start": "tool:start",
    "tool_end": "tool:end",
}
"""Names on the wire where they differ from the type (the animation node's are upper case)."""

EPHEMERAL: frozenset[str] = frozenset({"code_chunk", "render_progress"})
"""Types that a later one of the same kind makes worthless; a retention sweep may drop old ones."""


class NewEvent(Model):
    """An event before the log has numbered it."""

    type: EventType
    data: dict[str, JsonValue] = Field(default_factory=dict)
    cause_id: str | None = None


class Envelope(Model):
    """An event as stored and sent.

    ``v`` is the envelope's version, ``epoch`` the activation that wrote it, ``cause_id`` the command, message or
    tool call that led to it.
    """

    v: Literal[1] = 1
    id: str = Field(default_factory=lambda: new_id("evt"))
    stream_id: str
    seq: int
    channel: Channel
    type: EventType
    data: dict[str, JsonValue] = Field(default_factory=dict)
    cause_id: str | None = None
    epoch: int = 0
    at: datetime = Field(default_factory=now)

    @property
    def wire_name(self) -> str:
        """The event's name on SSE and WebSocket."""
        return WIRE_NAMES.get(self.type, self.type)
