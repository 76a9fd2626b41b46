"""Places on a node that Ray keeps taken for nobody: found by the janitor, and given free.

A head that is lost while sessions wake leaves what it has asked nodes for. What waits in line there, for a place or for
a process, is granted later; nobody hears of that, and the place stays taken, on a worker that idles, for as long as the
node is there (Ray's issues 66199 and 56019; seen with 2.60). A head that is lost a few times would leave no room for
any other session, and a node with such a place never counts as idle, so that no autoscaler takes it away.

So whatever waits in line while the head is away is taken out: none but a head asks for places of that size. And what a
node has given away is held against what its actors have, then as well, where all of them were told of. What is more may
be on its way to an actor, or a task's (others on the same cluster may ask for the same resource).
A head that is there tells of whom it gives a worker to before it gives it anything to do: so where more is taken for
`TOLD_S`, a worker that has never done anything, for `IDLED_S`, and that no actor is told to have or to come to, is
nobody's. Those are ended, all at once, and Ray frees what they were given. Where that frees nothing, it was somebody's,
and is tried again ever more seldom.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import ray
from ray._private.state import state
from ray.core.generated import gcs_pb2
from ray.exceptions import RayError

from koda_ray.actors.chores import logged
from koda_ray.actors.nodes import ClusterNode
from koda_ray.actors.raylets import NodeLeases, end_idle, leases_of, raylet_address, take_out_of_line
from koda_ray.actors.seeing import ANSWER_S, see_nodes
from koda_ray.cancellation import OneTask
from koda_ray.errors import Unavailable
from koda_ray.logs import get_logger
from koda_ray.resources import COORDINATOR_SHARE, SESSION_RESOURCE

__all__ = ["IDLED_S", "LOOK_S", "TOLD_S", "ClusterAsked", "Had", "StaleLeases", "stale_leases"]

IDLED_S = 4.0
"""For how long a worker that is nobody's has to have idled, in seconds: while the head is away, too."""
TOLD_S = 2.0
"""For how long a head that is there may have had no time to tell of whom it gives a worker to, in seconds."""
LOOK_S = 5.0
"""Between two looks while nothing is amiss, in seconds."""
_AWAY_LOOKS = 2
"""So many looks in a row have to find nobody: a head that is merely busy, or hard to reach, is not away."""
_SOON_S = 1.0
_CONNECT_S = 1.5
_CONNECTS = 2
_AT_ONCE = 16
_PAUSE_S, _PAUSE_MAX_S = 30.0, 3600.0
_LEAST = 1e-6  # Ray counts in ten-thousandths; what is less comes of adding them up
_SHARES = (1.0, COORDINATOR_SHARE)
T = TypeVar("T")
_log = get_logger()


@dataclass(frozen=True, slots=True)
class Had:
    """What actors have, as the head tells of them.

    Attributes:
        places: How much of the places of each node, by its id.
        shares: How much of one each has, by Ray's id of the worker that it is on or comes to.
    """

    places: Mapping[str, float] = field(default_factory=dict[str, float])
    shares: Mapping[str, float] = field(default_factory=dict[str, float])

    def lacks(self, leases: NodeLeases) -> float | None:
        """How much more a node has given away than its actors have; None where nothing was told of one of them."""
        if leases.actors - self.shares.keys():
            return None
        return leases.used - sum(self.shares.get(worker, 0.0) for worker in leases.actors | leases.idle)


class ClusterAsked(Protocol):
    """The cluster's head and its nodes, as far as they are asked here."""

    async def is_there(self) -> bool:
        """Whether the head takes connections."""
        ...

    async def nodes(self) -> Sequence[ClusterNode]:
        """Find the nodes that are alive; raises `Unavailable`."""
        ...

    async def had(self) -> Had:
        """Say what actors have; raises `Unavailable`."""
        ...

    async def leases(self, node_id: str) -> NodeLeases:
        """Say what a node has given away; raises `Unavailable`."""
        ...

    async def refuse(self, node_id: str) -> None:
        """Have a node refuse what waits there for a place; raises `Unavailable`."""
        ...

    async def end(self, node_id: str, worker: str) -> None:
        """End a worker of a node; raises `Unavailable`."""
        ...


@dataclass
class _Tried:
    """How much was taken for nobody as workers were ended, and until when nothing is done where it is as much."""

    more: float
    until: float
    wait_s: float


