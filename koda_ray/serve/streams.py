"""Who follows a session, and the loop that feeds them: the same for SSE and WebSocket.

A stream reads the log by cursor and never touches the actor, so any number of people may follow a session that
sleeps. It ends when the session is deleted or this server is about to stop; whoever wants more comes back with the
last number seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.events import Envelope
from koda_ray.serve.background import Background
from koda_ray.serve.deps import ApiDeps, SessionDirectory
from koda_ray.state.stream import follow

__all__ = ["Watchers", "cursor", "session_events"]

_LOOK_S = 1.0
"""How often a quiet stream looks whether its session is still there, in seconds."""


class Watchers:
    """Counts who follows each session here, and tells the directory when that changes."""

    def __init__(self, directory: SessionDirectory, background: Background) -> None:
        self._directory = directory
        self._background = background
        self._counts: Counter[str] = Counter()

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

    def _change(self, session_id: str, by: int) -> None:
        self._counts[session_id] += by
        count = self._counts[session_id]
        if not count:
            del self._counts[session_id]
        self._background.spawn(self._directory.watch(session_id, count), what="watch")


def cursor(last_event_id: str | None, after: int | None) -> int:
    """Return the number to go on from: the header that a reconnecting client sends wins over the address.

    Raises:
        InvalidInput: The header is not a number that was ever sent.
    """
    if last_event_id is None or not last_event_id.strip():
        return after or 0
    text = last_event_id.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidInput(
            f"the Last-Event-ID header is {text[:40]!r}; send the id of the last event you saw, or leave it out"
        )
    return int(text)


async def session_events(deps: ApiDeps, watchers: Watchers, session_id: str, *, after: int) -> AsyncGenerator[Envelope]:
    """Yield a session's events with ``seq > after``, then new ones as they come, until deletion or shutdown."""
    events = follow(deps.store, session_id, after, done=deps.draining.is_set, heartbeat_s=_LOOK_S)
    with watchers.joined(session_id):
        async with aclosing(events):
            async for envelope in events:
                if envelope is not None:
                    yield envelope
                elif await _deleted(deps, session_id):
                    return


async def _deleted(deps: ApiDeps, session_id: str) -> bool:
    try:
        await deps.store.get_session(session_id)
    except NotFound:
        return True
    return False
