"""Work that outlives the request that began it: kept, awaited at the end, and never able to fail that request.

Only nudges go here (wake a session, say how many people watch). What must not be lost is in the store before the
response is sent, and the janitor finds it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

__all__ = ["Background"]

_log = structlog.get_logger(__name__)


class Background:
    """Owns the tasks of one application."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[object, object, None], *, what: str) -> None:
        """Run ``work``; a failure is logged under ``what``."""
        task = asyncio.create_task(self._run(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, *, timeout_s: float = 2.0) -> None:
        """Wait a moment for what is under way, then cancel it; may be called twice."""
        tasks = set(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _run(self, work: Coroutine[object, object, None], what: str) -> None:
        try:
            await work
        except Exception as error:
            _log.warning("background work failed", what=what, error=type(error).__name__, detail=str(error)[:300])
