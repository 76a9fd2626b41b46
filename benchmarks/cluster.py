"""One video on several nodes: what a node more is worth, how soon it helps, and what is lost when one is lost.

    python -m benchmarks.cluster [--quick] [--kills N] --json FILE

Nodes are real raylets on this machine, each with all that it starts pinned to one core, so that each is a machine with
one processor. The head, and this process, which coordinates, are on the first node's core, as on a cluster whose first
machine does both. Every run renders the same page anew, on workers that are warm. Keys of the JSON:

- ``add_node_speedup``: seconds from the job's beginning to the checked video, on one node over on two
- ``weak_scaling_efficiency``: seconds for half of the video on one node over those for all of it on two
- ``losses_2_nodes_pct``: of two nodes' time, what is not capture as one node does it, by cause: ``page_start``,
  ``slower`` (the same frames took longer), ``between`` (dispatch, storing), ``idle`` (a node without a task while
  others capture), ``alone`` (before the first task and after the last: reading the environment, joining, checking)
- ``first_unit_on_new_node_s``: from Ray's knowing a node that joins in the middle of a job to the first unit that it
  stored
- ``node_kill_unit_elsewhere_s``: from SIGKILL for a raylet and everything under it, in the middle of a unit, to that
  unit's being captured on another node that is free
- ``same_frame_hash``: whether all runs captured the same frames
- ``four_nodes_on_two_cores_efficiency``: seconds on two nodes over those on four that share the same two cores: what
  more nodes cost, since they can bring nothing; not with ``--quick``, which takes a shorter video, once
- ``silent_cut_s``: from taking down the link of a machine with all the work (`tests.cluster.cut`, in name spaces of
  networks) to a session's taking a command, and a render's being taken, on another, whichever is later; as root, and
  not with ``--quick``; ``silent_cut`` has each, and the janitor's
- ``spot_notice_no_new_work_s``: from a cloud's notice that it takes such a machine away, to the last that was begun on
  it; ``spot_notice`` has when what worked there had left it, and was taken elsewhere
- ``activation_after_head_s``: from when a head that was killed takes connections again, to when a session that slept
  has taken what was said to it meanwhile; ``head_kill_get_failures``, ``head_kill_commands_refused``: of requests to
  a server of its own all that while, which were not answered as they should be; ``head_kill_asked`` how many there were
- ``session_back_s``: from killing all of a machine to a session's taking a command on another
- ``lost_events``, ``repeated_effects``: of what was said to sessions while processes, the database, the bucket and the
  head were killed, each so often as ``kills_each`` says (``--kills``, 20 are asked for), what their events lack, and
  what they have twice; ``kills`` by kind
- what `benchmarks.many_rows` and `benchmarks.load` say, and ``idle_followers_1000_queries_per_s``: how often a process
  with the API reads its database for 1,000 who follow sessions that sleep; not with ``--quick``
- ``model_error_pct``, ``model_1000_loss_pct`` and the rest of `benchmarks.scale_model`
- ``held`` and ``missed``: which of `BARS` hold, and which do not, of those that were measured
- ``runs``: what each run was made of, for `benchmarks.scale_model`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from benchmarks import load, many_rows, scale_model, streams
from benchmarks.raylets import OneCore, Raylets
from benchmarks.scenes import bundle_of
from benchmarks.unit_costs import measure_unit_costs
from koda_ray.config import REPO_ROOT
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.protocol import CaptureTask, Hear, JobContext, Progress, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.render.tasks import RayExecutor
from koda_ray.state.storage import Storage
from koda_ray.types import new_id

__all__ = ["JobRun", "main", "measure"]

USER = "local"
SCENE = "svg"
WIDTH, HEIGHT, FPS = 854, 480, 30
UNITS, QUICK_UNITS = 48, 14
ROUNDS = 3
WARM_UNITS = 2
FOLLOWERS = 1_000
_ANY = float("inf")
BARS: dict[str, tuple[float, float]] = {
    "add_node_speedup": (1.85, _ANY),
    "first_unit_on_new_node_s": (0, 10),
    "node_kill_unit_elsewhere_s": (0, 3),
    "session_back_s": (0, 10),
    "silent_cut_s": (0, 15),
    "spot_notice_no_new_work_s": (-_ANY, 1),
    "head_kill_get_failures": (0, 0),
    "head_kill_commands_refused": (0, 0),
    "activation_after_head_s": (-_ANY, 5),
    "lost_events": (0, 0),
    "repeated_effects": (0, 0),
    "same_frame_hash": (1, 1),
    "sessions_10000_list_p95_ms": (0, 50),
    "janitor_round_ms": (0, 50),
    "alive_50_mb_each": (0, 80),
    "get_p95_ms": (0, 50),
    "command_p95_ms": (0, 100),
    "idle_followers_1000_queries_per_s": (0, 50),
    "model_error_pct": (0, 10),
    "model_1000_loss_pct": (-_ANY, 5),
}
"""What each figure shall be: at least, at most."""
_POLL_S = 0.05


@dataclass
class JobRun:
    """A job that ran, in seconds from its beginning.

    Attributes:
        nodes: How many nodes it had.
        units: Of its video.
        total_s: Until the checked video was stored.
        tasks: Each task's units, when it was asked for, and when it had ended.
        captured: Each unit's index, its page's start where it was a page's first, its capture, and when it was stored.
        joined_s: What joining and checking took.
        frame_hash: A digest of all captured frames.
    """

    nodes: int
    units: int
    total_s: float = 0.0
    tasks: list[tuple[int, float, float]] = field(default_factory=list[tuple[int, float, float]])
    captured: list[tuple[int, float, float, float]] = field(default_factory=list[tuple[int, float, float, float]])
    joined_s: float = 0.0
    frame_hash: str = ""

    @property
    def capture_s(self) -> float:
        """What capturing took, of all nodes."""
        return sum(capture_s for _, _, capture_s, _ in self.captured)

    def losses_pct(self, alone: JobRun) -> dict[str, float]:
        """Say what of all nodes' time was not capture as one node does it, by cause."""
        whole = self.nodes * self.total_s
        first, last = min(began for _, began, _ in self.tasks), max(ended for *_, ended in self.tasks)
        worked = sum(ended - began for _, began, ended in self.tasks)
        starts = sum(ready_s for _, ready_s, _, _ in self.captured)
        lost = {
            "page_start": starts,
            "slower": self.capture_s - alone.capture_s * self.units / alone.units,
            "between": worked - starts - self.capture_s,
            "idle": self.nodes * (last - first) - worked,
            "alone": self.nodes * (self.total_s - (last - first)),
        }
        return {cause: round(100 * seconds / whole, 2) for cause, seconds in lost.items()}


