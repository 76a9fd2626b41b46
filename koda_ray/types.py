"""The nouns everything else is written in: ids, plans, todos and a session's visible state.

Names on the wire are camelCase (they are the animation node's); in Python they are snake_case. Models here are
frozen: a new state is a copy, never an edit, so that a state can be compared, logged and sent without surprise.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Self, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from koda_ray.clock import CLOCK
from koda_ray.video_formats import why_not

__all__ = [
    "MAX_DURATION_S",
    "MAX_NOTES",
    "MAX_NOTE_CHARS",
    "MAX_PROMPT_CHARS",
    "MAX_TAKES",
    "MIN_DURATION_S",
    "MIN_SCENE_S",
    "OWN_WORDS",
    "Answered",
    "AssetPurpose",
    "Box",
    "Budget",
    "ErrorInfo",
    "Execution",
    "FinalFormat",
    "IdPrefix",
    "Model",
    "NodeState",
    "Note",
    "Option",
    "Output",
    "Owes",
    "Paused",
    "PendingCall",
    "PermissionMode",
    "PermissionRule",
    "Phase",
    "Plan",
    "Pointed",
    "Preview",
    "Question",
    "RenderOptions",
    "Resource",
    "Scene",
    "SceneEdit",
    "SessionOptions",
    "SessionPermissions",
    "Todo",
    "TodoStatus",
    "Unread",
    "new_id",
    "now",
]

IdPrefix = Literal[
    "usr",
    "prj",
    "nod",
    "ses",
    "job",
    "evt",
    "ast",
    "msg",
    "shr",
    "cmt",
    "cal",
    "apr",
    "bed",
    "ckp",
    "sbx",
    "img",
    "cmd",
    "hed",
    "ver",
]
Phase = Literal["idle", "question", "plan", "executing", "preview", "complete", "error"]
TodoStatus = Literal["pending", "active", "done"]
Owes = Literal["analyze", "plan", "execute", "render_final"]
"""Work a session still has to do; None in the row means it waits for a person."""
PermissionMode = Literal["auto", "ask", "readonly", "plan"]
"""What agents may do by themselves: all that no rule forbids; a person is asked before anything changes; nothing
changes; nothing changes until a plan was accepted."""

Resource = Literal["tokens", "cost", "sandbox", "render", "stored"]
"""What a budget limits: tokens of models, money for them, minutes of sandboxes, minutes of rendering; and bytes that a
user has stored, which only the settings do."""

AssetPurpose = Literal["file", "note"]
"""What an upload is for: a file that a film is made with, or the picture of a note."""

OWN_WORDS = "other"
"""The option of a question that stands for words of one's own."""

MAX_PROMPT_CHARS = 20_000
MAX_DURATION_S = 300.0
MIN_DURATION_S = 0.5
MAX_NOTES = 12
"""So many notes are sent together, of so many characters each."""
MAX_NOTE_CHARS = 2_000
MIN_SCENE_S = 1.5
_GIF_FPS = 30

_last_stamp = 0


