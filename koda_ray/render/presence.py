"""Which nodes of a Ray cluster can be reached: Ray gives one up only some 20 to 55 s after it fell silent.

Until then Ray answers with actors that are gone, and puts new work where nobody is. A machine that is there takes a
connection at its raylet's port, however busy it is, since its kernel does that; one that was cut off, or whose raylet
has ended, does not. So that is tried before something is put somewhere, and while something does not answer. Nor is
anything put on a node that can do no work (`fitness`), as long as there are others.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import ray
from ray._private.state import state
from ray.core.generated import gcs_pb2
from ray.exceptions import RayError

from koda_ray.logs import get_logger
from koda_ray.render.fitness import Unfit, has_room, losing_nodes, unfit_nodes

__all__ = ["Presence", "without"]

_FRESH_S = 2.0
_CONNECT_S = 1.5
_TRIES = 2
_HEAD_S = 2.0
_AT_ONCE = 8
"""How many actors the head is asked for at once: a thousand may wait for room."""
_NODE_LABEL = "ray.io/node-id"
_NOT_IN = re.compile(r"!in\((.+)\)")
_WAITS = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "RESTARTING")
T = TypeVar("T")
_log = get_logger(__name__)


def without(avoided: frozenset[str]) -> dict[str, Any]:
    """Return the options with which Ray puts something on none of these nodes, and waits where no other is left."""
    return {"label_selector": {_NODE_LABEL: f"!in({','.join(sorted(avoided))})"}} if avoided else {}


class Presence:
    """What this process knows of nodes that Ray counts as alive, and that are gone or unfit; it looks when asked."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, Mapping[str, float]] = {}
        self._absent: frozenset[str] = frozenset()
        self._unfit: Mapping[str, Unfit] = {}
        self._differing: dict[str, set[str]] = {}
        self._asking = 0
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._asked: asyncio.Future[tuple[list[dict[str, Any]], Mapping[str, Unfit]]] | None = None
        self._asking_room: asyncio.Task[None] | None = None
        # of our own: what is asked of a head that is away may hang for a minute
        self._threads = ThreadPoolExecutor(3, thread_name_prefix="koda-presence")

    async def absent(self) -> frozenset[str]:
        """Return Ray's ids of nodes that it takes for alive and that cannot be reached; as known with its head away."""
        looking = self.glance()
        if looking is not None:
            await asyncio.shield(looking)
        return self._absent

    def glance(self) -> asyncio.Task[None] | None:
        """Begin to look, for whoever will ask soon: that takes seconds where a node does not answer.

        Returns:
            The look; None where what is known is fresh.
        """
        if time.monotonic() - self._looked_at < _FRESH_S:
            return None
        if self._looking is None or self._looking.done():
            # a context of its own: Ray would cancel with the request that asks first what others wait for, too
            self._looking = asyncio.get_running_loop().create_task(self._look(), context=contextvars.Context())
            self._looking.add_done_callback(lambda look: look.cancelled() or look.exception())  # it may be for nobody
        return self._looking

    async def elsewhere(self, resource: str, environment: str = "") -> dict[str, Any]:
        """Return the options with which Ray puts something on nodes that can be reached, where others offer that, too.

        Args:
            resource: What it asks for.
            environment: What it has to be rendered with, by its fingerprint.
        """
        return without(await self.avoided(resource, environment))

    async def avoided(self, resource: str, environment: str = "") -> frozenset[str]:
        """Return the nodes, by Ray's ids, that `elsewhere` puts nothing on, as others offer a resource."""
        absent, there = await self.absent(), self._offering(resource)
        differing = self._differing.get(environment, set())
        for avoided in (absent | differing | set(self._unfit), absent | differing, absent):
            if there & avoided and there - avoided:
                return frozenset(there & avoided)
        return frozenset()

    async def is_left_to(self, avoided: frozenset[str], resource: str) -> bool:
        """Whether only avoided nodes of those that can be reached still offer a resource: Ray would wait for others."""
        absent = await self.absent()  # which looks at what there is, too
        there = self._offering(resource) - absent
        return bool(there) and there <= avoided

    async def count(self, resource: str, environment: str = "") -> int:
        """Return how many nodes can be reached that offer a resource, are fit, and may render with an environment."""
        avoided = await self.absent() | set(self._unfit) | self._differing.get(environment, set())
        return len(self._offering(resource) - avoided)

    def _offering(self, resource: str) -> set[str]:
        return {node for node, offered in self._nodes.items() if offered.get(resource, 0) > 0}

    def found_full(self, *nodes: str) -> None:
        """Take note of nodes that have just given work up, before the cluster's head tells of it."""
        self._unfit = {**self._unfit, **dict.fromkeys(nodes, "full")}

    async def look_for_full(self) -> None:
        """Look, for whoever has lost something, which nodes have no room, also where nobody lives to say so."""
        if self._asking_room is None or self._asking_room.done():
            # a context of its own: as for `glance`
            asking = asyncio.get_running_loop().create_task(self._ask_room(), context=contextvars.Context())
            asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
            self._asking_room = asking
        await asyncio.shield(self._asking_room)

    async def _ask_room(self) -> None:
        self._looked_at = float("-inf")  # somebody may have said so meanwhile
        absent = await self.absent()
        try:
            async with asyncio.timeout(_HEAD_S):
                losing = await self._in_thread(losing_nodes)
        except (RayError, RuntimeError, OSError, TimeoutError) as error:
            _log.info("the cluster does not say where it lost processes", error=type(error).__name__)
            return
        asked = sorted(losing - absent - set(self._unfit))
        answers = await asyncio.gather(*map(has_room, asked))
        self.found_full(*(node for node, room in zip(asked, answers, strict=True) if not room))

    def is_full(self, node: str) -> bool:
        """Whether a node, by Ray's id, is known to have no room."""
        return self._unfit.get(node) == "full"

    async def is_full_everywhere(self, resource: str) -> bool:
        """Whether no node that can be reached and offers a resource has room."""
        absent = await self.absent()
        there = self._offering(resource) - absent
        return bool(there) and all(map(self.is_full, there))

    def found_differing(self, node: str, environment: str) -> None:
        """Take note of a node that does not render with an environment: what is there does not change."""
        self._differing.setdefault(environment, set()).add(node)

    async def is_gone(self, node: str) -> bool:
        """Whether a node, by Ray's id, cannot be reached."""
        return node in await self.absent()

    async def is_lost(self, handle: Any) -> bool:
        """Whether an actor is on a node that cannot be reached, or waits for nodes that are gone, while others have it.

        It keeps the nodes that it was not put on for as long as it is there, and Ray starts it again by them, too.
        """
        absent = await self.absent()
        if self._asking == _AT_ONCE:  # whoever waits asks again in a moment
            return False
        self._asking += 1
        try:
            async with asyncio.timeout(_HEAD_S):
                told = await self._in_thread(_actor, handle._actor_id.hex())
        except (RayError, RuntimeError, OSError, TimeoutError):  # the head is away
            return False
        finally:
            self._asking -= 1
        if told is None:
            return False
        if told.node in absent or not told.waits:
            return told.node in absent
        there = {node for node, offered in self._nodes.items() if told.fits(offered)} - absent
        return bool(there) and there <= told.avoided

    async def _look(self) -> None:
        try:
            nodes, unfit = await self._seen()
            alive = [node for node in nodes if node["Alive"]]
        except (RayError, RuntimeError, OSError, TimeoutError) as error:
            _log.info("the cluster does not say which nodes it has", error=type(error).__name__)
        else:
            reached = await asyncio.gather(*(_is_reached(node) for node in alive))
            absent = frozenset(
                str(node["NodeID"]) for node, is_there in zip(alive, reached, strict=True) if not is_there
            )
            if gone := sorted(absent - self._absent):
                _log.warning("nodes cannot be reached", nodes=gone)
            self._nodes = {str(node["NodeID"]): node["Resources"] for node in alive}
            self._absent, self._unfit = absent, unfit
        self._looked_at = time.monotonic()

    async def _seen(self) -> tuple[list[dict[str, Any]], Mapping[str, Unfit]]:
        """Ask the head, once at a time."""
        if self._asked is None or self._asked.done():
            self._asked = self._in_thread(_see)
        if not (await asyncio.wait({self._asked}, timeout=_HEAD_S))[0]:
            raise TimeoutError
        return self._asked.result()

    def _in_thread(self, ask: Callable[..., T], *given: object) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, ask, *given)