class StaleLeases:
    """Looks again and again for places of sessions that nobody has, and gives them free.

    Args:
        cluster: Who is asked.
        clock: Tells time, in seconds.
    """

    def __init__(self, cluster: ClusterAsked, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._had = Had()
        self._offer: list[str] = []  # the nodes that have places
        self._refused: dict[str, float] = {}  # when those were asked to refuse what waits, since the head is away
        self._idle: dict[str, dict[str, float]] = {}  # since when which of a node's workers idle
        self._over: dict[str, float] = {}  # since when more is taken on a node than actors have, as the head tells
        self._tried: dict[str, _Tried] = {}
        self._due = float("-inf")

    async def run(self) -> None:
        """Look again and again until cancelled."""
        looking, away = OneTask(self._look), 0
        try:
            while True:
                away = 0 if await self._cluster.is_there() else away + 1
                if away:
                    await looking.end()  # it may wait for long to be answered
                if away >= _AWAY_LOOKS:
                    await logged(self.prepare(), "take what waits for places out of line")
                    self._due = float("-inf")
                elif not away:
                    self._refused.clear()
                    if self._clock() >= self._due:
                        looking.begin()
                await asyncio.sleep(_SOON_S)
        finally:
            await looking.end()

    async def _look(self) -> None:
        if await logged(self._clear_if_told(), "look for places that nobody has"):
            soon = any(idle for name, idle in self._idle.items() if name not in self._tried)
            self._due = self._clock() + (_SOON_S if soon else LOOK_S)

    async def _clear_if_told(self) -> bool:
        try:
            await self.clear()
        except Unavailable as error:
            _log.debug("nobody says which places are taken", error=error.message)
            return False
        return True

    async def prepare(self) -> None:
        """With the head away, take what waits for places out of line everywhere, and see who idles.

        Again after a while: a head may be back for less than it takes to see that.
        """
        self._over.clear()
        again = self._clock() - LOOK_S
        due = [node for node in self._offer if self._refused.get(node, again) <= again]
        await asyncio.gather(*map(self._prepare_at, due))

    async def _prepare_at(self, node_id: str) -> None:
        try:
            await self._cluster.refuse(node_id)
            leases = await self._cluster.leases(node_id)
        except Unavailable as error:
            _log.debug("a node does not say what it has given away", node=node_id, error=error.message)
            return
        self._refused[node_id] = self._clock()
        await self._end(node_id, self._nobodys(node_id, leases, told_s=0.0))

    async def clear(self) -> dict[str, int]:
        """Look at each node once, and end workers that have a place for nobody.

        Returns:
            How many were ended, by the ids of their nodes.

        Raises:
            Unavailable: Nobody says which nodes there are, or what has which place.
        """
        nodes, self._had = await self._cluster.nodes(), await self._cluster.had()
        there = {node.id: node for node in nodes if node.total.get(SESSION_RESOURCE, 0) > 0}
        self._offer = [*there]
        self._idle = {name: idle for name, idle in self._idle.items() if name in there}
        self._over = {name: since for name, since in self._over.items() if name in there}
        self._tried = {name: tried for name, tried in self._tried.items() if name in there}
        asked = [name for name, node in there.items() if self._is_odd(node)]
        if not asked:
            return {}
        said = dict(zip(asked, await asyncio.gather(*(self._leases(name) for name in asked)), strict=True))
        self._had = await self._cluster.had()  # as of now: whoever has got one of these workers is told of
        nobodys = {name: self._nobodys(name, leases) for name, leases in said.items() if leases is not None}
        ended = await asyncio.gather(*(self._end(name, workers) for name, workers in nobodys.items()))
        return {name: count for name, count in zip(nobodys, ended, strict=True) if count}

    def _is_odd(self, node: ClusterNode) -> bool:
        """Whether a node is to be asked itself: a head that has just come back does not know what is taken."""
        if node.status == "draining":
            return False
        return node.id in self._idle or node.used.get(SESSION_RESOURCE, 0) - self._had.places.get(node.id, 0) > _LEAST

    async def _leases(self, node_id: str) -> NodeLeases | None:
        try:
            return await self._cluster.leases(node_id)
        except Unavailable as error:
            _log.debug("a node does not say what it has given away", node=node_id, error=error.message)
            return None

    def _nobodys(self, node_id: str, leases: NodeLeases, told_s: float = TOLD_S) -> list[str]:
        """Return a node's workers that have idled for long and are nobody's, where more is taken than actors have."""
        idle, now = self._note(node_id, leases), self._clock()
        more = self._had.lacks(leases)
        if more is None:
            return []
        if more <= _LEAST:
            for known in (self._idle, self._over, self._tried):
                known.pop(node_id, None)
            return []
        since = self._over.setdefault(node_id, now) if told_s else now
        tried = self._tried.get(node_id)
        if tried is not None and abs(more - tried.more) > _LEAST:  # that has freed some, or there is another one
            del self._tried[node_id]
            tried = None
        found = [name for name, at in idle.items() if now - at >= IDLED_S and name not in self._had.shares]
        if not found or now - since < told_s or (tried is not None and now < tried.until):
            return []
        wait_s = _PAUSE_S if tried is None else min(_PAUSE_MAX_S, tried.wait_s * 2)
        self._tried[node_id] = _Tried(more, now + wait_s, wait_s)
        return found

    def _note(self, node_id: str, leases: NodeLeases) -> dict[str, float]:
        """Note since when which of a node's workers idle."""
        before, now = self._idle.get(node_id, {}), self._clock()
        self._idle[node_id] = found = {worker: before.get(worker, now) for worker in leases.idle}
        return found

    async def _end(self, node_id: str, workers: Sequence[str]) -> int:
        ended = sum(await asyncio.gather(*(self._end_one(node_id, worker) for worker in workers)))
        if ended:
            _log.warning("places are taken for nobody: idle workers were ended", node=node_id, workers=ended)
        return ended

    async def _end_one(self, node_id: str, worker: str) -> bool:
        try:
            await self._cluster.end(node_id, worker)
        except Unavailable as error:
            _log.warning("could not free a place", node=node_id, worker=worker, error=error.message)
            return False
        return True


def stale_leases() -> StaleLeases:
    """Return what looks at the cluster that this process is in."""
    return StaleLeases(_Cluster())


class _Cluster:
    """The cluster that this process is in."""

    def __init__(self) -> None:
        self._addresses: Mapping[str, str] = {}
        # of their own: what is asked of a head that is away may hang for a minute
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="koda-raylets")

    async def is_there(self) -> bool:
        host, _, port = str(_context().gcs_address).rpartition(":")
        for _ in range(_CONNECTS):
            try:
                async with asyncio.timeout(_CONNECT_S):
                    _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            except (OSError, TimeoutError):
                continue
            writer.close()
            return True
        return False

    async def nodes(self) -> Sequence[ClusterNode]:
        seen = await see_nodes()
        self._addresses = await _asked_of_head(_addresses)
        return [node for node in seen.nodes if node.id in self._addresses]

    async def had(self) -> Had:
        return await _asked_of_head(_had)

    async def leases(self, node_id: str) -> NodeLeases:
        return await self._in_thread(leases_of, self._address(node_id))

    async def refuse(self, node_id: str) -> None:
        await self._in_thread(take_out_of_line, self._address(node_id), _SHARES)

    async def end(self, node_id: str, worker: str) -> None:
        await self._in_thread(end_idle, self._address(node_id), worker)

    def _address(self, node_id: str) -> str:
        if (address := self._addresses.get(node_id)) is None:
            raise Unavailable(f"node {node_id} was not among those that were there when its head was asked last")
        return address

    def _in_thread(self, ask: Callable[..., T], *given: object) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, ask, *given)


