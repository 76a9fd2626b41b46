"""Work that outlives the request that began it: kept, awaited at the end, and out of reach of a client that hangs up.

A server cancels a request whose client is gone, and Ray cancels with it whatever calls that request had made. Here a
task begins in a context of its own, so that neither knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from koda_ray.logs import get_logger
from koda_ray.tracing import only_the_trace

__all__ = ["Background"]

T = TypeVar("T")
_log = get_logger(__name__)


class Background:
    """Owns the tasks of one application."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, object], *, what: str) -> None:
        """Run a nudge that nobody waits for; a failure is logged under ``what``."""
        self._keep(self._run(work, what))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` and wait for it; whoever is cancelled while waiting leaves it running."""
        return await asyncio.shield(self._keep(work))

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

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, context=only_the_trace())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, work: Coroutine[Any, Any, object], what: str) -> None:
        try:
            await work
        except Exception as error:
            _log.warning("background work failed", what=what, error=type(error).__name__, detail=str(error)[:300])
