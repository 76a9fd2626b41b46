from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from koda_ray.actors import crowding
from koda_ray.actors.crowding import LOOK_S, Crowding, memory_share, stay_s
from koda_ray.types import now
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model

RESTS: dict[str, Any] = {"phase": "executing", "owes": None, "execution": {}, "plan_accepted": True}
USUAL_S = 1e6
HIGH = 0.001


@pytest.mark.parametrize(
    ("share", "stays"), [(0.0, 300.0), (0.8, 300.0), (0.9, 150.0), (0.95, 75.0), (1.0, 0.0), (1.1, 0.0)]
)
def test_the_fuller_a_machine_is_the_sooner_sessions_leave_it(share: float, stays: float) -> None:
    assert stay_s(300.0, share=share, high=0.8) == pytest.approx(stays)
    assert stay_s(300.0, share=share, high=1.0) == 300.0


def test_what_is_taken_of_the_memory_is_seen() -> None:
    assert 0 < memory_share() < 1


def test_a_session_looks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, at = iter([0.5, 0.9]), [1000.0]
    monkeypatch.setattr(crowding, "memory_share", lambda: next(shares))
    seen = Crowding(300.0, high=0.8, clock=lambda: at[0])
    assert [seen.stay_s(), seen.stay_s()] == [300.0, 300.0]
    at[0] += LOOK_S
    assert seen.stay_s() == pytest.approx(150.0)


async def test_on_a_crowded_machine_the_session_that_was_used_longest_ago_leaves_first(world: SessionWorld) -> None:
    crowded = {"idle_timeout_s": USUAL_S, "memory_high": HIGH, "lease_s": 0.3}
    stays = stay_s(USUAL_S, share=memory_share(), high=HIGH)
    old = await world.activate(await world.row(**RESTS), world.model(scripted_model()), **crowded)
    unused_s = (stays + USUAL_S) / 2  # for longer than may be here, and not for as long as elsewhere
    world.ahead_s = unused_s - stays / 2
    new = await world.activate(await world.row(**RESTS), world.model(scripted_model()), **crowded)
    world.ahead_s = unused_s
    async with asyncio.timeout(60):
        while world.ended == 0:
            await asyncio.sleep(0.02)
    renewed = set[datetime | None]()
    async with asyncio.timeout(60):
        while (left := (await world.store.get_session(old.session_id)).lease_until) is not None and left > now():
            await asyncio.sleep(0.02)  # a renewal may have been on its way
        while len(renewed) < 5:
            renewed.add((await world.store.get_session(new.session_id)).lease_until)
            await asyncio.sleep(0.02)
    assert world.ended == 1
    assert (await world.store.get_session(old.session_id)).lease_until == left
