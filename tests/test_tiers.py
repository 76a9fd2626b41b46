"""A quick test that takes long fails, and another program's work is none of its own."""

from __future__ import annotations

import pytest

from tests.tiers import Spent, is_full, too_long


@pytest.mark.parametrize(
    ("spent", "fails"),
    [
        (Spent(clock_s=9.0, processor_s=8.0), False),
        (Spent(clock_s=11.0, processor_s=1.0), True),
        (Spent(clock_s=60.0, processor_s=1.0, pressed_s=55.0), False),
        (Spent(clock_s=9.0, processor_s=11.0), True),  # of two processors, in a machine that nobody else uses
        (Spent(clock_s=20.0, processor_s=11.0, pressed_s=19.0), False),
        (Spent(clock_s=40.0, processor_s=21.0, pressed_s=39.0), True),
    ],
)
def test_what_takes_too_long(spent: Spent, fails: bool) -> None:
    assert (too_long(spent) is not None) is fails


def test_of_several_marks_the_closest_counts_but_where_all_of_a_class_is_meant(request: pytest.FixtureRequest) -> None:
    item = request.node
    assert not is_full(item)
    item.add_marker(pytest.mark.full)
    assert is_full(item)
    item.add_marker(pytest.mark.quick, append=False)  # closer
    assert not is_full(item)
    item.add_marker(pytest.mark.full(all=True))
    assert is_full(item)
