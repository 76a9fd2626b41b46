"""A job on machines that come and go: it waits for the first, and has as many tasks under way as there are slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from koda_ray.render.job import RenderJob
from koda_ray.render.protocol import (
    Captured,
    CaptureTask,
    Environment,
    Hear,
    JobContext,
    JoinResult,
    JoinTask,
    ProbeReport,
    ProbeTask,
    Progress,
    Slots,
    UnitResult,
)
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage

USER, BUNDLE = "ann", "0" * 64


class Machines:
    """An executor with as many slots as it is told to have, whose tasks take as long as they are let."""

    def __init__(self) -> None:
        self.slots = Slots(0, 9, 75.2)
        self.under_way: list[CaptureTask] = []
        self.go_on = asyncio.Event()

    async def environment(self) -> Environment:
        while not self.slots.now:  # asked of a machine
            await asyncio.sleep(0.01)
        facts = dict.fromkeys(("chromium", "backend", "graphics", "ffmpeg", "fonts", "fingerprint"), "some")
        return Environment(**facts)

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        self.under_way.append(task)
        try:
            await self.go_on.wait()
            assert hear is not None
            for unit, key in zip(task.units, task.keys, strict=True):
                hashes = tuple(f"{frame:032x}" for frame in range(unit.start, unit.stop))
                await hear(Captured(unit.index, unit.frame_count))
                await asyncio.sleep(0.01)
                await hear(
                    UnitResult(
                        unit=unit, key=key, mode=task.mode, frame_hashes=hashes, before_hash=None, sha256="",
                        size_bytes=1, worker="nobody",
                    )
                )  # fmt: skip
        finally:
            self.under_way.remove(task)

    async def join(self, task: JoinTask) -> JoinResult:
        return JoinResult(
            video_key="video", thumbnail_key="picture", size_bytes=1, sha256="", duration_s=1.0,
            frame_count=task.spec.frame_count,
        )  # fmt: skip

    async def probe(self, task: ProbeTask) -> ProbeReport:
        raise NotImplementedError

    async def cancel_all(self) -> None:
        return None


async def reached(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_a_job_waits_for_machines_and_uses_those_that_come_and_stay(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    await storage.put(bundle_key(USER, BUNDLE), b"")
    # a unit is dear enough for a task of its own
    spec = RenderSpec(bundle=BUNDLE, duration_s=40.0, width=1920, height=1080, fps=60)  # type: ignore[arg-type]
    machines = Machines()
    told: list[Progress] = []

    async def hear(progress: Progress) -> None:
        told.append(progress)

    job = RenderJob(
        spec, JobContext(storage=storage, executor=machines, job_id="job_1", user_id=USER), on_progress=hear
    )
    running = asyncio.create_task(job.run())
    await reached(lambda: bool(told) and told[-1].stage == "waiting")
    assert (told[-1].waited_s, told[-1].seconds_left) == (75.0, None)

    # one is there; what waits for others is worth starting them, and no more than there may come to be
    machines.slots = Slots(1, 4)
    await reached(lambda: len(machines.under_way) == 4)
    await reached(lambda: told[-1].stage == "capturing")
    assert told[-1].waited_s is None
    machines.slots = Slots(7, 7)
    await reached(lambda: len(machines.under_way) == 7)

    # three leave: what they had is lost in reality and tried again; here they end, and no more begin than there is room
    machines.slots = Slots(2, 2)
    await asyncio.sleep(1.5)
    machines.go_on.set()
    await reached(lambda: len(machines.under_way) <= 2)
    while not running.done():
        assert len(machines.under_way) <= 2
        await asyncio.sleep(0.005)
    assert (await running).frame_count == 2400
