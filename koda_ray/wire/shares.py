"""Links with which others see one video, and what they say of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from koda_ray.types import Model
from koda_ray.wire.fields import Id
from koda_ray.wire.versions import VersionScene

__all__ = [
    "MAX_COMMENTS",
    "MAX_COMMENT_CHARS",
    "MAX_SHARES",
    "MakeComment",
    "MakeShare",
    "ShareCommentView",
    "ShareCreated",
    "ShareDetail",
    "ShareList",
    "ShareView",
    "SharedVideo",
]

MAX_SHARES = 50
"""How many links a session has at most."""
MAX_COMMENTS = 200
"""How many comments a link takes at most."""
MAX_COMMENT_CHARS = 2_000
_LABEL_CHARS = 100
_NAME_CHARS = 80
_LONGEST_S = 10 * 366 * 86_400
_Line = Annotated[str, StringConstraints(strip_whitespace=True)]


class MakeShare(Model):
    """What a link shows, to whom, and for how long."""

    job: Id | None = Field(
        default=None,
        description="The job that made the video: a version's `jobId`, or the final one's. Else what the session shows",
    )
    label: _Line = Field(default="", max_length=_LABEL_CHARS, description="What you call it; nobody else sees it")
    comments: bool = Field(default=False, description="Whether who has the link may comment")
    lasts_s: int | None = Field(
        default=None, ge=60, le=_LONGEST_S, description="After how many seconds it ends; never where it is left out"
    )


class ShareView(Model):
    """A link as its owner sees it: without its token, which only the request that made it is told.

    ``job`` made the video; ``ended`` says that ``expiresAt`` has come, or that the video was deleted, ``commented``
    how many comments there are.
    """

    id: str
    job: str
    label: str
    comments: bool
    commented: int
    ended: bool
    expires_at: datetime | None
    created_at: datetime


class ShareCreated(ShareView):
    """A link that was just made, with its ``token`` and ``url``: the request that made it is told them, and no other.

    Said again with the same idempotency key it is told them again, until the link is revoked. ``url`` is a page that
    shows the video, and ``url`` with ``/embed`` after it one for a frame in any other page.
    """

    token: str
    url: str


class ShareCommentView(Model):
    """What somebody with a link said: plain text. ``at`` is where in the video, in seconds; null is of all of it."""

    id: str
    name: str
    text: str
    at: float | None
    created_at: datetime


class ShareDetail(ShareView):
    """A link with what was said, oldest first."""

    said: tuple[ShareCommentView, ...]


class ShareList(Model):
    """A session's links, newest first."""

    shares: tuple[ShareView, ...]


class SharedVideo(Model):
    """What who has a link sees: ``duration`` in seconds, ``width`` and ``height`` in pixels.

    ``format`` is what it was rendered to; ``title`` is what its owner gave the session, or null; ``comments`` says
    whether one may comment, ``scenes`` what was planned for it: their titles and how long they are, no more.
    """

    title: str | None
    duration: float | None
    width: int | None
    height: int | None
    fps: float | None
    format: str | None = None
    scenes: tuple[VersionScene, ...] = ()
    video_url: str
    thumbnail_url: str
    comments: bool
    expires_at: datetime | None


class MakeComment(Model):
    """What somebody says of a video."""

    text: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(min_length=1, max_length=MAX_COMMENT_CHARS)
    name: _Line = Field(default="", max_length=_NAME_CHARS, description="What you call yourself")
    at: float | None = Field(
        default=None, ge=0, le=86_400, allow_inf_nan=False, description="Where in the video, in seconds"
    )
