"""Render jobs, as their rows say: of sessions and of pages, read, cancelled and made again in one way."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import JsonValue

from koda_ray.actors.leased_job import OVER
from koda_ray.errors import InvalidTransition
from koda_ray.serve.again import final_again, page_again
from koda_ray.serve.context import Deps, Following, IdempotencyKey, OwnSession, User, background_of
from koda_ray.serve.footage import Footage, check_watchable
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.commands import Submit
from koda_ray.serve.turns import wake_in_turn
from koda_ray.serve.views import cursor_of, read_cursor
from koda_ray.state.records import JobRecord
from koda_ray.wire import CommandName, JobPage, JobView, RenderedAgain

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["jobs"])
_AGAIN = ("retry", "render")


async def _own_job(
    job_id: Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A job's id")],
    user: User,
    deps: Deps,
) -> JobRecord:
    return await deps.store.get_job(job_id, user_id=user)


OwnJob = Annotated[JobRecord, Depends(_own_job)]


@router.get("/jobs/{job_id}", operation_id="getJob", summary="Read a render job", responses=responses(401, 404, 422))
async def get_job(job: OwnJob) -> JobView:
    """Return its status, progress and result."""
    return _view(job)


@router.get(
    "/jobs/{job_id}/footage",
    operation_id="watchJob",
    summary="Watch a video while it is rendered",
    response_class=Response,
    responses={
        200: {
            "description": "A fragmented mp4 without sound that grows until the last frame is there",
            "content": {"video/mp4": {"schema": {"type": "string", "format": "binary"}}},
        },
        307: {"description": "It is finished: `Location` is the video"},
        **responses(401, 404, 409, 422, 429),
    },
)
async def watch_job(job: OwnJob, deps: Deps, following: Following, request: Request) -> Response:
    """Send what stands of the video without a gap from its beginning, then the rest as it is rendered.

    Of an mp4; `watchableS` of its progress says how many seconds stand. What is sent ends early where the job does.
    """
    if job.status == "succeeded":
        base = f"/v1/renders/{job.id}/video" if job.session_id is None else f"/v1/sessions/{job.session_id}/video"
        return RedirectResponse(base if job.session_id is None else f"{base}?job={job.id}")
    check_watchable(job)
    footage = cast(Footage, request.app.state.footage)
    sent = await following.enter_async_context(aclosing(footage.follow(deps, job)))
    return StreamingResponse(
        sent, media_type="video/mp4", headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    )


@router.post(
    "/jobs/{job_id}/cancel",
    operation_id="cancelJob",
    summary="Cancel a render job, a session's or a page's",
    status_code=202,
    responses=responses(401, 404, 409, 422, 429, 503),
)
async def cancel_job(job: OwnJob, user: User, deps: Deps, request: Request, key: IdempotencyKey, to: Submit) -> JobView:
    """End it; one that is over stays as it is.

    A session goes back to what it was before: from its final video to the preview, from a preview, which its agents
    make, to what there was before they began. Where it does something else by now, that goes on (409). Where it does
    nothing, whoever rendered is gone, and the render alone is ended.
    """
    if job.status in OVER:
        return _view(job)
    if job.session_id is None:
        ended = deps.directory.cancel_render(job.id, user_id=user)
        return _view(await background_of(request).finish(ended))
    only: dict[str, JsonValue] = {"owes": "execute"}
    if job.kind == "final":
        only = {"owes": "render_final", "jobId": job.id}
    try:
        await to(job.session_id, user, "cancel", only, key)
    except InvalidTransition:
        ended = await background_of(request).finish(deps.store.cancel_job(job.id, user_id=user))
        if ended.status not in OVER:
            raise
        return _view(ended)
    return _view(await deps.store.get_job(job.id, user_id=user))


@router.post(
    "/jobs/{job_id}/again",
    operation_id="renderAgain",
    summary="Render once more what was rendered, in the same way",
    status_code=202,
    responses=responses(401, 404, 409, 422, 429, 503),
)
async def render_again(
    job: OwnJob, user: User, deps: Deps, request: Request, key: IdempotencyKey, to: Submit
) -> RenderedAgain:
    """Make a page's video again, of a batch that row's; or have a session render its final video again.

    A session takes that while it shows what the video was made of. What was stored of the frames is not captured again.
    """
    if job.session_id is None:
        made = await page_again(deps, job, key)
        if made.status not in OVER:
            background_of(request).spawn(wake_in_turn(deps, [made]), what="wake a render")
        return RenderedAgain(job_id=made.id)
    row = await deps.store.get_session(job.session_id, user_id=user)
    known = await deps.store.find_command(row.id, key)
    if known is not None and known.name in _AGAIN:
        await to(row.id, user, cast("CommandName", known.name), known.body, key)
    else:
        await to(row.id, user, *final_again(row.state, job), key)
    state = (await deps.store.get_session(row.id, user_id=user)).state
    begun = state.output.job_id if state.output is not None and state.owes == "render_final" else None
    return RenderedAgain(job_id=begun, session_id=row.id)


@router.get(
    "/sessions/{session_id}/jobs",
    operation_id="listJobs",
    summary="List a session's render jobs, newest first",
    responses=responses(401, 404, 422),
)
async def list_jobs(
    row: OwnSession,
    user: User,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Jobs in a page")] = 50,
    before: Annotated[str | None, Query(max_length=96, description="`next` of the page before")] = None,
) -> JobPage:
    """Return previews and finals alike; ask again with `before` set to `next` until `next` is null."""
    cursor = None if before is None else read_cursor(before)
    jobs = await deps.store.list_jobs(session_id=row.id, user_id=user, limit=limit + 1, before=cursor)
    page = jobs[:limit]
    return JobPage(jobs=tuple(map(_view, page)), next=cursor_of(page[-1]) if len(jobs) > limit else None)


def _view(job: JobRecord) -> JobView:
    return JobView(
        id=job.id,
        session_id=job.session_id,
        project_id=job.project_id,
        kind=job.kind,
        status=job.status,
        spec=job.spec,
        progress=job.progress,
        result=job.result,
        error=job.error,
        created_at=job.created_at,
        updated_at=job.updated_at,
    )
