"""Who follows a session, and the loop that feeds them: the same for SSE and WebSocket.

A stream reads the log by cursor and never touches the actor, so any number of people may follow a session that
sleeps. It ends when the session is deleted or this server is about to stop; whoever wants more comes back with the
last number seen.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import aclosing, contextmanager, suppress
from typing import TypeVar

from koda_ray.errors import InvalidInput
from koda_ray.events import LARGEST_SEQ, Channel, Envelope
from koda_ray.logs import get_logger
from koda_ray.metrics import EVENTS_LAG
from koda_ray.serve.deps import ApiDeps, SessionDirectory
from koda_ray.serve.ending import ended
from koda_ray.state.stream import Pace, follow
from koda_ray.types import now

__all__ = ["REPEAT_S", "Watchers", "cursor", "job_events", "pieces_until", "session_events"]

REPEAT_S = 10.0
"""How often a session is told again how many follow it here, in seconds."""

_OVER = ("succeeded", "failed", "cancelled")
_DIGITS = len(str(LARGEST_SEQ))
_PACE = Pace(heartbeat_s=1.0)
"""How often a quiet stream tells how far it has come."""

_T = TypeVar("_T")
_log = get_logger(__name__)


class Watchers:
    """Counts who follows each session here, and tells the directory: each change, and again every while.

    One task for each session that is followed says the newest number, so numbers cannot overtake each other; one that
    is lost (the session sleeps, or is being started anew) is made good by the next.
    """

    def __init__(self, directory: SessionDirectory, *, every_s: float = REPEAT_S) -> None:
        self._directory = directory
        self._every_s = every_s
        self._counts: Counter[str] = Counter()
        self._changed: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @contextmanager
    def joined(self, session_id: str) -> Generator[None]:
        """Count one follower for as long as the block runs."""
        self._change(session_id, 1)
        try:
            yield
        finally:
            self._change(session_id, -1)

    def count(self, session_id: str) -> int:
        """How many follow a session here."""
        return self._counts[session_id]

    async def close(self, *, timeout_s: float = 2.0) -> None:
        """Wait a moment for the last numbers to be told; may be called twice."""
        tasks = set(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _change(self, session_id: str, by: int) -> None:
        self._counts[session_id] += by
        if not self._counts[session_id]:
            del self._counts[session_id]
        if session_id in self._tasks:
            self._changed[session_id].set()
        else:
            self._changed[session_id] = asyncio.Event()
            # a context of its own: Ray would cancel with a request what the request began
            telling = self._tell(session_id, self._changed[session_id])
            self._tasks[session_id] = asyncio.get_running_loop().create_task(telling, context=contextvars.Context())

    async def _tell(self, session_id: str, changed: asyncio.Event) -> None:
        try:
            while True:
                changed.clear()
                count = self._counts[session_id]
                try:
                    await self._directory.watch(session_id, count)
                except Exception as error:
                    _log.warning("watchers not told", session_id=session_id, error=str(error)[:300])
                if not count and not changed.is_set():
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._every_s):
                        await changed.wait()
        finally:
            del self._tasks[session_id], self._changed[session_id]


def cursor(last_event_id: str | None, after: int | None) -> int:
    """Return the number to go on from: the header that a reconnecting client sends wins over the address.

    Raises:
        InvalidInput: The header is not a number that was ever sent.
    """
    if last_event_id is None or not last_event_id.strip():
        return after or 0
    text = last_event_id.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) <= LARGEST_SEQ):
        raise InvalidInput(
            f"the Last-Event-ID header is {text[:40]!r}; send the id of the last event you saw, or leave it out"
        )
    return int(text)


async def session_events(
    deps: ApiDeps, watchers: Watchers, session_id: str, *, after: int, channels: Collection[Channel] | None = None
) -> AsyncGenerator[Envelope | int]:
    """Yield a session's events with ``seq > after``, then new ones as they come, until deletion or shutdown.

    Who follows some ``channels`` is also told a number to come back with, once a while, where others have moved it on.
    """
    with watchers.joined(session_id):
        async with aclosing(_stream(deps, session_id, after, channels)) as events:
            async for event in events:
                yield event


async def job_events(
    deps: ApiDeps, job_id: str, *, after: int, channels: Collection[Channel] | None = None
) -> AsyncGenerator[Envelope | int]:
    """Yield the events of a page render with ``seq > after``, then new ones, until it is over or shutdown.

    Who follows some ``channels`` is told numbers as by `session_events`.
    """
    async with aclosing(_stream(deps, job_id, after, channels, until=_last)) as events:
        async for event in events:
            yield event


async def _stream(
    deps: ApiDeps,
    stream_id: str,
    after: int,
    channels: Collection[Channel] | None,
    *,
    until: Callable[[Envelope], bool] | None = None,
) -> AsyncGenerator[Envelope | int]:
    """Follow until what is followed is over, with a number where only other channels had anything to say."""
    done = deps.draining.is_set
    known, began = after, now()
    async with aclosing(
        follow(deps.store, stream_id, after, channels=channels, until=until, done=done, pace=_PACE)
    ) as events:
        async for event in events:
            if isinstance(event, Envelope):
                known = event.seq
                if event.at >= began:  # what was there before nobody waited for
                    deps.metrics.note(EVENTS_LAG, max(0.0, (now() - event.at).total_seconds()))
                yield event
            elif event > known:
                known = event
                yield event


def _last(envelope: Envelope) -> bool:
    return envelope.type == "state_change" and envelope.data.get("status") in _OVER


async def pieces_until(over: asyncio.Event, pieces: AsyncGenerator[_T]) -> AsyncGenerator[_T]:
    """Yield pieces until there are no more, or something is over; at the end ``pieces`` is at rest, to be closed."""
    ending = asyncio.create_task(over.wait())
    try:
        while not over.is_set():
            coming = asyncio.ensure_future(anext(pieces, None))
            try:
                await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not coming.done():
                    await ended(coming)
            if coming.cancelled() or (piece := coming.result()) is None:
                return
            yield piece
    finally:
        await ended(ending)
