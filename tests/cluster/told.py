"""All that a stream tells, page by page, however much it is."""

from __future__ import annotations

from koda_ray.events import Envelope
from koda_ray.state.store import Store

__all__ = ["all_events", "numbers"]


async def all_events(store: Store, stream_id: str) -> list[Envelope]:
    """Read a stream from its beginning until nothing more comes."""
    found: list[Envelope] = []
    while page := await store.events(stream_id, after=found[-1].seq if found else 0):
        found += page
    return found


async def numbers(store: Store, stream_id: str) -> list[int]:
    """Return the numbers of all that a stream tells, in the order in which it tells it."""
    return [event.seq for event in await all_events(store, stream_id)]
