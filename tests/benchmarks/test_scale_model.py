"""The model of a thousand browsers agrees with what can be reckoned without one, and says where it is off a run."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmarks import scale_model
from benchmarks.farm import Durations, Farm
from benchmarks.scale_model import errors_pct, figures, measured_in, seconds_by_nodes
from benchmarks.unit_costs import UnitCosts, measure_unit_costs
from koda_ray.render.plan import CostModel, next_units, run_of
from koda_ray.render.spec import RenderSpec, plan_units

FRAME_S = 0.125
ONLY_FRAMES = Durations(frame=[FRAME_S], page=[0.0], between=[0.0], before=[0.0], join=(0.0, 0.0), dispatch=0.0)
ALL_PARTS = Durations(
    frame=[FRAME_S], page=[0.5], between=[0.25], before=[2.0], join=(3.0, 0.5), coordinate=0.01, commit=0.02,
    dispatch=0.04,
)  # fmt: skip
COSTS = UnitCosts(coordinate_s=0.001, commit_s=0.002, database="PostgreSQL")


def video(seconds: float = 30.0, *, width: int = 1920) -> RenderSpec:
    return RenderSpec(bundle="0" * 64, duration_s=seconds, width=width, height=1080, fps=Fraction(60))


def planned(spec: RenderSpec, *, workers: int) -> tuple[int, int]:
    """How many tasks and pages the planner makes of a video of which each unit takes the same."""
    missing, cost, tasks, pages = list(plan_units(spec)), CostModel(spec), 0, 0
    cost.stepped = False
    while missing:
        units = next_units(missing, workers=workers, cost=cost)
        del missing[: len(units)]
        tasks += 1
        pages += len({run_of(spec, unit.index, stepped=False) for unit in units})
        for unit in units:
            cost.learn(unit.frame_count, unit.frame_count * FRAME_S)
    return tasks, pages


def test_one_browser_takes_the_sum_of_all_parts() -> None:
    spec = video(width=160)  # small enough for pages that show several units
    tasks, pages = planned(spec, workers=1)
    units = len(plan_units(spec))
    assert 1 < tasks <= pages < units
    parts = 2.0 + tasks * (0.04 + 0.25) + pages * 0.5 + spec.frame_count * FRAME_S + units * (0.01 + 0.02)
    assert Farm(1, ALL_PARTS).one(spec) == pytest.approx(parts + 3.0 + 0.5 * units)


def test_browsers_that_wait_for_nobody_share_a_video_down_to_its_longest_task() -> None:
    """Graham's bounds for what is handed out in turn: no better than a share, and no worse by more than one task."""
    spec = video(120.0)
    work = spec.frame_count * FRAME_S
    for browsers in (2, 4, 10):
        longest = 8.0 + 60 * FRAME_S  # of the planner, up to the end of its run
        assert work / browsers <= Farm(browsers, ONLY_FRAMES).one(spec) <= work / browsers + longest


def test_with_jobs_enough_browsers_that_wait_for_nobody_lose_nothing() -> None:
    tally = Farm(16, ONLY_FRAMES).many([video()], warm_s=200.0, for_s=1000.0)
    assert tally.frames == pytest.approx(16 * 1000.0 / FRAME_S, rel=0.01)


@pytest.mark.parametrize("part", ["coordinate", "commit"])
def test_what_does_one_unit_at_a_time_bounds_all_browsers(part: str) -> None:
    """A hundred browsers would make 800 frames a second, in units of 60; whoever takes 0.5 s for one, lets 120 pass."""
    slow = replace(ONLY_FRAMES, **{part: 0.5})
    one_at_a_time = Farm(8, slow)
    tally = one_at_a_time.many([video(5.0)], warm_s=200.0, for_s=1000.0)
    assert 8 / FRAME_S < 60 / 0.5, "eight browsers are not held up"
    assert tally.frames == pytest.approx(8 * 1000.0 / FRAME_S, rel=0.03)
    many = Farm(100, replace(ONLY_FRAMES, commit=0.5)).many([video(5.0)], warm_s=200.0, for_s=1000.0)
    assert many.frames == pytest.approx(1000.0 * 60 / 0.5, rel=0.03)


def test_ray_hands_out_one_task_at_a_time() -> None:
    slow = replace(ONLY_FRAMES, dispatch=1.0)
    tasks, _ = planned(video(1.0), workers=100)
    assert tasks == 1
    tally = Farm(100, slow).many([video(1.0)], warm_s=200.0, for_s=1000.0)
    assert tally.frames == pytest.approx(1000.0 * 60, rel=0.01), "a task a second, of a unit each"


@pytest.mark.full
def test_machines_that_are_taken_away_cost_what_they_had_begun_and_the_time_without_them() -> None:
    """Each hour of capture loses `lost_per_hour` times half of a unit and the wait for the next machine."""
    taken = replace(ONLY_FRAMES, lost_per_hour=6.0, away=120.0)
    tally = Farm(50, taken).many([video()], warm_s=500.0, for_s=8_000.0)
    share = 6.0 * (60 * FRAME_S / 2 + 120.0) / 3600
    assert tally.lost / tally.capture == pytest.approx(share, rel=0.15)
    assert tally.frames == pytest.approx(50 * 8_000.0 / FRAME_S / (1 + share), rel=0.02)


