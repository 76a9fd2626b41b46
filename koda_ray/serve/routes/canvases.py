"""A user's canvases: listed, read, kept and deleted. None of it wakes anybody, and no session goes with one."""

from __future__ import annotations

import json
import re
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import JsonValue

from koda_ray.errors import InvalidInput
from koda_ray.serve.context import Deps, User
from koda_ray.serve.problem import responses
from koda_ray.state.canvases import CanvasHead, CanvasRecord
from koda_ray.types import now
from koda_ray.wire import MAX_CANVAS_BYTES, MAX_CANVASES, CanvasList, CanvasSummary, CanvasView, PutCanvas

__all__ = ["router"]

router = APIRouter(prefix="/v1/canvases", tags=["canvases"])
_CanvasId = Annotated[
    str,
    Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A canvas's id, which its maker chose"),
]

_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")


@router.get("", operation_id="listCanvases", summary="List your canvases", responses=responses(401))
async def list_canvases(user: User, deps: Deps) -> CanvasList:
    """Return what is to be known of each without reading it, changed last first."""
    return CanvasList(canvases=tuple(_summary(each) for each in await deps.store.canvases(user)))


@router.get("/{canvas_id}", operation_id="getCanvas", summary="Read a canvas", responses=responses(401, 404, 422))
async def get_canvas(canvas_id: _CanvasId, user: User, deps: Deps) -> CanvasView:
    """Return its nodes, how they are connected, and its version, which a change of it is to name."""
    found = await deps.store.canvas(user, canvas_id)
    kept = {"version": found.version, "created_at": found.created_at, "changed_at": found.changed_at}
    return CanvasView.model_validate({"id": found.id, "name": found.name, **kept, **dict(_parts(found.layout))})


@router.put(
    "/{canvas_id}",
    operation_id="putCanvas",
    summary="Make a canvas, or change it",
    responses=responses(401, 404, 409, 413, 422, 429),
)
async def put_canvas(canvas_id: _CanvasId, body: PutCanvas, user: User, deps: Deps) -> CanvasSummary:
    """Keep a canvas as a whole, under an id that you choose.

    A change names the `version` that was changed: where it was changed elsewhere meanwhile, it is refused with 409, and
    `context.version` is the one that there is. The same sent again, since its answer was lost, is answered as before.
    """
    layout = body.model_dump(mode="json", by_alias=True, include={"nodes", "edges", "view"})
    size = len(json.dumps(layout, separators=(",", ":")))
    if size > MAX_CANVAS_BYTES:
        raise InvalidInput(
            f"this canvas has {size} bytes, of {MAX_CANVAS_BYTES} that one may have: take nodes away, or shorten what "
            "is written in them",
            context={"field": "nodes", "bytes": size, "limit": MAX_CANVAS_BYTES},
        )
    at = now()
    canvas = CanvasRecord(
        user_id=user,
        id=canvas_id,
        version=1,
        name=body.name,
        node_count=len(body.nodes),
        session_ids=_shown(body),
        layout=layout,
        created_at=at,
        changed_at=at,
    )
    return _summary(await deps.store.put_canvas(canvas, expected=body.version, most=MAX_CANVASES))


@router.delete(
    "/{canvas_id}",
    operation_id="deleteCanvas",
    summary="Delete a canvas",
    status_code=204,
    responses=responses(401, 404, 422),
)
async def delete_canvas(canvas_id: _CanvasId, user: User, deps: Deps) -> Response:
    """Remove it for good. The sessions on it stay."""
    await deps.store.remove_canvas(user, canvas_id)
    return Response(status_code=204)


def _shown(body: PutCanvas) -> list[JsonValue]:
    """Return the sessions that its nodes show, each once: what else is said to be one is none."""
    said = (each.data.get("sessionId") for each in body.nodes)
    return list(dict.fromkeys(each for each in said if isinstance(each, str) and _SESSION.fullmatch(each)))


def _summary(canvas: CanvasHead) -> CanvasSummary:
    return CanvasSummary(
        id=canvas.id,
        version=canvas.version,
        name=canvas.name,
        node_count=canvas.node_count,
        session_ids=tuple(str(each) for each in canvas.session_ids),
        created_at=canvas.created_at,
        changed_at=canvas.changed_at,
    )


def _parts(layout: JsonValue) -> dict[str, JsonValue]:
    return layout if isinstance(layout, dict) else {}