def new_id(prefix: IdPrefix) -> str:
    """Make a prefixed UUIDv7: ids of one kind sort by the time they were made, also within a millisecond.

    The 12 bits after the milliseconds count 4096ths of one, and each id of a process is later than the one before.

    Returns:
        ``prefix_`` followed by 32 hexadecimal digits.

    Source: RFC 9562, sections 5.7 and 6.2 (method 3).
    """
    global _last_stamp
    # Threads that race here may draw the same stamp: ids of one moment, which nobody can tell apart.
    _last_stamp = stamp = max((CLOCK.time_ns() << 12) // 1_000_000, _last_stamp + 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64
    value |= 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return f"{prefix}_{uuid.UUID(int=value).hex}"


def now() -> datetime:
    """Return the current time, aware, in UTC; on several machines the same (`koda_ray.clock`)."""
    return CLOCK.now()


class Model(BaseModel):
    """A frozen wire model: camelCase in JSON, snake_case in Python, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", serialize_by_alias=True
    )


class Option(Model):
    """One exclusive answer to a question."""

    id: str
    label: str
    description: str | None = None


class Question(Model):
    """The one question a session may ask before it plans, or how to go on where it is stuck.

    ``phase`` and ``owes`` say what a question in the middle of the work interrupts.
    """

    text: str
    options: tuple[Option, ...] = ()
    custom_input: bool = True
    reason: Literal["style", "impossible", "rejected", "unclear", "stuck", "budget"] = "style"
    phase: Phase | None = None
    owes: Owes | None = None

    def needs_words(self, option_id: str | None) -> bool:
        """Whether an option says nothing by itself: it stands for what a person says in their own words."""
        return self.custom_input and option_id == OWN_WORDS


class Answered(Model):
    """What a person answered to a question before the plan: one of its options, their own words, or both.

    ``label`` is what the option said, for whoever did not hear the question. ``after_changes`` is how many changes they
    had asked for by then, so that the later word is the one that counts.
    """

    option_id: str | None = None
    label: str | None = None
    text: str | None = None
    after_changes: int = Field(default=0, ge=0)


class Scene(Model):
    """One visual moment of the plan; ``duration`` in seconds."""

    number: int = Field(ge=1)
    title: str
    duration: float = Field(gt=0, le=MAX_DURATION_S)
    description: str
    animation_notes: str = ""


class Plan(Model):
    """What will be made, for a person to approve; durations in seconds, size in pixels."""

    scenes: tuple[Scene, ...] = Field(min_length=1)
    total_duration: float = Field(gt=0, le=MAX_DURATION_S)
    style: str
    fps: int = Field(default=60, ge=1, le=120)
    width: int = Field(default=1920, ge=16, le=7680)
    height: int = Field(default=1080, ge=16, le=7680)
    notes: str = ""


class SceneEdit(Model):
    """A scene of the plan as a person wants it: which one it is by its number, and what changes of it.

    ``duration`` in seconds; what is None stays.
    """

    scene: int = Field(ge=1)
    title: str | None = Field(default=None, min_length=1, max_length=200)
    duration: float | None = Field(default=None, gt=0, le=MAX_DURATION_S)
    description: str | None = Field(default=None, max_length=4000)


class Todo(Model):
    """One step of the work that a person can follow; a bead of type task underneath."""

    id: str
    label: str
    status: TodoStatus = "pending"


class Execution(Model):
    """What is going on while the agents work."""

    todos: tuple[Todo, ...] = ()
    thinking: str = ""
    files: tuple[str, ...] = ()


MAX_TAKES = 4
"""Most takes of one prompt that are made together."""


class SessionOptions(Model):
    """What a person fixed when asking; None leaves it to the director. ``duration`` in seconds.

    ``take`` is which of several takes of one prompt this is: each looks different, and none asks which style is meant.
    """

    duration: float | None = Field(default=None, ge=MIN_DURATION_S, le=MAX_DURATION_S)
    aspect: Literal["16:9", "9:16", "1:1", "4:5"] | None = None
    fps: int | None = Field(default=None, ge=1, le=120)
    take: int | None = Field(default=None, ge=1, le=MAX_TAKES)


FinalFormat = Literal["mp4", "webm", "mov", "gif"]
"""What a session's final video may be: H.264, VP9, ProRes 4444 or GIF."""


class RenderOptions(Model):
    """What the final video should be; a gif has 30 frames a second where none are named.

    ``transparent`` leaves what the page leaves transparent so, which mp4 has no place for. It is written only where it
    is so: whoever knows nothing of it has no use for it.
    """

    resolution: Literal["720p", "1080p", "4k"] = "1080p"
    fps: Literal[30, 60] = 60
    format: FinalFormat = "mp4"
    transparent: bool = Field(default=False, exclude_if=lambda transparent: not transparent)

    @model_validator(mode="before")
    @classmethod
    def _slow_gif(cls, data: object) -> object:
        if isinstance(data, dict) and cast("Mapping[str, object]", data).get("format") == "gif":
            return {"fps": _GIF_FPS, **cast("Mapping[str, object]", data)}
        return cast("object", data)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        why = why_not(
            self.format, fps=self.fps, alpha=self.transparent, offered=get_args(FinalFormat), gif_fps=_GIF_FPS
        )
        if why is not None:
            raise ValueError(why)
        return self


class PermissionRule(Model):
    """What is done with calls of one kind: patterns of the tool's name, of a path and of arguments by name.

    ``*`` stands for any text, in a path ``**/`` for no folder, one or several, and a folder for all that is below it.
    Arguments are looked at as they were sent and as the tool gets them, with its defaults. What forbids wins over
    everything, then a mode in which nothing changes, then the first rule that fits, then mode ``ask``. Where a call
    that changes something names no path, a rule about paths that does not allow asks a person.
    """

    decision: Literal["allow", "ask", "deny"]
    tool: str = Field(default="*", min_length=1, max_length=200)
    path: str | None = Field(default=None, min_length=1, max_length=500)
    arguments: dict[str, str] = Field(default_factory=dict[str, str], max_length=20)


class SessionPermissions(Model):
    """What a session's agents may do by themselves."""

    mode: PermissionMode = "auto"
    rules: tuple[PermissionRule, ...] = Field(default=(), max_length=100)


class PendingCall(Model):
    """A tool call that a person has to agree to; its approval holds what was proposed, and a diff.

    ``owes`` is the work that goes on afterwards.
    """

    approval_id: str
    call_id: str
    agent: str
    name: str
    reason: str = ""
    owes: Owes | None = None


class Budget(Model):
    """How much may be used before a person is asked; None is no limit.

    ``warn_at`` is the share of a limit from which on people are warned, once for each limit; 0.8 where None.
    """

    tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    sandbox_minutes: float | None = Field(default=None, ge=0)
    render_minutes: float | None = Field(default=None, ge=0)
    warn_at: float | None = Field(default=None, gt=0, le=1)

    def over(self, base: Budget) -> Budget:
        """Return what holds where ``base`` does and this says what is different."""
        return base.model_copy(update={name: value for name, value in self if value is not None})


class Preview(Model):
    """A preview that a person can accept; ``duration`` in seconds.

    ``checkpoint_id`` is that of the files which it shows: what later changes that do not work are put back to.
    """

    video_url: str
    job_id: str
    bundle: str
    duration: float
    checkpoint_id: str | None = None
    thumbnail_url: str | None = None
    stream_url: str | None = None


class Output(Model):
    """The finished video; empty but for ``job_id`` while it is being rendered.

    ``format``, ``transparent`` and ``fps`` are what it is, whatever was asked for since; left out (it was
    made before they were written), it is what was asked for last.
    """

    job_id: str
    video_url: str | None = None
    thumbnail_url: str | None = None
    duration: float | None = None
    resolution: str | None = None
    file_size: int | None = None
    format: FinalFormat | None = Field(default=None, exclude_if=lambda told: told is None)
    transparent: bool | None = Field(default=None, exclude_if=lambda told: told is None)
    fps: float | None = Field(default=None, exclude_if=lambda told: told is None)


class ErrorInfo(Model):
    """Why a session stopped, and whether trying again makes sense."""

    message: str
    code: str
    can_retry: bool = True
    details: str | None = None
    phase: Phase = "executing"
    owes: Owes | None = None


class Box(Model):
    """A part of the picture, in pixels of the plan's size from its upper left corner."""

    x: float = Field(ge=-10_000, le=10_000)
    y: float = Field(ge=-10_000, le=10_000)
    width: float = Field(gt=0, le=20_000)
    height: float = Field(gt=0, le=20_000)


class Note(Model):
    """What a person says of something that they point at.

    ``time`` is in seconds, ``until`` where they mean a part of the film; ``box`` is None for the whole picture.
    ``element`` is the text of what is there, ``component`` what shows it and ``source`` in which file, as far as the
    page tells; ``picture`` the id of an uploaded picture of it.
    """

    text: str = Field(min_length=1, max_length=MAX_NOTE_CHARS)
    time: float = Field(ge=0, le=MAX_DURATION_S)
    until: float | None = Field(default=None, ge=0, le=MAX_DURATION_S)
    frame: int | None = Field(default=None, ge=0)
    box: Box | None = None
    element: str | None = Field(default=None, max_length=500)
    component: str | None = Field(default=None, max_length=200)
    source: str | None = Field(default=None, max_length=300)
    picture: str | None = Field(default=None, max_length=64)


class Pointed(Model):
    """A change that was asked for by pointing: its number among all changes, from 1, its words and its notes."""

    change: int = Field(ge=1)
    words: str = ""
    notes: tuple[Note, ...]


class Unread(Model):
    """What a person said to agents at work who have not begun to heed it: until they do, it can be taken back.

    ``id`` is that of the command, ``words`` and ``notes`` are what it said, and ``told`` is all of it in words, as the
    agents will hear it. ``binding`` says that they go on because of it, where something would have been shown to the
    person and the work have rested, or had failed: it is not taken back any more.
    """

    id: str
    words: str = ""
    notes: tuple[Note, ...] = ()
    told: str
    binding: bool = False
    at: datetime


class Paused(Model):
    """Work that waits for a person to say whether more may be used, and how it goes on then.

    ``limit`` is what did not suffice and ``raise_to`` what an agreeing answer sets in its place (tokens, millionths of
    a dollar, or milliseconds); None where only whoever runs the deployment can raise it, and of bytes ``stored``, where
    the person deletes something. ``question`` is the one that stood before.
    """

    phase: Phase
    owes: Owes
    resource: Resource
    account: str
    limit: int
    raise_to: int | None = None
    question: Question | None = None


class NodeState(Model):
    """Everything a person sees of a session; the phase machine's state.

    ``approval`` is the tool call that waits for a person's agreement, ``approvals_next`` those that wait behind it.
    ``owes`` is the work that somebody must still do, and ``owed_since`` when that was asked for (None where it has been
    since the session was made), ``feedback`` every change asked for (oldest first), and ``feedback_seen`` how many of
    those the agents have been told; ``pointed`` is what those were made of that pointed at something. ``unread`` is
    what was said that is not among them yet, since the agents work and no request of theirs has it; it is written only
    where there is any, since processes of an older version refuse what they do not know. ``answers`` is all that was
    said when asked, oldest first, and before it the style that came with the request; ``style`` and ``answer`` are the
    last of it, for people. ``plan_edited`` says that the plan is not what the agents proposed, but what a person made
    of it. ``finished`` is the video that was there before
    another render of the same animation began, ``forked_from`` the session that this one was made of, ``group`` what
    the takes of one prompt have in common. ``budget`` limits this session where it says so, and else the settings do;
    while ``paused`` the question is whether more may be used. ``stopped`` is the work that was stopped last, until any
    is owed again; it is written only where there is some, as ``unread`` is. ``closing`` says that a preview is shown to
    which the agents have not said their last words yet: nobody waits for them, and whoever takes the session up says
    them, unless a person has gone on meanwhile.
    """

    node_id: str
    user_id: str
    project_id: str
    session_id: str
    phase: Phase = "idle"
    owes: Owes | None = None
    owed_since: datetime | None = None
    stopped: Owes | None = Field(default=None, exclude_if=lambda stopped: stopped is None)
    prompt: str = ""
    options: SessionOptions = SessionOptions()
    asset_ids: tuple[str, ...] = ()
    style: str | None = None
    answer: str | None = None
    answers: tuple[Answered, ...] = ()
    feedback: tuple[str, ...] = ()
    feedback_seen: int = 0
    pointed: tuple[Pointed, ...] = ()
    unread: tuple[Unread, ...] = Field(default=(), exclude_if=lambda unread: not unread)
    question: Question | None = None
    plan: Plan | None = None
    plan_accepted: bool = False
    plan_edited: bool = False
    execution: Execution | None = None
    preview: Preview | None = None
    closing: bool = False
    render: RenderOptions | None = None
    output: Output | None = None
    finished: Output | None = None
    error: ErrorInfo | None = None
    permissions: SessionPermissions = SessionPermissions()
    approval: PendingCall | None = None
    approvals_next: tuple[PendingCall, ...] = ()
    forked_from: str | None = None
    group: str | None = None
    budget: Budget | None = None
    paused: Paused | None = None
    sandbox_id: str | None = None
    sandbox_status: Literal["creating", "ready", "destroyed"] | None = None
    theatre_state: dict[str, object] | None = None
    last_checkpoint: datetime | None = None
    created_at: datetime = Field(default_factory=now)
    updated_at: datetime = Field(default_factory=now)
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def final_format(self) -> FinalFormat:
        """What the finished video is."""
        if self.output is not None and self.output.format is not None:
            return self.output.format
        return "mp4" if self.render is None else self.render.format

    @model_validator(mode="before")
    @classmethod
    def _begin_answers(cls, data: object) -> object:
        """Begin the answers with the style of the request; a state stored without them kept no more than the last."""
        if not isinstance(data, dict) or "answers" in data:
            return cast("object", data)
        known = cast("Mapping[str, object]", data)
        plan = known.get("plan")
        called = plan.style if isinstance(plan, Plan) else None
        if isinstance(plan, dict):
            called = cast("Mapping[str, object]", plan).get("style")
        said = dict.fromkeys(words for name in ("style", "answer") if isinstance(words := known.get(name), str))
        return {**known, "answers": tuple(Answered(text=words) for words in said if words and words != called)}
