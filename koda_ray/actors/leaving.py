"""What works on a node that is about to be taken away, or can do no work, leaves it while there is time.

Ray drains a node that a cloud gives notice of (`koda_ray.deploy.notice`), that Kubernetes takes away, or that somebody
ends: it puts nothing more there, and waits for what runs. Captures are short, and one that is lost is begun again
elsewhere. Sessions and coordinators of renders stay for as long as they work, so they are told to go: each saves what
it has, gives its row up, and is woken on another node. So they are on a node that is unfit
(`koda_ray.render.fitness`), as long as another holds sessions too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import ray
from ray._private.state import state
from ray.exceptions import RayError

from koda_ray.actors.chores import logged
from koda_ray.actors.host import NAMESPACE, RENDERS_PREFIX, SESSION_PREFIX
from koda_ray.actors.seeing import own_node
from koda_ray.cancellation import end_all
from koda_ray.logs import get_logger
from koda_ray.render.fitness import unfit_nodes
from koda_ray.resources import SESSION_RESOURCE

__all__ = ["LOOK_S", "Leaving"]

LOOK_S = 1.0
"""Between two looks for nodes that are about to go, in seconds."""
_HEAD_S = 5.0
_LEAVE_S = 15.0
"""How long one may take to save what it has: half of the shortest notice that a cloud gives."""
T = TypeVar("T")
_log = get_logger(__name__)


class Leaving:
    """Has sessions and coordinators of renders leave the nodes of this cluster that are drained, or unfit.

    Args:
        leave: Ends this process, once all others have left the node that it is on itself.
    """

    def __init__(self, leave: Callable[[], object]) -> None:
        self._leave = leave
        self._going: dict[str, asyncio.Task[None]] = {}
        self._asked: asyncio.Future[frozenset[str]] | None = None
        # of our own: what is asked of a head that is away may hang for a minute
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="koda-leaving")

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                await logged(self._look(), "look for nodes that go")
                await asyncio.sleep(LOOK_S)
        finally:
            await end_all(self._going.values())
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        self._going = {name: task for name, task in self._going.items() if not task.done()}
        try:
            left = await self._to_leave()
            there = await self._in_thread(_actors_on, left) if left else []
        except (RayError, RuntimeError, OSError, TimeoutError) as error:
            _log.debug("the cluster does not say which nodes go", error=type(error).__name__)
            return
        for name in there:
            if name not in self._going:
                self._going[name] = asyncio.create_task(self._move(name))
        if own_node() in left and not there:
            _log.warning("the janitor's node is left: another starts elsewhere", node=own_node())
            self._leave()

    async def _to_leave(self) -> Collection[str]:
        """Ask the head, once at a time."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().run_in_executor(self._threads, _nodes_to_leave)
        if not (await asyncio.wait({self._asked}, timeout=_HEAD_S))[0]:
            raise TimeoutError
        return self._asked.result()

    async def _move(self, name: str) -> None:
        try:
            handle = await self._in_thread(_get_actor, name, namespace=NAMESPACE)
        except (ValueError, TimeoutError):  # it has left by itself; or it is looked for again
            return
        try:
            async with asyncio.timeout(_LEAVE_S):
                await handle.close.remote()
        except (RayError, TimeoutError) as error:  # what it had not saved is taken up from its rows
            _log.warning("did not leave in good order", actor=name, error=type(error).__name__)
        else:
            _log.info("left its node", actor=name)
        with contextlib.suppress(RayError, TimeoutError):
            await self._in_thread(_kill, handle, no_restart=True)

    async def _in_thread(self, ask: Callable[..., T], *given: object, **named: object) -> T:
        async with asyncio.timeout(_HEAD_S):
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: ask(*given, **named))


def _nodes_to_leave() -> frozenset[str]:
    """Return Ray's ids of nodes that are drained, and of unfit ones as long as another takes what is there."""
    draining, unfit = frozenset(_draining_nodes()), frozenset(unfit_nodes())
    if not unfit:
        return draining
    offers = {node["NodeID"] for node in _nodes() if node["Alive"] and node["Resources"].get(SESSION_RESOURCE, 0) > 0}
    return draining | unfit if offers - draining - unfit else draining


def _actors_on(nodes: Collection[str]) -> list[str]:
    """Return the names of sessions and of coordinators on some nodes."""
    return [
        actor["Name"]
        for actor in _actors(None, None, "ALIVE").values()
        if actor["Address"]["NodeID"] in nodes and actor["Name"].startswith((SESSION_PREFIX, RENDERS_PREFIX))
    ]


# Ray's own types for these are incomplete
_draining_nodes = cast("Callable[[], Mapping[str, int]]", state.get_draining_nodes)
_nodes = cast("Callable[[], list[dict[str, Any]]]", ray.nodes)
_actors = cast("Callable[..., dict[str, dict[str, Any]]]", state.actor_table)
_get_actor = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
