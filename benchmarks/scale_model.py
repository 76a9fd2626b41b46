"""What a thousand browsers would do: a model of renders, held against real runs before it says anything else.

    python -m benchmarks.scale_model --cluster FILE [--quick] --json FILE [--chart FILE]

FILE is what `benchmarks.cluster` wrote: the model draws its times from the runs there on one node (`benchmarks.farm`,
which drives the real planner), and is then compared with those on one, two and four. What cores of one machine take
from each other, where those of a cluster have their own, is measured with renders that know nothing of each other: on
two nodes everything takes as many times as long as those do, one on each of two cores (``cores_slower_together_pct``),
on four nodes as two on each (``two_a_core_times``). Beyond that no run was made: 10, 100 and 1,000 browsers are the
model's word, with what may hold them up as it was measured here: the coordinators and the database
(`benchmarks.unit_costs`), and Ray's own rate (569 tasks a second, of its release tests). Where the model is further
from a run than `ERROR_PCT`, the exit status is 1: its word is then worth nothing. Keys of the JSON:

- ``model_error_pct``: by nodes, how far the model's seconds are from those of the run (medians)
- ``run_speedup``, ``model_speedup``: by nodes, how much sooner a video is there than on one, as it was run and as the
  model has it
- ``model_{n}_loss_pct``: by how much n browsers with jobs enough do less than n times what one does, for 1080p at 60
  frames a second, 5 to 60 s long; median of ``seeds`` runs of the model, and ``loss_band_pct`` by browsers the 10th and
  90th percentile of them
- ``losses_pct``: by browsers, what of their time is not capture, by cause; of all seeds
- ``one_video_speedup``: by browsers, how much sooner one video of ten minutes is there than from one browser
- ``coordinate_ms``, ``commit_ms``, ``database``: what a unit takes its coordinator, and which database
- ``dollars_per_1080p_minute``: by scene, at 30 frames a second, on machines as fast as this one, by `PRICES`, which are
  on demand and of ``prices_of``; measured here, a second of each. Storage, requests to it, the database, the head and
  the nodes that hold sessions are not in it, nor is a spot machine's lower price

A chart lies beside the JSON, or where it is wanted. ``--quick`` leaves the scenes out, and models for a shorter time,
with fewer seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from benchmarks.curve import LossCurve, draw
from benchmarks.farm import BrowserTally, Durations, Farm
from benchmarks.scenes import SCENES, bundle_of
from benchmarks.unit_costs import UnitCosts, measure_unit_costs
from koda_ray.render.bundle import store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage

__all__ = ["ERROR_PCT", "at_scale", "errors_pct", "figures", "main", "measured_in", "seconds_by_nodes"]

USER = "local"
BROWSERS = (1, 10, 100, 1000)
ERROR_PCT = 10.0
"""The most that the model may be off where there is a run to hold it against."""
DURATIONS_S = (5.0, 10.0, 20.0, 30.0, 60.0)
FRAME_1080P_S = 0.105
"""What the planner takes a frame of 1080p for before it measured one; the model's frames vary round it as measured."""
SPOT_LOST_PER_HOUR, SPOT_AWAY_S = 0.05, 120.0
LONG_S = 600.0
ROUNDS, FEW_ROUNDS = 21, 3
SEEDS, FEW_SEEDS = 9, 3
FOR_S, FOR_LESS_S = 240.0, 60.0
_BUNDLE = "0" * 64


@dataclass(frozen=True)
class MachinePrice:
    """What a machine costs.

    Args:
        machine: Its type, as the cloud calls it.
        browsers: How many it runs.
        dollars_per_hour: On demand.
        source: Whose list.
    """

    machine: str
    browsers: int
    dollars_per_hour: float
    source: str


PRICES_OF = "2026-11-24"
"""The day on which the lists were looked up."""
PRICES = (
    MachinePrice("c7i.4xlarge", 8, 0.714, "aws.amazon.com/ec2/pricing/on-demand, us-east-1"),
    MachinePrice("c2-standard-16", 8, 0.8352, "cloud.google.com/compute/all-pricing, us-central1"),
)


def measured_in(runs: Sequence[dict[str, Any]]) -> Durations:
    """Return what the runs on one node say about how long things take."""
    one = [run for run in runs if run["nodes"] == 1]
    fps = cast("int", runs[0]["fps"])
    units = [unit for run in one for unit in run["captured"]]
    tasks = sum(len(run["tasks"]) for run in one)
    worked = sum(ended - began for run in one for _, began, ended in run["tasks"])
    spent = sum(ready + capture for _, ready, capture, _ in units)
    lengths = sorted({run["units"] for run in one})
    joins = [statistics.median(run["joined_s"] for run in one if run["units"] == length) for length in lengths]
    each = max(0.0, (joins[-1] - joins[0]) / (lengths[-1] - lengths[0])) if len(lengths) > 1 else 0.0
    return Durations(
        frame=[capture / fps for _, _, capture, _ in units],
        page=[ready for _, ready, _, _ in units if ready > 0],
        between=[max(0.0, (worked - spent) / tasks)],
        before=[min(began for _, began, _ in run["tasks"]) for run in one],
        join=(joins[0] - each * lengths[0], each),
    )


