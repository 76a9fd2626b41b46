"""What a coroutine tells from its thread arrives, in order, whatever holds up whoever listens."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from koda_ray.errors import RenderError
from koda_ray.render import telling
from koda_ray.render.protocol import Captured
from koda_ray.render.telling import AtWork, told


@pytest.fixture
def held_up() -> Iterator[None]:
    """Stop the main thread for longer than it wants to wait, a few times."""
    over = threading.Event()

    def signals() -> None:
        while not over.wait(0.25):  # longer than one takes
            os.kill(os.getpid(), signal.SIGUSR1)

    def hold_up(number: int, frame: object) -> None:
        time.sleep(0.15)

    before = signal.signal(signal.SIGUSR1, hold_up)
    sender = threading.Thread(target=signals)
    sender.start()
    yield
    over.set()
    sender.join()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(120)
def test_a_listener_that_is_held_up_hears_the_end(held_up: None) -> None:
    async def work(tell: Callable[[object], None]) -> str:
        for number in range(3):
            await asyncio.sleep(0.4)
            tell(number)
        await asyncio.sleep(0.4)
        return "done"

    assert list(told(work)) == [AtWork(), 0, 1, 2, "done"]


def test_counts_are_told_now_and_then_and_the_rest_at_once() -> None:
    async def work(tell: Callable[[object], None]) -> str:
        for number in range(60):
            tell(Captured(0, number))
            await asyncio.sleep(0.02)
        tell("unit")
        return "done"

    begun, *counts, unit, done = told(work)
    assert begun == AtWork()
    assert 1 <= len(counts) < 60 and all(isinstance(count, Captured) for count in counts)
    assert (unit, done) == ("unit", "done")


def test_urgent_work_comes_after_whoever_answers_people_and_other_work_after_that() -> None:
    async def work(tell: Callable[[object], None]) -> str:
        tell(os.getpriority(os.PRIO_PROCESS, 0))
        return "done"

    def nice(*, background: bool) -> int:
        return next(each for each in told(work, background=background) if isinstance(each, int))

    own = os.nice(0)
    assert nice(background=False) == max(own, 5)
    assert nice(background=True) == min(max(own, 5) + 5, 19)
    assert os.nice(0) == own


def test_a_failure_is_a_value_and_a_fault_is_raised() -> None:
    async def fails(tell: Callable[[object], None]) -> str:
        raise RenderError("no")

    async def breaks(tell: Callable[[object], None]) -> str:
        raise ZeroDivisionError

    _, failure = told(fails)
    assert isinstance(failure, RenderError)
    with pytest.raises(ZeroDivisionError):
        list(told(breaks))


def test_whoever_stops_listening_has_it_cleaned_up() -> None:
    cleaned: list[bool] = []

    async def work(tell: Callable[[object], None]) -> str:
        tell("begun")
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)
        return "done"

    telling_it = told(work)
    assert [next(telling_it), next(telling_it)] == [AtWork(), "begun"]
    telling_it.close()
    assert cleaned == [True]


@pytest.mark.full
def test_whoever_has_nothing_to_tell_says_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "BEAT_S", 0.3)

    heard = threading.Event()

    async def work(tell: Callable[[object], None]) -> str:
        async with asyncio.timeout(60):
            while not heard.is_set():
                await asyncio.sleep(0.02)
        for number in range(40):
            tell(Captured(0, number))
            await asyncio.sleep(0.05)
        return "done"

    said: list[object] = []
    began = time.monotonic()
    for value in told(work):
        said.append(value)
        if said == [AtWork()] * 5:  # the first at once, the others not before their time
            assert time.monotonic() - began >= 4 * 0.3
            heard.set()
    counts = [value for value in said if isinstance(value, Captured)]
    assert len(counts) >= 3 and said[-1] == "done"
