"""A node whose disk is full, on a real cluster: its workers die before they say so, and no render fails for that."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.config import REPO_ROOT
from koda_ray.errors import RenderError
from koda_ray.render.fitness import unfit_nodes
from koda_ray.render.job import RenderJob
from koda_ray.render.presence import Presence
from koda_ray.render.protocol import JobContext, RenderResult
from koda_ray.render.tasks import RayExecutor
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.state.storage import Storage
from tests.disks import small as small_disk
from tests.render.conftest import USER, put_page, small

pytestmark = [
    pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.browser, pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]  # fmt: skip
DISK_MB = 16
_OWN: dict[str, Any] = {"object_store_memory": 10**8, "env_vars": {"PYTHONPATH": str(REPO_ROOT)}}


@dataclass
class Town:
    """A head without browsers, and a node with one whose disk is full."""

    cluster: Any
    full: str

    def add(self) -> str:
        """Start a node like that, with room; return Ray's id of it."""
        return str(self.cluster.add_node(num_cpus=1, resources={CHROMIUM_RESOURCE: 1}, **_OWN).node_id)


@pytest.fixture
def town() -> Iterator[Town]:
    folder = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where a head writes its address down
    address.mkdir(exist_ok=True)
    with small_disk(Path(folder).parent / "d", DISK_MB) as disk:
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder, "include_dashboard": False, **_OWN}
        )
        there = {**_OWN, "env_vars": {**_OWN["env_vars"], "TMPDIR": str(disk)}}
        full = made.add_node(num_cpus=1, resources={CHROMIUM_RESOURCE: 1}, temp_dir=str(disk), **there)
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        with suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        yield Town(made, str(full.node_id))
        ray.shutdown()
        made.shutdown()
    ray_folder.remove(folder)
    shutil.rmtree(address)


async def render(storage: Storage, executor: RayExecutor) -> RenderResult:
    spec = small(await put_page(storage, "plain"), duration_s=2.0)
    context = JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER, attempts=1)
    return await RenderJob(spec, context).run()


async def test_workers_that_a_full_disk_lets_say_nothing_cost_a_render_no_attempt(town: Town, storage: Storage) -> None:
    class Holder:
        def is_there(self) -> bool:
            return True

    other = town.add()
    there = cast("Any", NodeAffinitySchedulingStrategy)(node_id=other, soft=False)
    held = cast("Any", ray.remote(num_cpus=0, resources={CHROMIUM_RESOURCE: 1}, scheduling_strategy=there)(Holder))
    holder = held.remote()
    assert await holder.is_there.remote()
    rendering = asyncio.create_task(render(storage, await asyncio.to_thread(RayExecutor)))  # only the full one is free
    async with asyncio.timeout(240):
        while await asyncio.to_thread(unfit_nodes) != {town.full: "full"} and not rendering.done():
            await asyncio.sleep(0.2)
    ray.kill(holder)
    result = await rendering
    assert (result.frame_count, result.report["failures"]) == (20, [])
    assert await Presence().count(CHROMIUM_RESOURCE) == 1


async def test_where_all_disks_are_full_that_is_what_a_render_fails_with(town: Town, storage: Storage) -> None:
    with pytest.raises(RenderError, match="free some space") as caught:
        await render(storage, await asyncio.to_thread(RayExecutor))
    assert caught.value.code == "DISK_FULL"
