"""Which nodes are visited, and when they are left alone; on a real cluster the rounds themselves."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from structlog.testing import capture_logs

from koda_ray.actors import reaping
from koda_ray.actors import rounds as module
from koda_ray.actors.directory import public_settings
from koda_ray.actors.nodes import ClusterNode, NodesSeen
from koda_ray.actors.reaper import Reaped
from koda_ray.actors.reaping import rounds
from koda_ray.actors.rounds import Rounds
from koda_ray.actors.seeing import own_node, see_nodes
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import Unavailable
from koda_ray.render.fitness import forget_gone, note_space, unfit_nodes
from koda_ray.render.presence import Presence
from koda_ray.serve import ray_folder
from koda_ray.state.sql import SqlStore


class Town:
    """Nodes as a head would tell of them, and what visiting them comes to."""

    def __init__(self) -> None:
        self.nodes = [ClusterNode(id="here", address="10.0.0.1"), ClusterNode(id="there", address="10.0.0.2")]
        self.visits: list[str] = []
        self.left: dict[str, int] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.broken: set[str] = set()
        self.rounds = Rounds(here="here", look=self.look, visit=self.visit)

    async def look(self) -> tuple[ClusterNode, ...]:
        return tuple(self.nodes)

    async def visit(self, node_id: str) -> Reaped:
        self.visits.append(node_id)
        if node_id in self.held:
            await self.held[node_id].wait()
        if node_id in self.broken:
            raise Unavailable("its node is gone")
        return Reaped(gone=[f"sbx_{node_id}"], standing=self.left.get(node_id, 0))

    def idle(self, node_id: str, idle_s: float) -> None:
        self.nodes = [
            ClusterNode(id=node.id, address=node.address, status="idle", idle_s=idle_s) if node.id == node_id else node
            for node in self.nodes
        ]

    async def clear(self, wait_s: float = 30.0) -> list[str]:
        return [name for reaped in await self.rounds.clear(wait_s=wait_s) for name in reaped.gone]


@pytest.fixture
def town(monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setattr(module, "_SLACK_S", 0.0)
    return Town()


async def test_a_node_that_works_is_visited_each_time_and_ones_own_never(town: Town) -> None:
    assert await town.clear() == await town.clear() == ["sbx_there"]
    assert town.visits == ["there", "there"]


async def test_one_without_work_is_visited_once_more_and_then_left_to_be_taken_away(town: Town) -> None:
    await town.clear()
    town.idle("there", 0.0)  # it stopped after that
    assert await town.clear() == ["sbx_there"]
    town.idle("there", 3600.0)
    assert await town.clear() == []
    town.idle("there", 0.0)  # it has worked again
    assert await town.clear() == ["sbx_there"]


async def test_one_whose_disk_is_full_is_visited_until_it_has_room(town: Town) -> None:
    await town.clear()
    town.idle("there", 3600.0)
    town.nodes = [replace(node, unfit="full" if node.id == "there" else None) for node in town.nodes]
    assert await town.clear() == await town.clear() == ["sbx_there"]
    town.nodes = [replace(node, unfit=None) for node in town.nodes]
    assert await town.clear() == []


async def test_one_where_a_sandbox_stands_is_visited_though_it_has_no_work(town: Town) -> None:
    town.left["there"] = 1
    town.idle("there", 3600.0)
    assert await town.clear() == await town.clear() == ["sbx_there"]


async def test_one_that_is_about_to_go_is_left_alone_and_one_that_comes_is_visited(town: Town) -> None:
    town.nodes[1] = ClusterNode(id="there", address="10.0.0.2", status="draining")
    assert await town.clear() == []
    town.nodes[1] = ClusterNode(id="new", address="10.0.0.2", status="idle", idle_s=3600.0)
    assert await town.clear() == ["sbx_new"]


async def test_a_slow_node_holds_up_no_other_and_is_told_of_when_it_is_done(town: Town) -> None:
    town.nodes.append(ClusterNode(id="slow", address="10.0.0.3"))
    town.held["slow"] = asyncio.Event()
    assert await town.clear(wait_s=0.05) == ["sbx_there"]
    assert await town.clear(wait_s=0.05) == ["sbx_there"]
    assert town.visits.count("slow") == 1
    town.held["slow"].set()
    assert set(await town.clear()) == {"sbx_slow", "sbx_there"}


async def test_one_whose_round_failed_is_due_again(town: Town) -> None:
    town.idle("there", 3600.0)
    town.broken.add("there")
    assert await town.clear() == []
    town.broken.clear()
    assert await town.clear() == ["sbx_there"]


async def test_outside_a_cluster_nobody_says_what_there_is() -> None:
    with pytest.raises(Unavailable, match="ray status"):
        await see_nodes()


# --- two nodes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    """Two nodes of one machine, with folders for temporary files of their own, as two machines have."""
    folder = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where a head writes its address down
    address.mkdir(exist_ok=True)
    (tmp_path / "tmp").mkdir()
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1, "temp_dir": folder, "include_dashboard": False, "object_store_memory": 10**8,
            "env_vars": {"PYTHONPATH": str(REPO_ROOT)},
        },
    )  # fmt: skip
    made.add_node(
        num_cpus=1, object_store_memory=10**8, env_vars={"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(REPO_ROOT)}
    )
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()
    ray_folder.remove(folder)
    shutil.rmtree(address)


@pytest.fixture
async def settings(tmp_path: Path) -> AsyncIterator[Settings]:
    settings = Settings(
        database_path=tmp_path / "koda.db", storage_path=tmp_path / "storage", sandbox_path=tmp_path / "sandboxes",
        sandbox_provider="local",
    )  # fmt: skip
    store = SqlStore(settings.database_path)
    await store.open()
    yield settings
    await store.close()


@pytest.mark.full
@pytest.mark.ray
async def test_what_a_dead_worker_left_on_another_node_is_cleared_and_the_node_may_go(
    cluster: Any, settings: Settings, tmp_path: Path
) -> None:
    @ray.remote(num_cpus=0, max_calls=1)  # its process ends with it
    def leave() -> str:
        from koda_ray.render.isolation import WorkFolder

        return str(WorkFolder("browser").path)

    (other,) = (node.id for node in (await see_nodes()).nodes if node.id != own_node())
    there = NodeAffinitySchedulingStrategy(node_id=other, soft=False)
    left = Path(await leave.options(scheduling_strategy=there).remote())  # pyright: ignore
    assert left.is_dir() and left.is_relative_to(tmp_path / "tmp"), "that node's own temporary folder"
    sent = rounds(public_settings(settings))
    async with asyncio.timeout(120):
        while left.exists():
            await sent.clear()
    # nothing of ours stands there: it has nothing to do from now on, and is not visited again
    async with asyncio.timeout(120):
        while (found := await _seen(other)).status != "idle" or found.idle_s < 6.0 or await sent.clear():
            await asyncio.sleep(0.2)
    assert (await _seen(other)).idle_s >= 6.0


@pytest.mark.full
@pytest.mark.ray
async def test_a_node_that_is_gone_is_forgotten(cluster: Any, settings: Settings) -> None:
    sent = rounds(public_settings(settings.model_copy(update={"node_room_mb": 10**9})))
    (node,) = (node for node in cluster.list_all_nodes() if node.node_id != own_node())
    assert len(await sent.clear()) == 1
    await asyncio.to_thread(note_space, False)
    unfit = dict.fromkeys((node.node_id, own_node()), "full")
    assert await asyncio.to_thread(unfit_nodes) == unfit
    await asyncio.to_thread(forget_gone)
    assert await asyncio.to_thread(unfit_nodes) == unfit, "those that are there are known still"
    await asyncio.to_thread(cluster.remove_node, node, allow_graceful=False)
    async with asyncio.timeout(120):
        while len((await see_nodes()).nodes) == 2:
            await asyncio.sleep(0.2)
    assert await sent.clear() == [] and (await see_nodes()).lost == 1
    await asyncio.to_thread(forget_gone)
    assert await asyncio.to_thread(unfit_nodes) == {own_node(): "full"}
    await asyncio.to_thread(note_space, True)
    assert await asyncio.to_thread(unfit_nodes) == {}


@pytest.mark.full
@pytest.mark.ray
async def test_a_round_that_is_lost_is_told_in_one_line_and_its_node_due_again(
    cluster: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def seen() -> NodesSeen:  # by a head that has not heard yet that it is gone
        return NodesSeen(nodes=(ClusterNode(id="ab" * 28, address="10.0.0.9"),))

    monkeypatch.setattr(reaping, "see_nodes", seen)
    sent = rounds(public_settings(settings))
    for _ in range(2):
        with capture_logs() as logs:
            assert await sent.clear() == []
        (line,) = logs
        assert (line["event"], line["log_level"], line["code"]) == ("could not clear a node", "warning", "UNAVAILABLE")
        assert line["address"] == "10.0.0.9" and "due again" in line["error"] and "exc_info" not in line


@pytest.mark.full
@pytest.mark.ray
async def test_a_node_without_room_is_known_to_all_until_there_is_room_again(cluster: Any, settings: Settings) -> None:
    (other,) = (node.id for node in (await see_nodes()).nodes if node.id != own_node())
    assert (await _seen(other)).unfit is None
    await rounds(public_settings(settings.model_copy(update={"node_room_mb": 10**9}))).clear()
    assert (await _seen(other)).unfit == "full"
    presence = Presence()
    assert await presence.count("CPU") == 1
    assert await presence.elsewhere("CPU") == {"label_selector": {"ray.io/node-id": f"!in({other})"}}
    room = rounds(public_settings(settings))
    for _ in range(2):  # it has nothing to do, and is visited for its disk
        await room.clear()
    assert (await _seen(other)).unfit is None
    fresh = Presence()
    assert await fresh.count("CPU") == 2 and await fresh.elsewhere("CPU") == {}


async def _seen(node_id: str) -> ClusterNode:
    return next(node for node in (await see_nodes()).nodes if node.id == node_id)
