"""Places on a node that Ray keeps taken for nobody: found by the janitor, and given free.

A node that is asked for a place by the cluster's head, and grants it while that is away or only after it has come back,
tells nobody: the place stays taken, on a worker that idles, for as long as the node is there (Ray's issues 66199 and
56019; seen with 2.60). A head that is lost a few times while sessions wake would leave no room for any other, and a
node with such a place never counts as idle, so that no autoscaler takes it away.

So what a node has given away is held against what the cluster's actors have there. What is more may be on its way to an
actor, or a task's (forks are tasks, and others on the same cluster may ask for the same resource). Only where it was
never less for `STALE_S`, the node's workers that idled all the while are ended: Ray frees what they were given, and
starts others as it needs them. Where that frees nothing, it was somebody's, and is tried again ever more seldom.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import psutil
import ray
from ray._private.state import state
from ray.core.generated import gcs_pb2
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.actors.chores import logged
from koda_ray.actors.nodes import ClusterNode
from koda_ray.actors.seeing import ANSWER_S, own_node, see_nodes
from koda_ray.cancellation import end_all
from koda_ray.errors import Unavailable
from koda_ray.logs import get_logger
from koda_ray.resources import SESSION_RESOURCE

__all__ = ["LOOK_S", "STALE_S", "StaleLeases", "end_idle_workers", "stale_leases"]

STALE_S = 45.0
"""For how long more has to be taken on a node than its actors have, in seconds."""
LOOK_S = 5.0
"""Between two looks, in seconds."""
_PAUSE_MAX_S = 3600.0
_VISIT_S = 120.0
_IDLED_S = 5.0
_MOVED_S = 0.2  # an idle worker's threads take a hundredth of a processor
_LEAST = 1e-6  # Ray counts in ten-thousandths; what is less comes of adding them up
_IDLE = "ray::IDLE"
_log = get_logger()


@dataclass
class _Excess:
    """What was taken on a node beyond what its actors have, at every look since a time in the clock's seconds."""

    since: float
    least: float
    wait_s: float


