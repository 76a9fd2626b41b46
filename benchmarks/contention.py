"""How much slower renders are that share a machine, each on a core of its own, and nothing else.

    python -m benchmarks.contention UNITS

Cores of one machine share caches and memory; a cluster's machines do not. What two renders at once, which know nothing
of each other, lose to one alone, no scheduling wins back where nodes are cores of one machine. Run as a program it
renders once, when it is told to by a line, and prints its seconds.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction

from benchmarks.scenes import bundle_of
from koda_ray.config import REPO_ROOT
from koda_ray.render.bundle import store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage

__all__ = ["FPS", "HEIGHT", "SCENE", "WIDTH", "slower_together_pct"]

USER = "local"
SCENE = "svg"
WIDTH, HEIGHT, FPS = 854, 480, 30


def slower_together_pct(cores: Sequence[int], *, units: int, rounds: int) -> float:
    """Render the same video on each core alone, and on all at once; return how much longer the latter takes.

    Args:
        cores: Which.
        units: Of the video.
        rounds: How often, in turns; medians count.
    """
    alone: list[float] = []
    together: list[float] = []
    for _ in range(rounds):
        alone += [seconds for core in cores for seconds in _render_on([core], units)]
        together += _render_on(cores, units)
    return round(100 * (statistics.median(together) / statistics.median(alone) - 1), 1)


def _render_on(cores: Sequence[int], units: int) -> list[float]:
    """Render on some cores at once; return each one's seconds."""
    command = [sys.executable, "-m", "benchmarks.contention", str(units)]
    started = [
        subprocess.Popen(
            ["taskset", "--cpu-list", str(core), *command],
            cwd=REPO_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for core in cores
    ]
    for each in started:  # all are warm before one begins
        assert each.stdout is not None
        if each.stdout.readline() != "ready\n":
            raise RuntimeError(f"a render did not begin (exit status {each.wait()})")
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return [float(each.communicate()[0]) for each in started]


async def main(units: int) -> None:
    """Render when told to, and print how long it took, in seconds."""
    with tempfile.TemporaryDirectory(prefix="koda-bench-storage-") as folder:
        storage = Storage(folder)
        content = await store_bundle(storage, USER, await bundle_of(SCENE))
        spec = RenderSpec(bundle=content, duration_s=float(units), width=WIDTH, height=HEIGHT, fps=Fraction(FPS))
        async with LocalExecutor(workers=1) as executor:
            await executor.warm()
            print("ready", flush=True)
            sys.stdin.readline()
            began = time.perf_counter()
            await RenderJob(
                spec, JobContext(storage=storage, executor=executor, job_id="job-alone", user_id=USER)
            ).run()
            print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
