"""What who has a link sees of a session: one video, and a place to say something where its owner allows it.

The token is the key: none other is asked for, and none counts. A link that was revoked, has ended or never was is
answered alike. Nothing here starts or wakes anything, and nothing tells of prompts, files, or whose it is: a video is
sent from here and never from its bucket, whose addresses name their owner and are good for longer than a link.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Request, Response

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.serve.context import Deps, IdempotencyKey
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.filmed import scenes_of, version_filmed
from koda_ray.serve.media import Representation, blob_response
from koda_ray.serve.once import check_same_comment, comment_name
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import Streams
from koda_ray.serve.rates import Rates
from koda_ray.serve.routes.media import VIDEO_RESPONSES, picture_of, video_key_of, video_of
from koda_ray.serve.routes.shares import comment_view
from koda_ray.serve.signing import Forbidden
from koda_ray.serve.views import spec_of
from koda_ray.state.records import JobRecord, SessionRecord
from koda_ray.state.shares import ShareComment, ShareRecord
from koda_ray.types import now
from koda_ray.wire import MAX_COMMENTS, MakeComment, ShareCommentView, SharedVideo, VersionScene

__all__ = ["MAX_COMMENT_BYTES", "LinkUse", "router"]

router = APIRouter(prefix="/v1/shares", tags=["shares"])
MAX_COMMENT_BYTES = 32 * 1024
"""Limit for a body here: a comment of so many characters, each escaped, is less."""
_COMMENTS_PER_MIN = 12
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}


_Token = Annotated[str, Path(description="A link's")]


class LinkUse:
    """Counts what is asked with each link, in one process.

    Args:
        streams: How many streams a user may have: those who share a link have as many requests under way.
    """

    def __init__(self, streams: int) -> None:
        self.requests = Streams(streams)
        self.comments = Rates(_COMMENTS_PER_MIN, way_out="wait a moment")


@dataclass(frozen=True, kw_only=True)
class _Open:
    share: ShareRecord
    session: SessionRecord
    job: JobRecord
    shown: LinkUse


async def _opened(token: _Token, request: Request, deps: Deps) -> AsyncIterator[_Open]:
    share = await deps.store.share_for(token, at=now()) if _TOKEN.fullmatch(token) else None
    if share is None:
        raise _nothing()
    try:
        session = await deps.store.get_session(share.session_id, user_id=share.user_id)
        job = await deps.store.get_job(share.job_id, user_id=share.user_id)
    except NotFound:
        raise _nothing() from None
    shown = cast(LinkUse, request.app.state.shown)
    with shown.requests.asked(share.id):
        yield _Open(share=share, session=session, job=job, shown=shown)


_Opened = Annotated[_Open, Depends(_opened)]


@router.get("/{token}", operation_id="getShared", summary="See what a link shows", responses=responses(404, 429))
async def get_shared(token: _Token, found: _Opened, deps: Deps, response: Response) -> SharedVideo:
    """Return what there is to know of the video, and where it is."""
    share, spec, base = found.share, spec_of(found.job), f"{router.prefix}/{token}"
    width, height = (None, None) if spec is None else spec.picture
    response.headers.update(_PRIVATE)
    return SharedVideo(
        title=found.session.title,
        duration=found.job.video_s or None,
        width=width,
        height=height,
        fps=None if spec is None else spec.rate,
        format=None if spec is None else spec.format,
        scenes=await _scenes(deps, found),
        video_url=f"{base}/video",
        thumbnail_url=f"{base}/thumbnail",
        comments=share.commenting,
        expires_at=share.expires_at,
    )


@router.get(
    "/{token}/video",
    operation_id="getSharedVideo",
    summary="Watch what a link shows",
    response_class=Response,
    responses={**VIDEO_RESPONSES, **responses(404, 416, 429)},
)
@router.head("/{token}/video", include_in_schema=False)
async def get_shared_video(found: _Opened, request: Request, deps: Deps) -> Response:
    """Send the video, or the part that `Range` asks for."""
    shown = replace(video_of(found.job, "video"), etag=f"{found.share.id}-video")
    return await _sent(request, deps, video_key_of(found.job), shown)


@router.get(
    "/{token}/thumbnail",
    operation_id="getSharedThumbnail",
    summary="See a still picture of what a link shows",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/jpeg": _BYTES}}, **responses(404, 429)},
)
@router.head("/{token}/thumbnail", include_in_schema=False)
async def get_shared_thumbnail(found: _Opened, request: Request, deps: Deps) -> Response:
    """Send the picture that stands for the video."""
    shown = Representation(media_type="image/jpeg", etag=f"{found.share.id}-picture", filename="video.jpg")
    return await _sent(request, deps, picture_of(found.job), shown)


@router.post(
    "/{token}/comments",
    operation_id="comment",
    summary="Say something of what a link shows",
    status_code=201,
    responses=responses(403, 404, 409, 413, 422, 429),
)
async def comment(body: MakeComment, found: _Opened, key: IdempotencyKey, deps: Deps) -> ShareCommentView:
    """Leave plain text for whoever made the link; nobody else reads it.

    An idempotency key is the link's: whoever else has that does not use it for something else.
    """
    share = found.share
    if not share.commenting:
        raise Forbidden("whoever made this link takes no comments with it", code="COMMENTS_CLOSED")
    text = _plain(body.text)
    if not text:
        raise InvalidInput("text: there is nothing in it that can be read", context={"field": "text"})
    said = ShareComment(
        id=comment_name(share.id, key),
        session_id=share.session_id,
        share_id=share.id,
        user_id=share.user_id,
        name=" ".join(_plain(body.name).split()),
        text=text,
        at_s=body.at,
        created_at=now(),
    )
    made = await deps.store.share_comment(said.session_id, said.id)
    if made is None:  # else it is said again, which is nothing more
        found.shown.comments.take(share.id)
        try:
            made = await deps.store.add_comment(said, most=MAX_COMMENTS)
        except NotFound:
            raise _nothing() from None
    check_same_comment(made, said, key)
    return comment_view(made)


async def _scenes(deps: ApiDeps, found: _Open) -> tuple[VersionScene, ...]:
    try:
        return scenes_of(await version_filmed(deps.store, found.session.id, found.job))
    except NotFound:
        return ()


async def _sent(request: Request, deps: ApiDeps, key: str, shown: Representation) -> Response:
    try:
        response = await blob_response(request, deps.storage, key, shown)
    except NotFound:
        raise _nothing() from None
    response.headers.update({"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"})
    return response


def _nothing() -> NotFound:
    return NotFound("there is nothing behind this link: it was revoked, it has ended, or it is not whole")


def _plain(text: str) -> str:
    """Return text without what controls a terminal or a page."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc").strip()
