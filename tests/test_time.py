"""A process's clock: its machine's where that agrees with the database's, else the database's."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from koda_ray import types
from koda_ray.clock import AGREES_S, ASKED_EVERY_S, CommonClock
from koda_ray.state import database
from koda_ray.state.sql import SqlStore
from koda_ray.types import new_id, now
from tests.state import records

SECOND = 1_000_000_000


class Hands:
    """A machine's clock and its count, set by hand, in seconds."""

    def __init__(self, *, wall: float) -> None:
        self.wall, self.count = wall, 0.0
        self.clock = CommonClock(wall_ns=lambda: round(self.wall * SECOND), count_ns=lambda: round(self.count * SECOND))

    def passes(self, seconds: float) -> None:
        self.wall, self.count = self.wall + seconds, self.count + seconds

    @property
    def told(self) -> float:
        return self.clock.now().timestamp()


def test_a_clock_that_agrees_is_taken_as_it_is() -> None:
    hands = Hands(wall=1000.0)
    assert hands.told == 1000.0
    hands.clock.hear(lambda: 1000.0 - AGREES_S)
    assert hands.told == 1000.0


@pytest.mark.parametrize("off", [60.0, -60.0, 0.6])
def test_a_clock_that_is_off_is_not_taken(off: float) -> None:
    hands = Hands(wall=1000.0 + off)
    hands.clock.hear(lambda: 1000.0)
    hands.passes(5.0)
    assert hands.told == pytest.approx(1005.0)


def test_a_clock_that_is_set_meanwhile_takes_nobody_along() -> None:
    hands = Hands(wall=1000.0)
    hands.clock.hear(lambda: 1000.0)
    hands.passes(5.0)
    hands.wall += 3600.0
    assert hands.told == pytest.approx(1005.0)


def test_an_answer_is_of_the_middle_of_its_way() -> None:
    hands = Hands(wall=500.0)

    def slow() -> float:
        hands.passes(2.0)
        return 1000.0

    hands.clock.hear(slow)
    assert hands.told == pytest.approx(1001.0)


def test_an_answer_that_took_long_says_nothing_against_a_clock_that_may_be_right() -> None:
    hands = Hands(wall=1000.0)

    def slow() -> float:
        hands.passes(2.0)
        return 1000.1  # said at the beginning of its way

    hands.clock.hear(slow)
    assert hands.told == 1002.0


def test_the_database_is_asked_again_after_a_while() -> None:
    hands = Hands(wall=1000.0)
    assert hands.clock.is_due
    hands.clock.hear(lambda: 1000.0)
    assert not hands.clock.is_due
    hands.passes(ASKED_EVERY_S)
    assert hands.clock.is_due


@asynccontextmanager
async def opened(url: str, monkeypatch: pytest.MonkeyPatch, *, off_s: float) -> AsyncIterator[SqlStore]:
    """Open a store in a process whose machine's clock is off."""
    clock = CommonClock(wall_ns=lambda: time.time_ns() + round(off_s * SECOND))
    for module in (types, database):
        monkeypatch.setattr(module, "CLOCK", clock)
    store = SqlStore(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture(scope="session", params=["postgres", "libsql"])
def server(request: pytest.FixtureRequest) -> str:
    """Which server there is; it is of the session, since what a test starts has to end with it."""
    request.getfixturevalue(f"{request.param}_template")
    return request.param


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{server}_url")


@pytest.mark.parametrize("off_s", [60.0, -60.0])
async def test_leases_are_of_the_databases_time(url: str, off_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's clock may be a minute off: what it holds is held for as long as it says, and as others see it."""
    async with opened(url, monkeypatch, off_s=off_s) as store:
        assert abs((now() - datetime.now(UTC)).total_seconds()) < 1.0
        await store.ensure_user("ann")
        await store.ensure_project("prj-ann", "ann", "ann")
        made = await records.new_session(store)
        row = await store.activate(made.id, host="there", lease_until=now() + records.SOON)
        assert row.lease_until is not None
        left = row.lease_until - datetime.now(UTC)
        assert abs((left - records.SOON).total_seconds()) < 5.0
        assert abs(int(new_id("ses")[4:16], 16) / 1000 - time.time()) < 5.0


async def test_a_database_of_this_machine_has_its_clock(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(f"sqlite:///{tmp_path}/koda.db", monkeypatch, off_s=60.0):
        assert (now() - datetime.now(UTC)).total_seconds() == pytest.approx(60.0, abs=1.0)
