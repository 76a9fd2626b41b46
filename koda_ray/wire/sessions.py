"""Sessions as they are read: what they wait for, where they can go back to, their files and their renders."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from koda_ray.types import AssetPurpose, Model, NodeState, Owes, Phase

__all__ = [
    "ApprovalPage",
    "ApprovalView",
    "AssetPage",
    "AssetView",
    "FileList",
    "FileView",
    "HistoryView",
    "JobPage",
    "JobView",
    "OwnAssetPage",
    "PicturePage",
    "PictureView",
    "PointView",
    "ProjectPage",
    "ProjectView",
    "SaidView",
    "SessionCreated",
    "SessionOrder",
    "SessionPage",
    "SessionSummary",
    "SessionView",
    "TakesCreated",
    "TalkPage",
    "WhoseTurn",
]

WhoseTurn = Literal["person", "agents"]
"""Who has to do something for a session to go on."""

SessionOrder = Literal["made", "changed"]
"""By what a list of sessions is sorted, the newest first."""


class SessionCreated(Model):
    """A session that was recorded; its agents are at work. The same for every repeat of the request."""

    session_id: str
    node_id: str
    project_id: str
    created_at: datetime
    state_url: str
    events_url: str


class TakesCreated(Model):
    """Sessions that were recorded as takes of one prompt, in their order; the same for every repeat of the request."""

    group: str
    sessions: tuple[SessionCreated, ...]


class SessionView(Model):
    """A session as it is now; ``seq`` is its newest event's number, to follow on from.

    ``title`` is what its user calls it; without one it is called by its prompt. ``state.unread`` has with what is not
    heeded the messages and changes that its process has not taken yet, since it sleeps or there is no room.
    ``forkedTitle`` is what the session is called that ``state.forkedFrom`` names, while that is there.
    """

    id: str
    node_id: str
    project_id: str
    status: Literal["active", "suspended", "closed"]
    seq: int
    state: NodeState
    title: str | None = None
    pinned: bool = False
    forked_title: str | None = None
    created_at: datetime
    updated_at: datetime


class SessionSummary(Model):
    """A session in a list; ``prompt`` is cut to 200 characters, ``seq`` is its newest event's number.

    ``approval`` names the tool of the call that waits for a person's agreement. The video is the final one where there
    is one that browsers play (mp4, webm), else the preview; ``duration`` is its own in seconds, or as planned. Takes of
    one prompt have a ``group``; one that was made of another names it, and what that is called while it is there.
    """

    id: str
    project_id: str
    phase: Phase
    owes: Owes | None
    approval: str | None = None
    status: Literal["active", "suspended", "closed"]
    title: str | None = None
    pinned: bool = False
    group: str | None = None
    take: int | None = None
    forked_from: str | None = None
    forked_title: str | None = None
    prompt: str
    seq: int = 0
    todos_done: int = 0
    todos: int = 0
    duration: float | None = None
    video_url: str | None = None
    thumbnail_url: str | None = None
    error: str | None = None
    created_at: datetime
    updated_at: datetime


class SessionPage(Model):
    """Some sessions, the newest first; ``next`` is the ``before`` of the following page, null on the last one.

    Where few of many sessions are what was looked for, a page is short, and others may follow.
    """

    sessions: tuple[SessionSummary, ...]
    next: str | None = None


class ApprovalView(Model):
    """Something that waits for a person, or waited, and what the person said.

    Of a tool call the payload holds the tool's ``name``, the arguments that were ``proposed``, the ``reason`` why a
    person is asked, and ``shown``: a diff of what it would change. The answer holds what was ``approved``.
    """

    id: str
    kind: Literal["question", "plan", "preview", "tool_call", "budget"]
    status: Literal["pending", "approved", "rejected", "superseded"]
    payload: dict[str, JsonValue]
    call_id: str | None
    answer: dict[str, JsonValue] | None
    created_at: datetime
    resolved_at: datetime | None


class ApprovalPage(Model):
    """A session's approvals, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    approvals: tuple[ApprovalView, ...]
    next: str | None = None


class PointView(Model):
    """A point that a session can go back to, or be forked at.

    ``text`` is the beginning of a message, the reason of a checkpoint, or where a head's session was put to; ``undone``
    is of heads alone.
    """

    id: str
    kind: Literal["message", "checkpoint", "head"]
    agent: str | None = None
    role: Literal["user", "assistant"] | None = None
    text: str
    undone: bool = False
    created_at: datetime


class HistoryView(Model):
    """A session's points, newest first; ``next`` is the ``before`` of the following page, null on the last one.

    What agents remember is no point, so a page may have fewer than were asked for.
    """

    points: tuple[PointView, ...]
    next: str | None = None


class SaidView(Model):
    """Something that was said; ``seq`` is the number of its event, ``id`` the message's that it began as, if any.

    ``asked`` is the question that it answers.
    """

    seq: int
    id: str | None
    role: Literal["user", "assistant"]
    agent: str | None
    content: str
    asked: str | None = None
    at: datetime


class TalkPage(Model):
    """What was said, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    messages: tuple[SaidView, ...]
    next: int | None = None


class PictureView(Model):
    """A picture of the page that an agent took while it worked; ``seq`` is the number of its event.

    ``url`` gives it, as a PNG of ``widthPx`` by ``heightPx``; ``atS`` is the time of the film that it shows.
    """

    seq: int
    url: str
    at_s: float
    width_px: int
    height_px: int
    agent: str | None
    at: datetime


class PicturePage(Model):
    """Pictures that agents took, newest first; ``next`` is the ``before`` of the following page, null on the last."""

    pictures: tuple[PictureView, ...]
    next: int | None = None


class ProjectView(Model):
    """A project of yours; work that names none lies in the one that is called as you are."""

    id: str
    created_at: datetime


class ProjectPage(Model):
    """Your projects by their ids; ``next`` is the ``after`` of the following page, null on the last one."""

    projects: tuple[ProjectView, ...]
    next: str | None = None


class AssetView(Model):
    """An uploaded file; ``sizeBytes`` in bytes, ``fileUrl`` gives them, ``purpose`` says what it is for.

    ``sessionTitle`` is what the session that has it is called, where many files are listed.
    """

    id: str
    project_id: str
    session_id: str | None
    session_title: str | None = None
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    file_url: str
    created_at: datetime
    purpose: AssetPurpose = "file"


class AssetPage(Model):
    """A session's uploaded files, oldest first."""

    assets: tuple[AssetView, ...]


class OwnAssetPage(Model):
    """A page of all files that a user uploaded, newest first; ``next`` is ``before`` of the next page."""

    assets: tuple[AssetView, ...]
    next: str | None


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
    """A session's render jobs, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    jobs: tuple[JobView, ...]
    next: str | None = None
