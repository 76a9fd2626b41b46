"""What a request began is over before the request is, however often that is cancelled meanwhile.

A request that was hung up is cancelled again at each wait by what serves it (anyio), and by a server that stops on top
of that. A clean-up that waits as usual would be left in its middle: a generator closed while something still reads it
("asynchronous generator is already running"), a terminal that stays attached for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from koda_ray.cancellation import end_all, see_through

__all__ = ["carried_out", "ended"]

T = TypeVar("T")


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they are over; a cancellation that comes meanwhile is raised then."""
    with anyio.CancelScope(shield=True):
        await end_all(tasks)


async def carried_out(work: Coroutine[Any, Any, T]) -> T:
    """Do something to its end; a cancellation that comes meanwhile is raised then."""
    # a context of its own: Ray would cancel with a request what the request began
    task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
    with anyio.CancelScope(shield=True):
        await see_through(task)
    return task.result()
