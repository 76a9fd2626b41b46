"""Work that Ray ends because its node has no memory left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
import ray
from ray.exceptions import OutOfMemoryError

from koda_ray.errors import RenderError
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.memory import OUT_OF_MEMORY
from koda_ray.render.protocol import Environment, JobContext, RenderExecutor
from koda_ray.render.tasks import RayExecutor
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.browser]


@pytest.fixture
def exhausted() -> Iterator[None]:
    """A cluster that takes any use of memory for too much: whatever runs is ended."""
    folder = ray_folder.make()
    ray.init(
        address="local", num_cpus=2, resources={CHROMIUM_RESOURCE: 1}, include_dashboard=False, logging_level="ERROR",
        log_to_driver=False, _temp_dir=folder,
        _system_config={"memory_usage_threshold": 0.0, "memory_monitor_refresh_ms": 100},
    )  # fmt: skip
    yield
    ray.shutdown()
    ray_folder.remove(folder)


class Planned(RayExecutor):
    """Captures on Ray what was planned here, since no node lives to say what it renders with."""

    def __init__(self, local: LocalExecutor) -> None:
        super().__init__()
        self._local = local

    async def environment(self) -> Environment:
        return await self._local.environment()


async def test_a_worker_that_is_ended_for_memory_is_tried_again_and_the_last_attempt_says_so(
    exhausted: None, local: LocalExecutor, storage: Storage
) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=60.0, fps=60)
    executor = cast(RenderExecutor, Planned(local))
    job = RenderJob(spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER, attempts=2))
    with pytest.raises(RenderError, match="failed 2 times, last with OUT_OF_MEMORY") as caught:
        await job.run()
    assert (caught.value.code, caught.value.retryable) == (OUT_OF_MEMORY, False)
    with pytest.raises(RenderError) as looked:
        await RayExecutor().environment()
    assert (looked.value.code, looked.value.retryable) == (OUT_OF_MEMORY, True)
    assert isinstance(looked.value.__cause__, OutOfMemoryError)
