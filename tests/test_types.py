"""Ids: what they are made of, and the order they come in."""

from __future__ import annotations

import time
import uuid

import pytest

from koda_ray import types
from koda_ray.clock import CommonClock
from koda_ray.types import new_id


def test_an_id_is_a_prefixed_uuid_of_its_time() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id("ses").removeprefix("ses_"))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_made_within_one_millisecond_keep_their_order() -> None:
    made = [new_id("evt") for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_clock_that_goes_back_does_not_take_the_order_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_id("evt")
    monkeypatch.setattr(types, "CLOCK", CommonClock(wall_ns=lambda: 0))
    assert first < new_id("evt") < new_id("evt")
