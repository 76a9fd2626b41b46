"""Follow event logs: what is stored first, then what comes, in order, each once.

There is one source, the store. A reader asks for what comes after the last number it has, so there is no seam between
replay and live at which an event could be lost or doubled, and a reader that reconnects anywhere says its number and
goes on. Commits of this process wake it at once; those of others are found by one look for all readers (`lookout`), so
that a reader to whom nothing happens asks nothing.

One reader may follow many logs, each from a number of its own. They take turns, a page each, so that a long one holds
up no other, and the reader holds one page and no more, however many they are and however slow it is: the store is its
queue (`log_pages`, which also says what a reader too far behind is spared).

A reader of some events goes through the whole log all the same: what it does not want moves its number on, so that it
comes back to where it was, and a `resync` reaches it whatever it wants.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass

from koda_ray.events import Envelope, Selection, gone
from koda_ray.state.log_pages import PAGE, LogPages
from koda_ray.state.lookout import Watch
from koda_ray.state.store import Store

__all__ = ["BEHIND", "PAGE", "Pace", "Reached", "follow", "follow_all"]

BEHIND = 1000
"""How many events a reader may be behind of those that came while it followed."""
_DONE_S = 1.0
"""How often ``done`` is asked while nothing happens."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How logs are followed in time.

    Args:
        heartbeat_s: After so many seconds in which nothing was yielded, the numbers that it has come to are; never when
            None.
        timeout_s: It ends after so many seconds without an event, wanted or not; not by itself when None.
        done: Asked whenever there is nothing new: it ends when that is true, or when nothing new can come because its
            session was closed, its job has ended, or there is no such stream. Not by itself when None.
        behind: How many events a reader may be behind of those that came since it began, before it gets a `resync`.
    """

    heartbeat_s: float | None = None
    timeout_s: float | None = None
    done: Callable[[], bool] | None = None
    behind: int = BEHIND


@dataclass(frozen=True)
class Reached:
    """A heartbeat: the number to go on from, of each log that is still followed."""

    numbers: Mapping[str, int]


@dataclass(eq=False)
class _Log:
    """One of those that are followed; ``is_due`` says that there may be something to read."""

    id: str
    watch: Watch
    pages: LogPages
    is_due: bool = True


async def follow(
    store: Store,
    stream_id: str,
    after: int = 0,
    *,
    wanted: Selection | None = None,
    until: Callable[[Envelope], bool] | None = None,
    pace: Pace | None = None,
) -> AsyncGenerator[Envelope | int]:
    """Yield a stream's events, and as a heartbeat the number that it has come to; see `follow_all`.

    Close it (``aclose``, or cancel the task that reads it) to stop; nothing stays behind.

    Args:
        store: Where the log is.
        stream_id: A session's or a job's id.
        after: The last number the reader has; 0 for none.
        wanted: Yield only these, and each `resync`; everything when None.
        until: Asked of every event, after it was yielded where it is: the stream ends with the first that is true.
        pace: When it says that it lives, and when it ends; without heartbeat or end when None.
    """
    async with aclosing(follow_all(store, {stream_id: after}, wanted=wanted, until=until, pace=pace)) as events:
        async for event in events:
            if isinstance(event, Reached):
                yield event.numbers[stream_id]
            elif event.type != "gone":
                yield event


async def follow_all(
    store: Store,
    after: Mapping[str, int],
    *,
    wanted: Selection | None = None,
    until: Callable[[Envelope], bool] | None = None,
    pace: Pace | None = None,
) -> AsyncGenerator[Envelope | Reached]:
    """Yield the events of many streams, those of each in order and once, and as a heartbeat the numbers reached.

    Where nothing new can come of one (see `Pace`), a `gone` says so; after the last one it ends.

    Args:
        store: Where the logs are.
        after: The streams, each with the last number that the reader has; 0 for none.
        wanted: As for `follow`, and so are the others. Of a stream that ends by ``until`` no `gone` comes.
        until: Ends the event's own stream.
        pace: When it says that it lives, and when it ends.
    """
    wanted, pace = wanted or Selection(), pace or Pace()
    rung = asyncio.Event()
    async with AsyncExitStack() as watching:
        logs: dict[str, _Log] = {}
        for stream_id, number in after.items():
            watch = await watching.enter_async_context(store.lookout.watching(stream_id, rings=rung))
            logs[stream_id] = _Log(stream_id, watch, LogPages(store, stream_id, number, behind=pace.behind))
        for log in logs.values():
            if (told := await log.pages.begin()) is not None:
                yield told
        last_event = last_yield = time.monotonic()
        while logs:
            rung.clear()
            stopping = pace.done is not None and pace.done()
            for log in list(logs.values()):
                log.watch.check()
                # before looking: a commit between the look and the wait sets it again, and all before the end is read
                finished = stopping or (pace.done is not None and log.watch.is_over)
                if not (log.is_due or finished or log.watch.changed.is_set()):
                    continue
                log.watch.changed.clear()
                page = await log.pages.read()
                log.is_due = bool(page)
                for event in page:
                    if wanted.takes(event):
                        yield event
                        last_yield = time.monotonic()
                    if until is not None and until(event):
                        del logs[log.id]
                        break
                if page:
                    last_event = time.monotonic()
                elif finished:
                    del logs[log.id]
                    if not stopping:
                        yield gone(log.id, log.pages.reached)
            at = time.monotonic()
            if not logs or (pace.timeout_s is not None and at - last_event >= pace.timeout_s):
                return
            if pace.heartbeat_s is not None and at - last_yield >= pace.heartbeat_s:
                last_yield = at
                yield Reached({log.id: log.pages.reached for log in logs.values()})
                continue
            if any(log.is_due for log in logs.values()):
                continue
            ends = [_DONE_S]
            ends += [] if pace.heartbeat_s is None else [last_yield + pace.heartbeat_s - at]
            ends += [] if pace.timeout_s is None else [last_event + pace.timeout_s - at]
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(ends))):
                    await rung.wait()
