"""A session's past: what was said, its points, and other sessions made at them. None of it wakes anybody."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from pydantic import JsonValue

from koda_ray.actors.timeline import fork_session
from koda_ray.agent.memory import is_summary
from koda_ray.errors import Conflict
from koda_ray.events import LARGEST_SEQ, Envelope
from koda_ray.serve.context import Deps, IdempotencyKey, OwnSession, background_of
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.sessions import created
from koda_ray.state.past import HeadRecord
from koda_ray.state.records import CheckpointRecord, MessageRecord
from koda_ray.wire import Fork, HistoryView, PointView, SaidView, SessionCreated, TalkPage

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"])
_TEXT_CHARS = 200
_TRIES = 5


@router.get(
    "/history", operation_id="getHistory", summary="List where a session can go back to", responses=responses(401, 404)
)
async def history(row: OwnSession, deps: Deps) -> HistoryView:
    """Return the messages, checkpoints and heads of the session, oldest first."""
    messages = [each for each in await deps.store.messages(row.id) if not is_summary(each)]
    pointers = await deps.store.checkpoints(row.id)
    points = [*map(_message, messages), *map(_checkpoint, pointers), *map(_head, await deps.store.heads(row.id))]
    return HistoryView(points=tuple(sorted(points, key=lambda point: point.created_at)))


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


@router.post(
    "/fork",
    operation_id="fork",
    summary="Make another session at a point of this one",
    status_code=202,
    responses=responses(401, 404, 409, 413, 422, 503),
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
    asked: dict[str, JsonValue] = {"fork": row.id, "at": point}

    async def work() -> str:
        for _ in range(_TRIES):
            try:
                return await fork_session(deps.store, row.id, user_id=row.user_id, point=point, key=key, body=asked)
            except Conflict as error:  # the same request, made twice at once
                if not error.retryable:
                    raise
        raise Conflict(f"the key {key!r} is being used by another request; try again", retryable=True)

    return created(await deps.store.get_session(await background_of(request).finish(work())), response)


def _said(event: Envelope) -> SaidView:
    agent = event.data.get("agent")
    return SaidView(
        seq=event.seq,
        id=event.cause_id,
        role="user" if event.data.get("role") == "user" else "assistant",
        agent=agent if isinstance(agent, str) else None,
        content=str(event.data.get("content") or ""),
        at=event.at,
    )


def _message(message: MessageRecord) -> PointView:
    blocks = cast("list[dict[str, JsonValue]]", message.content)
    said = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    said += [f"{block.get('name')}()" for block in blocks if block.get("type") == "tool_use"]
    said += ["(result)" for block in blocks if block.get("type") == "tool_result"]
    return PointView(
        id=message.id,
        kind="message",
        agent=message.agent,
        role=message.role,
        text=_short(" ".join(said)),
        created_at=message.created_at,
    )


def _checkpoint(pointer: CheckpointRecord) -> PointView:
    return PointView(id=pointer.id, kind="checkpoint", text=pointer.trigger, created_at=pointer.created_at)


def _head(head: HeadRecord) -> PointView:
    text = f"left for {head.point}"
    return PointView(id=head.id, kind="head", text=text, undone=head.undone, created_at=head.created_at)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _TEXT_CHARS else f"{words[: _TEXT_CHARS - 1]}…"
