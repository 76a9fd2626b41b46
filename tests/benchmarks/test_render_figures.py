"""What the figures of rendering are made of: medians of rounds, and ratios to what is as good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine import OurRun
from benchmarks.floor import Floor
from benchmarks.peers import PeerRun
from benchmarks.render import FULL, SceneRuns, promised_figures

VIDEO = Path("video.mp4")
FLOOR = Floor(paint_ms=15.0, paint_wall_ms=16.0, x264_ms=5.0)


def ours(*, cpu_ms: float = 30.0, to_file_ms: float = 20.0) -> OurRun:
    return OurRun(wall_ms=15.0, cpu_ms=cpu_ms, to_file_ms=to_file_ms, total_s=3.0, video=VIDEO)


def peers(*walls_ms: float) -> list[PeerRun]:
    return [PeerRun("usual", total_s=6.0, wall_ms=wall_ms, cpu_ms=50.0, video=VIDEO) for wall_ms in walls_ms]


def scene(**fields: Any) -> SceneRuns:
    return SceneRuns("dom", FULL[0], [FLOOR], **fields)


def test_what_a_frame_takes_beyond_the_floor_is_told_in_milliseconds_too() -> None:
    told = promised_figures([scene(ours=[ours(cpu_ms=cpu_ms) for cpu_ms in (24.0, 21.0, 90.0)])], FULL[0])
    assert told["cpu_over_floor"] == {"dom": 1.2} and told["cpu_over_floor_ms"] == {"dom": 4.0}


def test_what_a_frame_takes_beyond_the_floor_is_told_by_kind_of_process() -> None:
    by = {"python": 2.0, "ffmpeg": 8.0, "gpu": 14.0}
    run = replace(ours(cpu_ms=24.0), cpu_by_ms=by)
    runs = scene(ours=[ours(cpu_ms=90.0), run, ours(cpu_ms=21.0)])
    floor = replace(FLOOR, paint_by_ms={"gpu": 13.0, "renderer": 2.0})
    told = promised_figures([replace(runs, floors=[floor])], FULL[0])
    beyond = {"python": 2.0, "ffmpeg": 3.0, "gpu": 1.0, "renderer": -2.0}
    assert told["cpu_over_floor_by_ms"] == {"dom": beyond}
    assert told["cpu_over_floor_ms"] == {"dom": sum(beyond.values())}


def test_how_far_an_engine_could_get_is_told_by_a_floor_whose_pictures_leave_the_browser() -> None:
    runs = scene(
        ours=[ours()],
        peers={"slow": peers(90.0), "quick": peers(36.0)},
        ssim=dict.fromkeys(("koda", "slow", "quick"), 0.9),
    )
    told = promised_figures([replace(runs, floors=[replace(FLOOR, taken_ms=19.0)])], FULL[0])
    assert told["pictures_over_floor"] == {"dom": 1.2}  # 19 and 5 over 20
    assert told["possible_over_best_peer"] == {"dom": 3.0}  # 36 over a half of 24
    assert runs.pictures_over_floor == 1.0  # never less than the floor


def test_a_run_is_held_against_the_floor_of_its_round() -> None:
    slow = Floor(paint_ms=30.0, paint_wall_ms=32.0, x264_ms=10.0)
    runs = [replace(ours(cpu_ms=each), wall_ms=each / 2) for each in (22.0, 22.0, 44.0, 44.0)]
    told = promised_figures([replace(scene(ours=runs), floors=[FLOOR, slow])], FULL[0])
    assert told["cpu_over_floor"] == {"dom": 1.1} and told["wall_over_half_floor"] == {"dom": 1.1}


def test_with_one_worker_each_a_round_that_was_disturbed_decides_nothing() -> None:
    runs = scene(
        ours=[ours()],
        alone=[ours(to_file_ms=to_file_ms) for to_file_ms in (40.0, 400.0, 41.0)],
        peers_alone={"other": peers(123.0, 122.0, 900.0)},
        ssim={"koda": 0.99, "other": 0.98},
    )
    assert runs.alone_speedup == pytest.approx(3.0)
    assert promised_figures([runs], FULL[0])["alone_over_best_peer"] == {"dom": 3.0}
    told = runs.to_json()["runs"]
    assert isinstance(told, dict) and [len(told[who]) for who in ("koda alone", "other alone")] == [3, 3]


def test_a_ratio_to_a_peer_whose_picture_is_better_is_null_and_not_left_out() -> None:
    runs = scene(ours=[ours()], peers={"other": peers(123.0)}, ssim={"koda": 0.97, "other": 0.98})
    told = promised_figures([runs], FULL[0])
    assert told["speedup_over_best_peer"] == {"dom": None}
    assert told["ssim"] == {"dom": {"koda": 0.97, "other": 0.98}}
