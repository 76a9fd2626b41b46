"""Rendering on a cluster that changes: it begins with no machine at all, one joins in the middle, one is lost."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import psutil
import pytest
import ray

from benchmarks.raylets import OneCore, Raylets
from koda_ray.config import REPO_ROOT
from koda_ray.errors import Missing
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.presence import Presence, without
from koda_ray.render.programs import find_program
from koda_ray.render.protocol import JobContext, ProbeTask, Progress, Slots, UnitResult
from koda_ray.render.tasks import RayExecutor
from koda_ray.resources import CHROMIUM_RESOURCE, URGENT_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small, until

pytestmark = [
    pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.browser, pytest.mark.timeout(1500),
    pytest.mark.asyncio(loop_scope="module"),
]  # fmt: skip

HEAD = "f" * 51 + "00000"
"""The id of the head, as Ray's provider of nodes on one machine expects it."""
STORE_BYTES = 10**8


@pytest.fixture
def folder() -> Iterator[str]:
    """Where a head keeps what it writes."""
    made = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where it writes its address down
    address.mkdir(exist_ok=True)
    yield made
    ray_folder.remove(made)
    shutil.rmtree(address)


def connect(address: str) -> None:
    """Connect to a cluster, once it is there."""
    deadline = time.monotonic() + 120
    while True:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            return
        except (ConnectionError, RuntimeError):
            assert time.monotonic() < deadline
            time.sleep(0.5)


def of(folder: str) -> list[psutil.Process]:
    """The processes that a cluster with this folder has."""
    return [found for found in psutil.process_iter(["cmdline"]) if folder in " ".join(found.info["cmdline"] or ())]


@pytest.fixture
def grows(folder: str) -> Iterator[None]:
    """A head without work whose autoscaler, Ray's own, starts raylets on this machine as it would start machines."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"
    lists = ("setup", "head_setup", "worker_setup", "initialization", "head_start_ray", "worker_start_ray")
    # without its memory, which tasks ask for, Ray's autoscaler would take no machine for large enough
    browsers = {"CPU": 1, "memory": 4 << 30, CHROMIUM_RESOURCE: 1, "object_store_memory": STORE_BYTES}
    config = {
        "cluster_name": "grows",
        "max_workers": 2,
        "provider": {
            "type": "external",
            "module": "tests.render.raylets.OwnMachine",
            "gcs_address": address,
            "head_node_id": HEAD,
            "launch_multiple": True,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "browsers": {"resources": browsers, "node_config": {}, "min_workers": 0, "max_workers": 2},
        },
        **{f"{name}_commands": [] for name in lists},
        **{name: {} for name in ("auth", "docker", "file_mounts")},
        **{name: [] for name in ("cluster_synced_files", "rsync_exclude", "rsync_filter")},
        "file_mounts_sync_continuously": False,
    }
    path = Path(folder, "autoscaling.json")
    path.write_text(json.dumps(config))
    start = ["--head", "--block", f"--port={address.rpartition(':')[2]}", "--num-cpus=0", "--include-dashboard=false"]
    head = subprocess.Popen(
        [
            str(Path(sys.executable).with_name("ray")), "start", *start, f"--object-store-memory={STORE_BYTES}",
            f"--temp-dir={folder}", f"--autoscaling-config={path}",
        ],
        env={
            **os.environ, "PYTHONPATH": str(REPO_ROOT), "RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "1",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "RAY_CLOUD_INSTANCE_ID": HEAD, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD,
        },
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        connect(address)
        yield
    finally:
        ray.shutdown()
        processes = of(folder)
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=30)
        head.wait(30)


async def test_a_job_on_a_cluster_without_machines_waits_until_they_come(grows: None, storage: Storage) -> None:
    executor = await asyncio.to_thread(lambda: RayExecutor(most=2))
    assert executor.slots.now == 0
    spec = small(await put_page(storage, "plain"), duration_s=1.0)
    told: list[Progress] = []

    async def hear(progress: Progress) -> None:
        told.append(progress)

    context = JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER)
    async with asyncio.timeout(420):
        result = await RenderJob(spec, context, on_progress=hear).run()
    assert result.frame_count == spec.frame_count
    waited = [progress.waited_s for progress in told if progress.stage == "waiting"]
    assert waited and None not in waited and waited == sorted(waited)  # type: ignore[type-var]
    assert told[-1].waited_s is None
    async with asyncio.timeout(60):
        while executor.slots != Slots(1, 2):  # the video was perhaps done before it was looked again
            await executor.environment()
            await asyncio.sleep(0.1)


@pytest.fixture
def raylets() -> Iterator[Raylets]:
    with Raylets.started() as made:
        yield made


async def test_where_nothing_renders_only_what_renders_is_refused(raylets: Raylets, storage: Storage) -> None:
    """A session's process makes an executor as it starts: it begins, and talks, without browsers."""
    executor = await asyncio.to_thread(RayExecutor)
    assert executor.slots.now == 0
    task = ProbeTask(storage=storage, bundle="0" * 64, user_id=USER, width=160, height=90)
    for asked in (executor.environment, lambda: executor.probe(task)):
        with pytest.raises(Missing, match="KODA_BROWSERS_MAX"):
            await asked()