async def _is_reached(node: Mapping[str, Any]) -> bool:
    for _ in range(_TRIES):  # once may be an accident, or this process itself that was held up
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, writer = await asyncio.open_connection(node["NodeManagerAddress"], node["NodeManagerPort"])
        except (OSError, TimeoutError):
            continue
        writer.close()
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Actor:
    """What the head has of an actor: where it is, whether it waits for a place, what it asks for, what it avoids."""

    node: str
    waits: bool
    required: Mapping[str, float]
    avoided: frozenset[str]

    def fits(self, offered: Mapping[str, float]) -> bool:
        """Whether a node that offers this much is enough for it."""
        return all(offered.get(resource, 0) >= amount for resource, amount in self.required.items())


def _actor(actor_id: str) -> _Actor | None:
    """Ask the head for an actor: Ray's own functions leave its selector out, or ask the dashboard."""
    data = cast("Any", gcs_pb2).ActorTableData
    told = cast("Any", state)._connect_and_get_accessor().get_actor_info(ray.ActorID(bytes.fromhex(actor_id)))
    if told is None:
        return None
    row = data.FromString(told)
    selected = _NOT_IN.fullmatch(row.label_selector.get(_NODE_LABEL, ""))
    return _Actor(
        node=row.address.node_id.hex(),
        waits=data.ActorState.Name(row.state) in _WAITS,
        required=dict(row.required_resources),
        avoided=frozenset(selected[1].split(",")) if selected else frozenset(),
    )


def _see() -> tuple[list[dict[str, Any]], Mapping[str, Unfit]]:
    return _all_nodes(), unfit_nodes()


# Ray's own types for these are incomplete
_all_nodes = cast("Callable[[], list[dict[str, Any]]]", ray.nodes)
