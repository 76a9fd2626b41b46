"""The events of many sessions on one stream: a page shows thirty, and a browser opens six connections to a host.

Nothing of a session's own stream is lost: each has its number, and ``id`` has all of them, in the order in which they
were asked for. So `EventSource`, which sends the last one back by itself, misses nothing and gets nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.events import LARGEST_SEQ
from koda_ray.serve.context import Deps, Following, User, watchers_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.events import LastEventId, Wanted
from koda_ray.serve.streams import Watchers, all_events, cursors

__all__ = ["MOST_SESSIONS", "router"]

router = APIRouter(tags=["events"])
MOST_SESSIONS = 100
"""How many one stream follows: what begins with it reads each of their logs."""
_Followed = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{1,64}(:[0-9]{1,16})?$")]


async def _asked(
    sessions: Annotated[
        list[_Followed],
        Query(
            min_length=1,
            max_length=MOST_SESSIONS,
            description="A session's id, or `id:number` to get events with a greater number; repeatable",
        ),
    ],
    last_event_id: LastEventId = None,
) -> dict[str, int]:
    asked: dict[str, int] = {}
    for each in sessions:
        session_id, _, number = each.partition(":")
        if session_id in asked:
            raise InvalidInput(f"the session {session_id} is named twice")
        if int(number or 0) > LARGEST_SEQ:
            raise InvalidInput(f"the number of {session_id} is {number}, and no event has one above {LARGEST_SEQ}")
        asked[session_id] = int(number or 0)
    return cursors(last_event_id, asked)


async def _watching(
    request: Request,
    watch: Annotated[
        bool, Query(description="Whether somebody looks at them: then they stay awake while they wait for a person")
    ] = False,
) -> Watchers | None:
    return watchers_of(request) if watch else None


@router.get(
    "/v1/events",
    operation_id="followAllEvents",
    summary="Follow what happens in many sessions",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "What each session's own stream sends, `event` and `data` alike; `streamId` in the data "
            "says whose it is, `seq` its number. Of each session every event comes once and in order, and `resync` "
            "where some are left out. `id` has the numbers of all sessions in the order asked for, joined by dots: the "
            "same address with it as `Last-Event-ID` goes on where this ends, and an `id` without an event says that "
            "they have moved on. `gone` says that nothing more comes of a session, because it was deleted or is none "
            "of yours; after the last one, or when the server stops, the stream ends.",
            "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/Envelope"}}},
        },
        **responses(401, 422, 429),
    },
)
async def follow_all_events(
    user: User,
    deps: Deps,
    following: Following,
    wanted: Wanted,
    asked: Annotated[dict[str, int], Depends(_asked)],
    watchers: Annotated[Watchers | None, Depends(_watching)],
) -> AsyncIterator[ServerSentEvent]:
    """Send what happened since each number, then what happens. This wakes nothing; a comment comes every 15 s."""
    absent = await _absent(deps, user, asked)
    events = all_events(deps, asked, absent=absent, wanted=wanted, watchers=watchers)
    async for numbers, event in await following.enter_async_context(aclosing(events)):
        if event is None:
            yield ServerSentEvent(id=numbers)
        else:
            yield ServerSentEvent(id=numbers, event=event.wire_name, raw_data=event.model_dump_json())


async def _absent(deps: ApiDeps, user: str, session_ids: Collection[str]) -> Sequence[str]:
    """Name those that are not there for a user."""
    found = await asyncio.gather(
        *(deps.store.get_session(session_id, user_id=user) for session_id in session_ids), return_exceptions=True
    )
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, NotFound):
            raise each
    return [session_id for session_id, each in zip(session_ids, found, strict=True) if isinstance(each, NotFound)]
