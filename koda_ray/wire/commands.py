"""What a person says to a session, or about it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, ValidationInfo, model_validator

from koda_ray.types import (
    MAX_NOTES,
    MAX_PROMPT_CHARS,
    MAX_TAKES,
    Budget,
    Model,
    Note,
    RenderOptions,
    SceneEdit,
    SessionOptions,
    SessionPermissions,
)
from koda_ray.wire.fields import MAX_TEXT_CHARS, Id, Text

__all__ = [
    "Answer",
    "Approve",
    "Changes",
    "CommandAccepted",
    "CommandName",
    "CreateSession",
    "CreateTakes",
    "Fork",
    "LabelSession",
    "Message",
    "PlanEdits",
    "Refuse",
    "Reject",
    "Rewind",
]

MAX_TITLE_CHARS = 200
"""Longest title in characters: so much of a prompt stands in a list, too."""

CommandName = Literal[
    "answer",
    "accept",
    "reject",
    "changes",
    "plan",
    "message",
    "takeback",
    "cancel",
    "retry",
    "render",
    "approve",
    "refuse",
    "permissions",
    "rewind",
    "budget",
]


def _said(what: str, example: str) -> AfterValidator:
    """Refuse words that are only blanks."""

    def check(value: str) -> str:
        if not value.strip():
            raise ValueError(f"{what} is empty; say something like {example!r}")
        return value

    return AfterValidator(check)


def _said_or_pointed(what: str, example: str) -> AfterValidator:
    """Refuse words that are only blanks, where nothing is pointed at either."""

    def check(value: str, info: ValidationInfo) -> str:
        if not value.strip() and not info.data.get("notes"):
            raise ValueError(f"{what} is empty; say something like {example!r}, or point at something (notes)")
        return value

    return AfterValidator(check)


class CreateSession(Model):
    """A prompt to make a video from; ``render`` says how the final video is made once the preview is accepted.

    ``budget`` is what may be used before the session asks; where it says nothing, the server's settings hold.
    """

    prompt: Annotated[str, _said("the prompt", "Create a bouncing ball animation")] = Field(
        max_length=MAX_PROMPT_CHARS, examples=["Create a bouncing ball animation, playful"]
    )
    project_id: Id | None = None
    style: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    options: SessionOptions = Field(default_factory=SessionOptions)
    render: RenderOptions | None = None
    asset_ids: tuple[Id, ...] = Field(default=(), max_length=32)
    permissions: SessionPermissions = Field(default_factory=SessionPermissions)
    budget: Budget | None = None


class CreateTakes(CreateSession):
    """A prompt to make several videos from that a person chooses between; no take of options goes with it.

    ``takes`` says how many; each of them has all the files.
    """

    takes: int = Field(ge=2, le=MAX_TAKES)


class LabelSession(Model):
    """What a session is called in lists, and whether it stands before the others and is kept; what is left out stays.

    An empty ``title`` has it called by its prompt again.
    """

    title: str | None = Field(default=None, max_length=MAX_TITLE_CHARS)
    pinned: bool | None = None


class Answer(Model):
    """An answer to the session's question: one of its options, words of one's own, or both."""

    option_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    text: Annotated[Text, _said("the answer", "playful, with soft colours")] | None = None


class Reject(Model):
    """A plan, preview or video that is not what was meant; of the latter two the feedback is needed."""

    feedback: Text | None = None


_Notes = Annotated[tuple[Note, ...], Field(max_length=MAX_NOTES)]


class Changes(Model):
    """What should be different, in words, as notes on what is pointed at, or both."""

    notes: _Notes = ()
    feedback: Annotated[str, _said_or_pointed("the feedback", "make the ball red")] = Field(
        default="", max_length=MAX_TEXT_CHARS, validate_default=True
    )


class PlanEdits(Model):
    """The scenes that the plan is to have, in their order: one that is not named is left out."""

    scenes: tuple[SceneEdit, ...] = Field(min_length=1, max_length=64)


class Message(Model):
    """Words to the agents that are neither an answer nor a change request; notes say what is pointed at."""

    notes: _Notes = ()
    text: Annotated[str, _said_or_pointed("the message", "use our brand colours")] = Field(
        default="", max_length=MAX_TEXT_CHARS, validate_default=True
    )


class Approve(Model):
    """Agreement to a tool call; ``arguments`` replace what was proposed."""

    arguments: dict[str, JsonValue] | None = None


class Refuse(Model):
    """A tool call that must not run; the agents read the reason."""

    reason: Text | None = None


class Rewind(Model):
    """Where a session goes back to: a message's, checkpoint's, head's or version's id; or ``undo``, what that left."""

    to: Id | None = None
    undo: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.undo == (self.to is not None):
            raise ValueError("say either where to (to: a message, a checkpoint, a head or a version) or undo: true")
        return self


class Fork(Model):
    """Where another session begins: a message's, checkpoint's, head's or version's id; else where this one is now."""

    at: Id | None = None


class CommandAccepted(Model):
    """A command that was recorded. A repeat with the same idempotency key gets the same document.

    The key of one that was refused is free again.

    Where the session could not be reached yet, `result.waits` is true: it takes the command as soon as it can, in the
    order in which commands were recorded; should its phase take it no more then, the event `command_refused` says so,
    and where storage keeps it from being applied, `command_delayed`.
    """

    command_id: str
    session_id: str
    command: CommandName
    result: dict[str, JsonValue]
    created_at: datetime
