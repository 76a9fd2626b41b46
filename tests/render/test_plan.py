"""Which units a task takes, and where pages begin anew."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.render.names import grid_hash, unit_hash
from koda_ray.render.plan import CostModel, next_units, run_of, tasks_at_once, tasks_left
from koda_ray.render.protocol import Slots
from koda_ray.render.spec import RenderSpec, Unit, plan_units

SIZES = {"preview": (640, 360, 15), "small": (320, 180, 15), "720p": (1280, 720, 30), "final": (1920, 1080, 60)}


def spec(name: str, duration_s: float = 5.0) -> RenderSpec:
    width, height, fps = SIZES[name]
    return RenderSpec(bundle="a" * 64, duration_s=duration_s, width=width, height=height, fps=fps)  # type: ignore[arg-type]


def tasks(video: RenderSpec, workers: int, cost: CostModel | None = None) -> list[tuple[int, ...]]:
    pending = list(plan_units(video))
    found: list[tuple[int, ...]] = []
    while pending:
        units = next_units(pending, workers=workers, cost=cost or CostModel(video))
        del pending[: len(units)]
        found.append(tuple(unit.index for unit in units))
    return found


def test_a_short_preview_is_two_tasks_for_two_workers() -> None:
    assert tasks(spec("preview"), 2) == [(0, 1, 2), (3, 4)]


@pytest.mark.parametrize(("skipped", "left"), [(0, 2), (3, 1), (5, 0)])
def test_what_is_left_is_counted_in_tasks(skipped: int, left: int) -> None:
    video = spec("preview")
    pending = plan_units(video)[skipped:]
    assert tasks_left(pending, workers=2, cost=CostModel(video), most=3) == left
    assert tasks_left(pending, workers=2, cost=CostModel(video), most=1) == min(left, 1)


def test_of_a_long_video_there_is_something_for_everybody() -> None:
    video = spec("preview", 600.0)
    assert [tasks_left(plan_units(video), workers=8, cost=CostModel(video), most=most) for most in (0, 1, 8)] == [
        0,
        1,
        8,
    ]


def test_a_small_video_of_sixteen_seconds_has_a_page_for_each_of_three_workers() -> None:
    assert tasks(spec("preview", 16.0), 3) == [(0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11), (12, 13, 14, 15)]
    video = spec("preview", 16.0)
    assert [run_of(video, index, stepped=False) for index in (2, 3, 6, 11, 12, 19, 20)] == [0, 0, 6, 6, 12, 12, 20]
    short = spec("preview", 12.0)
    assert [run_of(short, index, stepped=False) for index in (2, 3, 6, 11)] == [0, 3, 6, 6]


def test_a_final_is_shared_evenly() -> None:
    assert tasks(spec("final"), 2) == [(0,), (1,), (2,), (3,), (4,)]


@given(st.sampled_from(sorted(SIZES)), st.floats(0.1, 300), st.integers(1, 16), st.floats(0.001, 2), st.booleans())
def test_every_unit_is_taken_once_in_whole_runs(
    name: str, duration_s: float, workers: int, frame_s: float, stepped: bool
) -> None:
    video = spec(name, duration_s)
    cost = CostModel(video)
    cost.learn(1, frame_s)
    cost.stepped = stepped
    found = tasks(video, workers, cost)
    assert [index for task in found for index in task] == [unit.index for unit in plan_units(video)]
    for task in found:
        assert run_of(video, task[0], stepped=stepped) == task[0]


@given(st.sampled_from(sorted(SIZES)), st.integers(0, 600), st.floats(0.1, 600), st.booleans())
def test_runs_depend_on_size_and_rate_and_on_whether_the_video_is_short(
    name: str, index: int, duration_s: float, stepped: bool
) -> None:
    video = spec(name, duration_s)
    start = run_of(video, index, stepped=stepped)
    assert start == run_of(spec(name, 12.0 if duration_s <= 12 else 600.0), index, stepped=stepped)
    assert start <= index
    assert run_of(video, start, stepped=stepped) == start
    assert stepped or index - start < 8


@pytest.mark.parametrize("name", sorted(SIZES))
def test_units_of_videos_of_two_lengths_have_one_name_where_their_runs_begin_at_the_same(name: str) -> None:
    """What a unit shows depends on where its page began."""
    short, long = spec(name, 12.0), spec(name, 13.0)
    for unit in plan_units(short):
        names = {unit_hash(video, unit, environment="e", mode="seek") for video in (short, long)}
        runs = {run_of(video, unit.index, stepped=False) for video in (short, long)}
        assert len(names) == len(runs)
    grids = {grid_hash(video, environment="e", mode="seek") for video in (short, long, spec(name, 600.0))}
    assert len(grids) == (2 if name in ("preview", "small") else 1)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_a_page_that_is_stepped_costs_a_bounded_way_more(name: str) -> None:
    """Frames that are only stepped through cost no more than half of those that are painted, or runs of a minute do."""
    video = spec(name, 600.0)
    unit_s = round(video.fps) * CostModel(video).frame_s
    runs = sorted({run_of(video, index, stepped=True) for index in range(600)})
    assert sum(runs) * round(video.fps) * 0.0015 < 0.6 * 600 * unit_s
    assert max(after - before for before, after in pairwise(runs)) * unit_s < max(61, 8 * unit_s)


def test_nothing_is_taken_beyond_what_is_known_of_the_page() -> None:
    video = spec("small", 60.0)
    cost = CostModel(video)
    cost.learn(1, 0.001)
    assert len(next_units(plan_units(video), workers=1, cost=cost)) == 12
    cost.stepped = True
    assert len(next_units(plan_units(video), workers=1, cost=cost)) > 12


def test_gaps_end_a_task() -> None:
    video = spec("small", 30.0)
    plan = plan_units(video)
    assert [unit.index for unit in next_units([plan[1], plan[2], plan[5]], workers=1, cost=CostModel(video))] == [1, 2]


@pytest.mark.parametrize(("workers", "taken"), [(1, [8]), (2, [3, 3, 2]), (3, [3, 3, 2])])
def test_a_task_takes_the_runs_that_are_nearest_to_its_share(workers: int, taken: list[int]) -> None:
    """Two who share eight units that come in runs of three, three and two have three and five, not six and two."""
    assert [len(units) for units in tasks(spec("small", 8.0), workers)] == taken


def test_what_was_measured_counts_more_than_the_guess() -> None:
    video = spec("small", 60.0)
    dear = CostModel(video)
    dear.learn(15, 60.0)
    assert len(next_units(plan_units(video), workers=2, cost=dear)) == 6  # a run
    assert len(next_units(plan_units(video), workers=2, cost=CostModel(video))) > 6


def test_a_cluster_that_stays_as_it_is_has_a_task_in_each_slot() -> None:
    video = spec("final", 60.0)
    for now in (0, 1, 7):
        assert tasks_at_once(video.frame_count, Slots(now, now), CostModel(video)) == max(1, now)


def test_more_machines_are_asked_for_where_there_is_work_worth_starting_them() -> None:
    video = spec("final", 60.0)
    cost = CostModel(video)
    cost.learn(60, 6.0)
    frames = video.frame_count  # 360 seconds of one browser's work
    assert [tasks_at_once(frames, Slots(now, 1000), cost) for now in (0, 4, 40)] == [12, 12, 40]
    assert tasks_at_once(frames, Slots(0, 5), cost) == 5
    assert tasks_at_once(60, Slots(0, 1000), cost) == 1


@pytest.mark.parametrize("units", [(Unit(0, 0, 15),), (Unit(7, 105, 120),)])
def test_one_unit_left_is_taken(units: tuple[Unit, ...]) -> None:
    assert next_units(units, workers=8, cost=CostModel(spec("small"))) == units
