"""Which places count as taken for nobody; on a real cluster what is ended then, and what is not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import ray
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated import common_pb2, node_manager_pb2, node_manager_pb2_grpc

from koda_ray.actors.nodes import ClusterNode
from koda_ray.actors.raylets import NodeLeases, end_idle, leases_of, raylet_address
from koda_ray.actors.stale_leases import IDLED_S, LOOK_S, TOLD_S, Had, StaleLeases, stale_leases
from koda_ray.cancellation import end_all
from koda_ray.config import REPO_ROOT
from koda_ray.errors import Unavailable
from koda_ray.resources import SESSION_RESOURCE
from koda_ray.serve import ray_folder


class Town:
    """A cluster of one node that has places, as its head and the node would tell of it, and a clock."""

    def __init__(self, *, used: float = 0.0, had: float = 0.0) -> None:
        self.used = self.told = used
        self.had_all, self.shares = had, dict[str, float]()
        self.actors = {"awake"}
        self.idle = set[str]()
        self.now = 0.0
        self.there, self.silent, self.draining, self.frees = True, False, False, True
        self.refused, self.ended = 0, list[str]()
        self.looked = self.leases_asked = 0
        self.stale = StaleLeases(self, clock=lambda: self.now)

    async def is_there(self) -> bool:
        return self.there

    async def nodes(self) -> Sequence[ClusterNode]:
        if not self.there:
            raise Unavailable("it is away")
        status = "draining" if self.draining else "working"
        told = {SESSION_RESOURCE: self.told}
        return [
            ClusterNode(id="node", address="10.0.0.1", status=status, total={SESSION_RESOURCE: 9.0}, used=told),
            ClusterNode(id="browsers", address="10.0.0.2", total={"chromium": 1.0}),
        ]

    async def had(self) -> Had:
        self.looked += 1
        shares = {"awake": self.had_all - sum(self.shares.values()), **self.shares}
        return Had({"node": self.had_all}, shares)

    async def leases(self, node_id: str) -> NodeLeases:
        assert node_id == "node"
        self.leases_asked += 1
        if self.silent:
            raise Unavailable("no answer")
        return NodeLeases(self.used, frozenset(self.actors), frozenset(self.idle))

    async def refuse(self, node_id: str) -> None:
        assert node_id == "node"
        if self.silent:
            raise Unavailable("no answer")
        self.refused += 1

    async def end(self, node_id: str, worker: str) -> None:
        self.ended.append(worker)
        if self.frees:
            self.idle.remove(worker)
            self.used = self.told = self.used - 1

    async def clear(self, *, after_s: float = 0.0) -> dict[str, int]:
        self.now += after_s
        return await self.stale.clear()


async def test_places_on_workers_that_idle_for_nobody_are_freed_all_at_once() -> None:
    town = Town(used=3.001, had=1.001)
    town.idle = {"one", "two"}
    assert await town.clear() == {}, "somebody may be about to give them work"
    assert await town.clear(after_s=IDLED_S - 1) == {}
    assert await town.clear(after_s=1) == {"node": 2}
    assert town.used == town.had_all and await town.clear(after_s=IDLED_S) == {}
    assert sorted(town.ended) == ["one", "two"]


async def test_a_worker_that_an_actor_comes_to_is_not_ended_nor_one_that_has_worked_meanwhile() -> None:
    town = Town(used=3.0, had=2.0)
    town.idle, town.shares = {"theirs", "works", "nobodys"}, {"theirs": 1.0}
    await town.clear()
    town.idle.remove("works")
    await town.clear()
    town.idle.add("works")
    assert await town.clear(after_s=IDLED_S) == {"node": 1}
    assert town.ended == ["nobodys"]


async def test_where_actors_have_all_that_is_taken_nodes_are_not_even_asked() -> None:
    town = Town(used=2.0, had=2.0)
    town.idle = {"spare"}
    assert await town.clear() == await town.clear(after_s=IDLED_S) == {}
    assert town.leases_asked == 0


async def test_while_the_head_is_away_what_waits_is_refused_and_what_is_nobodys_freed() -> None:
    town = Town(used=2.0, had=2.0)
    await town.clear()
    town.there, town.used, town.told, town.idle = False, 3.0, 0.0, {"left"}
    await town.stale.prepare()
    await town.stale.prepare()
    assert town.refused == 1 and town.ended == []
    town.now += LOOK_S
    await town.stale.prepare()
    assert town.refused == 2, "one that was back for a moment may have left more"
    assert town.ended == ["left"] and town.used == 2.0


async def test_where_an_actor_came_that_nobody_told_of_it_is_seen_once_the_head_is_back() -> None:
    """A head that has just come back does not know yet what is taken."""
    town = Town(used=1.0, had=1.0)
    await town.clear()
    town.there, town.used, town.told, town.idle = False, 3.0, 0.0, {"left"}
    town.actors.add("unheard")
    for _ in range(3):
        await town.stale.prepare()
        town.now += LOOK_S
    assert town.ended == []
    town.there, town.had_all, town.shares = True, 2.0, {"unheard": 1.0}
    assert await town.clear() == {}, "it may be about to tell whose it is"
    assert await town.clear(after_s=TOLD_S) == {"node": 1} and town.ended == ["left"]


async def test_who_looks_all_the_time_sees_a_head_go_and_come_back() -> None:
    town = Town(used=1.0, had=1.0)
    looking = asyncio.create_task(town.stale.run())
    try:
        async with asyncio.timeout(60):
            while not town.looked:
                await asyncio.sleep(0.05)
            town.there, town.used, town.told, town.idle = False, 2.0, 0.0, {"left"}
            while not town.refused:
                await asyncio.sleep(0.05)
            town.now += IDLED_S
            town.there = True
            while not town.ended:
                town.now += 0.1
                await asyncio.sleep(0.05)
    finally:
        await end_all((looking,))


async def test_where_it_frees_nothing_it_is_tried_ever_more_seldom_and_what_is_new_at_once() -> None:
    """A task of somebody's may hold a place for as long as it likes."""
    town, tried = Town(used=2.0, had=1.0), list[float]()
    town.idle, town.frees = {"spare"}, False
    for _ in range(400):
        if await town.clear(after_s=LOOK_S):
            tried.append(town.now)
    between = [later - earlier for earlier, later in pairwise(tried)]
    assert len(tried) > 3 and all(later > 1.5 * earlier for earlier, later in pairwise(between))
    town.used = town.told = 3.0
    town.idle.add("left")
    town.frees = True
    await town.clear(after_s=LOOK_S)
    assert await town.clear(after_s=IDLED_S) and "left" in town.ended


