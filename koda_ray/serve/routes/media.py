"""What was made: preview, final video and still picture, with ranges so that players can seek."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from koda_ray.errors import NotFound
from koda_ray.serve.context import Deps, OwnSession
from koda_ray.serve.media import blob_response
from koda_ray.serve.problem import responses
from koda_ray.state.storage import thumbnail_key, video_key
from koda_ray.state.store import SessionRecord

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["media"])
Kind = Annotated[
    Literal["preview", "final"] | None, Query(description="Else the final video where there is one, or the preview")
]
Download = Annotated[bool, Query(description="Have a browser save it rather than show it")]
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_RANGED = {
    206: {"description": "Some bytes of it", "content": {"video/mp4": _BYTES, "video/webm": _BYTES}},
    304: {"description": "You have it already"},
    **responses(401, 404, 416, 422),
}


@router.get(
    "/video",
    operation_id="getVideo",
    summary="Watch or download the video",
    response_class=Response,
    responses={200: {"description": "The video", "content": {"video/mp4": _BYTES, "video/webm": _BYTES}}, **_RANGED},
)
@router.head("/video", include_in_schema=False)
async def video(
    request: Request, row: OwnSession, deps: Deps, kind: Kind = None, download: Download = False
) -> Response:
    """Send the video, or the part that `Range` asks for."""
    job_id, found = _job(row, kind)
    extension = row.state.render.format if found == "final" and row.state.render else "mp4"
    return await blob_response(
        request,
        deps.storage,
        video_key(row.user_id, job_id, extension),
        media_type=f"video/{extension}",
        etag=f"{job_id}.{extension}",
        filename=f"{row.id}-{found}.{extension}",
        download=download,
    )


@router.get(
    "/thumbnail",
    operation_id="getThumbnail",
    summary="See a still picture",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/jpeg": _BYTES}}, **responses(401, 404, 422)},
)
@router.head("/thumbnail", include_in_schema=False)
async def thumbnail(
    request: Request, row: OwnSession, deps: Deps, kind: Kind = None, download: Download = False
) -> Response:
    """Send the picture that stands for the video."""
    job_id, found = _job(row, kind)
    return await blob_response(
        request,
        deps.storage,
        thumbnail_key(row.user_id, job_id),
        media_type="image/jpeg",
        etag=f"{job_id}.jpg",
        filename=f"{row.id}-{found}.jpg",
        download=download,
    )


def _job(row: SessionRecord, kind: Literal["preview", "final"] | None) -> tuple[str, Literal["preview", "final"]]:
    output, preview = row.state.output, row.state.preview
    if kind != "preview" and output is not None and output.video_url is not None:
        return output.job_id, "final"
    if kind != "final" and preview is not None:
        return preview.job_id, "preview"
    what = "video" if kind is None else f"{kind} video"
    under_way = f", {row.owes} is under way" if row.owes else ""
    raise NotFound(
        f"session {row.id} has no {what} yet (phase {row.state.phase}{under_way}); follow its events, or ask for "
        "kind=preview once a preview is ready",
        code="VIDEO_NOT_READY",
        context={"phase": row.state.phase, "owes": row.owes},
        retryable=row.owes is not None,
    )