class WatchedRay(RayExecutor):
    """An executor that notes when its tasks begin and end."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.run = JobRun(0, 0)
        self.began = 0.0

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        """Capture as ever, with a look at the clock before and after."""
        began = time.perf_counter() - self.began
        await super().capture(task, hear)
        self.run.tasks.append((len(task.units), began, time.perf_counter() - self.began))


async def render(
    executor: WatchedRay,
    bundle: Bundle,
    run: JobRun,
    *,
    on_progress: Callable[[Progress], Awaitable[None]] | None = None,
    on_unit: Callable[[UnitResult], Awaitable[None]] | None = None,
) -> JobRun:
    """Render a video that was never rendered before; return the run with what it was made of."""
    with tempfile.TemporaryDirectory(prefix="koda-bench-storage-") as folder:
        storage = Storage(folder)
        content = await store_bundle(storage, USER, bundle)
        spec = RenderSpec(bundle=content, duration_s=float(run.units), width=WIDTH, height=HEIGHT, fps=Fraction(FPS))
        executor.run, executor.began = run, time.perf_counter()

        async def note(unit: UnitResult) -> None:
            ms = unit.timings_ms
            at = time.perf_counter() - executor.began
            run.captured.append((unit.unit.index, ms["ready"] / 1000, ms["capture"] / 1000, at))
            if on_unit is not None:
                await on_unit(unit)

        job_id = new_id("job")  # as what somebody waits for: with no less of a claim on the processors than others
        context = JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER, urgent=True)
        result = await RenderJob(spec, context, on_progress=on_progress, on_unit=note).run()
        run.total_s = time.perf_counter() - executor.began
        seconds: Any = result.report["seconds"]
        run.joined_s = seconds["total"] - seconds["capture"]
        run.frame_hash = result.frame_hash
        return run


async def new_node(raylets: Raylets, bundle: Bundle, units: int) -> tuple[float, OneCore, JobRun]:
    """Have a node join in the middle of a job; return the seconds until it had stored its first unit."""
    executor = await asyncio.to_thread(WatchedRay)
    known: list[float] = []
    stored: list[tuple[float, str]] = []
    under_way = asyncio.Event()

    async def hear(progress: Progress) -> None:
        if progress.frames_done > 0:
            under_way.set()

    async def note(unit: UnitResult) -> None:
        stored.append((time.perf_counter(), unit.worker))

    job = asyncio.create_task(render(executor, bundle, JobRun(1, units), on_progress=hear, on_unit=note))
    await under_way.wait()
    node = await asyncio.to_thread(raylets.add)
    known.append(time.perf_counter())
    run = await job
    mine = [at - known[0] for at, worker in stored if node.has(worker)]
    return (min(mine) if mine else float("nan")), node, run


async def kill_a_node(raylets: Raylets, bundle: Bundle, units: int) -> tuple[float, JobRun]:
    """Kill the node that captures, with another free; return the seconds until the other captures, and the run."""
    executor = await asyncio.to_thread(lambda: WatchedRay(workers=1))
    under_way = asyncio.Event()

    async def hear(progress: Progress) -> None:
        if progress.frames_done > 0:
            under_way.set()

    job = asyncio.create_task(render(executor, bundle, JobRun(2, units), on_progress=hear))
    await under_way.wait()

    def kill() -> float:
        victim = None
        while victim is None:
            victim = next((node for node in raylets.nodes if node.captures()), None)
        others = [node for node in raylets.nodes if node is not victim]
        victim.kill()
        killed = time.perf_counter()
        while not any(node.captures() for node in others):
            time.sleep(_POLL_S)
        return time.perf_counter() - killed

    elsewhere_s = await asyncio.to_thread(kill)
    return elsewhere_s, await job


def lost_machines(kills: int) -> dict[str, Any]:
    """Have what a cluster is made of be lost; return the figures, none where we may make no networks.

    Args:
        kills: How often what comes back is killed.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return {}
    cut, moved, gone = _lose("link"), _lose("spot"), _lose("machine")
    killed = {kind: _lose(kind, times) for kind, times in _kills(kills).items()}
    headless = killed["head"]
    return {
        "session_back_s": gone["session_s"],
        "head_kill_get_failures": headless["get_failures"],
        "head_kill_commands_refused": headless["commands_refused"],
        "head_kill_asked": headless["gets"] + headless["commands"],
        "kills_each": kills,
        "kills": {kind: len(seen["killed"]) if "killed" in seen else kills for kind, seen in killed.items()},
        "lost_events": sum(seen["lost_events"] for seen in killed.values()),
        "repeated_effects": sum(seen["repeated_effects"] for seen in killed.values()),
        "silent_cut_s": max(cut["session_s"], cut["render_taken_s"]),
        "silent_cut": {name: cut[name] for name in ("session_s", "render_taken_s", "janitor_s", "render_unit_s")},
        "spot_notice_no_new_work_s": moved["no_new_work_s"],
        "activation_after_head_s": headless["woken_s"],
        "spot_notice": {name: moved[name] for name in ("session_left_s", "render_taken_s", "moved_s")},
    }


