"""A page render's job, seen from the process that it is alone in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from koda_ray.actors.leased_job import JobParts, LeasedJob, row_spec
from koda_ray.render.options import JobOptions
from koda_ray.render.protocol import Slots
from koda_ray.state.keys import bundle_key
from koda_ray.state.records import JobRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import new_id, now


class SlowToEnd:
    """An executor whose work ends a while after it was told to."""

    slots = Slots(1, 1)

    def __init__(self) -> None:
        self.busy = asyncio.Event()
        self.ends = asyncio.Event()

    async def environment(self) -> Any:
        self.busy.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self.ends.wait()


async def test_a_render_that_is_stopped_while_it_ends_says_that_it_has_ended(tmp_path: Path) -> None:
    """As one does that found its row cancelled when whoever cancelled it comes to say so."""
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    await store.ensure_user("ann")
    await store.ensure_project("ann", "ann", "ann")
    options = JobOptions.from_json({"duration_s": 1.0, "fps": "10", "size": [320, 180]})
    job = JobRecord(
        id=new_id("job"), user_id="ann", project_id="ann", session_id=None, kind="render",
        spec=row_spec(bundle="0" * 64, entry="index.html", options=options), status="queued",
        created_at=now(), updated_at=now(),
    )  # fmt: skip
    await store.create_job(job)
    storage = Storage(str(tmp_path / "storage"))
    await storage.put(bundle_key("ann", "0" * 64), b"")
    executor: Any = SlowToEnd()
    ended: list[bool] = []
    parts = JobParts(store=store, storage=storage, executor=executor)
    async with asyncio.timeout(60):
        render = await LeasedJob.claim(job.id, parts, lease_s=0.2, ended=lambda: ended.append(True))
        await executor.busy.wait()
        await store.cancel_job(job.id, user_id="ann")
        while not render.lost:
            await asyncio.sleep(0.01)
        stopping = asyncio.create_task(render.stop())
        await asyncio.sleep(0.1)
        assert not stopping.done() and not ended
        executor.ends.set()
        await stopping
    assert ended == [True]
    await store.close()