def run_of_nodes(nodes: int, units: int, total_s: float) -> dict[str, Any]:
    """A run as `benchmarks.cluster` writes it: a frame takes a tenth of a second, a page half of one."""
    captured = [[index, 0.5 if index % 2 == 0 else 0.0, 3.0, 3.5 * (index + 1)] for index in range(units)]
    return {
        "nodes": nodes, "units": units, "total_s": total_s, "joined_s": 1.0 + 0.25 * units, "frame_hash": "",
        "tasks": [[2, 1.0 + 7.0 * task, 8.0 + 7.0 * task] for task in range(units // 2)], "captured": captured,
    }  # fmt: skip


def found(**off: float) -> dict[str, Any]:
    """What `benchmarks.cluster` would write if all were as the model has it, but for what is off."""
    video = {"scene": "svg", "width": 1920, "height": 1080, "fps": 30, "units": 12}
    runs = [run_of_nodes(1, 6, 25.0), run_of_nodes(1, 12, 0.0)]
    taking = measured_in([{**run, "fps": 30} for run in runs])
    spec = RenderSpec(bundle="0" * 64, duration_s=12.0, width=1920, height=1080, fps=Fraction(30))
    runs[1]["total_s"] = Farm(1, taking).one(spec) * (1 + off.get("one", 0.0))
    return {"video": video, "runs": [*runs, run_of_nodes(2, 12, Farm(2, taking).one(spec) * (1 + off.get("two", 0.0)))]}


def test_what_is_measured_is_what_the_runs_on_one_node_say() -> None:
    taking = measured_in([{**run, "fps": 30} for run in found()["runs"]])
    assert set(taking.frame) == {0.1} and set(taking.page) == {0.5}
    assert taking.between == pytest.approx([7.0 - 2 * 3.0 - 0.5])
    assert taking.before == [1.0, 1.0]
    assert taking.join == pytest.approx((1.0, 0.25))


def test_the_model_is_held_against_each_number_of_nodes() -> None:
    seen = found(two=0.25)
    runs = [{**run, "fps": 30} for run in seen["runs"]]
    took = seconds_by_nodes({**seen, "runs": runs}, measured_in(runs))
    assert errors_pct(took) == pytest.approx({"1": 0.0, "2": -20.0}, abs=0.1)


def test_nodes_that_share_cores_are_as_slow_as_renders_were_that_share_them() -> None:
    runs = [{**run, "fps": 30} for run in (*found()["runs"], run_of_nodes(4, 12, 10.0))]

    def four_s(times: float) -> float:
        return seconds_by_nodes({**found(), "runs": runs, "two_a_core_times": times}, measured_in(runs))["4"][1]

    once, twice, more = map(four_s, (1.0, 2.0, 2.5))
    assert more - twice == pytest.approx((twice - once) / 2)


def test_two_nodes_are_as_slow_as_two_cores_make_each_other() -> None:
    runs = [{**run, "fps": 30} for run in found()["runs"]]

    def two_s(percent: float) -> float:
        return seconds_by_nodes({**found(), "runs": runs, "cores_slower_together_pct": percent}, measured_in(runs))[
            "2"
        ][1]

    quicker, usual, slower = map(two_s, (-10.0, 0.0, 10.0))
    assert quicker < usual < slower


def test_a_model_that_is_off_its_runs_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def costs() -> UnitCosts:
        return COSTS

    monkeypatch.setattr(scale_model, "BROWSERS", (1, 10))
    monkeypatch.setattr(scale_model, "measure_unit_costs", costs)
    for off, status in ((0.0, 0), (0.5, 1)):
        cluster, told = tmp_path / "cluster.json", tmp_path / "told.json"
        cluster.write_text(json.dumps(found(two=off)))
        given = ["--cluster", str(cluster), "--quick", "--json", str(told), "--chart", str(tmp_path / "chart.svg")]
        assert scale_model.main(given) == status
        assert abs(json.loads(told.read_text())["model_10_loss_pct"]) < 5
        assert ("worth nothing" in capsys.readouterr().err) == bool(status)


def test_the_chart_has_the_model_below_the_ideal_and_what_was_run_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_model, "BROWSERS", (1, 10))
    told, chart = figures(found(), COSTS, quick=True)
    root = ET.fromstring(chart)
    name = "{http://www.w3.org/2000/svg}"
    marks = [float(circle.get("cy", "0")) for circle in root.iter(f"{name}circle")]
    ideal = next(line for line in root.iter(f"{name}line") if line.get("stroke-dasharray"))
    assert marks == pytest.approx([float(ideal.get("y1", "0"))] * 2, abs=60), "nearly ten times as much"
    assert marks[0] == pytest.approx(float(ideal.get("y1", "0")), abs=0.1), "one is what one is held against"
    assert told["one_video_speedup"]["1"] == 1.0 and 5 < told["one_video_speedup"]["10"] <= 10
    assert set(told["losses_pct"]) == {"1", "10"}
    low, high = told["loss_band_pct"]["10"]
    assert low <= told["model_10_loss_pct"] <= high and told["seeds"] > 1
    assert told["run_speedup"]["2"] == pytest.approx(told["model_speedup"]["2"], rel=0.01)
    assert len([*root.iter(f"{name}path")]) == 2, "one and two nodes, as they were run"
    assert len([*root.iter(f"{name}polygon")]) == 1


@pytest.mark.full
@pytest.mark.needs("ffmpeg")
async def test_what_a_unit_costs_is_measured_where_the_model_is_run() -> None:
    costs = await measure_unit_costs(coordinated=100)
    assert 0 < costs.coordinate_s < 1 and 0 < costs.commit_s < 1
    assert costs.database in ("PostgreSQL", "SQLite")