def _kills(times: int) -> dict[str, int]:
    return {"process": 3 * times, "database": times, "bucket": times, "head": times}


def _lose(how: str, times: int = 1) -> dict[str, Any]:
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    command += ["-m", "tests.cluster.cut", how, str(times)]
    environment = {**os.environ, "PYTHONPATH": str(REPO_ROOT)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in seen.items()}


async def asked_much() -> dict[str, Any]:
    """Ask much of one server; see `many_rows`, `streams` and `load`."""
    followed = await streams.figures(FOLLOWERS, seconds=10.0)
    return {
        **await many_rows.figures(),
        f"idle_followers_{FOLLOWERS}_queries_per_s": followed[f"streams_{FOLLOWERS}_reads_per_s"],
        **await load.figures(),
    }


def against_bars(figures: dict[str, Any]) -> dict[str, list[str]]:
    """Say which figures are as good as they shall be, and which are not."""
    verdicts: dict[str, list[str]] = {"held": [], "missed": []}
    for name, (least, most) in BARS.items():
        if name in figures:
            found: Any = figures[name]
            each = cast("dict[str, float]", found) if isinstance(found, dict) else {name: float(found)}
            values = [abs(value) if len(each) > 1 else value for value in each.values()]
            verdicts["held" if all(least <= value <= most for value in values) else "missed"].append(name)
    return verdicts


