"""A sandbox's life: what leads where, and that nothing leads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.errors import InvalidTransition
from koda_ray.sandbox.lifecycle import Life, LifeEvent, Living, step

_EVENTS: list[LifeEvent] = ["filled", "began", "ended", "stopped"]


def test_the_way_from_beginning_to_end() -> None:
    life = Life()
    for event, state, working in (
        ("filled", "ready", 0), ("began", "busy", 1), ("began", "busy", 2), ("ended", "busy", 1), ("ended", "ready", 0),
        ("began", "busy", 1), ("stopped", "stopped", 1), ("ended", "stopped", 0), ("stopped", "stopped", 0),
    ):  # fmt: skip
        life = step(life, event)  # type: ignore[arg-type]
        assert (life.state, life.working) == (state, working)


@given(st.lists(st.sampled_from(_EVENTS), max_size=40))
def test_whatever_happens_it_counts_right_and_never_comes_back(events: list[LifeEvent]) -> None:
    life = Life()
    for event in events:
        try:
            after = step(life, event)
        except InvalidTransition as error:
            assert life.state in error.message and event in error.message
            continue
        assert after.working >= 0 and (after.state == "busy") == (after.working > 0 and after.state != "stopped")
        assert life.state != "stopped" or after.state == "stopped"
        assert after.state != "created"
        life = after


def test_work_that_fails_is_over_too_and_work_in_one_that_is_gone_changes_nothing() -> None:
    living = Living()
    with living.work():  # being filled is not being busy
        assert living.state == "created"
    living.filled()
    with pytest.raises(ValueError, match="x"), living.work():
        assert living.state == "busy"
        raise ValueError("x")
    assert living.state == "ready"
    with living.work():
        living.stop()
    with living.work():
        pass
    assert living.state == "stopped"
