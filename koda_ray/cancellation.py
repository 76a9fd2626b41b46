"""Work that is cancelled once and then seen to its end: cleaning up must not be cut short by a second cancel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from koda_ray.errors import Cancelled

__all__ = ["OneTask", "all_or_cancel", "end_all", "finish", "own", "see_through"]

T = TypeVar("T")


async def see_through(*tasks: asyncio.Future[Any]) -> None:
    """Wait until tasks have ended, however often the caller is cancelled meanwhile; their outcomes are not raised.

    Raises:
        CancelledError: The caller was cancelled meanwhile; the last of these.
    """
    interrupted: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            interrupted = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at: whoever wants it asks again
    if interrupted is not None:
        raise interrupted


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end and return what it returns; it is not cancelled with its caller.

    Raises:
        CancelledError: The caller was cancelled meanwhile; only now, when the work is done.
    """
    task = asyncio.create_task(work)
    await see_through(task)
    return task.result()


async def own(work: Coroutine[Any, Any, T], running: set[asyncio.Task[Any]] | None = None) -> T:
    """Await a coroutine; when the caller is cancelled, cancel it once and return only after it has cleaned up.

    Args:
        work: The coroutine.
        running: Holds its task meanwhile, for `end_all`.

    Raises:
        Cancelled: Somebody else ended it.
    """
    task = asyncio.create_task(work)
    if running is not None:
        running.add(task)
        task.add_done_callback(running.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise Cancelled("the work was ended") from None
        if not task.cancelling():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await see_through(task)
        raise


async def end_all(running: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, each once, and wait until they have cleaned up; raises what ``see_through`` raises."""
    tasks = list(running)
    for task in tasks:
        # whoever is cancelled already is cleaning up
        if not (isinstance(task, asyncio.Task) and task.cancelling()):
            task.cancel()
    await see_through(*tasks)


async def all_or_cancel(work: list[Coroutine[Any, Any, None]]) -> None:
    """Await all; the first error, or the caller's cancelling, cancels the rest and waits until they have ended."""
    tasks = [asyncio.create_task(item) for item in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await end_all(tasks)


class OneTask:
    """Work in the background that is under way at most once, whoever begins it; its owner ends it.

    Args:
        work: What is done.
        name: Of its task.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str | None = None) -> None:
        self._work = work
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[None]:
        """Begin it where it is not under way; returns its task."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name=self._name)
        return self._task

    async def end(self) -> None:
        """Cancel it and see it end, where it is under way; it may be begun again."""
        if self._task is not None:
            task, self._task = self._task, None
            await end_all((task,))
