"""Who begins to render at once: a new render only where nobody else's waits; else the janitor takes them by turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from koda_ray.serve.deps import ApiDeps
from koda_ray.state.records import JobRecord
from koda_ray.types import now

__all__ = ["wake_in_turn"]

_MANY = 1_000


async def wake_in_turn(deps: ApiDeps, jobs: Sequence[JobRecord]) -> None:
    """Have new renders worked on where there is room, unless another user's wait for that room."""
    waiting = {work.user_id for work in await deps.store.owed(now(), limit=_MANY) if work.kind == "job"}
    if not waiting - {job.user_id for job in jobs}:
        await asyncio.gather(*(deps.directory.wake_render(job.id) for job in jobs))
