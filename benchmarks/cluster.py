"""One video on several nodes: what a node more is worth, how soon it helps, and what is lost when one is lost.

    python -m benchmarks.cluster [--quick] [--check] [--kills N] [--losses N] [--resume [--again PART]] --json FILE
    python -m benchmarks.cluster --table FILE

Nodes are real raylets on this machine, each with all that it starts pinned to one core, so that each is a machine with
one processor. The head, and this process, which coordinates, are on the first node's core, as on a cluster whose first
machine does both. Every run renders the same page anew, on workers that are warm. Keys of the JSON:

- ``add_node_speedup``: seconds from the job's beginning to the checked video, on one node over on two
- ``weak_scaling_efficiency``: seconds for half of the video on one node over those for all of it on two
- ``speedup``, ``weak_efficiency``: as these two, by nodes, of all rounds: median, least and most. Four nodes share two
  cores, so that they can come to two and to one, as two nodes can
- ``losses_2_nodes_pct``, ``losses_4_nodes_pct``: of the nodes' time, what is not capture as one node does it, by cause:
  ``page_start``, ``slower`` (the same frames took longer; with four nodes nearly half of the time, since two share a
  core), ``between`` (dispatch, storing), ``idle`` (a node without a task while others capture), ``alone`` (before the
  first task and after the last: reading the environment, joining, checking)
- ``cores_slower_together_pct``: how much longer renders take that know nothing of each other, on two of this machine's
  cores at once, than one alone (`benchmarks.contention`); ``possible_speedup``: what that leaves of two;
  ``two_a_core_times``: how many times as long as one alone they take where two share each core; not with ``--quick``
- ``first_unit_on_new_node_s``: from Ray's knowing a node that joins in the middle of a job to the first unit that it
  stored; none where the job was over before, and not with ``--quick``
- ``node_kill_unit_elsewhere_s``: from SIGKILL for a raylet and everything under it, in the middle of a unit, to that
  unit's being captured on another node that is free
- ``same_frame_hash``: whether all runs captured the same frames
- ``four_nodes_on_two_cores_efficiency``: seconds on two nodes over those on four that share the same two cores: what
  more nodes cost, since they can bring nothing; not with ``--quick``, which takes a shorter video, once
- ``silent_cut_s``: from taking down the link of a machine with all the work (`tests.cluster.cut`, in name spaces of
  networks) to a session's taking a command, and a render's being taken, on another, whichever is later; as root, and
  not with ``--quick``; ``silent_cut`` has each, the janitor's, and ``ended_s``: from when the link is there again to
  the end of what had run on meanwhile; of several such losses the longest each
- ``spot_notice_no_new_work_s``: from a cloud's notice that it takes such a machine away, to the last that was begun on
  it; ``spot_notice`` has when what worked there had left it, and was taken elsewhere
- ``database_silent_s``, ``bucket_silent_s``: from when one that was silent for half a minute, with its connections open
  for nothing, is heard again, to a session's taking a command, or a render's having a unit more, whichever is later
- ``activation_after_head_s``: from when a head that was killed takes connections again, to when a session that slept
  has taken what was said to it meanwhile; ``head_kill_get_failures``, ``head_kill_commands_refused``: of requests to
  a server of its own all that while, which were not answered as they should be; ``head_kill_asked`` how many there
  were, ``head_kill_commands_away`` how many commands were asked with the head away, ``head_kill_away`` those of each
  kind with how long their answers took, and ``head_kill_untrue_answers`` how many sessions are not as was answered
- ``session_back_s``: from killing all of a machine to a session's taking a command on another
- ``lost_events``, ``repeated_effects``: of what was said to sessions while something was lost, what their events lack,
  and what they have twice, over all losses. What comes back is killed ``--kills`` times (20): sessions' processes,
  coordinators', those that capture, the database, the bucket and the head. A machine that is killed, one that is cut
  off and comes back, one that is given notice, and a database and a bucket that fall silent, each in a cluster of its
  own, are lost ``--losses`` times (1).
  ``kills`` has how often each was. A loss that failed leaves the figures of its kind unmeasured, and these two, which
  are so as well where fewer processes were killed
- what `benchmarks.many_rows` and `benchmarks.load` say, and ``idle_followers_1000_queries_per_s``: how often a process
  with the API reads its database for 1,000 who follow sessions that sleep; not with ``--quick``
- ``model_error_pct``, ``model_1000_loss_pct`` and the rest of `benchmarks.scale_model`
- ``held``, ``missed`` and ``unmeasured``: which of `BARS` hold, which do not, and which have no figure (with
  ``--quick`` most, and without root or PostgreSQL what is lost); ``--check`` ends with 1 where one is not in ``held``
- ``runs``: what each run was made of, for `benchmarks.scale_model`

It says which part is under way. Each is kept in ``FILE.parts`` until all bars are held: ``--resume`` goes on after the
last of them, and measures anew what failed, and what ``--again`` names, once for each.

``--table FILE`` measures nothing: it prints what such a FILE has, as a table of Markdown.
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
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from benchmarks import load, many_rows, scale_model, streams
from benchmarks.contention import FPS, HEIGHT, SCENE, WIDTH, slower_together
from benchmarks.measured import table
from benchmarks.parts import PartsKept
from benchmarks.raylets import OneCore, Raylets
from benchmarks.scenes import bundle_of
from benchmarks.unit_costs import UnitCosts, measure_unit_costs
from koda_ray.config import REPO_ROOT
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.protocol import CaptureTask, Hear, JobContext, Progress, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.render.tasks import RayExecutor
from koda_ray.state.storage import Storage
from koda_ray.types import new_id

__all__ = ["BARS", "JobRun", "against_bars", "figures_of_losses", "main", "measure", "scaling"]

USER = "local"
UNITS, QUICK_UNITS = 48, 8
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
    "database_silent_s": (0, 15),
    "bucket_silent_s": (0, 15),
    "head_kill_get_failures": (0, 0),
    "head_kill_commands_refused": (0, 0),
    "head_kill_commands_away": (50, _ANY),
    "head_kill_untrue_answers": (0, 0),
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
BACK, GONE = ("process", "database", "bucket", "head"), ("machine", "link", "spot", "database-silent", "bucket-silent")
"""What `tests.cluster.cut` kills that comes back; and machines, which are lost, and what falls silent."""
_SILENT = ("database", "bucket")
PROCESSES = ("session", "coordinator", "capture")
"""Whose processes are killed, each kind so often."""
_CUT = ("session_s", "render_taken_s", "janitor_s", "render_unit_s", "ended_s")
_NOTICE = ("session_left_s", "render_taken_s", "moved_s")
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


async def new_node(raylets: Raylets, bundle: Bundle, units: int) -> tuple[float | None, OneCore, JobRun]:
    """Have a node join in the middle of a job; return the seconds until it had stored its first unit, if it did."""
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
    return min(mine, default=None), node, run


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


async def lost_machines(parts: PartsKept, kills: int, losses: int) -> dict[str, Any]:
    """Have what a cluster is made of be lost; return the figures, none where we may make no networks.

    Args:
        parts: Where each kind of loss is a part.
        kills: How often what comes back is killed.
        losses: How often a machine is lost in each way.
    """
    if not _may_lose():
        return {}
    found: dict[str, list[dict[str, Any] | None]] = {kind: [] for kind in (*BACK, *GONE)}
    for kind, times in {**dict.fromkeys(BACK, kills), **dict.fromkeys(GONE, 1)}.items():
        of_kind = 1 if kind in BACK else losses
        for number in range(1, of_kind + 1):
            name = f"losing a {kind}" + (f", {number} of {of_kind}" if of_kind > 1 else "")
            found[kind].append(
                await parts.part(name, lambda how=kind, often=times: asyncio.to_thread(_lose, how, often))
            )
    return figures_of_losses(found, kills)


def _may_lose() -> bool:
    return os.geteuid() == 0 and all(shutil.which(program) is not None for program in ("ip", "iptables"))


def figures_of_losses(seen_of: Mapping[str, Sequence[dict[str, Any] | None]], kills: int) -> dict[str, Any]:
    """Return the figures of losses by their kind.

    Those of a kind are left out where one of its losses failed, or none was tried, and what is counted over all losses
    where that holds of any kind, or where fewer processes were killed than was asked for.

    Args:
        seen_of: What was seen each time, by kind; None for a loss that failed.
        kills: How often what comes back was to be killed.
    """
    had = {kind: [seen for seen in each if seen is not None] for kind, each in seen_of.items()}
    found = {kind: each if len(each) == len(seen_of[kind]) else [] for kind, each in had.items()}

    def worst(kind: str, name: str) -> float:
        return max(float(seen[name]) for seen in found[kind])

    told: dict[str, Any] = {}
    if found["machine"]:
        told["session_back_s"] = worst("machine", "session_s")
    if found["link"]:
        told["silent_cut_s"] = max(worst("link", "session_s"), worst("link", "render_taken_s"))
        told["silent_cut"] = {name: worst("link", name) for name in _CUT}
    for what in _SILENT:
        if found[kind := f"{what}-silent"]:
            told[f"{what}_silent_s"] = max(worst(kind, "session_s"), worst(kind, "render_unit_s"))
    if found["spot"]:
        told["spot_notice_no_new_work_s"] = worst("spot", "no_new_work_s")
        told["spot_notice"] = {name: worst("spot", name) for name in _NOTICE}
    for headless in found["head"]:
        told |= {
            "head_kill_get_failures": headless["get_failures"],
            "head_kill_commands_refused": headless["commands_refused"],
            "head_kill_asked": headless["gets"] + headless["commands"],
            "head_kill_commands_away": headless["commands_away"],
            "head_kill_untrue_answers": headless["untrue_answers"],
            "head_kill_away": headless["away"],
            "activation_after_head_s": headless["woken_s"],
        }
    times = {kind: len(each) * (kills if kind in BACK else 1) for kind, each in had.items() if kind != "process"}
    killed = Counter(killed for seen in had["process"] for killed in seen["killed"])
    told["kills"] = times | {kind: killed[kind] for kind in PROCESSES}
    if all(found.values()) and all(killed[kind] >= kills for kind in PROCESSES):
        for name in ("lost_events", "repeated_effects"):
            told[name] = sum(int(seen[name]) for each in found.values() for seen in each)
    return told


def _lose(how: str, times: int) -> dict[str, Any] | None:
    """Lose something; return what was seen, None where that failed."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    command += ["-m", "tests.cluster.cut", how, str(times)]
    # Ray takes the token of its user's folder for some of what it starts there, and not for the rest
    environment = {**os.environ, "PYTHONPATH": str(REPO_ROOT), "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"{done.stdout}could not be measured: {how} (exit status {done.returncode})", file=sys.stderr)
        return None
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in seen.items()}


