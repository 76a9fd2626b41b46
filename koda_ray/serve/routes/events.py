"""A session's events as they happen: server-sent events, and the same over a WebSocket.

``id`` is the event's number. A client that comes back with the last one it saw (``Last-Event-ID``, or ``after``)
misses nothing and gets nothing twice; one that follows some events is told a number to come back with where only
others happened. Where old progress was swept, or a client is too slow for all of it, ``resync`` says so,
under the number to come back with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, suppress
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Header, Path, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.sse import EventSourceResponse, ServerSentEvent

from koda_ray.errors import KodaError
from koda_ray.events import LARGEST_SEQ, Channel, Envelope, EventType, Selection
from koda_ray.serve.context import (
    Deps,
    Following,
    OwnSession,
    SessionId,
    User,
    deps_of,
    streams_of,
    user_of,
    watchers_of,
)
from koda_ray.serve.ending import ended
from koda_ray.serve.problem import problem_of, problem_response, responses
from koda_ray.serve.routes.sessions import session_of
from koda_ray.serve.streams import cursor, session_events

__all__ = ["LastEventId", "Start", "Wanted", "deny", "router", "sse"]

router = APIRouter(tags=["events"])
After = Annotated[int | None, Query(ge=0, le=LARGEST_SEQ, description="Send events with a greater number; 0 for all")]
LastEventId = Annotated[str | None, Header(description="As `after`; sent by clients that come back by themselves")]
_RESTARTING = 1012
_DONE = 1000


async def _start(after: After = None, last_event_id: LastEventId = None) -> int:
    return cursor(last_event_id, after)


async def _wanted(
    channels: Annotated[
        list[Channel] | None,
        Query(description="Only what is on these, and each `resync`; repeatable, all when left out"),
    ] = None,
    types: Annotated[
        list[EventType] | None,
        Query(description="Only events of these types, and each `resync`; repeatable, all when left out"),
    ] = None,
) -> Selection:
    return Selection.named(channels, types)


async def _node_session(node_id: Annotated[str, Path(max_length=64)], user: User, deps: Deps) -> str:
    return (await deps.store.get_session(session_of(node_id), user_id=user)).id


Start = Annotated[int, Depends(_start)]
Wanted = Annotated[Selection, Depends(_wanted)]
NodeSession = Annotated[str, Depends(_node_session)]


@router.get(
    "/v1/sessions/{session_id}/events",
    operation_id="followEvents",
    summary="Follow what happens",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "`id` is the number to come back with, `event` the event's name, `data` an Envelope. "
            "Every event comes once and in order, except that `code_chunk`, `text_chunk`, `render_progress` and "
            "`breakpoint_change` are kept for a day only, and not sent to who is more than a thousand events behind. "
            "Before such a gap comes `resync`: its data says the `reason` (`swept`, `slow`), that `leftOut` of them "
            "after the number `after` are missing, and that from `wholeFrom` on nothing is; read files anew that you "
            "put together from pieces. With the reason `ahead` the log ends before the number you gave: read the "
            "session anew, too. "
            "Where only events that you did not ask for happened, an `id` comes without an event, within "
            "a second: `EventSource` keeps it and calls nobody. "
            "Ends when the session is deleted or the server stops.",
            "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/Envelope"}}},
        },
        **responses(401, 404, 422, 429),
    },
)
async def follow_events(
    request: Request,
    row: OwnSession,
    deps: Deps,
    start: Start,
    following: Following,
    wanted: Wanted,
) -> AsyncIterator[ServerSentEvent]:
    """Send what happened since `after`, then what happens. This wakes nothing; a comment comes every 15 s."""
    events = session_events(deps, watchers_of(request), row.id, after=start, wanted=wanted)
    async for event in await following.enter_async_context(aclosing(events)):
        yield sse(event)


@router.get(
    "/api/nodes/{node_id}/events",
    operation_id="followNodeEvents",
    summary="Follow what happens, by node id",
    response_class=EventSourceResponse,
    responses=responses(401, 404, 422, 429),
)
async def follow_node_events(
    request: Request,
    node_session: NodeSession,
    deps: Deps,
    start: Start,
    following: Following,
    wanted: Wanted,
) -> AsyncIterator[ServerSentEvent]:
    """The same stream under the address that animation nodes use."""
    events = session_events(deps, watchers_of(request), node_session, after=start, wanted=wanted)
    async for event in await following.enter_async_context(aclosing(events)):
        yield sse(event)


@router.websocket("/v1/sessions/{session_id}/ws")
async def follow_socket(
    websocket: WebSocket,
    session_id: SessionId,
    after: After = None,
    last_event_id: LastEventId = None,
    channels: Annotated[list[str] | None, Query()] = None,  # read below: FastAPI would refuse them without a word
    types: Annotated[list[str] | None, Query()] = None,
) -> None:
    """Send ``{"type", "seq", "payload"}`` for each event; what the client says is not read.

    A frame of the type ``cursor`` has nothing but the number to come back with: other events have moved it on.
    """
    deps = deps_of(websocket)
    with ExitStack() as following:
        try:
            user = user_of(websocket)
            row = await deps.store.get_session(session_id, user_id=user)
            start = cursor(last_event_id, after)
            wanted = Selection.named(cast("list[Channel] | None", channels), types)
            following.enter_context(streams_of(websocket).joined(user))
        except KodaError as error:
            await deny(websocket, error)
            return
        await websocket.accept()
        await _follow(websocket, row.id, start, wanted)


async def _follow(websocket: WebSocket, session_id: str, start: int, wanted: Selection) -> None:
    """Send events and listen, until either ends."""
    deps = deps_of(websocket)
    sending = asyncio.create_task(_send(websocket, session_id, start, wanted))
    listening = asyncio.create_task(_listen(websocket))
    try:
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await ended(sending, listening)
    if listening.cancelled():  # the client is still there: say why this ends
        with suppress(WebSocketDisconnect, RuntimeError):
            await websocket.close(_RESTARTING if deps.draining.is_set() else _DONE)
    failed = None if sending.cancelled() else sending.exception()
    if failed is not None and not isinstance(failed, WebSocketDisconnect):
        raise failed


async def _send(websocket: WebSocket, session_id: str, after: int, wanted: Selection) -> None:
    events = session_events(deps_of(websocket), watchers_of(websocket), session_id, after=after, wanted=wanted)
    async with aclosing(events):
        async for event in events:
            await websocket.send_text(_frame(event))


async def _listen(websocket: WebSocket) -> None:
    """Take whatever the client says, text or not, until it hangs up."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


def sse(event: Envelope | int) -> ServerSentEvent:
    """Return an event as it is sent, or a number alone."""
    if isinstance(event, int):
        return ServerSentEvent(id=str(event))
    return ServerSentEvent(id=str(event.seq), event=event.wire_name, raw_data=event.model_dump_json())


def _frame(event: Envelope | int) -> str:
    if isinstance(event, int):
        return f'{{"type":"cursor","seq":{event},"payload":null}}'
    return f'{{"type":"{event.wire_name}","seq":{event.seq},"payload":{event.model_dump_json()}}}'


async def deny(websocket: WebSocket, error: KodaError) -> None:
    """Refuse a connection, with the reason where the server can give one."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        problem = problem_response(
            problem_of(error.status, error.code, detail=error.message, instance=websocket.url.path)
        )
        await websocket.send_denial_response(problem)
    else:
        await websocket.close(4000 + error.status, error.code)