class StaleLeases:
    """Looks again and again for places of sessions that nobody has, and gives them free.

    Args:
        look: Finds the nodes that are alive, with what of each is taken.
        held: Says how much of the places the actors of each node have, by the node's id.
        free: Ends the workers of a node that idle, by its id; returns how many there were.
        clock: Tells time, in seconds.
    """

    def __init__(
        self,
        *,
        look: Callable[[], Awaitable[tuple[ClusterNode, ...]]],
        held: Callable[[], Awaitable[Mapping[str, float]]],
        free: Callable[[str], Awaitable[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._held = held
        self._free = free
        self._clock = clock
        self._excess: dict[str, _Excess] = {}
        self._freeing: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Look every `LOOK_S` seconds until cancelled."""
        try:
            while True:
                await logged(self._clear_if_told(), "look for places that nobody has")
                await asyncio.sleep(LOOK_S)
        finally:
            await end_all(self._freeing.values())

    @property
    def freeing(self) -> Collection[asyncio.Task[None]]:
        """What is under way to free places."""
        return self._freeing.values()

    async def _clear_if_told(self) -> None:
        try:
            await self.clear()
        except Unavailable as error:  # the head is away: what it leaves is what this is there for
            _log.debug("nobody says which places are taken", error=error.message)

    async def clear(self) -> list[str]:
        """Look at each node once.

        Returns:
            The ids of those whose idle workers are ended now, in the background: one that does not answer holds up no
            other.

        Raises:
            Unavailable: Nobody says which nodes there are, or what has which place.
        """
        nodes = await self._look()
        held = await self._held()
        self._excess = {node.id: self._excess[node.id] for node in nodes if node.id in self._excess}
        self._freeing = {name: task for name, task in self._freeing.items() if not task.done()}
        begun: list[str] = []
        for node in nodes:
            more = node.used.get(SESSION_RESOURCE, 0) - held.get(node.id, 0)
            if self._is_stale(node.id, more) and node.status != "draining" and node.id not in self._freeing:
                self._freeing[node.id] = asyncio.create_task(self._free_at(node.id))
                begun.append(node.id)
        return begun

    def _is_stale(self, node_id: str, more: float) -> bool:
        """Whether so much more was taken all the while; if so, it has to be so for longer the next time."""
        if abs(more) <= _LEAST:
            self._excess.pop(node_id, None)
        if more <= _LEAST:  # a head that has just come back does not know yet what is taken: less than nothing says so
            return False
        now = self._clock()
        found = self._excess.get(node_id)
        if found is None or more < found.least - _LEAST:  # some of it was on its way and is there, or was freed
            found = self._excess[node_id] = _Excess(now, more, STALE_S)
        if now - found.since < found.wait_s:
            return False
        found.since, found.least, found.wait_s = now, more, min(_PAUSE_MAX_S, found.wait_s * 2)
        return True

    async def _free_at(self, node_id: str) -> None:
        ended = await logged(self._free(node_id), "free places", node=node_id)
        if ended:
            _log.warning("places are taken for nobody: idle workers were ended", node=node_id, workers=ended)


def stale_leases() -> StaleLeases:
    """Return what looks at the cluster that this process is in."""

    async def look() -> tuple[ClusterNode, ...]:
        return (await see_nodes()).nodes

    async def held() -> Mapping[str, float]:
        try:
            async with asyncio.timeout(ANSWER_S):  # a thread that hangs is left behind
                return await asyncio.to_thread(_held)
        except (RayError, RuntimeError, OSError, TimeoutError) as error:
            raise Unavailable(
                f"the cluster's head does not say within {ANSWER_S:.0f} s what has which place"
            ) from error

    async def free(node_id: str) -> int:
        if node_id == own_node() and _raylet() is not None:  # a task would need the head, which may be away again
            return await asyncio.to_thread(end_idle_workers, STALE_S)
        there = _there(node_id=node_id, soft=False)
        ending: Any = None
        try:
            async with asyncio.timeout(_VISIT_S):
                ending = await asyncio.to_thread(lambda: _end.options(scheduling_strategy=there).remote(STALE_S))
                return cast("int", await cast("Awaitable[Any]", ending))
        except (TimeoutError, asyncio.CancelledError):
            if ending is not None:
                _cancel(ending, force=True)
            raise

    return StaleLeases(look=look, held=held, free=free)


def end_idle_workers(age_s: float) -> int:
    """End the workers of this process's node that idle; returns how many there were.

    Only those that do so now and a few seconds later, without having worked between: one that has just got something to
    do is not ended. Objects that such a worker's tasks have put go with it, as when Ray ends it for having idled.

    Args:
        age_s: How old they are at least, in seconds.
    """
    raylet = _raylet()
    if raylet is None:
        return 0
    before = _idling(raylet, age_s)
    time.sleep(_IDLED_S)
    ended = 0
    for worker, worked_s in _idling(raylet, age_s).items():
        if worker in before and worked_s - before[worker] < _MOVED_S:
            with suppress(psutil.NoSuchProcess):  # it has ended, and another process may have its number
                worker.kill()
                ended += 1
    return ended


def _idling(raylet: psutil.Process, age_s: float) -> dict[psutil.Process, float]:
    """Find a node's workers that idle; with how long each has worked, in seconds of a processor."""
    found: dict[psutil.Process, float] = {}
    for worker in raylet.children():
        try:
            is_old = time.time() - worker.create_time() >= age_s
            if is_old and (worker.cmdline() or [""])[0] == _IDLE and worker.pid != os.getpid():
                found[worker] = sum(worker.cpu_times()[:2])
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _raylet() -> psutil.Process | None:
    """Return what starts a node's workers, where it has started this process."""
    parent = psutil.Process(os.getppid())
    return parent if parent.name() == "raylet" else None


def _held() -> Mapping[str, float]:
    """Add up what the head has of actors, by node: of those that are there.

    One that is on its way names the node that is asked for a place, which may have none to give, for want of those that
    are looked for here.
    """
    data = cast("Any", gcs_pb2).ActorTableData
    table = cast("Any", state)._connect_and_get_accessor().get_actor_table
    held: Counter[str] = Counter()
    for row in (data.FromString(told) for told in table(None, "ALIVE")):
        held[row.address.node_id.hex()] += dict(row.required_resources).get(SESSION_RESOURCE, 0)
    return held


# Ray's own types for these are incomplete
_remote = cast("Callable[..., Callable[[object], Any]]", ray.remote)
_cancel = cast("Callable[..., None]", ray.cancel)  # pyright: ignore[reportUnknownMemberType]
_there = cast("Callable[..., object]", NodeAffinitySchedulingStrategy)
_end = _remote(num_cpus=0, max_retries=0, name="free-places")(end_idle_workers)
