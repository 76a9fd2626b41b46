"""An address for a session's running page, and pictures of it."""

from __future__ import annotations

from fastapi import APIRouter, Request

from koda_ray.serve.context import Deps, OwnSession, User, background_of
from koda_ray.serve.links import Links, MayEdit
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import may_wake
from koda_ray.wire import PreviewLink, StillView, TakeStill

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["media"])
_USUAL_PX = (1920, 1080)


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
    an iframe of this API's origin, where the preview is on the same host (no KODA_PREVIEW_ORIGIN is set), or of an
    origin that KODA_ALLOWED_ORIGINS names. With `edit`, whoever has it may change the project, too.
    """
    await may_wake(deps, row)
    await background_of(request).finish(deps.directory.preview(session_id=row.id, user_id=user))
    return links.to(row.id, edit=edit)


@router.post(
    "/stills",
    operation_id="takeStill",
    summary="Take a picture of the page at a time",
    responses=responses(401, 404, 409, 413, 422, 429, 502, 503),
)
async def take_still(request: Request, row: OwnSession, user: User, deps: Deps, asked: TakeStill) -> StillView:
    """Have the very frame pictured that a render of the files as they are now would show; it is kept with the session.

    The page is built where it has changed, and moved to that time, in the session's sandbox.
    """
    await may_wake(deps, row)
    plan = row.state.plan
    width, height = (plan.width, plan.height) if plan is not None else _USUAL_PX
    made = await background_of(request).finish(
        deps.directory.picture(
            session_id=row.id,
            user_id=user,
            at_s=asked.at_s,
            size=(asked.width_px or width, asked.height_px or height),
        )
    )
    return StillView(url=made.url, at_s=made.at_s, duration_s=made.duration_s)
