"""What a capture leaves behind, however it ends."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from koda_ray.render.bundle import load_bundle
from koda_ray.render.capture import capture_units
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.local import LocalExecutor
from koda_ray.render.names import unit_hash
from koda_ray.render.problems import Problems
from koda_ray.render.protocol import CaptureTask
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import plan_units
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


async def task_for(storage: Storage, local: LocalExecutor) -> CaptureTask:
    spec = small(await put_page(storage, "plain"))
    units = plan_units(spec)
    fingerprint = (await local.environment()).fingerprint
    return CaptureTask(
        storage=storage,
        user_id=USER,
        job_id="job_1",
        spec=spec,
        units=units,
        keys=tuple(unit_hash(spec, unit, environment=fingerprint, mode="seek") for unit in units),
        mode="seek",
        environment=fingerprint,
    )


async def test_a_cancel_while_a_task_cleans_up_leaves_nothing(
    storage: Storage, local: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await task_for(storage, local)
    bundle = await load_bundle(RetryingStorage(storage), USER, task.spec.bundle)
    loop, closed, close = asyncio.get_running_loop(), list[WorkFolder](), WorkFolder.close

    def cancelled_first(folder: WorkFolder) -> None:
        if "-units-" in folder.path.name:
            cancelled = threading.Event()
            loop.call_soon_threadsafe(lambda: (running.cancel(), cancelled.set()))
            assert cancelled.wait(60)
            closed.append(folder)
        close(folder)

    monkeypatch.setattr(WorkFolder, "close", cancelled_first)
    root = Path(tempfile.gettempdir(), f"koda-render-{os.geteuid()}")
    before = set(root.glob("*-units-*"))
    async with local.browser() as browser:
        running = asyncio.create_task(capture_units(task, browser, bundle))
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not browser.is_tidy  # its page is there for whoever closes it
        await browser.tidy()
    assert len(closed) == 1
    assert set(root.glob("*-units-*")) == before


async def test_a_cancel_before_an_encoder_is_waited_for_ends_it(
    storage: Storage, local: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await task_for(storage, local)
    bundle = await load_bundle(RetryingStorage(storage), USER, task.spec.bundle)

    def cancelled_there(_: Problems) -> tuple[str, ...]:
        running.cancel()  # what follows without a pause is the encoder's being handed over
        return ()

    monkeypatch.setattr(Problems, "warnings", property(cancelled_there))
    async with local.browser() as browser:
        running = asyncio.create_task(capture_units(task, browser, bundle))
        with pytest.raises(asyncio.CancelledError):
            await running
    assert not [child for child in psutil.Process().children() if child.name().startswith("ffmpeg")]
