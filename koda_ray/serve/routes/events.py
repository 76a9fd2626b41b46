"""A session's events as they happen: server-sent events, and the same over a WebSocket.

``id`` is the event's number. A client that comes back with the last one it saw (``Last-Event-ID``, or ``after``)
misses nothing and gets nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.sse import EventSourceResponse, ServerSentEvent

from koda_ray.errors import KodaError
from koda_ray.events import Envelope
from koda_ray.serve.context import Deps, OwnSession, SessionId, User, deps_of, watchers_of
from koda_ray.serve.problem import problem_response, responses
from koda_ray.serve.routes.sessions import session_of
from koda_ray.serve.streams import cursor, session_events

__all__ = ["Start", "router", "sse"]

router = APIRouter(tags=["events"])
After = Annotated[int | None, Query(ge=0, description="Send events with a greater number; 0 for all")]
LastEventId = Annotated[str | None, Header(description="As `after`; sent by clients that come back by themselves")]
_RESTARTING = 1012
_DONE = 1000


def _start(after: After = None, last_event_id: LastEventId = None) -> int:
    return cursor(last_event_id, after)


async def _node_session(node_id: Annotated[str, Path(max_length=64)], user: User, deps: Deps) -> str:
    return (await deps.store.get_session(session_of(node_id), user_id=user)).id


Start = Annotated[int, Depends(_start)]
NodeSession = Annotated[str, Depends(_node_session)]


@router.get(
    "/v1/sessions/{session_id}/events",
    operation_id="followEvents",
    summary="Follow what happens",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "`id` is the number to come back with, `event` the event's name, `data` an Envelope. "
            "Ends when the session is deleted or the server stops.",
            "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/Envelope"}}},
        },
        **responses(401, 404, 422),
    },
)
async def follow_events(request: Request, row: OwnSession, deps: Deps, start: Start) -> AsyncIterator[ServerSentEvent]:
    """Send what happened since `after`, then what happens. This wakes nothing; a comment comes every 15 s."""
    async with aclosing(session_events(deps, watchers_of(request), row.id, after=start)) as events:
        async for envelope in events:
            yield sse(envelope)


@router.get(
    "/api/nodes/{node_id}/events",
    operation_id="followNodeEvents",
    summary="Follow what happens, by node id",
    response_class=EventSourceResponse,
    responses=responses(401, 404, 422),
)
async def follow_node_events(
    request: Request, node_session: NodeSession, deps: Deps, start: Start
) -> AsyncIterator[ServerSentEvent]:
    """The same stream under the address that animation nodes use."""
    async with aclosing(session_events(deps, watchers_of(request), node_session, after=start)) as events:
        async for envelope in events:
            yield sse(envelope)


@router.websocket("/v1/sessions/{session_id}/ws")
async def follow_socket(
    websocket: WebSocket, session_id: SessionId, after: After = None, last_event_id: LastEventId = None
) -> None:
    """Send ``{"type", "seq", "payload"}`` for each event; what the client says is not read."""
    deps = deps_of(websocket)
    try:
        user = await deps.auth.user(websocket.headers.get("authorization"))
        row = await deps.store.get_session(session_id, user_id=user)
        start = cursor(last_event_id, after)
    except KodaError as error:
        await _deny(websocket, error)
        return
    await websocket.accept()
    sending = asyncio.create_task(_send(websocket, row.id, start))
    listening = asyncio.create_task(_listen(websocket))
    try:
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, listening):
            task.cancel()
        results = await asyncio.gather(sending, listening, return_exceptions=True)
    if listening.cancelled():  # the client is still there: say why this ends
        with suppress(WebSocketDisconnect, RuntimeError):
            await websocket.close(_RESTARTING if deps.draining.is_set() else _DONE)
    failed = results[0]
    if isinstance(failed, Exception) and not isinstance(failed, WebSocketDisconnect):
        raise failed


async def _send(websocket: WebSocket, session_id: str, after: int) -> None:
    deps, watchers = deps_of(websocket), watchers_of(websocket)
    async with aclosing(session_events(deps, watchers, session_id, after=after)) as events:
        async for envelope in events:
            await websocket.send_text(_frame(envelope))


async def _listen(websocket: WebSocket) -> None:
    """Take whatever the client says, text or not, until it hangs up."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


def sse(envelope: Envelope) -> ServerSentEvent:
    """Return an event as it is sent."""
    return ServerSentEvent(id=str(envelope.seq), event=envelope.wire_name, raw_data=envelope.model_dump_json())


def _frame(envelope: Envelope) -> str:
    return f'{{"type":"{envelope.wire_name}","seq":{envelope.seq},"payload":{envelope.model_dump_json()}}}'


async def _deny(websocket: WebSocket, error: KodaError) -> None:
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        problem = problem_response(
            status=error.status, code=error.code, detail=error.message, instance=websocket.url.path
        )
        await websocket.send_denial_response(problem)
    else:
        await websocket.close(4000 + error.status, error.code)
