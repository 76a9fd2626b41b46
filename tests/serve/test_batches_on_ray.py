"""A batch that is cancelled on a real Ray, and while Ray's head is away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray

from koda_ray.actors import directory as directories
from koda_ray.actors.coordinator import Coordinator
from koda_ray.actors.directory import RayDirectory
from koda_ray.actors.host import NAMESPACE, coordinator_name
from koda_ray.actors.parts import sandbox_provider
from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.serve import ray_folder
from koda_ray.serve.api import create_app
from koda_ray.serve.auth import Authenticator
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.signing import Signer
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import now
from koda_ray.wire import BatchCreated, PageOptions

from .test_batches import OPTIONS, captures, processes
from .test_batches import page as page
from .world import serving


@pytest.fixture
def cluster() -> Iterator[None]:
    folder = ray_folder.make()
    ray.init(
        address="local", namespace=NAMESPACE, num_cpus=2, resources={CHROMIUM_RESOURCE: 1, SESSION_RESOURCE: 8},
        include_dashboard=False, logging_level="ERROR", log_to_driver=False, _temp_dir=folder,
    )  # fmt: skip
    yield
    ray.shutdown()
    ray_folder.remove(folder)


@dataclass
class Deployed:
    """A server whose renders are Ray's."""

    store: SqlStore
    directory: RayDirectory
    client: KodaClient

    async def batch(self, page: Path, rows: int, **options: object) -> BatchCreated:
        asked = PageOptions.model_validate(OPTIONS.model_dump(exclude_unset=True) | options)
        return await self.client.render_batch(page, [{"n": number} for number in range(rows)], asked)


@pytest.fixture
async def deployed(tmp_path: Path) -> AsyncIterator[Deployed]:
    settings = Settings(
        storage_path=tmp_path / "storage", database_path=tmp_path / "koda.db", sandbox_path=tmp_path / "boxes"
    )
    store, storage = SqlStore.from_settings(settings), Storage.from_settings(settings)
    await store.open()

    async def sandboxes() -> SandboxProvider:
        return sandbox_provider(settings, deployment=await store.deployment())

    directory = RayDirectory(settings, store=store, storage=storage, sandboxes=sandboxes)
    deps = ApiDeps(
        settings=settings, store=store, storage=storage, directory=directory,
        auth=Authenticator.from_settings(settings, store), signer=Signer.from_settings(settings),
    )  # fmt: skip
    try:
        async with serving(create_app(deps)) as url, KodaClient(url) as client:
            yield Deployed(store, directory, client)
    finally:
        await directory.close()
        await store.close()


def at_work(host: Any) -> int:
    """How many renders a process of renders has; called in that process."""
    work: Coordinator = host._starting.result()
    return work.jobs


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.ray
@pytest.mark.browser
async def test_a_batch_that_is_cancelled_leaves_nothing_at_work_though_a_row_is_deleted_meanwhile(
    cluster: None, deployed: Deployed, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await deployed.batch(page, 6, duration=300.0)
    await captures(deployed.store)
    loop, looked = asyncio.get_running_loop(), directories._cluster_resources
    seen: list[dict[str, int]] = []

    async def delete_one() -> None:
        seen.append(dict(await deployed.store.count_renders("local")))
        running = [job for job in await deployed.store.list_renders("local") if job.epoch > 1]
        await deployed.store.delete_job(running[0].id, user_id="local")

    def resources() -> dict[str, float]:
        asyncio.run_coroutine_threadsafe(delete_one(), loop).result(60)
        return looked()

    monkeypatch.setattr(directories, "_cluster_resources", resources)
    done = await deployed.client.cancel_batch(made.id)
    assert seen == [{"cancelled": 6}], "all of them were cancelled before anybody was told"
    assert (done.renders, done.cancelled) == (5, 5)
    handle: Any = ray.get_actor(coordinator_name(0), namespace=NAMESPACE)
    async with asyncio.timeout(60):
        while await handle.__ray_call__.remote(at_work) or processes("--user-data-dir") or processes("ffmpeg"):
            await asyncio.sleep(0.05)
    for job in await deployed.store.list_renders("local"):
        told = [event.data for event in await deployed.store.events(job.id) if event.type == "state_change"]
        assert told.count({"status": "cancelled"}) == 1 and told[-1] == {"status": "cancelled"}


async def test_with_rays_head_away_a_whole_batch_is_cancelled_and_the_head_asked_once(
    deployed: Deployed, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_back = threading.Event()
    asked: list[int] = []

    async def no_room(_: str) -> bool:
        return False

    def away() -> dict[str, float]:
        asked.append(1)
        is_back.wait(60)
        return {}

    monkeypatch.setattr(directories, "_cluster_resources", away)
    monkeypatch.setattr(directories, "_STOP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(directories, "_HEAD_S", 0.1)
    try:
        monkeypatch.setattr(deployed.directory, "wake_render", no_room)  # which asks the head as well
        made = await deployed.batch(page, 40)
        for render_id in made.render_ids[:20]:
            await deployed.store.claim_job(render_id, lease_until=now())
        done = await deployed.client.cancel_batch(made.id)
    finally:
        is_back.set()
    assert (done.cancelled, done.running, done.queued) == (40, 0, 0)
    assert len(asked) == 1
