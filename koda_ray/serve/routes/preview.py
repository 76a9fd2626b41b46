"""An address for the running page: signed, short-lived, and on another origin than this API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from koda_ray.errors import Missing
from koda_ray.serve.context import Deps, OwnSession, User, background_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.problem import responses
from koda_ray.wire import PreviewLink

__all__ = ["MayEdit", "preview_origin", "router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["media"])
MayEdit = Annotated[
    bool, Query(description="An address that may also write: what the studio (`?studio`) changes is saved then")
]


@router.post(
    "/preview",
    operation_id="openPreview",
    summary="See the running page",
    responses=responses(401, 404, 409, 422, 502, 503),
)
async def open_preview(request: Request, row: OwnSession, user: User, deps: Deps, edit: MayEdit = False) -> PreviewLink:
    """Start the session's dev server where it does not run, and return where it can be seen for an hour.

    The page reloads itself as the agents write. Whoever has the address may look at it, in a window of its own; or in
    an iframe of this API's origin, where the preview is on the same host (no KODA_PREVIEW_ORIGIN is set). With `edit`,
    whoever has it may change the project, too.
    """
    origin = preview_origin(request, deps)
    await background_of(request).finish(deps.directory.preview(session_id=row.id, user_id=user))
    token, expires_at = deps.signer.sign(session_id=row.id, user_id=user, edit=edit)
    return PreviewLink(url=f"{origin}/p/{token}/", expires_at=expires_at, edit=edit)


def preview_origin(request: Request, deps: ApiDeps) -> str:
    """Return where pages out of sandboxes are shown.

    Raises:
        Missing: MISSING, nowhere.
    """
    if deps.settings.preview_origin is not None:
        return deps.settings.preview_origin
    if deps.preview_port is None:
        raise Missing("the live preview is turned off on this server; set KODA_PREVIEW_PORT to turn it on")
    return f"{request.url.scheme}://{_host(request)}:{deps.preview_port}"


def _host(request: Request) -> str:
    host = request.url.hostname or "127.0.0.1"
    return f"[{host}]" if ":" in host else host
