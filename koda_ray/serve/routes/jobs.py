"""Render jobs, as their rows say."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from koda_ray.serve.context import Deps, OwnSession, User
from koda_ray.serve.problem import responses
from koda_ray.serve.views import place_of, read_place
from koda_ray.state.records import JobRecord
from koda_ray.wire import JobPage, JobView

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["jobs"])


@router.get("/jobs/{job_id}", operation_id="getJob", summary="Read a render job", responses=responses(401, 404, 422))
async def get_job(
    job_id: Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")], user: User, deps: Deps
) -> JobView:
    """Return its status, progress and result."""
    return _view(await deps.store.get_job(job_id, user_id=user))


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
    place = None if before is None else read_place(before)
    jobs = await deps.store.list_jobs(session_id=row.id, user_id=user, limit=limit + 1, before=place)
    page = jobs[:limit]
    return JobPage(jobs=tuple(map(_view, page)), next=place_of(page[-1]) if len(jobs) > limit else None)


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
