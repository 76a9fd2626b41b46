"""Follow an event log: what is stored first, then what comes, in order, each once.

There is one source, the store. A reader asks for what comes after the last number it has, so there is no seam between
replay and live at which an event could be lost or doubled, and a reader that reconnects anywhere says its number and
goes on. Commits of this process wake it at once; those of others are found by one look for all readers (`lookout`), so
that a reader to whom nothing happens asks nothing.

A reader holds one page of events and no more, however slow it is: the store is its queue. One that falls too far behind
what happened since it came is brought near again without what a later event makes worthless anyway, and is told so by
a `resync`, as is one that comes for events that were swept. Every other event reaches every reader.

A reader of some channels goes through the whole log all the same: what it does not want moves its number on, so that it
comes back to where it was, and a `resync` reaches it whatever its channels are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from koda_ray.events import Channel, Envelope, Resync, channels_named, resync
from koda_ray.state.store import Store

__all__ = ["BEHIND", "PAGE", "Pace", "follow"]

PAGE = 500
BEHIND = 1000
"""How many events a reader may be behind of those that came while it followed."""
_DONE_S = 1.0
"""How often ``done`` is asked while nothing happens."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How a log is followed in time.

    Args:
        heartbeat_s: After so many seconds in which nothing was yielded, the number that it has come to is; never when
            None.
        timeout_s: It ends after so many seconds without an event on any channel; not by itself when None.
        behind: How many events a reader may be behind of those that came since it began, before it gets a `resync`.
    """

    heartbeat_s: float | None = None
    timeout_s: float | None = None
    behind: int = BEHIND


async def follow(
    store: Store,
    stream_id: str,
    after: int = 0,
    *,
    channels: Channel | Collection[Channel] | None = None,
    until: Callable[[Envelope], bool] | None = None,
    done: Callable[[], bool] | None = None,
    pace: Pace | None = None,
) -> AsyncGenerator[Envelope | int]:
    """Yield a stream's events, and as a heartbeat the number that it has come to.

    Close it (``aclose``, or cancel the task that reads it) to stop; nothing stays behind.

    Args:
        store: Where the log is.
        stream_id: A session's or a job's id.
        after: The last number the reader has; 0 for none.
        channels: Yield only what is on these, and each `resync`; everything when None.
        until: Asked of every event, after it was yielded where it is: the stream ends with the first that is true.
        done: Asked whenever there is nothing new: the stream ends when it is true, or when nothing new can come because
            its session was closed, its job has ended, or there is no such stream.
        pace: When it says that it lives, and when it ends; without heartbeat or end when None.

    Raises:
        InvalidInput: There is no such channel.
    """
    wanted, pace = channels_named(channels), pace or Pace()
    async with store.lookout.watching(stream_id) as watch:
        pages = _Pages(store, stream_id, after, behind=pace.behind)
        told = await pages.begin()
        if told is not None:
            yield told
        last_event = last_yield = time.monotonic()
        is_due = True
        while True:
            watch.check()
            # before looking: a commit between the look and the wait sets it again, and what came before the end is read
            finished = done is not None and (done() or watch.is_over)
            is_due = is_due or finished or watch.changed.is_set()
            watch.changed.clear()
            page = await pages.read() if is_due else []
            for event in page:
                if event.channel in wanted or event.type == "resync":
                    yield event
                    last_yield = time.monotonic()
                if until is not None and until(event):
                    return
            at = time.monotonic()
            if page:
                last_event = at
            elif finished or (pace.timeout_s is not None and at - last_event >= pace.timeout_s):
                return
            is_due = bool(page)
            if pace.heartbeat_s is not None and at - last_yield >= pace.heartbeat_s:
                last_yield = at
                yield pages.reached
                continue
            if is_due:
                continue
            ends = [_DONE_S]
            ends += [] if pace.heartbeat_s is None else [last_yield + pace.heartbeat_s - at]
            ends += [] if pace.timeout_s is None else [last_event + pace.timeout_s - at]
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(ends))):
                    await watch.changed.wait()


class _Pages:
    """A log page by page from a number on, with a `resync` wherever not all of it follows."""

    def __init__(self, store: Store, stream_id: str, after: int, *, behind: int) -> None:
        self._store = store
        self._stream_id = stream_id
        self._after = after
        self._behind = behind
        self._asked_for = after
        self._whole_from = after + 1
        self._lean_until = after

    @property
    def reached(self) -> int:
        """The number to go on from."""
        return self._after

    async def begin(self) -> Envelope | None:
        """Look how much there is: all of that is replayed in full, and a reader is slow only beyond it."""
        rest = await self._store.log_rest(self._stream_id, self._after)
        self._asked_for = max(rest.newest, self._after)
        if 0 < rest.newest < self._after:
            asked, self._after = self._after, rest.newest
            self._asked_for = self._lean_until = rest.newest
            self._whole_from = rest.newest + 1
            return self._told(Resync(reason="ahead", after=asked, whole_from=self._whole_from))
        return await self._swept() if rest.whole_from > self._after + 1 else None

    async def read(self) -> list[Envelope]:
        """Read the next page; empty where nothing is new."""
        if self._after < self._lean_until:
            page = await self._store.events(self._stream_id, after=self._after, limit=PAGE, lasting=True)
            near = [event for event in page if event.seq <= self._lean_until]
            self._after = near[-1].seq if len(near) == PAGE else self._lean_until
            if near:
                return near
        page = await self._store.events(self._stream_id, after=self._after, limit=PAGE)
        if not page:
            return []
        told = None
        if self._has_new_gap(page):
            told = await self._swept()
        elif len(page) == PAGE and self._after >= self._asked_for and (told := await self._slow()) is not None:
            return [told]
        self._after = page[-1].seq
        return page if told is None else [told, *page]

    def _has_new_gap(self, page: Sequence[Envelope]) -> bool:
        """Whether something was swept while the log was read."""
        numbers = [self._after, *(event.seq for event in page)]
        return any(seq != before + 1 and seq > self._whole_from for before, seq in pairwise(numbers))

    async def _swept(self) -> Envelope:
        rest = await self._store.log_rest(self._stream_id, self._after)
        self._whole_from = rest.whole_from
        missing = rest.newest - self._after - rest.kept
        return self._told(Resync(reason="swept", after=self._after, whole_from=rest.whole_from, left_out=missing))

    async def _slow(self) -> Envelope | None:
        """Decide to hurry, where the reader is too far behind and there is something to leave out."""
        rest = await self._store.log_rest(self._stream_id, self._after)
        if rest.newest - self._after <= self._behind or rest.lasting == rest.newest - self._after:
            return None
        self._lean_until = rest.newest
        self._whole_from = rest.newest + 1
        left_out = rest.newest - self._after - rest.lasting
        return self._told(Resync(reason="slow", after=self._after, whole_from=rest.newest + 1, left_out=left_out))

    def _told(self, what: Resync) -> Envelope:
        return resync(self._stream_id, self._after, what)
