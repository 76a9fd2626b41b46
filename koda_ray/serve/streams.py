"""Who follows sessions, and the loop that feeds them: the same for SSE and WebSocket, for one session and for many.

A stream reads the log by cursor and never touches the actor, so any number of people may follow a session that
sleeps. It ends when the session is deleted or this server is about to stop; whoever wants more comes back with the
last number seen.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from koda_ray.errors import InvalidInput
from koda_ray.events import LARGEST_SEQ, Envelope, Selection, gone
from koda_ray.logs import get_logger
from koda_ray.metrics import EVENTS_LAG
from koda_ray.serve.deps import ApiDeps, SessionDirectory
from koda_ray.serve.ending import ended
from koda_ray.state.stream import Pace, Reached, follow, follow_all
from koda_ray.types import now

__all__ = [
    "REPEAT_S",
    "Watchers",
    "all_events",
    "cursor",
    "cursors",
    "job_events",
    "pieces_until",
    "session_events",
]

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


def cursors(last_event_id: str | None, asked: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers to go on from, of many streams: `cursor`'s header has one of each, in the order asked for.

    Raises:
        InvalidInput: The header was not sent for these.
    """
    if last_event_id is None or not last_event_id.strip():
        return dict(asked)
    numbers = last_event_id.strip().split(".")
    if len(numbers) != len(asked) or not all(map(str.strip, numbers)):
        raise InvalidInput(
            f"the Last-Event-ID header has {len(numbers)} numbers for {len(asked)} sessions; send the id of the last "
            "event you saw with the sessions that it was sent for, or leave it out"
        )
    return {stream_id: cursor(number, None) for stream_id, number in zip(asked, numbers, strict=True)}


async def session_events(
    deps: ApiDeps, watchers: Watchers, session_id: str, *, after: int, wanted: Selection | None = None
) -> AsyncGenerator[Envelope | int]:
    """Yield a session's events with ``seq > after``, then new ones as they come, until deletion or shutdown.

    Who follows some events is also told a number to come back with, once a while, where others have moved it on.
    """
    with watchers.joined(session_id):
        async with aclosing(_stream(deps, session_id, after, wanted)) as events:
            async for event in events:
                yield event


async def all_events(
    deps: ApiDeps,
    after: Mapping[str, int],
    *,
    absent: Sequence[str] = (),
    wanted: Selection | None = None,
    watchers: Watchers | None = None,
) -> AsyncGenerator[tuple[str, Envelope | None]]:
    """Yield the events of many sessions, each with the number reached of every one, to come back with.

    A session that is deleted, or was never there, is told of by `gone`; after the last one it ends.

    Args:
        deps: The application's parts.
        after: The sessions, each with the last number that the reader has.
        absent: Those of them that are not there for whoever asks.
        wanted: Only these; everything when None.
        watchers: Where the reader counts as one who watches; nowhere when None.
    """
    reached = dict(after)
    for session_id in absent:
        yield _numbers(reached), gone(session_id, reached[session_id])
    there = {session_id: number for session_id, number in after.items() if session_id not in absent}
    told, began = _numbers(reached), now()
    with ExitStack() as watching:
        if watchers is not None:
            for session_id in there:
                watching.enter_context(watchers.joined(session_id))
        async with aclosing(
            follow_all(deps.store, there, wanted=wanted, pace=replace(_PACE, done=deps.draining.is_set))
        ) as events:
            async for event in events:
                reached |= event.numbers if isinstance(event, Reached) else {event.stream_id: event.seq}
                if isinstance(event, Envelope):
                    _note_lag(deps, event, began)
                    told = _numbers(reached)
                    yield told, event
                elif told != (told := _numbers(reached)):
                    yield told, None


def _numbers(reached: Mapping[str, int]) -> str:
    return ".".join(map(str, reached.values()))


async def job_events(
    deps: ApiDeps, job_id: str, *, after: int, wanted: Selection | None = None
) -> AsyncGenerator[Envelope | int]:
    """Yield the events of a page render with ``seq > after``, then new ones, until it is over or shutdown.

    Who follows some events is told numbers as by `session_events`.
    """
    async with aclosing(_stream(deps, job_id, after, wanted, until=_last)) as events:
        async for event in events:
            yield event


async def _stream(
    deps: ApiDeps,
    stream_id: str,
    after: int,
    wanted: Selection | None,
    *,
    until: Callable[[Envelope], bool] | None = None,
) -> AsyncGenerator[Envelope | int]:
    """Follow until what is followed is over, with a number where only other events happened."""
    done = deps.draining.is_set
    known, began = after, now()
    async with aclosing(
        follow(deps.store, stream_id, after, wanted=wanted, until=until, pace=replace(_PACE, done=done))
    ) as events:
        async for event in events:
            if isinstance(event, Envelope):
                known = event.seq
                _note_lag(deps, event, began)
                yield event
            elif event > known:
                known = event
                yield event


def _note_lag(deps: ApiDeps, event: Envelope, began: datetime) -> None:
    # what was there before nobody waited for, and what a stream says of itself never happened anywhere
    if event.at >= began and event.type not in ("resync", "gone"):
        deps.metrics.note(EVENTS_LAG, max(0.0, (now() - event.at).total_seconds()))


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
