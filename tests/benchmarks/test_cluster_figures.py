"""What the figures of a cluster are called, and which of them are as good as they shall be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks import cluster, load, many_rows, scale_model
from benchmarks.cluster import BARS, PROCESSES, JobRun, against_bars, figures_of_losses, scaling
from benchmarks.measured import table


def test_each_figure_is_held_against_its_bar() -> None:
    found = {
        "add_node_speedup": 1.9,
        "silent_cut_s": 15.1,
        "head_kill_get_failures": 0,
        "same_frame_hash": True,
        "lost_events": 1,
        "model_error_pct": {"1": 0.1, "2": -12.0, "4": 3.0},
        "model_1000_loss_pct": -0.2,
    }
    verdicts = against_bars(found)
    assert set(verdicts["held"]) == {
        "add_node_speedup", "head_kill_get_failures", "same_frame_hash", "model_1000_loss_pct"
    }  # fmt: skip
    assert set(verdicts["missed"]) == {"silent_cut_s", "lost_events", "model_error_pct"}
    assert set(verdicts["unmeasured"]) == BARS.keys() - found.keys()


def job_run(nodes: int, units: int, total_s: float) -> JobRun:
    tasks = [(units, 0.5, total_s / 2), (units, 0.5, total_s / 2)]
    return JobRun(nodes, units, total_s, tasks, [(index, 0.0, 1.0, 1.0) for index in range(units)])


def test_runs_on_more_nodes_are_held_against_those_on_one() -> None:
    runs = [job_run(1, 8, 20.0), job_run(1, 4, 10.0), job_run(2, 8, 10.0), job_run(2, 8, 8.0), job_run(2, 8, 12.5)]
    told = scaling([*runs, job_run(4, 8, 12.5)], 8)
    assert told["speedup"] == {"2": [2.0, 1.6, 2.5], "4": [1.6, 1.6, 1.6]}
    assert told["add_node_speedup"] == 2.0 and told["weak_efficiency"]["4"][0] == 0.8
    assert told["four_nodes_on_two_cores_efficiency"] == 0.8
    assert sum(told["losses_4_nodes_pct"].values()) == pytest.approx(100 - 100 * 8 / (4 * 12.5), abs=0.1)


def losses() -> dict[str, list[dict[str, Any]]]:
    """What each loss tells, in seconds that are easy to tell apart."""
    none_lost = {"lost_events": 0, "repeated_effects": 0}
    cut = {"session_s": 5.0, "render_taken_s": 6.0, "janitor_s": 7.0, "render_unit_s": 8.0, "ended_s": 9.0}
    asked = {"get_failures": 0, "commands_refused": 0, "gets": 50, "commands": 10, "woken_s": 1.5}
    asked |= {
        "commands_away": 60,
        "untrue_answers": 0,
        "away": {"fork": {"count": 1, "median_s": 9.0, "longest_s": 9.0}},
    }
    return {
        "process": [{**none_lost, "killed": [*PROCESSES] * 20}],
        "database": [none_lost],
        "bucket": [{**none_lost, "lost_events": 1}],
        "head": [none_lost | asked],
        "machine": [{**none_lost, "session_s": 3.0}, {**none_lost, "session_s": 4.0}],
        "link": [{**none_lost, **cut, "repeated_effects": 2}],
        "spot": [{**none_lost, "no_new_work_s": -0.5, "session_left_s": 1.0, "render_taken_s": 2.0, "moved_s": 3.0}],
        "database-silent": [{**none_lost, "session_s": 2.5, "render_unit_s": 3.5}],
        "bucket-silent": [{**none_lost, "session_s": 4.5, "render_unit_s": 1.5}],
    }


def test_what_is_lost_is_counted_over_all_losses() -> None:
    told = figures_of_losses(losses(), 20)
    assert (told["lost_events"], told["repeated_effects"]) == (1, 2)
    assert (told["session_back_s"], told["silent_cut_s"]) == (4.0, 6.0)
    assert (told["database_silent_s"], told["bucket_silent_s"]) == (3.5, 4.5)
    others = {"link": 1, "spot": 1, "machine": 2, "database-silent": 1, "bucket-silent": 1}
    assert told["kills"] == {"database": 20, "bucket": 20, "head": 20, **others, **dict.fromkeys(PROCESSES, 20)}


def test_a_loss_that_could_not_be_had_leaves_its_figures_out() -> None:
    told = figures_of_losses({**losses(), "head": [], "spot": []}, 20)
    silent = {"database_silent_s", "bucket_silent_s"}
    assert told.keys() == {"session_back_s", "silent_cut_s", "silent_cut", "kills", *silent}


def test_one_loss_of_several_that_failed_leaves_its_figures_unmeasured() -> None:
    whole = losses()
    told = figures_of_losses({**whole, "machine": [*whole["machine"], None]}, 20)
    assert told["kills"]["machine"] == 2 and {"silent_cut_s", "activation_after_head_s"} <= told.keys()
    unmeasured = set(against_bars(told)["unmeasured"])
    assert {"session_back_s", "lost_events", "repeated_effects"} <= unmeasured


def test_fewer_kills_than_were_asked_for_leave_what_is_counted_unmeasured() -> None:
    few = [*PROCESSES] * 19 + ["session", "capture"]
    told = figures_of_losses({**losses(), "process": [{**losses()["process"][0], "killed": few}]}, 20)
    assert told["kills"]["coordinator"] == 19 and told["session_back_s"] == 4.0
    assert {"lost_events", "repeated_effects"} <= set(against_bars(told)["unmeasured"])


def test_the_table_has_every_bar_and_what_was_measured() -> None:
    found: dict[str, Any] = {
        **scaling([job_run(1, 8, 20.0), job_run(1, 4, 10.0), job_run(2, 8, 10.0)], 8),
        "model_error_pct": {"1": 0.1, "2": -12.0},
        "model_speedup": {"1": 1.0, "2": 1.9},
        "losses_pct": {"1": {"idle": 1.0}, "1000": {"idle": 2.0}},
        "one_video_speedup": {"1": 1.0, "1000": 170.5},
        "model_1000_loss_pct": 1.5,
        "loss_band_pct": {"1000": [1.2, 1.9]},
        "dollars_per_1080p_minute": {"svg": {"m1": 0.01}},
        "cores_slower_together_pct": 12.5,
        "possible_speedup": 1.778,
    }
    lines = table(found | against_bars(found), BARS).splitlines()
    assert {name for name in BARS if any(line.startswith(f"| `{name}` |") for line in lines)} == BARS.keys()
    assert "| `add_node_speedup` | at least 1.85 | 2 | held |" in lines
    assert "| `model_error_pct` | at most 10 | 1: 0.1, 2: -12 | missed |" in lines
    assert "| `lost_events` | 0 |  | not measured |" in lines
    assert any(line.startswith("| 2 | 2 (2 to 2) | 1 (1 to 1) | 1.9 |") for line in lines)
    assert "| 1,000 | 1.5 (1.2 to 1.9) | idle 2 | 170.5 |" in lines
    assert "| svg | 0.0100 |" in lines
    assert any("12.5 % longer" in line and "1.778 at most" in line for line in lines)


def test_every_figure_with_a_bar_is_told_of() -> None:
    words = (cluster.__doc__ or "") + (many_rows.__doc__ or "")
    told = set(re.findall(r"``([a-z0-9_]+)``", words))
    told |= set(re.findall(r"``([a-z0-9_{}]+)``", (load.__doc__ or "") + (scale_model.__doc__ or "")))
    missing = {name for name in BARS if name not in told and name.replace("1000", "{n}") not in told}
    assert missing == set()


async def test_questions_about_many_rows_are_asked_of_so_many() -> None:
    found = await many_rows.figures(asked=3, rows=40)
    timed = {"sessions_40_list_p95_ms", "janitor_look_ms", "janitor_round_ms", "census_40_ms", "metrics_40_ms"}
    assert found.keys() == timed and all(value > 0 for value in found.values())
