"""Rendering on a real local Ray: the same video as in this process, also when a task is killed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import ray

from koda_ray.errors import Missing, PageError, RenderError
from koda_ray.render import placing
from koda_ray.render.cluster import browsers_here
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.memory import OUT_OF_MEMORY, MemoryLimit
from koda_ray.render.protocol import JobContext, ProbeTask, Progress, Slots, UnitResult
from koda_ray.render.tasks import RayExecutor
from koda_ray.resources import CHROMIUM_RESOURCE, URGENT_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small, until

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray,
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayExecutor]:
    folder = ray_folder.make()
    ray.init(
        address="local", num_cpus=2, resources={CHROMIUM_RESOURCE: 2, URGENT_RESOURCE: 2}, include_dashboard=False,
        logging_level="ERROR", _temp_dir=folder, _system_config={"idle_worker_killing_time_threshold_ms": 20_000},
    )  # fmt: skip
    yield RayExecutor()
    ray.shutdown()
    ray_folder.remove(folder)


def mine(text: str) -> set[psutil.Process]:
    """Processes below this one whose command line holds a text."""
    found: set[psutil.Process] = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if text in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_who_is_prepared_has_loaded_what_comes_next(cluster: RayExecutor) -> None:
    """Before all others here, whose workers have it loaded too."""

    def loaded() -> bool:
        time.sleep(1)  # so that each of several is asked of another process
        return "koda_ray.render.local" in sys.modules

    asked: Any = ray.remote(num_cpus=0)(loaded)
    assert not await asked.remote()
    await cluster.prepare()
    assert any(await asyncio.gather(*(asked.remote() for _ in range(4))))


async def test_a_video_is_the_same_on_ray_and_in_process_also_when_a_task_is_killed(
    cluster: RayExecutor, local: LocalExecutor, storage: Storage
) -> None:
    # frames enough that a worker is still at its first units when it is first heard of
    spec = small(await put_page(storage, "plain"), duration_s=5.3, fps=60, width=640, height=360)
    units: list[UnitResult] = []
    killed: list[int] = []

    async def keep(unit: UnitResult) -> None:
        units.append(unit)

    async def kill(progress: Progress) -> None:
        if progress.frames_done > 0 and not killed:
            # the Ray worker process itself, in the middle of a unit; its children bear its name until they are programs
            workers = mine("ray::_capture")
            for process in workers:
                if not killed and process.parent() not in workers:
                    killed.append(process.pid)
                    process.kill()

    job = RenderJob(
        spec,
        JobContext(storage=storage, executor=cluster, job_id="job_1", user_id=USER),
        on_unit=keep,
        on_progress=kill,
    )
    result = await job.run()
    assert killed
    assert cluster.slots == Slots(2, 2)
    # one of the units under way was lost; it alone was captured again
    assert sorted(unit.attempts for unit in units) == [1, 1, 1, 1, 1, 2]
    assert "WORKER_LOST" in str(result.report["failures"])
    calm = Storage(f"{storage.url}-calm")
    await put_page(calm, "plain")
    expected = await RenderJob(spec, JobContext(storage=calm, executor=local, job_id="job_1", user_id=USER)).run()
    assert (result.frame_hash, result.report["sha256"]) == (expected.frame_hash, expected.report["sha256"])


async def test_a_task_that_falls_silent_is_given_up_and_done_again(
    cluster: RayExecutor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_SILENT_S", 12.0)  # more than two beats
    spec = small(await put_page(storage, "plain"), duration_s=10.0, fps=60)
    held: list[psutil.Process] = []
    before = mine("--user-data-dir")

    async def hold(progress: Progress) -> None:
        if progress.frames_done > 0 and not held:
            workers = mine("ray::_capture")
            held.append(next(process for process in workers if process.parent() not in workers))
            held[0].suspend()

    try:
        async with asyncio.timeout(300):
            job = RenderJob(
                spec, JobContext(storage=storage, executor=cluster, job_id="job_1", user_id=USER), on_progress=hold
            )
            result = await job.run()
        assert result.frame_count == 600
        assert "its worker said nothing for 12 s" in str(result.report["failures"])
    finally:
        held[0].resume()  # and ends its task, as it was told to
    await until(lambda: mine("--user-data-dir") == before, seconds=60)


async def test_failures_arrive_as_what_they_are(cluster: RayExecutor, storage: Storage) -> None:
    page = "<!doctype html><script>setTimeout(() => { throw new Error('lost the plot'); }, 150)</script>"
    spec = small(await put_page(storage, page))
    with pytest.raises(PageError, match="frame 2: Error: lost the plot") as caught:
        await RenderJob(spec, JobContext(storage=storage, executor=cluster, job_id="job_1", user_id=USER)).run()
    assert caught.value.context["frame"] == 2
    report = await cluster.probe(ProbeTask(storage=storage, user_id=USER, bundle=spec.bundle))
    assert [problem.message for problem in report.problems] == ["Error: lost the plot"]


async def test_a_page_is_tried_by_a_task_that_captures_it_where_it_passes(
    cluster: RayExecutor, storage: Storage
) -> None:
    spec = small(await put_page(storage, "contract"), duration_s=5.0)
    job = RenderJob(spec, JobContext(storage=storage, executor=cluster, job_id="job_1", user_id=USER, urgent=True))
    job.begin_early(ProbeTask(storage=storage, user_id=USER, bundle=spec.bundle, duration_s=5.0))
    report = await job.tried()
    assert report is not None and report.ready and not report.problems
    assert (await job.run()).frame_count == 50


async def test_a_page_that_fails_its_trial_leaves_no_browser(cluster: RayExecutor, storage: Storage) -> None:
    page = "<!doctype html><script>setTimeout(() => { throw new Error('lost the plot'); }, 150)</script>"
    spec = small(await put_page(storage, page), duration_s=5.0)
    before = mine("--user-data-dir")
    job = RenderJob(spec, JobContext(storage=storage, executor=cluster, job_id="job_1", user_id=USER, urgent=True))
    job.begin_early(ProbeTask(storage=storage, user_id=USER, bundle=spec.bundle, duration_s=5.0))
    report = await job.tried()
    assert report is not None and [problem.message for problem in report.problems] == ["Error: lost the plot"]
    await job.end()
    assert mine("--user-data-dir") == before


async def test_cancelling_ends_the_browsers_of_the_tasks(cluster: RayExecutor, storage: Storage) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=60.0, fps=60)
    frames: list[int] = []

    async def hear(progress: Progress) -> None:
        frames.append(progress.frames_done)

    before = mine("--user-data-dir")
    running = asyncio.create_task(
        RenderJob(
            spec, JobContext(storage=storage, executor=cluster, job_id="job_1", user_id=USER), on_progress=hear
        ).run()
    )
    await until(lambda: frames and frames[-1] > 0, seconds=60)
    assert mine("--user-data-dir") > before
    running.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await running
    await until(lambda: mine("--user-data-dir") <= before)  # what was killed goes when it is its turn


async def test_a_preview_overtakes_a_final(cluster: RayExecutor, storage: Storage) -> None:
    bundle = await put_page(storage, "plain")
    shown: list[int] = []
    niceness: list[set[int]] = []

    async def hear(progress: Progress) -> None:
        shown.append(progress.frames_done)

    async def look(_unit: UnitResult) -> None:
        niceness.append({process.nice() for process in mine("--user-data-dir") - before})

    before = mine("--user-data-dir")
    final = RenderJob(
        small(bundle, duration_s=60.0, fps=60),
        JobContext(storage=storage, executor=cluster, job_id="final", user_id=USER),
        on_progress=hear,
    )
    running = asyncio.create_task(final.run())
    await until(lambda: len(mine("ray::_capture")) == 2 and shown and shown[-1] > 0, seconds=60)
    preview = RenderJob(
        small(bundle, duration_s=2.0, fps=15),
        JobContext(storage=storage, executor=cluster, job_id="preview", user_id=USER, urgent=True),
        on_unit=look,
    )
    async with asyncio.timeout(300):
        assert (await preview.run()).frame_count == 30
    assert not running.done() and shown[-1] < 3600
    # the final's browsers leave the processors to the preview's, where these tests do not do so themselves
    assert 19 in niceness[0] and (min(niceness[0]) < 19 or os.nice(0) > 0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_another_environment_is_refused(cluster: RayExecutor, storage: Storage, tmp_path: Path) -> None:
    spec = small(await put_page(storage, "plain"))
    environment = await cluster.environment()
    assert environment == await LocalExecutor(workers=1).environment()

    class Stale:
        slots = Slots(1, 1)
        capture = cluster.capture
        join = cluster.join
        probe = cluster.probe
        cancel_all = cluster.cancel_all

        async def environment(self) -> object:
            from dataclasses import replace

            return replace(environment, fingerprint="of another machine")

    with pytest.raises(RenderError, match="of another machine"):
        job = RenderJob(spec, JobContext(storage=storage, executor=Stale(), job_id="job_1", user_id=USER, attempts=1))  # type: ignore[arg-type]
        await job.run()


async def test_a_page_that_uses_too_much_on_ray_ends_with_words_and_not_with_its_worker(
    cluster: RayExecutor, storage: Storage
) -> None:
    here = cast("Any", ray.remote(resources={CHROMIUM_RESOURCE: 1})(lambda: browsers_here()))
    assert await here.remote() == 4, "of its node, with the slots of previews"
    html = "<!doctype html><script>const kept = []; for (;;) kept.push(new Uint8Array(1 << 24).fill(1));</script>"
    spec = small(await put_page(storage, html))
    executor = RayExecutor(memory=MemoryLimit(300))
    with pytest.raises(PageError, match="may use 300 MiB") as caught:
        await RenderJob(spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER)).run()
    assert caught.value.code == OUT_OF_MEMORY


@pytest.mark.skipif(any(Path("/dev").glob("dri/renderD*")) or any(Path("/dev").glob("nvidia[0-9]*")), reason="a GPU")
async def test_a_gpu_that_is_asked_for_has_to_be_on_the_nodes(cluster: RayExecutor) -> None:
    with pytest.raises(Missing, match="KODA_RENDER_GRAPHICS=gpu and no GPU can be used here: no /dev/dri"):
        await RayExecutor(graphics="gpu").environment()
    assert "KODA_RENDER_GRAPHICS=software" in (await RayExecutor(graphics="software").environment()).graphics
