"""How much slower renders are that share a machine, and nothing else: each on a core of its own, or two on each.

    python -m benchmarks.contention UNITS

Cores of one machine share caches and memory; a cluster's machines do not. What two renders at once, which know nothing
of each other, lose to one alone, no scheduling wins back where nodes are cores of one machine. Two that share a core
take more than twice as long, since they share its caches too. Run as a program it renders once, when it is told to by a
line, and prints its seconds.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.scenes import bundle_of
from koda_ray.config import REPO_ROOT
from koda_ray.render.bundle import store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage

__all__ = ["FPS", "HEIGHT", "SCENE", "WIDTH", "SlowerTogether", "slower_together"]

USER = "local"
SCENE = "svg"
WIDTH, HEIGHT, FPS = 854, 480, 30


@dataclass(frozen=True)
class SlowerTogether:
    """How much longer renders take beside each other than one alone, as medians.

    Attributes:
        each_a_core_pct: One on each core, by so many percent.
        two_a_core_times: Two on each core, so many times as long.
    """

    each_a_core_pct: float
    two_a_core_times: float


def slower_together(cores: Sequence[int], *, units: int, rounds: int) -> SlowerTogether:
    """Render the same video on each core alone, on all at once, and twice at once on each.

    Args:
        cores: Which.
        units: Of the video.
        rounds: How often, in turns; medians count.
    """
    alone: list[float] = []
    together: list[float] = []
    shared: list[float] = []
    for _ in range(rounds):
        alone += [seconds for core in cores for seconds in _render_on([core], units)]
        together += _render_on(cores, units)
        shared += _render_on([*cores, *cores], units)
    one = statistics.median(alone)
    return SlowerTogether(
        each_a_core_pct=round(100 * (statistics.median(together) / one - 1), 1),
        two_a_core_times=round(statistics.median(shared) / one, 3),
    )


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
            await executor.warm(USER)
            print("ready", flush=True)
            sys.stdin.readline()
            began = time.perf_counter()
            await RenderJob(
                spec, JobContext(storage=storage, executor=executor, job_id="job-alone", user_id=USER)
            ).run()
            print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
