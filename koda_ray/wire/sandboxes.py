"""A person's own images, sandboxes and processes, and where a running page can be seen."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from koda_ray.types import Model

__all__ = [
    "BuildProblemView",
    "BuildView",
    "CommandOutput",
    "CreateSandbox",
    "ExtendSandbox",
    "FileChangeView",
    "FileChanges",
    "ImageList",
    "ImageView",
    "LaunchProcess",
    "MediaLinks",
    "PreviewLink",
    "ProcessList",
    "ProcessOutput",
    "ProcessView",
    "RunCommand",
    "SandboxFile",
    "SandboxFiles",
    "SandboxList",
    "SandboxView",
    "StillView",
    "TakePicture",
    "TakeStill",
]


class ImageView(Model):
    """What sandboxes start from.

    ``missing``: its provider does not have it any more; ``elsewhere``: not where the server is, but at ``host``;
    ``unknown``: its provider cannot be asked.
    """

    id: str
    name: str
    provider: str
    host: str = Field(description="Where it is, for people: a machine and a folder, or a cloud")
    state: Literal["ready", "creating", "missing", "elsewhere", "unknown"]
    size_bytes: int
    created_at: datetime


class ImageList(Model):
    """A user's images, oldest first."""

    images: tuple[ImageView, ...]


class CreateSandbox(Model):
    """What to start a sandbox from, whether its processes may reach the allowed hosts, and for how long."""

    image: str | None = Field(None, max_length=128, description="An image's id or name; else the animation template")
    network: bool = False
    provider: Literal["local", "docker", "e2b", "modal"] | None = None
    lifetime_s: float | None = Field(
        None,
        ge=1,
        le=86_400,
        description="When it ends if not extended; else in a day, or as `unusedS` says",
    )


class ExtendSandbox(Model):
    """How long a sandbox is to live at least, from now on, in seconds."""

    lifetime_s: float = Field(ge=1, le=86_400)


class SandboxView(Model):
    """A sandbox, as its provider sees it now.

    ``paused``: stopped for a while at its engine; ``elsewhere``: not where the server is, but at ``host``; ``gone``:
    ended without having been terminated, and ``ended`` says why; ``unknown``: its provider cannot be asked.
    """

    id: str
    image_id: str | None
    provider: str
    host: str = Field(description="Where it is, for people: a machine and a folder, or a cloud")
    state: Literal["running", "creating", "paused", "terminated", "gone", "elsewhere", "unknown"]
    network: bool
    created_at: datetime
    expires_at: datetime | None = Field(description="When it ends if nobody extends it")
    unused_s: int | None = Field(
        None, description="How long after its last use it ends, also before `expiresAt`, unless it is extended"
    )
    ended: str | None = Field(None, description="Why it ended, for people, where nobody terminated it")


class SandboxList(Model):
    """A user's sandboxes, oldest first."""

    sandboxes: tuple[SandboxView, ...]


class SandboxFile(Model):
    """A file or a folder of a sandbox; the path is relative to its project."""

    path: str
    type: Literal["file", "directory"]
    size_bytes: int = Field(description="0 of a folder")


class SandboxFiles(Model):
    """What is in a folder of a sandbox, by path."""

    files: tuple[SandboxFile, ...]


class RunCommand(Model):
    """A command to run to its end, without a terminal."""

    command: str = Field(min_length=1, max_length=8000, description="One line for a shell")
    cwd: str = Field(".", max_length=1024, description="The folder where it runs, relative to the project")
    timeout_s: float = Field(30.0, gt=0, le=3600, description="When it is ended with all that it started")


class CommandOutput(Model):
    """How a command ended, and what it wrote; ``truncated`` where the middle of that is left out."""

    exit_code: int
    stdout: str
    stderr: str
    duration_s: float
    truncated: bool


class BuildProblemView(Model):
    """One reason why a project does not build; line and column count from 1."""

    message: str
    file: str | None
    line: int | None
    column: int | None


class BuildView(Model):
    """A built bundle's files, by path below its root, or why there is none."""

    ok: bool
    files: tuple[SandboxFile, ...]
    problems: tuple[BuildProblemView, ...]
    duration_s: float


class TakePicture(Model):
    """Which moment of a page to picture, and how large the page is."""

    at_s: float = Field(ge=0, le=3600, description="Seconds from the start")
    width_px: int = Field(1920, ge=1, le=4096)
    height_px: int = Field(1080, ge=1, le=4096)


class TakeStill(Model):
    """Which moment of a session's page to picture; as large as it is planned where nothing else is said."""

    at_s: float = Field(ge=0, le=3600, description="Seconds from the start")
    width_px: int | None = Field(None, ge=1, le=4096)
    height_px: int | None = Field(None, ge=1, le=4096)


class StillView(Model):
    """A picture of a session's page: where it is got, the time it shows, and how long the page says it lasts."""

    url: str
    at_s: float
    duration_s: float | None = None


class MediaLinks(Model):
    """Where a video and its picture are seen by whoever has the address, until ``expiresAt``; ``job`` made them."""

    job: str
    video_url: str
    thumbnail_url: str
    expires_at: datetime


class FileChangeView(Model):
    """What became of one file of a sandbox since it was told of before."""

    path: str
    kind: Literal["added", "modified", "removed"]


class FileChanges(Model):
    """Files of a sandbox that have changed; the first of a stream is empty: from there on nothing is missed."""

    changes: tuple[FileChangeView, ...]


class LaunchProcess(Model):
    """A command to run in the background, in a terminal of its own."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")] = Field(
        description="Unique in the sandbox; one of the name that has ended makes room"
    )
    command: str = Field(min_length=1, max_length=8000, description="One line for a shell")


class ProcessView(Model):
    """A process, as its sandbox sees it now. ``lost``: it ended, and nobody knows how."""

    sandbox_id: str
    name: str
    command: str
    state: Literal["running", "ended", "lost"]
    exit_code: int | None
    created_at: datetime
    ended_at: datetime | None
    events_url: str


class ProcessList(Model):
    """Processes by name."""

    processes: tuple[ProcessView, ...]


class ProcessOutput(Model):
    """What a process wrote next, in a stream of it; ``exit_code`` is in the last one, null for one that was killed."""

    text: str = ""
    exit_code: int | None = None


class PreviewLink(Model):
    """Where the running page can be seen until ``expires_at`` by whoever has the address; with ``edit``, changed."""

    url: str
    expires_at: datetime
    edit: bool = False