async def _followed() -> dict[str, float]:
    """Have a server followed by many, of sessions that sleep."""
    followed = await streams.figures(FOLLOWERS, seconds=10.0)
    return {f"idle_followers_{FOLLOWERS}_queries_per_s": followed[f"streams_{FOLLOWERS}_reads_per_s"]}


def against_bars(figures: dict[str, Any]) -> dict[str, list[str]]:
    """Say which figures are as good as they shall be, which are not, and which there are none of."""
    verdicts: dict[str, list[str]] = {"held": [], "missed": [], "unmeasured": []}
    for name, (least, most) in BARS.items():
        if name not in figures:
            verdicts["unmeasured"].append(name)
        else:
            found: Any = figures[name]
            each = cast("dict[str, float]", found) if isinstance(found, dict) else {name: float(found)}
            values = [abs(value) if len(each) > 1 else value for value in each.values()]
            verdicts["held" if all(least <= value <= most for value in values) else "missed"].append(name)
    return verdicts


async def measure(parts: PartsKept, *, quick: bool, kills: int, losses: int) -> tuple[dict[str, Any], UnitCosts]:
    """Measure everything but what the model says; see this module's words for the keys."""
    rendered = await parts.part("rendering on more nodes", lambda: _rendered(quick))
    told = rendered | ({} if quick else await lost_machines(parts, kills, losses))
    if not quick:
        told |= await parts.part("two renders that share nothing but the machine", _beside)
        told |= await parts.part("many rows", many_rows.figures)
        told |= await parts.part("many who follow", _followed)
        told |= await parts.part("asking much of one server", load.figures)
    costs = await parts.part("what a unit costs others", _unit_costs)
    return told, UnitCosts(**costs)


