"""What the coordinator itself costs: thousands of units planned, run and joined, none of which is captured.

    python -m benchmarks.scheduling [--units 10000] [--ray-tasks 300]

Each unit is one frame that exists already: "capturing" it is a link to its file, so what remains is our own planning,
looking up, claiming, hearing, joining and reporting. With Ray, each unit is a task of its own, which does as little.
The video is longer than a spec allows, because what is measured is not a video but the number of units. Run it in a
process of its own: its peak of memory is the coordinator's. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import psutil

from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.encode import UnitEncoder
from koda_ray.render.environment import read_environment
from koda_ray.render.ffmpeg import run
from koda_ray.render.graphics import software_graphics
from koda_ray.render.job import RenderJob
from koda_ray.render.join import join_video
from koda_ray.render.protocol import (
    CaptureTask,
    Environment,
    Hear,
    JobContext,
    JoinResult,
    JoinTask,
    ProbeReport,
    ProbeTask,
    Slots,
    UnitResult,
)
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import unit_key
from koda_ray.state.storage import Storage

__all__ = ["main"]

_USER = "local"
_SIDES = (64, 36)


def _results(task: CaptureTask, sample: Path, digest: str) -> Iterator[UnitResult]:
    """Put the sample where each unit's file is looked for."""
    for unit, key in zip(task.units, task.keys, strict=True):
        path = task.storage.local_path(unit_key(task.user_id, key))
        assert path is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(sample, path)
        yield UnitResult(
            unit=unit,
            key=key,
            mode=task.mode,
            frame_hashes=(f"{unit.start:032x}",),
            before_hash=None,
            sha256=digest,
            size_bytes=path.stat().st_size,
            worker="nobody",
        )


class _Idle:
    """An executor that has every unit already; joining is real."""

    slots = Slots(2, 2)

    def __init__(self, sample: Path, digest: str) -> None:
        self._sample = sample
        self._digest = digest

    async def environment(self) -> Environment:
        return await asyncio.to_thread(read_environment, None, software_graphics())

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        for unit in _results(task, self._sample, self._digest):
            if hear is not None:
                await hear(unit)
            await asyncio.sleep(0)

    async def join(self, task: JoinTask) -> JoinResult:
        return await join_video(task)

    async def probe(self, task: ProbeTask) -> ProbeReport:
        raise NotImplementedError("nothing is looked at here")

    async def cancel_all(self) -> None:
        return None


def _capture_on_ray(task: CaptureTask, sample: Path, digest: str) -> Iterator[object]:
    yield from _results(task, sample, digest)
    yield "done"


def _spec(units: int, bundle: str) -> RenderSpec:
    spec = RenderSpec(bundle=bundle, duration_s=1.0, width=_SIDES[0], height=_SIDES[1], fps=Fraction(1), moves=False)
    object.__setattr__(spec, "duration_s", float(units))  # beyond the limit on purpose
    return spec


async def _sample(folder: Path) -> tuple[Path, str]:
    """Encode one unit of one frame."""
    spec = _spec(1, "0" * 64)
    picture = folder / "picture.jpg"
    size = "x".join(map(str, _SIDES))
    await run(
        "ffmpeg",
        ["-v", "error", "-f", "lavfi", "-i", f"testsrc=s={size}", "-frames:v", "1", str(picture)],
        timeout_s=60,
    )
    encoder = UnitEncoder(spec, 1, folder / "unit.mp4", image="jpeg")
    await encoder.start()
    await encoder.write(picture.read_bytes())
    path = await encoder.finish()
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


async def _job(folder: Path, units: int, executor: Any) -> dict[str, float]:
    storage = Storage(str(folder / "storage"))
    bundle = await store_bundle(storage, _USER, Bundle({"index.html": b"nothing"}))
    spec = _spec(units, bundle)
    await executor.environment()
    process = psutil.Process()
    before_mb = process.memory_info().rss / 2**20
    started, cpu = time.perf_counter(), time.process_time()
    result = await RenderJob(
        spec, JobContext(storage=storage, executor=executor, job_id="job-schedule", user_id=_USER)
    ).run()
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    if result.frame_count != units:
        raise SystemExit(f"{units} units became {result.frame_count} frames")
    seconds = cast("dict[str, float]", result.report["seconds"])
    return {
        "ms_per_unit": seconds["capture"] * 1000 / units,
        "cpu_ms_per_unit": cpu * 1000 / units,
        "join_s": took - seconds["capture"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "grown_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb,
    }


async def _on_ray(folder: Path, tasks: int) -> float:
    """Return milliseconds a task on a Ray of our own, workers started before."""
    import ray

    from koda_ray.render.tasks import RayExecutor
    from koda_ray.resources import CHROMIUM_RESOURCE

    class Counting(RayExecutor):
        """A Ray executor whose captures do nothing but what `_results` does."""

        def __init__(self, sample: Path, digest: str) -> None:
            super().__init__()
            options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0, "num_returns": "streaming"}
            remote = cast("Any", ray.remote(**options, resources={CHROMIUM_RESOURCE: 1})(_capture_on_ray))

            class Remote:
                @staticmethod
                def remote(task: CaptureTask, *_: object) -> object:
                    return remote.remote(task, sample, digest)

            self._capture = Remote

        async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
            for unit, key in zip(task.units, task.keys, strict=True):  # units of no cost would share two tasks
                await super().capture(replace(task, units=(unit,), keys=(key,)), hear)

    cast("Any", ray).init(
        num_cpus=2,
        resources={CHROMIUM_RESOURCE: 2},
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        sample, digest = await _sample(folder)
        warm = folder / "warm"
        warm.mkdir()
        await _job(warm, 8, Counting(sample, digest))
        return (await _job(folder, tasks, Counting(sample, digest)))["ms_per_unit"]
    finally:
        cast("Any", ray).shutdown()


async def measure(*, units: int, ray_tasks: int) -> dict[str, float]:
    """Run both jobs."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="koda-bench-schedule-") as name:
        folder = Path(name)
        sample, digest = await _sample(folder)
        figures |= await _job(folder, units, _Idle(sample, digest))
    if ray_tasks:
        with tempfile.TemporaryDirectory(prefix="koda-bench-schedule-") as name:
            figures["ray_ms_per_task"] = await _on_ray(Path(name), ray_tasks)
    return {name: round(value, 3) for name, value in figures.items()}


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling", description="Time the coordinator.")
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--ray-tasks", type=int, default=300, help="0 leaves Ray out")
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measure(units=given.units, ray_tasks=given.ray_tasks))))


if __name__ == "__main__":
    main()