async def _asked_of_head(ask: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(ANSWER_S):  # a thread that hangs is left behind
            return await asyncio.to_thread(ask)
    except (RayError, RuntimeError, OSError, TimeoutError) as error:
        raise Unavailable(f"the cluster's head does not say within {ANSWER_S:.0f} s what has which place") from error


def _addresses() -> Mapping[str, str]:
    """Return where the raylets are that are alive."""
    return {
        str(node["NodeID"]): raylet_address(node["NodeManagerAddress"], node["NodeManagerPort"])
        for node in _nodes()
        if node["Alive"]
    }


def _had() -> Had:
    """Ask the head what actors have.

    One that is on its way has a place once it has a worker to come to: before, it names the node that is asked for one,
    which may have none to give, for want of those that are looked for here.
    """
    data = cast("Any", gcs_pb2).ActorTableData
    table = cast("Any", state)._connect_and_get_accessor().get_actor_table
    places: defaultdict[str, float] = defaultdict(float)
    shares: dict[str, float] = {}
    for kind in ("ALIVE", "PENDING_CREATION", "RESTARTING"):
        for row in (data.FromString(told) for told in table(None, kind)):
            if row.address.worker_id:
                share = float(dict(row.required_resources).get(SESSION_RESOURCE, 0))
                shares[row.address.worker_id.hex()] = share
                places[row.address.node_id.hex()] += share
    return Had(places, shares)


# Ray's own types for these are incomplete
_context = cast("Callable[[], Any]", cast("Any", ray).get_runtime_context)
_nodes = cast("Callable[[], list[dict[str, Any]]]", ray.nodes)