async def measure(*, quick: bool, kills: int) -> dict[str, Any]:
    """Measure everything; see this module's words for the keys."""
    units, rounds = (QUICK_UNITS, 1) if quick else (UNITS, ROUNDS)
    bundle = await bundle_of(SCENE)
    runs: list[JobRun] = []

    async def run(nodes: int, of: int) -> JobRun:
        executor = await asyncio.to_thread(WatchedRay)
        runs.append(await render(executor, bundle, JobRun(nodes, of)))
        return runs[-1]

    with Raylets.started() as raylets:
        if raylets.cores < 2:
            raise SystemExit("a node more brings nothing on one processor: run this where there are two")
        await asyncio.to_thread(raylets.add)
        await render(await asyncio.to_thread(WatchedRay), bundle, JobRun(1, WARM_UNITS))
        one = [await run(1, units) for _ in range(rounds)]
        half = [await run(1, units // 2) for _ in range(rounds)]
        joined_s, _, joined = await new_node(raylets, bundle, units)
        two = [await run(2, units) for _ in range(rounds)]
        four: list[JobRun] = []
        if not quick:
            for _ in range(2):
                await asyncio.to_thread(raylets.add)
            await render(await asyncio.to_thread(WatchedRay), bundle, JobRun(4, 4 * WARM_UNITS))
            four = [await run(4, units) for _ in range(rounds)]
        elsewhere_s, killed = await kill_a_node(raylets, bundle, units if not quick else units // 2)
    whole = [each for each in (*runs, joined, killed) if each.units == units]

    def seconds(of: list[JobRun]) -> float:
        return statistics.median(each.total_s for each in of)

    middle = sorted(two, key=lambda each: each.total_s)[len(two) // 2]
    base = sorted(one, key=lambda each: each.total_s)[len(one) // 2]
    return {
        "add_node_speedup": round(seconds(one) / seconds(two), 3),
        "weak_scaling_efficiency": round(seconds(half) / seconds(two), 3),
        "losses_2_nodes_pct": middle.losses_pct(base),
        "first_unit_on_new_node_s": round(joined_s, 2),
        "node_kill_unit_elsewhere_s": round(elsewhere_s, 2),
        "same_frame_hash": len({each.frame_hash for each in whole}) == 1,
        **({"four_nodes_on_two_cores_efficiency": round(seconds(two) / seconds(four), 3)} if four else {}),
        **({} if quick else await asyncio.to_thread(lost_machines, kills)),
        **({} if quick else await asked_much()),
        "video": {"scene": SCENE, "width": WIDTH, "height": HEIGHT, "fps": FPS, "units": units},
        "runs": [asdict(each) for each in runs],
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short video, once, in less than a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    parser.add_argument("--kills", type=int, default=2, help="how often each is killed that comes back")
    asked = parser.parse_args(arguments)
    figures = asyncio.run(measure(quick=asked.quick, kills=asked.kills))
    told, _ = scale_model.figures(figures, asyncio.run(measure_unit_costs()), quick=asked.quick)
    figures |= told
    figures |= against_bars(figures)
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps({name: value for name, value in figures.items() if name != "runs"}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
