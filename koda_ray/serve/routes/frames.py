"""Frames of a video as pictures: one of them, or many small ones in a grid, of sessions' renders and of pages' alike.

They are decoded from the finished video, and nothing is kept of them here: whoever has one asks whether it still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from koda_ray.actors.leased_job import OVER
from koda_ray.errors import NotFound
from koda_ray.render.spec import RenderSpec
from koda_ray.render.stills import frame_of_video, make_sprite
from koda_ray.serve.context import Deps, OwnSession, User
from koda_ray.serve.decoding import DecodingTurns, as_file
from koda_ray.serve.media import matches_tag
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.media import video_key_of
from koda_ray.serve.routes.renders import OwnRender
from koda_ray.serve.views import spec_of
from koda_ray.state.records import JobRecord

__all__ = ["MOST_WAITING", "router"]

MOST_WAITING = 8
"""How many pictures of one user are made and wait."""
_RECIPE = 1
"""Counts how a picture is made of a video: another one is not what somebody has."""
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture", "content": {"image/jpeg": _BYTES}},
    304: {"description": "You have it already"},
    **responses(401, 404, 422, 429, 500, 503),
}

router = APIRouter(prefix="/v1", tags=["media"])
_Frame = Annotated[int, Path(ge=0, description="Which frame, from 0: it is shown at its number / fps seconds")]
_Width = Annotated[int, Query(alias="w", ge=16, le=1920, description="Pixels; the video's own where that is less")]
_Count = Annotated[int, Query(ge=1, le=100, description="How many frames")]
_CellWidth = Annotated[
    int, Query(alias="w", ge=16, le=320, description="Of each in pixels; less where it would be higher than 640")
]


async def _session_job(
    job_id: Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A job's id")],
    row: OwnSession,
    deps: Deps,
) -> JobRecord:
    with suppress(NotFound):
        job = await deps.store.get_job(job_id, user_id=row.user_id)
        if job.session_id == row.id:
            return job
    raise NotFound(f"session {row.id} has no render job {job_id!r}; GET .../jobs lists them")


_SessionJob = Annotated[JobRecord, Depends(_session_job)]


class _Pictures:
    """Makes pictures of the videos that a request may see, in turns."""

    def __init__(self, request: Request, user: User, deps: Deps) -> None:
        self._request = request
        self._user = user
        self._deps = deps

    async def frame(self, job: JobRecord, frame: int, width: int) -> Response:
        """Send a frame of a finished video.

        Raises:
            NotFound: The video has no such frame, or is not finished.
            InvalidInput: It is too long or too large for that.
        """
        spec, key = _finished(job)
        if frame >= spec.frame_count:
            raise NotFound(
                f"render {job.id} has no frame {frame}: it has {spec.frame_count}, 0 to {spec.frame_count - 1}"
            )
        make = partial(frame_of_video, spec, frame=frame, width=width)
        return await self._sent(f"{job.id}-{frame}-{width}", key, make)

    async def sprite(self, job: JobRecord, count: int, width: int) -> Response:
        """Send frames of a finished video in a grid. Raises as `frame` does."""
        spec, key = _finished(job)
        return await self._sent(
            f"{job.id}-sprite-{count}-{width}", key, partial(make_sprite, spec, count=count, width=width)
        )

    async def _sent(self, name: str, key: str, make: Callable[[FilePath], Coroutine[Any, Any, bytes]]) -> Response:
        await self._deps.storage.size(key)  # what is not there any more is not what somebody has
        tag = f'"{name}.v{_RECIPE}"'
        headers = {
            "ETag": tag,
            "Cache-Control": "private, max-age=0, must-revalidate",
            "Content-Disposition": f'inline; filename="{name}.jpg"',
            "X-Content-Type-Options": "nosniff",
        }
        if matches_tag(self._request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers=headers)
        turns = cast(DecodingTurns, self._request.app.state.pictures)
        async with turns.place(self._user) as turn, as_file(self._deps.storage, key) as path, turn:
            return Response(await make(path), media_type="image/jpeg", headers=headers)


async def _pictures(request: Request, user: User, deps: Deps) -> _Pictures:
    return _Pictures(request, user, deps)


_Making = Annotated[_Pictures, Depends(_pictures)]


@router.get(
    "/sessions/{session_id}/jobs/{job_id}/frames/{frame}.jpg",
    operation_id="getFrame",
    summary="See a frame of a video",
    response_class=Response,
    responses=_SENT,
)
async def get_frame(job: _SessionJob, frame: _Frame, making: _Making, width: _Width = 640) -> Response:
    """Send a frame of a finished preview or final; what is transparent in it is grey.

    Of a gif and a transparent webm, which are decoded from their beginning, up to a minute's length.
    """
    return await making.frame(job, frame, width)


@router.get(
    "/sessions/{session_id}/jobs/{job_id}/sprite.jpg",
    operation_id="getSprite",
    summary="See many frames of a video in one picture",
    response_class=Response,
    responses=_SENT,
)
async def get_sprite(job: _SessionJob, making: _Making, count: _Count = 50, width: _CellWidth = 160) -> Response:
    """Send small frames of a finished preview or final, to look through them: ten in a row, in order, without gaps.

    They are spread evenly over the video; where it has fewer, each is there. What has to be decoded as a whole
    (a mov, a webm, a gif, and where more frames are asked for than it has seconds) lasts a minute at most.
    """
    return await making.sprite(job, count, width)


@router.get(
    "/renders/{job_id}/frames/{frame}.jpg",
    operation_id="getRenderFrame",
    summary="See a frame of a render",
    response_class=Response,
    responses=_SENT,
)
async def get_render_frame(job: OwnRender, frame: _Frame, making: _Making, width: _Width = 640) -> Response:
    """Send a frame of a page's video, as of a session's."""
    return await making.frame(job, frame, width)


@router.get(
    "/renders/{job_id}/sprite.jpg",
    operation_id="getRenderSprite",
    summary="See many frames of a render in one picture",
    response_class=Response,
    responses=_SENT,
)
async def get_render_sprite(job: OwnRender, making: _Making, count: _Count = 50, width: _CellWidth = 160) -> Response:
    """Send small frames of a page's finished video, as of a session's."""
    return await making.sprite(job, count, width)


def _finished(job: JobRecord) -> tuple[RenderSpec, str]:
    """Return what a job made, and where that lies. Raises NotFound while there is none."""
    spec = spec_of(job)
    if spec is None or job.status != "succeeded":
        raise _not_yet(job)
    return spec, video_key_of(job)


def _not_yet(job: JobRecord) -> NotFound:
    way_out = "follow its events until it has succeeded" if job.status not in OVER else "render it again"
    return NotFound(
        f"render {job.id} has no such picture (it is {job.status}); {way_out}",
        code="VIDEO_NOT_READY",
        context={"status": job.status},
        retryable=job.status not in OVER,
    )
