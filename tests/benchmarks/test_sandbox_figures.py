"""What the benchmark of sandboxes says of its figures."""

from __future__ import annotations

from benchmarks.sandbox import TARGETS, bars, lines


def test_each_figure_stands_beside_its_target_and_what_is_missing_is_said() -> None:
    figures = {name: target / 2 for name, target in TARGETS.items()} | {"image_s": 40.0}
    assert not [line for line in lines(figures) if "MISSED" in line or "not measured" in line]
    del figures["gvisor_cold_ms"]
    said = lines(figures | {"leaked": 1, "docker_exec_ms": 60.0})
    assert {line.split()[0] for line in said if "MISSED" in line} == {"docker_exec_ms", "leaked"}
    assert [line.split()[0] for line in said if "not measured" in line] == ["gvisor_cold_ms"]
    assert "image_s 40" in [line.strip() for line in said]


def test_a_target_holds_below_it_and_nothing_is_to_be_left() -> None:
    found = bars({"docker_cold_ms": 1500.0, "local_cold_ms": 17.0, "leaked": 0, "image_s": 40.0})
    assert found["leaked"] == {"bar": 0.0, "holds": True} and found["local_cold_ms"]["holds"] is True
    assert found["docker_cold_ms"] == {"bar": 1500.0, "holds": False} and "image_s" not in found
