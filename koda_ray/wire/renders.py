"""Page renders: a page to a video, or one for each row of data."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, RootModel, StringConstraints

from koda_ray.types import Model
from koda_ray.video_formats import VideoFormat

__all__ = [
    "MAX_BATCH_ROWS",
    "BatchCreated",
    "BatchView",
    "CreateBatch",
    "CreateRender",
    "PageOptions",
    "RenderKind",
    "RenderList",
    "RenderStatus",
    "RenderSummary",
    "RenderView",
    "RenderedAgain",
    "Rows",
    "Sound",
]

MAX_BATCH_ROWS = 1_000
"""Most videos that one request asks for."""


class Sound(Model):
    """A sound file of the bundle, and where it is heard; times in seconds, ``volume`` times the file's own."""

    path: str = Field(min_length=1, max_length=512)
    start_s: float = 0.0
    trim_start_s: float = 0.0
    duration_s: float | None = None
    volume: float = 1.0
    fade_in_s: float = 0.0
    fade_out_s: float = 0.0


class PageOptions(Model):
    """How a page is rendered; what is left out comes from the preset, then from the page, then 30 fps at 1920x1080."""

    duration: float | None = Field(default=None, description="Seconds; else the page's own")
    width: int | None = Field(
        default=None, description="Of the page's viewport in CSS pixels; with `height` or not at all"
    )
    height: int | None = Field(default=None, description="The same")
    fps: float | str | None = Field(
        default=None, description="Frames a second, 1 to 120", examples=[30, 29.97, "30000/1001"]
    )
    scale: float | None = Field(
        default=None, description="Pixels of the picture for each CSS pixel: 2 makes 4K of 1920x1080"
    )
    preset: str | None = Field(
        default=None,
        description="Sizes, rate and quality: preview, final, 720p, 1080p, 4k; or a platform's, with its limits: "
        "youtube, youtube-shorts, instagram-reels, tiktok, twitter, x",
    )
    format: VideoFormat = Field(default="mp4", description="png is a zip of pictures")
    alpha: bool = Field(default=False, description="What the page leaves transparent stays so; not in mp4")
    crf: int | None = Field(default=None, description="Quality: 0 (lossless) to 51; else the preset's, or 18")
    bitrate_kbps: int | None = Field(default=None, description="Kilobits a second, 50 to 500000, instead of a quality")
    effort: Literal["draft", "fast", "small"] = Field(
        default="fast", description="What the encoder saves: time, or bytes"
    )
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="Of the page's random numbers")
    entry: str | None = Field(
        default=None, max_length=512, description="The page, where the zip has several and no index.html"
    )
    props: JsonValue = Field(default_factory=dict, description="What the page finds as `window.__kodaProps`")
    audio: tuple[Sound, ...] = Field(default=(), max_length=32, description="Files of the zip; not for gif and png")
    trim: bool = Field(
        default=False, description="Cut what is longer than the preset's platform takes, instead of refusing it"
    )
    lenient: bool = Field(default=False, description="Go on where the page throws")


class CreateRender(Model):
    """A page that was uploaded or built before, by its bundle's hash, to be rendered."""

    bundle: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    options: PageOptions = Field(default_factory=PageOptions)


RenderStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


RenderKind = Literal["render", "preview", "final"]
"""Of a page, or what a session made."""


class RenderSummary(Model):
    """A render in a list; ``percent`` says how far it is, ``error`` what ended it, ``duration`` the video's seconds.

    ``title`` is what its session is called, by its title or its prompt; null of a page. ``stage``, ``framesDone``,
    ``framesTotal`` and ``secondsLeft`` are there while it is under way; ``width``, ``height`` (pixels of the picture),
    ``fps``, ``format`` and ``transparent`` once it is known what is made, ``fileSize`` (bytes) once it is. ``row``
    counts a batch's rows from 1. ``videoUrl`` and ``thumbnailUrl`` are null until it has succeeded; a session's
    previews are removed some time later.
    """

    id: str
    kind: RenderKind = "render"
    session_id: str | None = None
    title: str | None = None
    project_id: str
    status: RenderStatus
    bundle: str
    entry: str | None = None
    percent: float
    stage: str | None = None
    frames_done: int | None = None
    frames_total: int | None = None
    seconds_left: float | None = None
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    format: str | None = None
    transparent: bool | None = None
    file_size: int | None = None
    error: dict[str, JsonValue] | None
    created_at: datetime
    updated_at: datetime
    batch_id: str | None = None
    row: int | None = None
    duration: float | None = None
    state_url: str
    video_url: str | None = None
    thumbnail_url: str | None = None


class RenderList(Model):
    """Some renders, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    renders: tuple[RenderSummary, ...]
    next: str | None = None


class RenderedAgain(Model):
    """What a render that is over became once more: ``jobId`` is that job; null while its session has not begun it."""

    job_id: str | None
    session_id: str | None = None


class Rows(RootModel[tuple[dict[str, JsonValue], ...]]):
    """The data of a batch: each row is what one video's page finds as ``window.__kodaProps``."""

    root: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1, max_length=MAX_BATCH_ROWS)]


class CreateBatch(Model):
    """A page that was uploaded or built before, to be rendered once for each row; ``options`` are those of all."""

    bundle: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    rows: Rows
    options: PageOptions = Field(default_factory=PageOptions)


class BatchCreated(Model):
    """A batch that was recorded: its renders in the order of the rows. ``rendersUrl`` lists them with their state."""

    id: str
    bundle: str
    render_ids: tuple[str, ...]
    renders_url: str


class BatchView(Model):
    """How far a batch is: how many of its renders are in which state. ``rendersUrl`` lists them."""

    id: str
    renders: int
    queued: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    renders_url: str


class RenderView(Model):
    """A page render: ``request`` is what was asked for, ``spec`` what it came to once the page was read.

    ``progress`` holds ``percent``, ``stage``, ``framesDone``, ``framesTotal``, ``framesPerS``, ``secondsLeft`` and
    ``watchableS`` (how many seconds of it can be watched already); in the stage ``waiting`` (for a machine that can
    render) also ``waitedS``, in seconds; ``result`` what was made, with ``still`` where all frames are one picture, and
    ``warnings`` of what the page did not get; ``error`` a ``code`` and a ``message``. ``videoUrl``, ``thumbnailUrl``
    and ``reportUrl`` are null until it has succeeded.
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
