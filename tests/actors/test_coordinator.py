"""Several page renders in one process: begun, over, stopped and given up, each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from koda_ray.actors.coordinator import JOBS, Coordinator, coordinators_for, renders_at_once
from koda_ray.actors.leased_job import JobParts, row_spec
from koda_ray.errors import Conflict, Fenced, NotFound
from koda_ray.render.options import JobOptions
from koda_ray.render.protocol import Slots
from koda_ray.state.keys import bundle_key
from koda_ray.state.records import JobRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import new_id, now

THERE, GONE = "0" * 64, "1" * 64


class Waits:
    """An executor whose work does not end by itself."""

    slots = Slots(1, 1)

    async def environment(self) -> Any:
        await asyncio.Event().wait()


class Shop:
    """A database, its renders, and a process of them."""

    def __init__(self, store: SqlStore, storage: Storage) -> None:
        self.store = store
        self.ended = asyncio.Event()
        executor: Any = Waits()
        self._parts = JobParts(store=store, storage=storage, executor=executor)

    def coordinator(self, idle_s: float = 60.0) -> Coordinator:
        return Coordinator(self._parts, lease_s=4.0, idle_s=idle_s, ended=self.ended.set)

    async def job(self, bundle: str = THERE) -> JobRecord:
        options = JobOptions.from_json({"duration_s": 1.0, "fps": "10", "size": [320, 180]})
        job = JobRecord(
            id=new_id("job"), user_id="ann", project_id="ann", session_id=None, kind="render",
            spec=row_spec(bundle=bundle, entry="index.html", options=options), status="queued",
            created_at=now(), updated_at=now(),
        )  # fmt: skip
        return await self.store.create_job(job)

    async def status(self, job: JobRecord) -> str:
        return (await self.store.get_job(job.id)).status


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    await store.ensure_project("ann", "ann", "ann")
    storage = Storage(str(tmp_path / "storage"))
    await storage.put(bundle_key("ann", THERE), b"")
    yield Shop(store, storage)
    await store.close()


async def reached(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


def test_renders_share_processes() -> None:
    assert [coordinators_for(renders) for renders in (1, JOBS, JOBS + 1, 1001)] == [1, 1, 2, 63]


def test_there_is_room_for_as_many_renders_as_keep_the_browsers_busy() -> None:
    assert [renders_at_once(browsers, None) for browsers in (0, 3, 1000)] == [1, 4, 1001]
    # a cluster that grows does so by what waits
    assert [renders_at_once(browsers, 1000) for browsers in (0, 8, 500, 1000)] == [
        JOBS + 1,
        2 * 8 + JOBS + 1,
        1001,
        1001,
    ]
    assert [renders_at_once(browsers, 4) for browsers in (0, 4, 9)] == [5, 5, 10]


async def test_each_render_is_over_by_itself(shop: Shop) -> None:
    renders = shop.coordinator()
    stays, fails, stopped = await shop.job(), await shop.job(GONE), await shop.job()
    for job in (stays, fails, stopped, stays):  # whoever is asked twice works once
        await renders.begin(job.id)
    await reached(lambda: renders.jobs == 2)
    assert await shop.status(fails) == "failed"
    await shop.store.cancel_job(stopped.id, user_id="ann")
    await renders.stop(stopped.id)
    await renders.stop(fails.id)
    assert renders.jobs == 1 and (await shop.store.get_job(stays.id)).epoch == 1
    with pytest.raises(Conflict, match="cancelled"):
        await renders.begin(stopped.id)
    with pytest.raises(NotFound):
        await renders.begin(new_id("job"))
    await renders.close()
    assert renders.jobs == 0 and not shop.ended.is_set()
    left = await shop.store.get_job(stays.id)
    assert (left.status, left.lease_until) == ("running", None), "for whoever takes it up next"


async def test_a_render_that_is_taken_up_while_the_process_ends_is_given_up_again(shop: Shop) -> None:
    renders = shop.coordinator()
    job = await shop.job()
    beginning = asyncio.create_task(renders.begin(job.id))
    await asyncio.sleep(0)  # it asks the database for the row
    await renders.close()
    with pytest.raises(Fenced):
        await beginning
    left = await shop.store.get_job(job.id)
    assert renders.jobs == 0 and (left.status, left.lease_until) == ("running", None)


async def test_a_process_without_renders_ends_after_a_while(shop: Shop) -> None:
    renders = shop.coordinator(idle_s=0.2)
    job = await shop.job()
    await renders.begin(job.id)
    await asyncio.sleep(0.5)
    assert not shop.ended.is_set()
    await shop.store.cancel_job(job.id, user_id="ann")
    await renders.stop(job.id)
    async with asyncio.timeout(60):
        await shop.ended.wait()
    with pytest.raises(Fenced):
        await renders.begin((await shop.job()).id)
    await renders.close()
