"""A film of ten minutes: whether its end costs as much as its beginning, in memory and in processor time of a frame.

    python -m benchmarks.long_film [--quick] --json FILE

The film is the WebGL scene at 320x180, 12 frames a second. After each unit the memory of this process with all that
works for it is read, and the processor time that it took so far. Compared are the second tenth of the film (in the
first, programs start) and the last. Writes ``memory_last_over_first`` and ``cpu_last_over_first`` (ratios),
``peak_mb``, ``cpu_ms`` (of a frame, over all), ``frames``, ``total_s`` and ``longest_wait_s`` between two units.
``--quick`` is a film of one minute.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

from benchmarks.cpu import adopt_orphans, tree_cpu_s
from benchmarks.engine import USER
from benchmarks.scenes import bundle_of
from koda_ray.render.bundle import store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.memory import tree_bytes
from koda_ray.render.protocol import JobContext, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage
from koda_ray.types import new_id

__all__ = ["Reading", "compared", "measure"]

_SIZE = (320, 180)
_FPS = Fraction(12)
_SECONDS, _QUICK_SECONDS = 600.0, 60.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read when a unit was done: the clock, processor time so far, memory in use, frames done so far."""

    at_s: float
    cpu_s: float
    used_bytes: int
    frames: int


def compared(readings: Sequence[Reading]) -> dict[str, float]:
    """Return the figures of a film, from what was read after each of its units.

    Args:
        readings: In the order of time, twenty or more.
    """
    tenth = len(readings) // 10
    first, last = readings[tenth : 2 * tenth + 1], readings[-tenth - 1 :]

    def cpu_ms(part: Sequence[Reading]) -> float:
        return (part[-1].cpu_s - part[0].cpu_s) * 1000 / (part[-1].frames - part[0].frames)

    def used(part: Sequence[Reading]) -> float:
        return fmean(each.used_bytes for each in part)

    waits = [after.at_s - before.at_s for before, after in itertools.pairwise(readings)]
    return {
        "memory_last_over_first": used(last) / used(first),
        "cpu_last_over_first": cpu_ms(last) / cpu_ms(first),
        "peak_mb": max(each.used_bytes for each in readings) / _MIB,
        "cpu_ms": cpu_ms(readings),
        "longest_wait_s": max(waits),
    }


async def measure(seconds: float, *, workers: int = 2) -> dict[str, float]:
    """Render the film, and return its figures.

    Args:
        seconds: How long the film is.
        workers: How many browsers make it.
    """
    bundle = await bundle_of("webgl")
    width, height = _SIZE
    spec = RenderSpec(bundle=bundle.hash, duration_s=seconds, width=width, height=height, fps=_FPS)
    readings: list[Reading] = []
    frames = 0
    began = time.monotonic()

    async def read(unit: UnitResult) -> None:
        nonlocal frames
        frames += unit.unit.frame_count
        used = await asyncio.to_thread(tree_bytes, os.getpid())
        readings.append(Reading(time.monotonic() - began, tree_cpu_s(), used, frames))
        if len(readings) % 60 == 0:
            print(f"{frames} of {spec.frame_count} frames, {used / _MIB:.0f} MiB", flush=True)

    with tempfile.TemporaryDirectory(prefix="koda-bench-storage-") as folder:
        storage = Storage(folder)
        await store_bundle(storage, USER, bundle)
        async with LocalExecutor(workers=workers) as executor:
            context = JobContext(storage=storage, executor=executor, job_id=new_id("job"), user_id=USER)
            result = await RenderJob(spec, context, on_unit=read).run()
    assert result.frame_count == spec.frame_count
    return {**compared(readings), "frames": result.frame_count, "total_s": time.monotonic() - began}


def main() -> None:
    """Take the figures and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a film of one minute")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures are written")
    given = parser.parse_args()
    adopt_orphans()
    figures = asyncio.run(measure(_QUICK_SECONDS if given.quick else _SECONDS))
    given.json.write_text(json.dumps(figures, indent=2) + "\n")
    for name, value in figures.items():
        print(f"{name} {value:.3g}")


if __name__ == "__main__":
    main()
