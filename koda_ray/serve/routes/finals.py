"""A session's final videos, one by one: what nobody needs any more goes, and all else of the session stays.

They are listed with all renders (`GET /v1/renders?session=ID&kind=final`), watched by their jobs, and cancelled as
every render is. A session's state is its process's to write, and goes on naming the final that it was finished with:
whoever shows that looks whether it is there (`listing.lost_finals`, `InboxStore.whole_session`).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from koda_ray.actors.leased_job import OVER
from koda_ray.actors.removal import remove_final
from koda_ray.errors import Conflict, NotFound
from koda_ray.serve.context import Deps, OwnSession, background_of
from koda_ray.serve.problem import responses
from koda_ray.state.records import JobRecord
from koda_ray.types import NodeState

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}/finals", tags=["media"])
_TRIES = 2
_JobId = Annotated[
    str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="The job that made it")
]


@router.delete(
    "/{job_id}",
    operation_id="deleteFinal",
    summary="Delete a final video",
    status_code=204,
    responses=responses(401, 404, 409, 422),
)
async def delete_final(job_id: _JobId, row: OwnSession, deps: Deps, request: Request) -> Response:
    """Remove one final video with its picture and report; links to it show nothing any more. Wakes nobody.

    The session stays as it is, and can render it again; the frames are kept for that for a while. One that is still
    being rendered, or that waits to be rendered on, is to be cancelled or retried first (409). Deleting it again is a
    404.
    """
    none = NotFound(
        f"session {row.id} has no final video {job_id!r}; GET /v1/renders?session={row.id}&kind=final lists them"
    )
    for _ in range(_TRIES):
        try:
            job = await deps.store.get_job(job_id, user_id=row.user_id)
        except NotFound:
            raise none from None
        if job.kind != "final" or job.session_id != row.id:
            raise none
        if why := _still_wanted(job, row.state):
            raise Conflict(f"final video {job.id} {why}", context={"render": job.id, "session": row.id})
        if await background_of(request).finish(remove_final(job, store=deps.store, storage=deps.storage)):
            return Response(status_code=204)
    raise none


def _still_wanted(job: JobRecord, state: NodeState) -> str | None:
    """Say why a final video's job is still needed, and how that is ended; None where it is not."""
    rendered = f"is still being rendered: cancel it first (POST /v1/jobs/{job.id}/cancel)"
    if job.status not in OVER:
        return rendered
    if state.output is None or state.output.job_id != job.id:
        return None
    if state.owes == "render_final":  # between the last frame and its session's word that it is finished
        return rendered
    at = f"/v1/sessions/{state.session_id}"
    if state.paused is not None and state.paused.owes == "render_final":
        return f"waits for more to spend, and is rendered on then: cancel it first (POST {at}/cancel)"
    error = state.error
    if error is not None and error.owes == "render_final":
        again = f"retry it (POST {at}/retry), or " if error.can_retry else ""
        return f"failed, and its session waits to go on with it: {again}say what should be different first"
    return None
