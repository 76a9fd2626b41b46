"""When a node's places count as taken for nobody; on a real cluster what is ended then, and what is not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import ray

from koda_ray.actors import stale_leases as module
from koda_ray.actors.nodes import ClusterNode
from koda_ray.actors.seeing import own_node, see_nodes
from koda_ray.actors.stale_leases import STALE_S, StaleLeases, stale_leases
from koda_ray.config import REPO_ROOT
from koda_ray.resources import SESSION_RESOURCE
from koda_ray.serve import ray_folder


class Town:
    """One node with places, as a head would tell of it, and a clock."""

    def __init__(self) -> None:
        self.used = self.held = self.now = 0.0
        self.draining = False
        self.asked = 0
        self.answers: asyncio.Event | None = None
        self.leases = StaleLeases(look=self.look, held=self.says, free=self.free, clock=lambda: self.now)

    async def look(self) -> tuple[ClusterNode, ...]:
        status = "draining" if self.draining else "working"
        return (ClusterNode(id="node", address="10.0.0.1", status=status, used={SESSION_RESOURCE: self.used}),)

    async def says(self) -> Mapping[str, float]:
        return {"node": self.held}

    async def free(self, node_id: str) -> int:
        assert node_id == "node"
        self.asked += 1
        if self.answers is not None:
            await self.answers.wait()
        return 1

    async def clear(self, used: float, held: float, *, after_s: float = 0.0) -> list[str]:
        self.used, self.held = used, held
        self.now += after_s
        found = await self.leases.clear()
        await asyncio.sleep(0)  # what was begun
        return found


async def test_a_place_that_stays_taken_for_nobody_is_freed_and_what_actors_have_is_not() -> None:
    town = Town()
    assert await town.clear(2.001, 1.001) == [], "somebody may be about to come for it"
    assert await town.clear(2.001, 1.001, after_s=STALE_S - 1) == []
    assert await town.clear(2.001, 1.001, after_s=1) == ["node"]
    assert await town.clear(1.001, 1.001, after_s=1) == await town.clear(1.001, 1.001, after_s=STALE_S) == []
    assert town.asked == 1


async def test_where_sessions_come_and_go_all_the_time_what_is_on_its_way_is_not_taken_for_nobodys() -> None:
    """A node gives a place away before it has a process to name to the head."""
    town = Town()
    for more in (2, 3, 1, 0, 2, 3, 2, 0, 1, 2, 1, 0):
        assert await town.clear(10.0 + more, 10.0, after_s=STALE_S / 4) == []
    assert town.asked == 0


async def test_of_several_on_their_way_one_that_nobody_takes_is_found() -> None:
    town = Town()
    for more in (3, 2, 1, 2, 3, 2):
        assert await town.clear(10.0 + more, 10.0, after_s=STALE_S / 4) == []
    assert await town.clear(12.0, 10.0, after_s=STALE_S / 4) == ["node"], "there was never less than one, for so long"


async def test_a_head_that_has_just_come_back_and_does_not_know_yet_what_is_taken_says_nothing() -> None:
    town = Town()
    assert await town.clear(2.0, 1.0) == []
    assert await town.clear(0.0, 1.0, after_s=STALE_S) == []
    assert await town.clear(2.0, 1.0) == ["node"], "it was so all the while"


async def test_where_it_frees_nothing_it_is_tried_ever_more_seldom() -> None:
    """A task of somebody's may hold a place for as long as it likes."""
    town, tried = Town(), list[float]()
    for _ in range(400):
        if await town.clear(2.0, 1.0, after_s=STALE_S / 9):
            tried.append(town.now)
    between = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert len(tried) > 3 and all(later >= 2 * earlier for earlier, later in pairwise(between))


async def test_a_node_that_does_not_answer_is_asked_once_and_one_that_goes_is_left_alone() -> None:
    town = Town()
    town.answers = asyncio.Event()
    await town.clear(2.0, 1.0)
    assert await town.clear(2.0, 1.0, after_s=STALE_S) == ["node"]
    assert await town.clear(2.0, 1.0, after_s=10 * STALE_S) == [] and town.asked == 1
    town.answers.set()
    town.draining = True
    assert await town.clear(2.0, 1.0, after_s=100 * STALE_S) == [] and town.asked == 1
    town.draining = False
    assert await town.clear(2.0, 1.0, after_s=100 * STALE_S) == ["node"]


# --- a cluster ------------------------------------------------------------------------------------------------------


class _Holder:
    """An actor with a place, and one that looks as the janitor does."""

    def pid(self) -> int:
        return os.getpid()

    async def clear(self) -> list[str]:
        module.STALE_S = 0.0
        leases = stale_leases()
        found = await leases.clear()
        while any(not task.done() for task in leases.freeing):
            await asyncio.sleep(0.05)
        return found


def _meet(folder: str, workers: int) -> int:
    """End once there are so many, each in a worker of its own; returns which."""
    Path(folder, str(os.getpid())).touch()
    while len(os.listdir(folder)) < workers:
        time.sleep(0.05)
    return os.getpid()


@pytest.fixture
def cluster() -> Iterator[None]:
    """A node with two places for sessions."""
    folder = ray_folder.make()
    ray.init(
        num_cpus=1, resources={SESSION_RESOURCE: 2}, include_dashboard=False, object_store_memory=10**8,
        log_to_driver=False, logging_level="ERROR", _temp_dir=folder,
        runtime_env={"env_vars": {"PYTHONPATH": str(REPO_ROOT)}},
    )  # fmt: skip
    yield
    ray.shutdown()
    ray_folder.remove(folder)


@pytest.mark.full
@pytest.mark.ray
@pytest.mark.parametrize("where", ["by a task", "where it is"])
async def test_workers_that_idle_are_ended_and_those_that_work_are_not(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(module, "STALE_S", 0.0)
    make = cast("Callable[..., Any]", ray.remote)
    holder = make(num_cpus=0, resources={SESSION_RESOURCE: 1})(_Holder).remote()
    held = await holder.pid.remote()
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    meet = make(num_cpus=0, max_retries=0)(_meet)
    idling = {await each for each in [meet.remote(str(here), 3) for _ in range(3)]}
    (node,) = (await see_nodes()).nodes
    assert node.id == own_node() and node.used[SESSION_RESOURCE] == 1
    leases = stale_leases()
    assert await leases.clear() == await leases.clear() == [], "the actor has what is taken"
    # a task has a place here: to whoever counts actors it is taken for nobody
    taken = make(num_cpus=0, max_retries=0, resources={SESSION_RESOURCE: 1})(_meet).remote(str(there), 2)
    async with asyncio.timeout(120):
        while not os.listdir(there):
            await asyncio.sleep(0.1)
        works = int(os.listdir(there)[0])
        clear = leases.clear if where == "by a task" else holder.clear.remote
        while not await clear():
            await asyncio.sleep(0.2)
        while sum(map(psutil.pid_exists, idling - {works})) > 1:  # the one that looks may be one of them
            await asyncio.sleep(0.1)
    assert await holder.pid.remote() == held
    (there / "another").touch()
    assert await taken == works, "it was not ended: it has no second try"
    assert await meet.remote(str(here), 3), "Ray starts others"
