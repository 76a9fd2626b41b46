"""What happened, in order: one envelope, three channels, one sequence for each stream.

A stream is a session's, an agent's or a room's, or a page render's. Whoever follows one may
ask for some channels only: ``progress`` is the work as it comes along, ``control`` what somebody may have to act on,
``monitor`` how the machinery does. ``seq`` starts at 1 and has no gaps; a reader says the last number it saw and gets
what came after it. Events are written with the state they describe, in one transaction, so whoever reads the log sees
nothing that did not happen.

Where a reader cannot get all of that, it is told so: `resync` is made for that reader and never stored. So is `gone`,
which says to who follows many streams that one of them is not there any more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Self, cast, get_args

from pydantic import Field, JsonValue

from koda_ray.errors import InvalidInput
from koda_ray.types import Model, new_id, now

__all__ = [
    "CHANNELS",
    "EPHEMERAL",
    "EPHEMERAL_KEPT",
    "LARGEST_SEQ",
    "WIRE_NAMES",
    "Channel",
    "Envelope",
    "EventType",
    "NewEvent",
    "Resync",
    "Selection",
    "channels_named",
    "gone",
    "resync",
]

Channel = Literal["progress", "control", "monitor"]
EventType = Literal[
    "state_change",
    "todo_update",
    "thinking",
    "message",
    "text_chunk",
    "done",
    "code_chunk",
    "file_written",
    "picture_taken",
    "preview_ready",
    "stream_ready",
    "render_start",
    "render_progress",
    "render_complete",
    "approval_requested",
    "approval_resolved",
    "tool_start",
    "tool_end",
    "breakpoint_change",
    "sandbox",
    "checkpoint",
    "usage",
    "model_retry",
    "summarized",
    "hook_failed",
    "budget_warning",
    "error",
    "activated",
    "passivated",
    "subagent_start",
    "subagent_end",
    "room_message",
    "room_stopped",
    "rewound",
    "forked",
    "command_refused",
    "command_delayed",
]

CHANNELS: dict[str, Channel] = {
    "state_change": "control",
    "approval_requested": "control",
    "approval_resolved": "control",
    "preview_ready": "control",
    "stream_ready": "control",
    "budget_warning": "control",
    "error": "control",
    "room_stopped": "control",
    "rewound": "control",
    "forked": "control",
    "command_refused": "control",
    "command_delayed": "control",
    "resync": "control",
    "gone": "control",
    "breakpoint_change": "monitor",
    "sandbox": "monitor",
    "checkpoint": "monitor",
    "usage": "monitor",
    "model_retry": "monitor",
    "summarized": "monitor",
    "hook_failed": "monitor",
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

EPHEMERAL: frozenset[str] = frozenset({"breakpoint_change", "code_chunk", "render_progress", "text_chunk"})
"""Types that a later event makes worthless: old ones are swept, and slow readers do without."""

EPHEMERAL_KEPT = timedelta(days=1)
"""How long those are kept at least."""

LARGEST_SEQ = 2**53 - 1
"""No event has a greater number: databases hold it, and numbers of JSON do exactly. Source: RFC 8259, section 6."""


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
    type: Literal[EventType, "resync", "gone"]  # flat: one enumeration for clients that are made from the description
    data: dict[str, JsonValue] = Field(default_factory=dict)
    cause_id: str | None = None
    epoch: int = 0
    at: datetime = Field(default_factory=now)

    @property
    def wire_name(self) -> str:
        """The event's name on SSE and WebSocket."""
        return WIRE_NAMES.get(self.type, self.type)


def channels_named(names: str | Collection[str] | None) -> frozenset[Channel]:
    """Read which channels somebody wants to follow; all of them for None.

    Raises:
        InvalidInput: There is no such channel, or none is named.
    """
    known = cast("tuple[Channel, ...]", get_args(Channel))
    if names is None:
        return frozenset(known)
    named = {names} if isinstance(names, str) else set(names)
    if unknown := sorted(named.difference(known)):
        raise InvalidInput(f"there is no channel {', '.join(map(repr, unknown))}; the channels are {', '.join(known)}")
    if not named:
        raise InvalidInput(f"no channel is named; name one or several of {', '.join(known)}, or leave it out for all")
    return frozenset(each for each in known if each in named)


@dataclass(frozen=True)
class Selection:
    """Which events of a stream somebody wants: those on some channels, of some types; all where nothing is said.

    What is made for a reader (`resync`, `gone`) reaches it whatever it wants.
    """

    channels: frozenset[Channel] = channels_named(None)
    types: frozenset[str] | None = None

    @classmethod
    def named(cls, channels: Channel | Collection[Channel] | None = None, types: Collection[str] | None = None) -> Self:
        """Read what somebody wants, everything for None.

        Raises:
            InvalidInput: There is no such channel or no such type, or none is named.
        """
        if types is not None:
            known = get_args(EventType)
            if unknown := sorted(set(types).difference(known)):
                raise InvalidInput(
                    f"there is no type {', '.join(map(repr, unknown))}; the types are {', '.join(known)}"
                )
            if not types:
                raise InvalidInput("no type is named; name one or several, or leave them out for all")
        return cls(channels_named(channels), None if types is None else frozenset(types))

    def takes(self, event: Envelope) -> bool:
        """Whether an event is wanted."""
        if event.type in ("resync", "gone"):
            return True
        return event.channel in self.channels and (self.types is None or event.type in self.types)


class Resync(Model):
    """What a `resync` says: that not all which happened after ``after`` follows, and why.

    Nothing but EPHEMERAL events is ever left out, ``left_out`` of them, and from ``whole_from`` on every event
    follows again. Whoever puts something together from pieces (a file from ``code_chunk``) reads it anew. Reasons:
    ``swept``, they were older than what is kept; ``slow``, the reader was too far behind; ``ahead``, the log ends
    before ``after``, so this is not the log that the reader knew, and the state must be read anew.
    """

    reason: Literal["swept", "slow", "ahead"]
    after: int
    whole_from: int
    left_out: int = 0


def resync(stream_id: str, seq: int, what: Resync) -> Envelope:
    """Make the envelope of a `resync`; ``seq`` is the number to go on from after it."""
    data: dict[str, JsonValue] = what.model_dump(mode="json", by_alias=True)
    return Envelope(stream_id=stream_id, seq=seq, channel=CHANNELS["resync"], type="resync", data=data)


def gone(stream_id: str, seq: int) -> Envelope:
    """Make the envelope that says that nothing more comes of a stream: it was deleted, is over, or never was."""
    return Envelope(stream_id=stream_id, seq=seq, channel=CHANNELS["gone"], type="gone")