def seconds_by_nodes(found: dict[str, Any], measured: Durations) -> dict[str, tuple[float, float]]:
    """Return by nodes what the video took as it was run, and as the model has it; medians."""
    video, runs = found["video"], found["runs"]
    took: dict[str, tuple[float, float]] = {}
    for nodes in sorted({run["nodes"] for run in runs}):
        real = statistics.median(
            run["total_s"] for run in runs if (run["nodes"], run["units"]) == (nodes, video["units"])
        )
        shared = _times_as_long(found, nodes)
        slower = replace(
            measured,
            **{name: [shared * each for each in getattr(measured, name)] for name in ("frame", "page", "between")},
        )
        spec = RenderSpec(
            bundle=_BUNDLE, duration_s=float(video["units"]), width=video["width"], height=video["height"],
            fps=Fraction(video["fps"]),
        )  # fmt: skip
        took[str(nodes)] = real, statistics.median(Farm(nodes, slower, seed=seed).one(spec) for seed in range(ROUNDS))
    return took


def _times_as_long(found: dict[str, Any], nodes: int) -> float:
    """Return how many times as long all takes on so many nodes because they are one machine's cores."""
    if nodes == 4:
        return cast("float", found["two_a_core_times"])
    return 1.0 + cast("float", found.get("cores_slower_together_pct", 0.0)) / 100 if nodes == 2 else 1.0


