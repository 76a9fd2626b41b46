"""What goes over HTTP: the request and response bodies that the server and the clients share.

One definition for both sides, on the lowest floor, so that a client needs nothing of the server to be typed. Requests
refuse unknown fields (a misspelt option is an error, not silence); responses are read leniently by clients, so that a
newer server may say more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, RootModel, StringConstraints, field_validator

from koda_ray.types import MAX_PROMPT_CHARS, Model, NodeState, Owes, Phase, RenderOptions, SessionOptions

__all__ = [
    "MAX_BATCH_ROWS",
    "MAX_TEXT_CHARS",
    "Answer",
    "AssetPage",
    "AssetView",
    "BatchCreated",
    "Changes",
    "CommandAccepted",
    "CommandName",
    "CreateBatch",
    "CreateRender",
    "CreateSession",
    "FileList",
    "FileView",
    "Health",
    "JobPage",
    "JobView",
    "Message",
    "PageRender",
    "PreviewLink",
    "Problem",
    "ProblemField",
    "Readiness",
    "Reject",
    "RenderPage",
    "RenderStatus",
    "RenderSummary",
    "RenderView",
    "Rows",
    "SessionCreated",
    "SessionPage",
    "SessionSummary",
    "SessionView",
    "Sound",
]

MAX_TEXT_CHARS = MAX_PROMPT_CHARS
"""Longest feedback, answer or message in characters: the same as a prompt's."""
MAX_BATCH_ROWS = 1_000
"""Most videos that one request asks for."""

CommandName = Literal["answer", "accept", "reject", "changes", "message", "cancel", "retry", "render"]
Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


def _not_blank(value: str, what: str, example: str) -> str:
    if not value.strip():
        raise ValueError(f"{what} is empty; say something like {example!r}")
    return value


class CreateSession(Model):
    """A prompt to make a video from; ``render`` says how the final video is made once the preview is accepted."""

    prompt: str = Field(max_length=MAX_PROMPT_CHARS, examples=["Create a bouncing ball animation, playful"])
    project_id: Id | None = None
    style: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    options: SessionOptions = Field(default_factory=SessionOptions)
    render: RenderOptions | None = None
    asset_ids: tuple[Id, ...] = Field(default=(), max_length=32)

    @field_validator("prompt")
    @classmethod
    def _prompt_says_something(cls, value: str) -> str:
        return _not_blank(value, "the prompt", "Create a bouncing ball animation")


class Answer(Model):
    """An answer to the session's question: one of its options, or words of one's own."""

    option_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    text: Text | None = None

    @field_validator("text")
    @classmethod
    def _text_says_something(cls, value: str | None) -> str | None:
        return value if value is None else _not_blank(value, "the answer", "playful, with soft colours")


class Reject(Model):
    """A plan that is not what was meant."""

    feedback: Text | None = None


class Changes(Model):
    """What should be different."""

    feedback: Text

    @field_validator("feedback")
    @classmethod
    def _feedback_says_something(cls, value: str) -> str:
        return _not_blank(value, "the feedback", "make the ball red")


class Message(Model):
    """Words to the agents that are neither an answer nor a change request."""

    text: Text

    @field_validator("text")
    @classmethod
    def _text_says_something(cls, value: str) -> str:
        return _not_blank(value, "the message", "use our brand colours")


class SessionCreated(Model):
    """A session that was recorded; its agents are at work. The same for every repeat of the request."""

    session_id: str
    node_id: str
    project_id: str
    created_at: datetime
    state_url: str
    events_url: str


class SessionView(Model):
    """A session as it is now; ``seq`` is its newest event's number, to follow on from."""

    id: str
    node_id: str
    project_id: str
    status: Literal["active", "suspended", "closed"]
    seq: int
    state: NodeState
    created_at: datetime
    updated_at: datetime


class SessionSummary(Model):
    """A session in a list; ``prompt`` is cut to 200 characters."""

    id: str
    project_id: str
    phase: Phase
    owes: Owes | None
    status: Literal["active", "suspended", "closed"]
    prompt: str
    created_at: datetime
    updated_at: datetime


class SessionPage(Model):
    """Some sessions, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    sessions: tuple[SessionSummary, ...]
    next: str | None = None


class CommandAccepted(Model):
    """A command that was recorded. A repeat with the same idempotency key gets the same document."""

    command_id: str
    session_id: str
    command: CommandName
    result: dict[str, JsonValue]
    created_at: datetime


class AssetView(Model):
    """An uploaded file; ``size_bytes`` in bytes."""

    id: str
    project_id: str
    session_id: str | None
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    created_at: datetime


class AssetPage(Model):
    """A session's uploaded files, oldest first."""

    assets: tuple[AssetView, ...]


class FileView(Model):
    """A file of the project as of its newest checkpoint."""

    path: str
    size_bytes: int
    sha256: str


class FileList(Model):
    """The project's files as of its newest checkpoint, by path; empty before the first one."""

    checkpoint_id: str | None
    created_at: datetime | None
    files: tuple[FileView, ...]


