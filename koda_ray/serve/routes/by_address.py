"""Videos and pictures that are seen by address alone, for pages whose ``<img>`` and ``<video>`` bring no key.

Whoever may see a session asks for such addresses (`koda_ray.serve.media_links`); what is behind one is sent to whoever
has it, from here and never from its bucket, whose addresses are good beyond the end of this one, or of the session, and
are for no page that takes nothing of other origins unasked. None of it counts among the requests that its user makes
with a key: whoever has an address keeps neither the user from the API, nor those with another address from theirs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Request, Response

from koda_ray.serve.context import Deps, OwnSession
from koda_ray.serve.media import Representation, blob_response
from koda_ray.serve.media_links import MediaGrant, MediaSigner
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import SPARE_REQUESTS, Streams
from koda_ray.serve.routes.media import (
    VIDEO_RESPONSES,
    Download,
    JobParam,
    KindParam,
    finished_render,
    picture_of,
    video_key_of,
    video_of,
)
from koda_ray.state.records import JobRecord
from koda_ray.wire import MediaLinks

__all__ = ["AddressUse", "router"]

router = APIRouter(prefix="/v1", tags=["media"])
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_ANYWHERE = {
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}
"""It is for pages of other origins, also those that take nothing unasked; and its address is told to nobody."""
_Token = Annotated[str, Path(max_length=400, description="As `getMedia` gave it")]


class AddressUse:
    """Counts what is asked by addresses alone, in one process.

    Args:
        streams: How many streams a user may have: those who share an address have as many requests under way. All
            addresses of a user together have twice as many, so that nobody's are all that a process takes.
    """

    def __init__(self, streams: int) -> None:
        self.requests = Streams(streams)
        self.owners = Streams(2 * streams + SPARE_REQUESTS)


@router.get(
    "/sessions/{session_id}/media",
    operation_id="getMedia",
    summary="Get addresses that show a video and its picture without a key",
    responses=responses(401, 404, 422),
)
async def get_media(
    row: OwnSession, deps: Deps, response: Response, kind: KindParam = None, job: JobParam = None
) -> MediaLinks:
    """Return where whoever has the address sees the video, or its picture, for an hour at least.

    For `<video>` and `<img>` in pages of other origins (KODA_ALLOWED_ORIGINS), which bring neither key nor cookie.
    """
    found = await finished_render(deps, row, kind, job)
    grant = MediaGrant(session_id=row.id, user_id=row.user_id, job_id=found.id)
    token, expires_at = MediaSigner(deps.signer.key).sign(grant)
    response.headers["Cache-Control"] = "no-store"
    base = f"{router.prefix}/media/{token}"
    return MediaLinks(job=found.id, video_url=f"{base}/video", thumbnail_url=f"{base}/thumbnail", expires_at=expires_at)


async def _granted(token: _Token, request: Request, deps: Deps) -> AsyncIterator[JobRecord]:
    grant = MediaSigner(deps.signer.key).check(token)
    use = cast(AddressUse, request.app.state.by_address)
    with use.owners.asked(grant.user_id), use.requests.asked(grant.job_id):
        row = await deps.store.get_session(grant.session_id, user_id=grant.user_id)
        yield await finished_render(deps, row, None, grant.job_id)


_Granted = Annotated[JobRecord, Depends(_granted)]


@router.get(
    "/media/{token}/video",
    operation_id="getVideoByAddress",
    summary="Watch or download a video by its address alone",
    response_class=Response,
    responses={**VIDEO_RESPONSES, **responses(403, 404, 416, 422, 429)},
)
@router.head("/media/{token}/video", include_in_schema=False)
async def get_video(job: _Granted, request: Request, deps: Deps, download: Download = False) -> Response:
    """Send the video, or the part that `Range` asks for."""
    shown = video_of(job, f"{job.session_id}-{job.kind}", download=download)
    return _for_anywhere(await blob_response(request, deps.storage, video_key_of(job), shown))


@router.get(
    "/media/{token}/thumbnail",
    operation_id="getThumbnailByAddress",
    summary="See a still picture by its address alone",
    response_class=Response,
    responses={
        200: {"description": "The picture", "content": {"image/jpeg": _BYTES}},
        **responses(403, 404, 422, 429),
    },
)
@router.head("/media/{token}/thumbnail", include_in_schema=False)
async def get_thumbnail(job: _Granted, request: Request, deps: Deps, download: Download = False) -> Response:
    """Send the picture that stands for the video."""
    shown = Representation(
        media_type="image/jpeg", etag=f"{job.id}.jpg", filename=f"{job.session_id}-{job.kind}.jpg", download=download
    )
    return _for_anywhere(await blob_response(request, deps.storage, picture_of(job), shown))


def _for_anywhere(response: Response) -> Response:
    response.headers.update(_ANYWHERE)
    return response
