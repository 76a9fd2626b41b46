"""Whoever waits for an answer looks whether there is still somebody who could give it."""

from __future__ import annotations

import asyncio

import pytest

from koda_ray.actors import answering
from koda_ray.actors.answering import Lost, answer_or_lost


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_LOOK_S", 0.01)


async def test_an_answer_is_waited_for_as_long_as_somebody_is_there() -> None:
    answer, looks = asyncio.get_running_loop().create_future(), 0

    async def is_lost() -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            answer.set_result("here")
        return False

    assert await answer_or_lost(answer, is_lost) == "here"


async def test_an_answer_of_somebody_who_is_gone_is_given_up() -> None:
    answer = asyncio.get_running_loop().create_future()

    async def is_lost() -> bool:
        return True

    with pytest.raises(Lost):
        await answer_or_lost(answer, is_lost)


async def test_an_answer_is_heard_while_nobody_can_say_whether_somebody_is_there() -> None:
    answer, asked, ended = asyncio.get_running_loop().create_future(), asyncio.Event(), asyncio.Event()

    async def is_lost() -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()  # the head is away
        finally:
            ended.set()
        return False

    waiting = asyncio.create_task(answer_or_lost(answer, is_lost))
    async with asyncio.timeout(60):
        await asked.wait()
        answer.set_result("here")
        assert await waiting == "here"
        await ended.wait()
