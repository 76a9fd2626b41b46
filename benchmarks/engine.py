"""Our own engine under the clock: warm jobs with their processor time, and cold ones from a process's start on."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cpu import ProcessKind, reap_orphans, tree_cpu_by_kind
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import MAX_FRAMES_PER_BROWSER, LocalExecutor
from koda_ray.render.protocol import Captured, CaptureTask, Hear, JobContext, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage
from koda_ray.types import new_id

__all__ = ["USER", "OurRun", "WatchedLocal", "render_cold", "render_warm"]

USER = "local"
_COLD = """
import json, sys
from koda_ray.render.api import render_sync
page, out, options = sys.argv[1:]
render_sync(page, out, **json.loads(options))
"""
_TIMEOUT_S = 900


@dataclass(frozen=True)
class OurRun:
    """What a warm job took, per frame from the moment on when every worker had shown its first.

    ``wall_ms`` and ``cpu_ms`` are until all units were encoded and stored; ``to_file_ms`` is wall until the joined and
    checked video was stored, and ``total_s`` that from the job's very beginning. ``cpu_by_ms`` is ``cpu_ms`` by kind of
    process.
    """

    wall_ms: float
    cpu_ms: float
    to_file_ms: float
    total_s: float
    video: Path
    cpu_by_ms: dict[ProcessKind, float] = field(default_factory=dict[ProcessKind, float])


class WatchedLocal(LocalExecutor):
    """A local executor that notes when its workers are all under way, and when the last unit is stored."""

    def __init__(self, *, workers: int) -> None:
        super().__init__(workers=workers)
        self.reset(workers, 0)

    def reset(self, tasks: int, units: int) -> None:
        """Forget the last job; the next one begins with this many tasks at once, and has so many units."""
        self._awaited = tasks
        self._unstored = set(range(units))
        self._seen: dict[int, int] = {}
        self._tasks: set[int] = set()
        self.begun: tuple[float, dict[ProcessKind, float], int] | None = None
        self.stored: tuple[float, dict[ProcessKind, float]] | None = None

    async def renew(self, frames: int, user_id: str) -> None:
        """Replace browsers that would be closed amid a job of so many frames, with the account of their time."""
        await self.tidy()
        for browser in [one for one in self._idle if one.frames_run + frames >= MAX_FRAMES_PER_BROWSER]:
            self._idle.remove(browser)
            await browser.close()
        await self.warm(user_id)

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        """Capture as ever, and look at the clocks on the way."""

        async def watch(told: Captured | UnitResult) -> None:
            if isinstance(told, Captured):
                self._seen[told.unit] = told.frames
                self._tasks.add(id(task))
                if self.begun is None and len(self._tasks) >= self._awaited:
                    self.begun = time.perf_counter(), tree_cpu_by_kind(), sum(self._seen.values())
            else:
                self._unstored.discard(told.unit.index)
                if not self._unstored:  # asked once: it takes milliseconds, as much as a frame
                    self.stored = time.perf_counter(), tree_cpu_by_kind()
            if hear is not None:
                await hear(told)

        await super().capture(task, watch)


async def render_warm(executor: WatchedLocal, bundle: Bundle, spec: RenderSpec, target: Path) -> OurRun:
    """Render a video that was never rendered before, with browsers that run."""
    units = -(-spec.frame_count // max(1, round(spec.fps)))
    reap_orphans()
    await executor.renew(spec.frame_count, USER)
    executor.reset(min(executor.slots.now, units), units)
    with tempfile.TemporaryDirectory(prefix="koda-bench-storage-") as folder:
        storage = Storage(folder)
        await store_bundle(storage, USER, bundle)
        started = time.perf_counter()
        result = await RenderJob(
            spec, JobContext(storage=storage, executor=executor, job_id=new_id("job"), user_id=USER)
        ).run()
        ended = time.perf_counter()
        await executor.tidy()  # and not while a peer is measured
        await storage.get_file(result.video_key, target)
    assert executor.begun is not None and executor.stored is not None
    begun, cpu, already = executor.begun
    stored, cpu_then = executor.stored
    frames = max(1, spec.frame_count - already)
    cpu_by_ms: dict[ProcessKind, float] = {
        kind: (taken - cpu.get(kind, 0.0)) * 1000 / frames for kind, taken in cpu_then.items()
    }
    return OurRun(
        wall_ms=(stored - begun) * 1000 / frames,
        cpu_ms=sum(cpu_by_ms.values()),
        to_file_ms=(ended - begun) * 1000 / frames,
        total_s=ended - started,
        video=target,
        cpu_by_ms=cpu_by_ms,
    )


async def render_cold(page: Path, target: Path, options: Mapping[str, object]) -> float:
    """Render in a fresh process with an empty storage; return seconds from its start to its end.

    Args:
        page: The folder of a built page.
        target: The video.
        options: As `koda_ray.render.api.render` takes them.
    """
    with tempfile.TemporaryDirectory(prefix="koda-bench-data-") as folder:
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _COLD, str(page), str(target), json.dumps(dict(options))),
            env={**os.environ, "KODA_DATA_DIR": folder},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(_TIMEOUT_S):
            said, _ = await process.communicate()
        took = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"the cold render failed: {said.decode(errors='replace')[-2000:]}")
    return took
