"""A node whose disk is full, on a real cluster: its workers die before they say so, and no render fails for that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.errors import RenderError
from koda_ray.render.fitness import unfit_nodes
from koda_ray.render.job import RenderJob
from koda_ray.render.presence import Presence
from koda_ray.render.protocol import JobContext, RenderResult
from koda_ray.render.tasks import RayExecutor
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.state.storage import Storage
from tests.full_node import FullTown, full_town
from tests.render.conftest import USER, put_page, small

pytestmark = [
    pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.browser, pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]  # fmt: skip


@pytest.fixture
def town() -> Iterator[FullTown]:
    with full_town() as made:
        yield made


async def render(storage: Storage, executor: RayExecutor) -> RenderResult:
    spec = small(await put_page(storage, "plain"), duration_s=2.0)
    context = JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER, attempts=1)
    return await RenderJob(spec, context).run()


async def test_workers_that_a_full_disk_lets_say_nothing_cost_a_render_no_attempt(
    town: FullTown, storage: Storage
) -> None:
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


async def test_where_all_disks_are_full_that_is_what_a_render_fails_with(town: FullTown, storage: Storage) -> None:
    with pytest.raises(RenderError, match="free some space") as caught:
        await render(storage, await asyncio.to_thread(RayExecutor))
    assert caught.value.code == "DISK_FULL"