class JobView(Model):
    """A render job; ``progress``, ``result`` and ``error`` are the renderer's own words."""

    id: str
    session_id: str | None
    project_id: str
    kind: Literal["preview", "final", "render"]
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    spec: dict[str, JsonValue]
    progress: dict[str, JsonValue]
    result: dict[str, JsonValue] | None
    error: dict[str, JsonValue] | None
    created_at: datetime
    updated_at: datetime


class JobPage(Model):
    """A session's render jobs, newest first."""

    jobs: tuple[JobView, ...]


class Sound(Model):
    """A sound file of the bundle, and where it is heard; times in seconds, ``volume`` times the file's own."""

    path: str = Field(min_length=1, max_length=512)
    start_s: float = 0.0
    trim_start_s: float = 0.0
    duration_s: float | None = None
    volume: float = 1.0
    fade_in_s: float = 0.0
    fade_out_s: float = 0.0


class PageRender(Model):
    """How a page is rendered; what is left out comes from the preset, then from the page, then 30 fps at 1920x1080.

    ``duration`` in seconds; ``width`` and ``height`` are the page's viewport in CSS pixels, ``scale`` the pixels for
    each; ``fps`` a number or text such as ``30000/1001``; ``props`` what the page finds as ``window.__kodaProps``;
    ``trim`` cuts what is longer than the preset's platform takes; ``lenient`` goes on where the page throws.
    """

    duration: float | None = None
    width: int | None = None
    height: int | None = None
    fps: float | str | None = None
    scale: float | None = None
    preset: str | None = None
    format: Literal["mp4", "webm", "mov", "gif", "png"] = "mp4"
    alpha: bool = False
    crf: int | None = None
    bitrate_kbps: int | None = None
    effort: Literal["fast", "small"] = "fast"
    seed: int = Field(default=1, ge=0, le=2**31 - 1)
    entry: str | None = Field(default=None, max_length=512)
    props: JsonValue = Field(default_factory=dict)
    audio: tuple[Sound, ...] = Field(default=(), max_length=32)
    trim: bool = False
    lenient: bool = False


class CreateRender(Model):
    """A page that was uploaded or built before, by its bundle's hash, to be rendered."""

    bundle: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    options: PageRender = Field(default_factory=PageRender)


RenderStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class RenderSummary(Model):
    """A render of its own in a list; ``percent`` says how far it is, ``error`` what ended it.

    ``row`` counts a batch's rows from 1.
    """

    id: str
    project_id: str
    status: RenderStatus
    bundle: str
    percent: float
    error: dict[str, JsonValue] | None
    created_at: datetime
    updated_at: datetime
    batch_id: str | None = None
    row: int | None = None
    state_url: str
    video_url: str | None = None


class RenderPage(Model):
    """Some renders, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    renders: tuple[RenderSummary, ...]
    next: str | None = None


class Rows(RootModel[tuple[dict[str, JsonValue], ...]]):
    """The data of a batch: each row is what one video's page finds as ``window.__kodaProps``."""

    root: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1, max_length=MAX_BATCH_ROWS)]


class CreateBatch(Model):
    """A page that was uploaded or built before, to be rendered once for each row; ``options`` are those of all."""

    bundle: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    rows: Rows
    options: PageRender = Field(default_factory=PageRender)


class BatchCreated(Model):
    """A batch that was recorded: its renders in the order of the rows. ``rendersUrl`` lists them with their state."""

    id: str
    bundle: str
    render_ids: tuple[str, ...]
    renders_url: str


class RenderView(Model):
    """A render of its own: ``request`` is what was asked for, ``spec`` what it came to once the page was read.

    ``videoUrl``, ``thumbnailUrl`` and ``reportUrl`` are null until it has succeeded.
    """

    id: str
    project_id: str
    status: RenderStatus
    bundle: str
    entry: str
    request: dict[str, JsonValue]
    spec: dict[str, JsonValue] | None
    progress: dict[str, JsonValue]
    result: dict[str, JsonValue] | None
    error: dict[str, JsonValue] | None
    created_at: datetime
    updated_at: datetime
    batch_id: str | None = None
    row: int | None = None
    state_url: str
    events_url: str
    video_url: str | None = None
    thumbnail_url: str | None = None
    report_url: str | None = None


class PreviewLink(Model):
    """Where the running page can be seen until ``expires_at``; whoever has the address may look."""

    url: str
    expires_at: datetime


class Health(Model):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(Model):
    """Whether work would be taken: every part by name, with what is wrong."""

    ready: bool
    parts: dict[str, str]


class ProblemField(Model):
    """One value of a request that was refused: where it is, and what is wrong with it."""

    field: str
    problem: str


class Problem(Model):
    """An error document. ``code`` is stable, ``retryable`` says whether the same request may succeed later.

    Source: RFC 9457, with the extension members ``code``, ``retryable``, ``context`` and ``fields``.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    instance: str
    context: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    fields: tuple[ProblemField, ...] = ()