async def test_a_node_that_joins_is_used_and_one_that_is_lost_is_not_missed(raylets: Raylets, storage: Storage) -> None:
    first = await asyncio.to_thread(raylets.add)
    executor = await asyncio.to_thread(RayExecutor)
    assert executor.slots == Slots(1, 1)
    spec = small(await put_page(storage, "plain"), duration_s=40.0, fps=60, width=640, height=360)
    frames: list[int] = []

    async def hear(progress: Progress) -> None:
        frames.append(progress.frames_done)

    job = RenderJob(
        spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER), on_progress=hear
    )
    running = asyncio.create_task(job.run())
    await until(lambda: frames and frames[-1] > 0, seconds=300)
    assert first.captures()
    second = await asyncio.to_thread(raylets.add)
    await until(second.captures, seconds=300)
    before = len(frames)
    await until(lambda: len(frames) > before + 2 and first.captures(), seconds=300)
    await asyncio.to_thread(first.kill)
    async with asyncio.timeout(900):
        result = await running
    await until(lambda: executor.slots == Slots(1, 1), seconds=60)
    assert "WORKER_LOST" in str(result.report["failures"])
    calm = Storage(f"{storage.url}-calm")
    await put_page(calm, "plain")
    async with LocalExecutor(workers=2) as local:  # of its own: after so many frames a browser is replaced
        expected = await RenderJob(spec, JobContext(storage=calm, executor=local, job_id="job_1", user_id=USER)).run()
    assert (result.frame_hash, result.report["sha256"]) == (expected.frame_hash, expected.report["sha256"])


