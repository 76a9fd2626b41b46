"""Follow an event log: what is stored first, then what comes, in order, each once.

There is one source, the store. A reader asks for what comes after the last number it has, so there is no seam between
replay and live at which an event could be lost or doubled, and a reader that reconnects anywhere says its number and
goes on. Commits of this process wake it at once; those of others are found by looking, often while things happen and
seldom while they do not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from koda_ray.events import Envelope
from koda_ray.state.store import Store

__all__ = ["PAGE", "follow"]

PAGE = 500
POLL_MIN_S = 0.02
POLL_MAX_S = 0.25
POLL_GROWTH = 1.5


async def follow(
    store: Store,
    stream_id: str,
    after: int = 0,
    *,
    until: Callable[[Envelope], bool] | None = None,
    done: Callable[[], bool] | None = None,
    heartbeat_s: float | None = None,
    timeout_s: float | None = None,
    poll_min_s: float = POLL_MIN_S,
    poll_max_s: float = POLL_MAX_S,
) -> AsyncGenerator[Envelope | None]:
    """Yield a stream's events, and None as a heartbeat.

    Close it (``aclose``, or cancel the task that reads it) to stop; nothing stays behind.

    Args:
        store: Where the log is.
        stream_id: A session's or a job's id.
        after: The last number the reader has; 0 for none.
        until: Asked of every event after it was yielded: the stream ends with the first that is true.
        done: Asked whenever there is nothing new: the stream ends when it is true.
        heartbeat_s: After so many seconds without an event, yield None.
        timeout_s: End after so many seconds without an event.
        poll_min_s: Pause between looks right after an event.
        poll_max_s: Pause that it grows to.
    """
    with store.notifier.subscribe(stream_id) as changed:
        pause = poll_min_s
        last_event = last_yield = time.monotonic()
        while True:
            changed.clear()  # before looking: a commit between the look and the wait sets it again
            finished = done is not None and done()  # before looking too: what came before the end is still read
            page = await store.events(stream_id, after=after, limit=PAGE)
            for event in page:
                yield event
                after = event.seq
                if until is not None and until(event):
                    return
            at = time.monotonic()
            if page:
                pause, last_event, last_yield = poll_min_s, at, at
                continue
            if finished or (timeout_s is not None and at - last_event >= timeout_s):
                return
            if heartbeat_s is not None and at - last_yield >= heartbeat_s:
                last_yield = at
                yield None
                continue
            try:
                async with asyncio.timeout(pause):
                    await changed.wait()
                pause = poll_min_s
            except TimeoutError:
                pause = min(pause * POLL_GROWTH, poll_max_s)