def errors_pct(took: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Say by nodes how far the model is from the runs, as `seconds_by_nodes` has both."""
    return {nodes: round(100 * (model / real - 1), 2) for nodes, (real, model) in took.items()}


def heavy(measured: Durations, costs: UnitCosts) -> Durations:
    """Return what takes how long for 1080p, on machines that may be taken away."""
    usual = statistics.fmean(measured.frame)
    return replace(
        measured,
        frame=[FRAME_1080P_S * each / usual for each in measured.frame],
        coordinate=costs.coordinate_s,
        commit=costs.commit_s,
        lost_per_hour=SPOT_LOST_PER_HOUR,
        away=SPOT_AWAY_S,
    )


def at_scale(taking: Durations, *, for_s: float, seed: int = 1) -> dict[int, tuple[BrowserTally, float]]:
    """Model browsers with jobs enough; by their number what they did, and the seconds that they had together."""
    specs = [_video(seconds) for seconds in DURATIONS_S]
    found: dict[int, tuple[BrowserTally, float]] = {}
    for browsers in BROWSERS:
        counted_s = for_s * max(1, 100 // browsers)  # few browsers do little in the same time
        farm = Farm(browsers, taking, seed=seed)
        found[browsers] = farm.many(specs, warm_s=for_s / 2, for_s=counted_s), browsers * counted_s
    return found


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the 10th percentile, the median, and the 90th percentile."""
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return tenths[0], statistics.median(values), tenths[8]


def _all_of(tallies: Sequence[tuple[BrowserTally, float]]) -> tuple[BrowserTally, float]:
    """Add up what browsers did under several seeds."""
    names = [each.name for each in fields(BrowserTally)]
    together = BrowserTally(**{name: sum(getattr(tally, name) for tally, _ in tallies) for name in names})
    return together, sum(had_s for _, had_s in tallies)


def speedups(taking: Durations) -> dict[str, float]:
    """Model one long video alone; by browsers, how much sooner it is there than from one."""
    took = {
        browsers: statistics.median(Farm(browsers, taking, seed=seed).one(_video(LONG_S)) for seed in range(FEW_ROUNDS))
        for browsers in BROWSERS
    }
    return {str(browsers): round(took[1] / seconds, 1) for browsers, seconds in took.items()}


def _video(seconds: float) -> RenderSpec:
    return RenderSpec(bundle=_BUNDLE, duration_s=seconds, width=1920, height=1080, fps=Fraction(60))


def losses_pct(tally: BrowserTally, had_s: float) -> dict[str, float]:
    """Say what of the browsers' time was not capture, by cause."""
    causes = {"page_start": tally.page, "between": tally.between, "lost_machines": tally.lost}
    causes["idle"] = had_s - tally.capture - sum(causes.values())
    return {cause: round(100 * seconds / had_s, 2) for cause, seconds in causes.items()}


async def frame_s(scene: str) -> float:
    """Measure what a frame of 1080p takes one browser here."""
    with tempfile.TemporaryDirectory(prefix="koda-bench-storage-") as folder:
        storage = Storage(folder)
        content = await store_bundle(storage, USER, await bundle_of(scene))
        spec = RenderSpec(bundle=content, duration_s=1.0, width=1920, height=1080, fps=Fraction(30), moves=False)
        units: list[UnitResult] = []

        async def note(unit: UnitResult) -> None:
            units.append(unit)

        async with LocalExecutor(workers=1) as executor:
            await executor.warm(USER)
            context = JobContext(storage=storage, executor=executor, job_id="job-frame", user_id=USER)
            await RenderJob(spec, context, on_unit=note).run()
        return sum(unit.timings_ms["capture"] for unit in units) / 1000 / spec.frame_count


def dollars(seconds_per_frame: float, overhead: float, price: MachinePrice) -> float:
    """Return what a minute at 30 frames a second costs; ``overhead`` is all of a browser's time over its capture."""
    browser_s = 60 * 30 * seconds_per_frame * overhead
    return round(browser_s / 3600 / price.browsers * price.dollars_per_hour, 5)


def figures(found: dict[str, Any], costs: UnitCosts, *, quick: bool) -> tuple[dict[str, Any], str]:
    """Return all figures, and the chart."""
    for run in found["runs"]:
        run["fps"] = found["video"]["fps"]
    measured = measured_in(found["runs"])
    took = seconds_by_nodes(found, measured)
    taking = heavy(measured, costs)
    seeds, for_s = (FEW_SEEDS, FOR_LESS_S) if quick else (SEEDS, FOR_S)
    modelled = [at_scale(taking, for_s=for_s, seed=seed) for seed in range(seeds)]
    scaled = {browsers: _all_of([each[browsers] for each in modelled]) for browsers in BROWSERS}
    times: dict[int, tuple[float, float, float]] = {}
    for browsers in BROWSERS:
        rates = [(each[browsers][0].frames / each[browsers][1], each[1][0].frames / each[1][1]) for each in modelled]
        times[browsers] = _spread([browsers * rate / alone for rate, alone in rates])
    loss = {browsers: [100 * (1 - each / browsers) for each in spread] for browsers, spread in times.items()}
    tally, had_s = scaled[BROWSERS[-1]]
    scenes = {} if quick else {scene: asyncio.run(frame_s(scene)) for scene in SCENES}
    losses = {str(browsers): losses_pct(*each) for browsers, each in scaled.items()}
    run_speedup, model_speedup = (
        {nodes: round(took["1"][which] / both[which], 3) for nodes, both in took.items()} for which in (0, 1)
    )
    told: dict[str, Any] = {
        "model_error_pct": errors_pct(took),
        "run_speedup": run_speedup,
        "model_speedup": model_speedup,
        **{f"model_{browsers}_loss_pct": round(each[1], 2) for browsers, each in loss.items() if browsers > 1},
        "loss_band_pct": {str(n): [round(each[2], 2), round(each[0], 2)] for n, each in loss.items() if n > 1},
        "seeds": seeds,
        "losses_pct": losses,
        "one_video_speedup": speedups(taking),
        "coordinate_ms": round(costs.coordinate_s * 1000, 3),
        "commit_ms": round(costs.commit_s * 1000, 3),
        "database": costs.database,
        "dollars_per_1080p_minute": {
            scene: {price.machine: dollars(seconds, had_s / tally.capture, price) for price in PRICES}
            for scene, seconds in scenes.items()
        },
        "prices_of": PRICES_OF,
    }
    cores = {nodes: min(int(nodes), 2) for nodes in took}
    curve = LossCurve(
        points=[(browsers, 100 * median / browsers) for browsers, (_, median, _) in times.items()],
        band=[(browsers, 100 * low / browsers, 100 * high / browsers) for browsers, (low, _, high) in times.items()],
        losses=losses,
        run=[(int(nodes), 100 * value / cores[nodes]) for nodes, value in run_speedup.items()],
    )
    return told, draw("1080p60 with jobs enough: what a browser does, of what one alone does", curve)


def main(arguments: list[str] | None = None) -> int:
    """Model, print, and write the JSON; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_model", description=__doc__)
    parser.add_argument("--cluster", type=Path, required=True, metavar="FILE", help="what benchmarks.cluster wrote")
    parser.add_argument("--quick", action="store_true", help="without the scenes' prices, for a shorter time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="where the chart goes (SVG)")
    asked = parser.parse_args(arguments)
    costs = asyncio.run(measure_unit_costs())
    told, chart = figures(json.loads(asked.cluster.read_text()), costs, quick=asked.quick)
    if asked.json is not None:
        asked.json.write_text(json.dumps(told, indent=2) + "\n")
    if (place := asked.chart or (asked.json and asked.json.with_suffix(".svg"))) is not None:
        place.write_text(chart)
    print(json.dumps(told, indent=2))
    worst = max(abs(error) for error in told["model_error_pct"].values())
    if worst > ERROR_PCT:
        print(f"the model is {worst:.1f} % off what was run: what it says beyond is worth nothing", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
