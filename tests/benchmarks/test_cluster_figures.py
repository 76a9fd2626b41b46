"""What the figures of a cluster are called, and which of them are as good as they shall be."""

from __future__ import annotations

import re

from benchmarks import cluster, load, many_rows, scale_model
from benchmarks.cluster import BARS, against_bars


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


def test_every_figure_with_a_bar_is_told_of() -> None:
    words = (cluster.__doc__ or "") + (many_rows.__doc__ or "")
    told = set(re.findall(r"``([a-z0-9_]+)``", words))
    told |= set(re.findall(r"``([a-z0-9_{}]+)``", (load.__doc__ or "") + (scale_model.__doc__ or "")))
    missing = {name for name in BARS if name not in told and name.replace("1000", "{n}") not in told}
    assert missing == set()


async def test_questions_about_many_rows_are_asked_of_so_many() -> None:
    found = await many_rows.figures(asked=3, rows=40)
    assert found.keys() == {"sessions_40_list_p95_ms", "janitor_round_ms", "census_40_ms", "metrics_40_ms"}
    assert all(value > 0 for value in found.values())
