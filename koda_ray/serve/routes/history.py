"""A session's past: what was said and looked at, its points, and other sessions made of it. It wakes nobody."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from koda_ray.agent.memory import is_summary
from koda_ray.errors import Conflict
from koda_ray.events import LARGEST_SEQ, Envelope
from koda_ray.serve.context import Deps, IdempotencyKey, OwnSession, background_of
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.sessions import created
from koda_ray.serve.views import cursor_of, read_cursor
from koda_ray.state.past import PointRecord
from koda_ray.wire import (
    Fork,
    HistoryView,
    PicturePage,
    PictureView,
    PointView,
    SaidView,
    SessionCreated,
    TalkPage,
)

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"])
_TRIES = 5


@router.get(
    "/history",
    operation_id="getHistory",
    summary="List where a session can go back to, newest first",
    responses=responses(401, 404, 422),
)
async def history(
    row: OwnSession,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Points in a page")] = 50,
    before: Annotated[str | None, Query(max_length=96, description="`next` of the page before")] = None,
) -> HistoryView:
    """Return messages, checkpoints and heads; ask again with `before` set to `next` until `next` is null."""
    cursor = None if before is None else read_cursor(before)
    return _page(await deps.store.points(row.id, limit=limit + 1, before=cursor), limit)


@router.get(
    "/messages",
    operation_id="listMessages",
    summary="Read what was said, newest first",
    responses=responses(401, 404, 422),
)
async def messages(
    row: OwnSession,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Messages in a page")] = 50,
    before: Annotated[int | None, Query(ge=0, le=LARGEST_SEQ, description="`next` of the page before")] = None,
) -> TalkPage:
    """Return what the person and the agents said to each other, without what was taken back since.

    The first prompt stands in the session's state. To go on from here, follow `seq` of the state that was read before.
    """
    said = await deps.store.said(row.id, before=before, limit=limit + 1)
    page = tuple(_said(event) for event in said[:limit])
    return TalkPage(messages=page, next=page[-1].seq if len(said) > limit else None)


@router.get(
    "/pictures",
    operation_id="listPictures",
    summary="List the pictures that agents took, newest first",
    responses=responses(401, 404, 422),
)
async def pictures(
    row: OwnSession,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Pictures in a page")] = 50,
    before: Annotated[int | None, Query(ge=0, le=LARGEST_SEQ, description="`next` of the page before")] = None,
) -> PicturePage:
    """Return what agents looked at while they worked, without what was taken back since.

    Their numbers are of one row with those of what was said. A session has those of its own agents: what was made of
    another one begins with none.
    """
    taken = await deps.store.pictured(row.id, before=before, limit=limit + 1)
    page = tuple(_picture(event) for event in taken[:limit])
    return PicturePage(pictures=page, next=page[-1].seq if len(taken) > limit else None)


@router.post(
    "/fork",
    operation_id="fork",
    summary="Make another session at a point of this one",
    status_code=202,
    responses=responses(401, 404, 409, 413, 422, 429, 503),
)
async def fork(
    row: OwnSession,
    key: IdempotencyKey,
    deps: Deps,
    request: Request,
    response: Response,
    body: Fork | None = None,
) -> SessionCreated:
    """Make a session with the messages, files, plan, todos and video of then, which waits for you.

    No file is stored twice, and this session is not changed, whatever it is doing.
    """
    point = body.at if body else None

    async def work() -> str:
        for _ in range(_TRIES):
            try:
                return await deps.directory.fork(session_id=row.id, user_id=row.user_id, point=point, key=key)
            except Conflict as error:  # the same request, made twice at once
                if not error.retryable:
                    raise
        raise Conflict(f"the key {key!r} is being used by another request; try again", retryable=True)

    return created(await deps.store.get_session(await background_of(request).finish(work())), response)


def _page(points: list[PointRecord], limit: int) -> HistoryView:
    """Show the first ``limit`` of some points; one more than that says that there is another page."""
    page = points[:limit]
    cursor = cursor_of(page[-1]) if len(points) > limit else None
    return HistoryView(points=tuple(_point(each) for each in page if not is_summary(each)), next=cursor)


def _point(point: PointRecord) -> PointView:
    return PointView(
        id=point.id,
        kind=point.kind,
        agent=point.agent or None,
        role=point.role or None,
        text=f"left for {point.text}" if point.kind == "head" else point.text,
        undone=point.undone,
        created_at=point.created_at,
    )


def _picture(event: Envelope) -> PictureView:
    names = ("url", "atS", "widthPx", "heightPx", "agent")
    return PictureView.model_validate(
        {**{name: event.data.get(name) for name in names}, "seq": event.seq, "at": event.at}
    )


def _said(event: Envelope) -> SaidView:
    agent, asked = event.data.get("agent"), event.data.get("asked")
    return SaidView(
        seq=event.seq,
        id=event.cause_id,
        role="user" if event.data.get("role") == "user" else "assistant",
        agent=agent if isinstance(agent, str) else None,
        content=str(event.data.get("content") or ""),
        asked=asked if isinstance(asked, str) else None,
        at=event.at,
    )
