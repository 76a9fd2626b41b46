"""A film of ten minutes costs at its end what it costs at its beginning; and what is compared is the right part."""

from __future__ import annotations

import pytest

from benchmarks.long_film import Reading, compared, measure


def test_the_second_tenth_is_compared_with_the_last() -> None:
    readings = [
        Reading(at_s=float(unit), cpu_s=unit * 0.1 + max(0, unit - 90) * 0.1, used_bytes=unit << 20, frames=unit * 10)
        for unit in range(100)
    ]
    found = compared(readings)
    assert found["memory_last_over_first"] == pytest.approx(94 / 15)
    assert found["cpu_last_over_first"] == pytest.approx(1.9)
    assert found["peak_mb"] == pytest.approx(99)
    assert found["longest_wait_s"] == pytest.approx(1)


@pytest.mark.browser
@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_a_film_of_ten_minutes_costs_the_same_from_its_beginning_to_its_end() -> None:
    figures = await measure(600)
    assert figures["frames"] == 7200
    assert figures["memory_last_over_first"] < 1.15, figures
    assert figures["cpu_last_over_first"] < 1.3, figures
