"""A session's versions as they are read, labelled and held against each other."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from koda_ray.types import Model

__all__ = [
    "MAX_VERSION_NOTE_CHARS",
    "ComparedSide",
    "ComparedView",
    "DifferenceCurve",
    "FileDiff",
    "LabelVersion",
    "VersionDiff",
    "VersionPage",
    "VersionScene",
    "VersionView",
]

MAX_VERSION_NOTE_CHARS = 500


class VersionScene(Model):
    """A scene as it was planned when a version was made; ``duration`` in seconds."""

    number: int
    title: str
    duration: float


class VersionView(Model):
    """A preview that was shown; its ``id`` is a point to go back to, or to fork at.

    ``number`` counts the session's versions from 1, ``asked`` is what was asked for since the one before, as it was
    written: of what was pointed at, the notes' words. ``duration`` is in seconds, ``scenes`` are what was planned for
    it. ``bundle`` and ``checkpoint_id`` are its built page and its files, ``final_url`` is the final video made of it,
    as long as that is there. ``current`` says that the session shows it now, ``undone`` that the session was put back
    to before it.
    """

    id: str
    number: int
    asked: str
    job_id: str
    bundle: str
    checkpoint_id: str | None
    duration: float
    video_url: str
    thumbnail_url: str
    final_url: str | None
    note: str
    starred: bool
    current: bool
    undone: bool
    created_at: datetime
    scenes: tuple[VersionScene, ...] = ()


class VersionPage(Model):
    """A session's versions, newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    versions: tuple[VersionView, ...]
    next: int | None = None


class LabelVersion(Model):
    """What a person makes of a version; what is left out stays, and an empty ``note`` is none."""

    note: str | None = Field(default=None, max_length=MAX_VERSION_NOTE_CHARS)
    starred: bool | None = None


class FileDiff(Model):
    """How a file differs; ``diff`` is unified, and null for what is no text, or too much to be told apart line by line.

    ``added`` and ``removed`` are counts of its lines.
    """

    path: str
    change: Literal["added", "removed", "changed"]
    added: int = 0
    removed: int = 0
    diff: str | None = None


class VersionDiff(Model):
    """How the files of ``version`` differ from those of ``against``; null there is: from nothing.

    ``left_out`` is how many more files differ than are told.
    """

    version: str
    against: str | None
    files: tuple[FileDiff, ...]
    left_out: int = 0


class ComparedSide(Model):
    """One of two versions that are compared: its session's ``title`` and ``take``, its ``number`` there, its video.

    ``duration`` is in seconds, ``width`` and ``height`` as planned, in pixels; ``current`` says that its session shows
    it now. ``job_id`` made the video: the version's preview, or a ``final`` of it in ``format``; ``scenes`` are the
    version's. Of an older server all of that is left out.
    """

    session_id: str
    version_id: str
    number: int
    title: str | None
    take: int | None
    asked: str
    current: bool
    duration: float
    fps: float
    width: int | None
    height: int | None
    video_url: str
    thumbnail_url: str
    job_id: str = ""
    kind: Literal["preview", "final"] = "preview"
    format: str | None = None
    transparent: bool = False
    scenes: tuple[VersionScene, ...] = ()


class ComparedView(Model):
    """Two versions; ``frames`` at ``fps`` are what they have in common."""

    a: ComparedSide
    b: ComparedSide
    fps: float
    frames: int


class DifferenceCurve(Model):
    """By how much two videos differ: ``values`` has a number for each frame, at k / ``fps`` seconds.

    It is the mean difference of the colours: 0 where both show the same, 1 between black and white.
    """

    fps: float
    values: tuple[float, ...]