async def test_a_preview_begins_on_whichever_node_has_a_place_for_it_while_a_final_has_all_browsers(
    raylets: Raylets, storage: Storage
) -> None:
    first = await asyncio.to_thread(raylets.add)
    second = await asyncio.to_thread(lambda: raylets.add(**{URGENT_RESOURCE: 1}))
    executor = await asyncio.to_thread(RayExecutor)
    bundle = await put_page(storage, "plain")
    frames: list[int] = []
    elsewhere: list[bool] = []

    async def hear(progress: Progress) -> None:
        frames.append(progress.frames_done)

    async def note(unit: UnitResult) -> None:  # now: who has nothing to do is ended by Ray after a while
        elsewhere.append(await asyncio.to_thread(second.has, unit.worker))

    spec = small(bundle, duration_s=120.0, fps=60)
    final = RenderJob(
        spec, JobContext(storage=storage, executor=executor, job_id="final", user_id=USER), on_progress=hear
    )
    running = asyncio.create_task(final.run())
    await until(lambda: frames and frames[-1] > 0 and first.captures() and second.captures(), seconds=300)
    context = JobContext(storage=storage, executor=executor, job_id="preview", user_id=USER, urgent=True)
    async with asyncio.timeout(900):
        shown = await RenderJob(small(bundle, duration_s=2.0, fps=15), context, on_unit=note).run()
    assert shown.frame_count == 30 and not running.done() and frames[-1] < spec.frame_count
    assert elsewhere and all(elsewhere)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_node_that_renders_with_something_else_gets_none_of_a_video_and_is_none_of_its_attempts(
    raylets: Raylets, storage: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in an upgrade, node by node: what is begun ends on nodes as it was begun on, or anew on others."""
    old = await asyncio.to_thread(raylets.add)
    executor = await asyncio.to_thread(RayExecutor)
    spec = small(await put_page(storage, "plain"), duration_s=24.0, fps=60, width=640, height=360)
    began_with = (await executor.environment()).fingerprint
    added: list[OneCore] = []
    by_the_new: list[bool] = []
    frames: list[int] = []

    async def hear(progress: Progress) -> None:
        frames.append(progress.frames_done)

    async def note(unit: UnitResult) -> None:  # now: who has nothing to do is ended by Ray after a while
        by_the_new.append(bool(added) and await asyncio.to_thread(added[0].has, unit.worker))

    # what the node that is killed has in hand has failed once; that others may not do it is none
    context = JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER, attempts=2)
    running = asyncio.create_task(RenderJob(spec, context, on_progress=hear, on_unit=note).run())
    await until(lambda: frames and frames[-1] > 0, seconds=300)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(another_ffmpeg(tmp_path)))
    added.append(await asyncio.to_thread(raylets.add))
    await until(lambda: executor.slots == Slots(2, 2), seconds=60)
    before = len(frames)
    await until(lambda: len(frames) > before + 8 or running.done(), seconds=300)
    assert not running.done() and not any(by_the_new)
    await asyncio.to_thread(old.kill)
    async with asyncio.timeout(900):
        result = await running
    assert result.frame_count == spec.frame_count
    environment = cast("dict[str, str]", result.report["environment"])
    assert environment["fingerprint"] != began_with
    assert any(by_the_new)


@ray.remote(num_cpus=0, resources={CHROMIUM_RESOURCE: 1}, max_restarts=-1)
class Somebody:
    def where(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


async def test_an_actor_that_waits_for_nodes_that_are_gone_is_lost(raylets: Raylets) -> None:
    """A node that was passed over when it was made is passed over whenever Ray starts it again."""
    presence = Presence()
    await asyncio.to_thread(raylets.add)
    passed_over = frozenset(node["NodeID"] for node in ray.nodes() if node["Resources"].get(CHROMIUM_RESOURCE))
    last = await asyncio.to_thread(raylets.add)
    handle = Somebody.options(**without(passed_over)).remote()
    where = await handle.where.remote()
    assert where not in passed_over and not await presence.is_lost(handle)
    await asyncio.to_thread(last.kill)
    async with asyncio.timeout(240):
        while not await presence.is_lost(handle):
            await asyncio.sleep(0.2)
        ray.kill(handle)
        again = Somebody.options(**await presence.elsewhere(CHROMIUM_RESOURCE)).remote()
        assert await again.where.remote() in passed_over
    assert not await presence.is_lost(again)


@ray.remote(num_cpus=0, resources={CHROMIUM_RESOURCE: 1}, max_restarts=-1)
class Starting:
    """Has begun to start, and does not come to an end of it."""

    def __init__(self, begun: str) -> None:
        Path(begun).touch()
        time.sleep(3600)


async def test_an_actor_whose_machine_goes_while_it_starts_is_lost(raylets: Raylets, tmp_path: Path) -> None:
    presence = Presence()
    await asyncio.to_thread(raylets.add)
    passed_over = frozenset(node["NodeID"] for node in ray.nodes() if node["Resources"].get(CHROMIUM_RESOURCE))
    last = await asyncio.to_thread(raylets.add)
    handle = Starting.options(**without(passed_over)).remote(str(tmp_path / "begun"))
    await until((tmp_path / "begun").exists, seconds=300)
    assert not await presence.is_lost(handle)
    await asyncio.to_thread(last.kill)
    async with asyncio.timeout(240):
        while not await presence.is_lost(handle):
            await asyncio.sleep(0.2)
    ray.kill(handle)


def another_ffmpeg(tmp_path: Path) -> Path:
    """An FFmpeg that says that it is a newer one, and works as the one that there is."""
    there = find_program("ffmpeg")
    told = subprocess.run([there, "-version"], capture_output=True, text=True, check=True).stdout
    folder = tmp_path / "newer"
    folder.mkdir()
    (folder / "version").write_text(told.replace("ffmpeg version ", "ffmpeg version newer than ", 1))
    program = folder / "ffmpeg"
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && exec cat "{folder / "version"}"\nexec "{there}" "$@"\n')
    program.chmod(0o755)
    return program
