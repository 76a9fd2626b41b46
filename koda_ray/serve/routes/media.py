"""What was made: preview, final video and still picture, with ranges so that players can seek."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from koda_ray.errors import NotFound
from koda_ray.render.formats import FORMATS, Format
from koda_ray.serve.context import Deps, OwnSession
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.media import REDIRECTED, Representation, blob_response
from koda_ray.serve.problem import responses
from koda_ray.state.keys import picture_key, thumbnail_key, video_key
from koda_ray.state.records import JobRecord, SessionRecord
from koda_ray.types import FinalFormat

__all__ = [
    "VIDEO_RESPONSES",
    "Download",
    "JobParam",
    "KindParam",
    "finished_render",
    "picture_of",
    "router",
    "video_key_of",
    "video_of",
]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["media"])
Kind = Literal["preview", "final"] | None
KindParam = Annotated[Kind, Query(description="Else the final video where there is one, or the preview")]
JobParam = Annotated[str | None, Query(max_length=64, description="The result of one render job, whatever came after")]
Download = Annotated[bool, Query(description="Have a browser save it rather than show it")]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="As the tool's result names it")]
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_FORMS = {form.extension: form for name, form in FORMATS.items() if name in get_args(FinalFormat)}
_CONTENT = {form.media_type: _BYTES for form in _FORMS.values()}
VIDEO_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The video", "content": _CONTENT},
    206: {"description": "Some bytes of it", "content": _CONTENT},
    304: {"description": "You have it already"},
}
"""What a route's description says of a session's video, whatever its format is."""


class _WhichVideo(BaseModel):
    kind: KindParam = None
    job: JobParam = None
    download: Download = False
    here: bool = Field(False, description="Have it sent from here, however large it is, and not from its bucket")


@router.get(
    "/video",
    operation_id="getVideo",
    summary="Watch or download the video",
    response_class=Response,
    responses={**VIDEO_RESPONSES, **REDIRECTED, **responses(401, 404, 416, 422)},
)
@router.head("/video", include_in_schema=False)
async def video(request: Request, row: OwnSession, deps: Deps, asked: Annotated[_WhichVideo, Query()]) -> Response:
    """Send the video, or the part that `Range` asks for."""
    found = await finished_render(deps, row, asked.kind, asked.job)
    shown = replace(
        video_of(found, f"{row.id}-{found.kind}", download=asked.download),
        redirects=deps.settings.redirects_to_bucket and not asked.here,
    )
    try:
        return await blob_response(request, deps.storage, video_key_of(found), shown)
    except NotFound as error:
        raise _deleted(row, f"the {found.kind} video of session {row.id} that job {found.id} made") from error


@router.get(
    "/thumbnail",
    operation_id="getThumbnail",
    summary="See a still picture",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/jpeg": _BYTES}}, **responses(401, 404, 422)},
)
@router.head("/thumbnail", include_in_schema=False)
async def thumbnail(
    request: Request,
    row: OwnSession,
    deps: Deps,
    kind: KindParam = None,
    job: JobParam = None,
    download: Download = False,
) -> Response:
    """Send the picture that stands for the video."""
    found = await finished_render(deps, row, kind, job, file_of=picture_of)
    shown = Representation(
        media_type="image/jpeg", etag=f"{found.id}.jpg", filename=f"{row.id}-{found.kind}.jpg", download=download
    )
    return await blob_response(request, deps.storage, picture_of(found), shown)


@router.get(
    "/pictures/{digest}",
    operation_id="getPicture",
    summary="See a picture of the page that an agent took",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/png": _BYTES}}, **responses(401, 404, 422)},
)
@router.head("/pictures/{digest}", include_in_schema=False)
async def picture(request: Request, row: OwnSession, deps: Deps, digest: Digest) -> Response:
    """Send the picture that `sandbox_screenshot` stored."""
    return await blob_response(
        request,
        deps.storage,
        picture_key(row.user_id, row.project_id, row.id, digest),
        Representation(
            media_type="image/png", etag=f"{digest}.png", filename=f"{row.id}-{digest[:8]}.png", download=False
        ),
    )


async def finished_render(
    deps: ApiDeps,
    row: SessionRecord,
    kind: Kind,
    job_id: str | None,
    *,
    file_of: Callable[[JobRecord], str] | None = None,
) -> JobRecord:
    """Find the render that is meant: a job by its id, else the newest video of the kind that is there.

    ``file_of`` says which file of a preview has to be there still; the video where it is left out.
    """
    if job_id is not None:
        job = await deps.store.get_job(job_id, user_id=row.user_id)
    else:
        job = await _shown(deps, row, kind, file_of or video_key_of)
    if job is not None and job.session_id != row.id:
        raise NotFound(f"session {row.id} has no render job {job_id!r}")
    if job is not None and job.status == "succeeded":
        return job
    if job is None and kind != "preview" and _final_of(row) is not None:
        raise _deleted(row, f"the final video of session {row.id}")
    if job is None and row.state.preview is not None:
        raise _deleted(row, f"the preview of session {row.id}")
    what = "video" if kind is None else f"{kind} video"
    under_way = f", {row.owes} is under way" if row.owes else ""
    raise NotFound(
        f"session {row.id} has no {what} yet (phase {row.state.phase}{under_way}); follow its events, or ask for "
        "kind=preview once a preview is ready",
        code="VIDEO_NOT_READY",
        context={"phase": row.state.phase, "owes": row.owes},
        retryable=row.owes is not None,
    )


def _deleted(row: SessionRecord, what: str) -> NotFound:
    return NotFound(
        f"{what} was deleted; render it again (POST /v1/sessions/{row.id}/render, or: koda final {row.id}), or name "
        f"another one by its job (GET /v1/renders?session={row.id}&kind=final)",
        code="VIDEO_DELETED",
        context={"phase": row.state.phase},
    )


async def _shown(
    deps: ApiDeps, row: SessionRecord, kind: Kind, file_of: Callable[[JobRecord], str]
) -> JobRecord | None:
    """Find what a session shows: its final video, and where that was deleted, or there is none, its preview.

    A preview's video goes some time after there is a final one, and its row stays.
    """
    final = None if kind == "preview" else _final_of(row)
    if final is not None:
        with suppress(NotFound):
            return await deps.store.get_job(final, user_id=row.user_id)
    if kind == "final" or row.state.preview is None:
        return None
    with suppress(NotFound):
        job = await deps.store.get_job(row.state.preview.job_id, user_id=row.user_id)
        return job if job.status != "succeeded" or await deps.storage.exists(file_of(job)) else None
    return None


def _final_of(row: SessionRecord) -> str | None:
    """Return which job made the final video that a session was finished with."""
    output = row.state.output
    return None if output is None or output.video_url is None else output.job_id


def video_of(job: JobRecord, name: str, *, download: bool = False) -> Representation:
    """Say what a finished render's video is sent as; ``name`` is its file's, without the ending."""
    form = _form(job)
    return Representation(
        media_type=form.media_type,
        etag=f"{job.id}.{form.extension}",
        filename=f"{name}.{form.extension}",
        download=download,
    )


def picture_of(job: JobRecord) -> str:
    """Return where the picture lies that stands for a finished render's video."""
    return _key(job, "thumbnailKey") or thumbnail_key(job.user_id, job.id)


def video_key_of(job: JobRecord) -> str:
    """Return where a finished render's video lies."""
    return _key(job, "videoKey") or video_key(job.user_id, job.id, _form(job).extension)


def _form(job: JobRecord) -> Format:
    """Return what the job's video is: its row names the key that it was stored under."""
    return _FORMS.get((_key(job, "videoKey") or "").rpartition(".")[2], FORMATS["mp4"])


def _key(job: JobRecord, name: str) -> str | None:
    """Read where a result lies: in a session made of another one, where that one's lies."""
    key = (job.result or {}).get(name)
    return key if isinstance(key, str) else None
