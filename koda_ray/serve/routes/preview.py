"""An address for a session's running page."""

from __future__ import annotations

from fastapi import APIRouter, Request

from koda_ray.serve.context import Deps, OwnSession, User, background_of
from koda_ray.serve.links import Links, MayEdit
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import may_wake
from koda_ray.wire import PreviewLink

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["media"])


@router.post(
    "/preview",
    operation_id="openPreview",
    summary="See the running page",
    responses=responses(401, 404, 409, 422, 429, 502, 503),
)
async def open_preview(
    request: Request, row: OwnSession, user: User, deps: Deps, links: Links, edit: MayEdit = False
) -> PreviewLink:
    """Start the session's dev server where it does not run, and return where it can be seen for an hour.

    The page reloads itself as the agents write. Whoever has the address may look at it, in a window of its own; or in
    an iframe of this API's origin, where the preview is on the same host (no KODA_PREVIEW_ORIGIN is set). With `edit`,
    whoever has it may change the project, too.
    """
    await may_wake(deps, row)
    await background_of(request).finish(deps.directory.preview(session_id=row.id, user_id=user))
    return links.to(row.id, edit=edit)
