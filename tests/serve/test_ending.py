"""What a request began ends with it, in order, however often it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from koda_ray.serve.ending import carried_out, ended
from koda_ray.serve.streams import pieces_until

ROUNDS = 20


async def cancelled(task: asyncio.Task[None], *, times: int, then: asyncio.Event) -> None:
    """Cancel a task again and again, as a server does that stops while a client hangs up.

    Between two times everything that can go on does, and only then comes what it waits for.
    """
    for _ in range(times):
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        task.cancel()
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    then.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("times", [1, 4])
async def test_what_is_followed_is_closed_once_nobody_reads_it(times: int) -> None:
    told: list[str] = []
    let_go = asyncio.Event()

    async def pieces() -> AsyncGenerator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            await let_go.wait()  # as a terminal does
            told.append("closed")

    async def follow() -> None:
        source = pieces()
        async with aclosing(source), aclosing(pieces_until(asyncio.Event(), source)) as found:
            async for piece in found:
                told.append(piece)

    following = asyncio.create_task(follow())
    while not told:
        await asyncio.sleep(0)
    await cancelled(following, times=times, then=let_go)
    assert told == ["one", "closed"]


async def test_what_is_carried_out_is_done_and_what_it_says_is_told() -> None:
    done: list[int] = []

    async def work(number: int, may: asyncio.Event) -> int:
        await may.wait()
        done.append(number)
        if number == 3:
            raise ValueError("no three")
        return number

    async def request(number: int, may: asyncio.Event) -> None:
        await carried_out(work(number, may))

    first, at_once, last = asyncio.Event(), asyncio.Event(), asyncio.Event()
    at_once.set()
    await cancelled(asyncio.create_task(request(1, first)), times=3, then=first)
    assert await carried_out(work(2, at_once)) == 2
    with pytest.raises(ValueError, match="no three"):
        await carried_out(work(3, at_once))
    await cancelled(asyncio.create_task(request(3, last)), times=2, then=last)  # and its failure is not left unseen
    assert done == [1, 2, 3, 3]


async def test_tasks_that_take_their_time_to_end_are_waited_for() -> None:
    over: list[str] = []

    async def slow(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.03)
            over.append(name)

    tasks = [asyncio.create_task(slow(name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    await ended(*tasks)
    assert sorted(over) == ["a", "b"] and all(task.cancelled() for task in tasks)
    await ended()