async def test_what_began_to_idle_later_is_freed_as_soon_as_that_is_sure_too() -> None:
    town = Town(used=3.0, had=1.0)
    town.idle = {"one"}
    await town.clear()
    town.idle.add("two")
    assert await town.clear(after_s=IDLED_S - 1) == {}
    assert await town.clear(after_s=1) == {"node": 1}
    assert await town.clear(after_s=IDLED_S - 1) == {"node": 1} and town.ended == ["one", "two"]


async def test_a_node_that_says_nothing_is_asked_again_and_one_that_goes_is_left_alone() -> None:
    town = Town(used=2.0, had=1.0)
    town.idle, town.silent = {"left"}, True
    assert await town.clear() == await town.clear(after_s=IDLED_S) == {}
    town.silent, town.draining = False, True
    assert await town.clear() == await town.clear(after_s=IDLED_S) == {}
    town.draining = False
    assert await town.clear() == {} and await town.clear(after_s=IDLED_S) == {"node": 1}


# --- a cluster ------------------------------------------------------------------------------------------------------


class _Holder:
    """An actor with a place."""

    def worker(self) -> str:
        return str(cast("Any", ray).get_runtime_context().get_worker_id())


def _hold(folder: str) -> int:
    """Have a place until there is a file."""
    Path(folder, "begun").touch()
    while not Path(folder, "ends").exists():
        time.sleep(0.05)
    return os.getpid()


@pytest.fixture
def raylet() -> Iterator[str]:
    """A node with three places for sessions; gives where it is asked."""
    folder = ray_folder.make()
    ray.init(
        num_cpus=1, resources={SESSION_RESOURCE: 3}, include_dashboard=False, object_store_memory=10**8,
        log_to_driver=False, logging_level="ERROR", _temp_dir=folder,
        runtime_env={"env_vars": {"PYTHONPATH": str(REPO_ROOT)}},
    )  # fmt: skip
    (node,) = ray.nodes()
    yield raylet_address(node["NodeManagerAddress"], node["NodeManagerPort"])
    ray.shutdown()
    ray_folder.remove(folder)


def _ask_as_a_head(stub: Any) -> Any:
    """Ask for a place for an actor as a head does; what is granted to it is nobody's, since it gives it to none."""
    job = bytes.fromhex(str(cast("Any", ray).get_runtime_context().get_job_id()))
    place = {SESSION_RESOURCE: 1.0}
    spec = cast("Any", common_pb2).LeaseSpec(
        lease_id=os.urandom(32), job_id=job, type=1, actor_id=os.urandom(12) + job, is_detached_actor=True,
        required_resources=place, required_placement_resources=place,
    )  # fmt: skip
    spec.caller_address.node_id, spec.caller_address.worker_id = os.urandom(28), os.urandom(28)
    spec.function_descriptor.python_function_descriptor.module_name = "nobody"
    spec.runtime_env_info.serialized_runtime_env = "{}"
    spec.scheduling_strategy.default_scheduling_strategy.SetInParent()
    return stub.RequestWorkerLease.future(cast("Any", node_manager_pb2).RequestWorkerLeaseRequest(lease_spec=spec))


@pytest.mark.full
@pytest.mark.ray
async def test_what_a_head_that_is_gone_has_left_on_a_node_is_given_free_and_nothing_else(
    raylet: str, tmp_path: Path
) -> None:
    make = cast("Callable[..., Any]", ray.remote)
    holder = make(num_cpus=0, resources={SESSION_RESOURCE: 1})(_Holder).remote()
    held = await holder.worker.remote()
    taken = make(num_cpus=0, max_retries=0, resources={SESSION_RESOURCE: 0.999})(_hold).remote(str(tmp_path))
    leases = stale_leases()
    channel = init_grpc_channel(raylet)
    stub = cast("Any", node_manager_pb2_grpc).NodeManagerServiceStub(channel)
    async with asyncio.timeout(120):
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.1)
        await leases.clear()
        granted = await asyncio.to_thread(_ask_as_a_head(stub).result)
        waits = _ask_as_a_head(stub)
        assert granted.worker_pid and not waits.done()
        while not (await asyncio.to_thread(waits.done)):
            await leases.prepare()
            await asyncio.sleep(0.2)
        assert waits.result().canceled
        while not (ended := await leases.clear()):
            await asyncio.sleep(0.2)
        assert sum(ended.values()) >= 1
        while leases_of(raylet).used > 2:
            await asyncio.sleep(0.1)
    channel.close()
    await asyncio.to_thread(end_idle, raylet, held)
    assert await holder.worker.remote() == held, "it is an actor by now, and refuses"
    (tmp_path / "ends").touch()
    assert await taken, "it was not ended: it has no second try"