async def _unit_costs() -> dict[str, Any]:
    return asdict(await measure_unit_costs())


async def _beside() -> dict[str, float]:
    """Have two cores render beside each other, as machines do that have nothing in common."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    slower = await asyncio.to_thread(slower_together, cores, units=UNITS // 3, rounds=ROUNDS)
    return {
        "cores_slower_together_pct": slower.each_a_core_pct,
        "two_a_core_times": slower.two_a_core_times,
        "possible_speedup": round(2 / (1 + slower.each_a_core_pct / 100), 3),
    }


async def _rendered(quick: bool) -> dict[str, Any]:
    """Render on 1, 2 and 4 nodes, with one that joins and one that is killed."""
    units, rounds = (QUICK_UNITS, 1) if quick else (UNITS, ROUNDS)
    bundle = await bundle_of(SCENE)
    runs: list[JobRun] = []

    async def run(nodes: int, of: int) -> None:
        executor = await asyncio.to_thread(WatchedRay)
        runs.append(await render(executor, bundle, JobRun(nodes, of)))

    with Raylets.started() as raylets:
        if raylets.cores < 2:
            raise SystemExit("a node more brings nothing on one processor: run this where there are two")
        await asyncio.to_thread(raylets.add)
        await render(await asyncio.to_thread(WatchedRay), bundle, JobRun(1, WARM_UNITS))
        for length in (units, units // 2):
            for _ in range(rounds):
                await run(1, length)
        joined_s, joined = None, None
        if quick:  # so short a job is over before a node that joins has done anything
            await asyncio.to_thread(raylets.add)
        else:
            joined_s, _, joined = await new_node(raylets, bundle, units)
        for _ in range(rounds):
            await run(2, units)
        if not quick:
            for _ in range(2):
                await asyncio.to_thread(raylets.add)
            await render(await asyncio.to_thread(WatchedRay), bundle, JobRun(4, 4 * WARM_UNITS))
            for _ in range(rounds):
                await run(4, units)
        elsewhere_s, killed = await kill_a_node(raylets, bundle, units if not quick else units // 2)
    whole = [each for each in (*runs, joined, killed) if each is not None and each.units == units]
    return {
        **scaling(runs, units),
        **({} if joined_s is None else {"first_unit_on_new_node_s": round(joined_s, 2)}),
        "node_kill_unit_elsewhere_s": round(elsewhere_s, 2),
        "same_frame_hash": len({each.frame_hash for each in whole}) == 1,
        "video": {"scene": SCENE, "width": WIDTH, "height": HEIGHT, "fps": FPS, "units": units},
        "runs": [asdict(each) for each in runs],
    }


def scaling(runs: Sequence[JobRun], units: int) -> dict[str, Any]:
    """Say what runs of a video, and of half of it, on different numbers of nodes come to."""
    nodes = sorted({run.nodes for run in runs} - {1})

    def those(count: int, of: int) -> list[JobRun]:
        return sorted((run for run in runs if (run.nodes, run.units) == (count, of)), key=lambda run: run.total_s)

    def middle(of: Sequence[JobRun]) -> JobRun:
        return of[len(of) // 2]

    def over(base: Sequence[JobRun], count: int) -> list[float]:
        base_s = statistics.median(run.total_s for run in base)
        each = [run.total_s for run in those(count, units)]
        return [round(base_s / seconds, 3) for seconds in (statistics.median(each), max(each), min(each))]

    speedup = {str(count): over(those(1, units), count) for count in nodes}
    weak = {str(count): over(those(1, units // 2), count) for count in nodes}
    lost = {count: middle(those(count, units)).losses_pct(middle(those(1, units))) for count in nodes}
    four = {} if 4 not in nodes else {"four_nodes_on_two_cores_efficiency": round(speedup["4"][0] / speedup["2"][0], 3)}
    return {
        "add_node_speedup": speedup["2"][0],
        "weak_scaling_efficiency": weak["2"][0],
        "speedup": speedup,
        "weak_efficiency": weak,
        **{f"losses_{count}_nodes_pct": causes for count, causes in lost.items()},
        **four,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short video, once, in less than a minute")
    parser.add_argument("--check", action="store_true", help="end with 1 where a bar is missed, or has no figure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    parser.add_argument("--kills", type=int, default=20, help="how often each is killed that comes back")
    parser.add_argument("--losses", type=int, default=1, help="how often a machine is lost in each way")
    parser.add_argument("--resume", action="store_true", help="go on after the parts that FILE.parts has")
    parser.add_argument("--again", action="append", default=[], metavar="PART", help="with --resume: one of them, anew")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="print what FILE has as a table, and measure nothing"
    )
    asked = parser.parse_args(arguments)
    if asked.table is not None:
        print(table(json.loads(asked.table.read_text()), BARS))
        return 0
    lost = len(BACK) + len(GONE) * asked.losses if _may_lose() else 0
    total = 2 if asked.quick else 6 + lost
    parts = PartsKept(asked.json, resume=asked.resume, total=total, again=asked.again)
    figures, costs = asyncio.run(measure(parts, quick=asked.quick, kills=asked.kills, losses=asked.losses))
    figures |= scale_model.figures(figures, costs, quick=asked.quick)[0]
    figures |= against_bars(figures)
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    if asked.quick or not (figures["missed"] or figures["unmeasured"]):
        parts.finished()
    print(json.dumps({name: value for name, value in figures.items() if name != "runs"}, indent=2))
    for word in ("missed", "unmeasured"):
        for name in figures[word]:
            print(f"{word}: {name}", file=sys.stderr)
    return int(asked.check and bool(figures["missed"] or figures["unmeasured"]))


if __name__ == "__main__":
    raise SystemExit(main())
