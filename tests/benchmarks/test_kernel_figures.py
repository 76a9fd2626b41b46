"""What the benchmark of the agents' kernel says of its figures."""

from __future__ import annotations

from benchmarks.kernel import LEAST, MOST, bars, lines


def test_each_figure_stands_beside_its_bar_and_says_whether_it_holds() -> None:
    figures = {name: most / 2 for name, most in MOST.items()} | LEAST | {"events_alone_per_s": 900.0}
    assert bars(figures).keys() == MOST.keys() | LEAST.keys() and all(bar["holds"] for bar in bars(figures).values())
    assert not [line for line in lines(figures) if "MISSED" in line]
    worse = figures | {"step_overhead_ms": 10.0, "events_per_s": 4999.0}
    assert {name for name, bar in bars(worse).items() if not bar["holds"]} == {"step_overhead_ms", "events_per_s"}
    assert bars(worse)["step_overhead_ms"]["bar"] == 10 and bars(worse)["events_per_s"]["bar"] == 5000
    said = {line.split()[0]: line for line in lines(worse)}
    assert "under 10: MISSED" in said["step_overhead_ms"] and "at least 0.9: holds" in said["cached_share"]
    assert said["events_alone_per_s"].strip() == "events_alone_per_s        900"
