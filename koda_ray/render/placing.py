"""Where a task is put, whether it is still where somebody can do it, and that who has begun with it says so.

A task waits at Ray for nodes that it may be put on. It is put anew where those are gone before it began, or where its
worker was lost then and a node is found that can do no work. One that has begun says that it is at work every few
seconds; one that falls silent is lost, whatever Ray makes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import ray

from koda_ray.errors import RenderError
from koda_ray.logs import get_logger
from koda_ray.render.presence import Presence
from koda_ray.render.protocol import NODE_FULL
from koda_ray.render.telling import BEAT_S

__all__ = [
    "WORKER_LOST",
    "Misplaced",
    "Placed",
    "PlacedTask",
    "Silent",
    "TaskWorker",
    "Unbegun",
    "cancel_task",
    "done_where_placed",
    "end_task",
    "read_next",
]

WORKER_LOST = "WORKER_LOST"
_CANCEL_S = 4.0
"""How long a cancelled task may clean up before its process is killed: longer than a page and a browser take to end."""
_SILENT_S = 6 * BEAT_S
"""How long a task that has begun may say nothing before it is given up."""
_LATE_S = BEAT_S + 1.0
"""How long it may say nothing before it is looked whether its node is there."""
T = TypeVar("T")
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Placed:
    """A function as it is given to Ray: what it asks for, the nodes that it is not put on, who knows what there is."""

    function: Any
    resource: str
    environment: str
    avoided: frozenset[str]
    presence: Presence

    def begin(self, *given: object) -> PlacedTask:
        """Give it to Ray."""
        return PlacedTask(self.function.remote(*given), self)

    async def check(self, waited_s: float) -> None:
        """Raise `Misplaced` where a task waits for nodes that are gone; else it may wait without end."""
        if self.avoided and await self.presence.is_left_to(self.avoided, self.resource):
            raise Misplaced

    async def is_to_be_moved(self) -> bool:
        """Whether a node is avoided by now that this could be put on: the one, it may be, that it did not begin on."""
        await self.presence.look_for_full()
        return bool(await self.presence.avoided(self.resource, self.environment) - self.avoided)


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """What was given to Ray: what it says, and where it was put."""

    stream: Any
    placed: Placed


@dataclass(frozen=True, slots=True)
class TaskWorker:
    """Who works on a task that has begun: on which node, by Ray's id, and who knows whether that is there."""

    node: str
    presence: Presence

    async def check(self, waited_s: float) -> None:
        """Raise `Silent` where a task has said nothing for so long, or its node is gone."""
        if await self.presence.is_gone(self.node):
            raise Silent(f"says nothing, and its node {self.node} cannot be reached", gone=True)
        if waited_s >= _SILENT_S:
            raise Silent(f"said nothing for {_SILENT_S:g} s", gone=False)


class Misplaced(Exception):
    """A task that has not begun waits for nodes that are gone, while others could do it."""


class Unbegun(Exception):
    """A task was lost before it said anything; ``code`` says why, as far as Ray does."""

    def __init__(self, why: str, *, code: str = WORKER_LOST) -> None:
        super().__init__(why)
        self.code = code


class Silent(Exception):
    """A task that has begun says nothing any more; ``gone`` says that its node cannot be reached."""

    def __init__(self, why: str, *, gone: bool) -> None:
        super().__init__(why)
        self.gone = gone


async def done_where_placed(place: Callable[[], Awaitable[Placed]], do: Callable[[Placed], Awaitable[T]]) -> T:
    """Have something done where it is placed, and anew where those that it could be put on went before it began.

    So it is where its worker was lost before it began, and a node is found that can do no work: each time there is one
    less that it could be put on.
    """
    while True:
        placed = await place()
        try:
            return await do(placed)
        except Misplaced:
            _log.info("what waits for nodes that are gone is put on those that are left")
        except Unbegun as error:
            if not await placed.is_to_be_moved():
                full = await placed.presence.is_full_everywhere(placed.resource)
                raise RenderError(
                    str(error), code=NODE_FULL if full else error.code, retryable=True
                ) from error.__cause__
            _log.info("what a node could not begin is put on others", why=str(error))


async def read_next(stream: Any, by: Placed | TaskWorker) -> object:
    """Return what a task says next; None at its end.

    Args:
        stream: The task.
        by: Where it was put, until it has begun; then who works on it.

    Raises:
        Misplaced: It waits for nodes that are gone.
        Silent: It says nothing any more.
        RayError: As Ray ended the task.
    """

    async def read() -> object:
        async for reference in stream:
            return await reference
        return None

    # Ray waits in a way of its own: it is left alone until time is up, and then for good
    reading = asyncio.create_task(read())
    try:
        waited_s = 0.0
        while not (await asyncio.wait({reading}, timeout=_LATE_S))[0]:
            waited_s += _LATE_S
            await by.check(waited_s)
        return reading.result()
    finally:
        reading.cancel()


async def end_task(stream: Any) -> None:
    """Ask a task to end, which lets it clean up; kill its process when it does not."""
    ended = stream.completed()
    cancel_task(stream)
    ready, _ = await asyncio.to_thread(_wait, [ended], timeout=_CANCEL_S)
    if not ready:
        cancel_task(stream, force=True)
        await asyncio.to_thread(_wait, [ended], timeout=_CANCEL_S)


# Ray's own types for these are incomplete
cancel_task = cast("Callable[..., None]", ray.cancel)  # pyright: ignore[reportUnknownMemberType]
_wait = cast("Callable[..., tuple[list[object], list[object]]]", ray.wait)  # pyright: ignore[reportUnknownMemberType]
