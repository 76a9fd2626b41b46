"""What a request began ends with it, in order, however often it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from koda_ray.serve.ending import carried_out, ended
from koda_ray.serve.streams import pieces_until


async def cancelled(task: asyncio.Task[None], *, times: int) -> None:
    """Cancel a task again and again, as a server does that stops while a client hangs up."""
    for _ in range(times):
        await asyncio.sleep(0.005)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("times", [1, 4])
async def test_what_is_followed_is_closed_once_nobody_reads_it(times: int) -> None:
    told: list[str] = []

    async def pieces() -> AsyncGenerator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)  # as a terminal that is let go of
            told.append("closed")

    async def follow() -> None:
        source = pieces()
        async with aclosing(source), aclosing(pieces_until(asyncio.Event(), source)) as found:
            async for piece in found:
                told.append(piece)

    following = asyncio.create_task(follow())
    while not told:
        await asyncio.sleep(0)
    await cancelled(following, times=times)
    assert told == ["one", "closed"]


async def test_what_is_carried_out_is_done_and_what_it_says_is_told() -> None:
    done: list[int] = []

    async def work(number: int) -> int:
        await asyncio.sleep(0.03)
        done.append(number)
        if number == 3:
            raise ValueError("no three")
        return number

    async def request(number: int) -> None:
        await carried_out(work(number))

    await cancelled(asyncio.create_task(request(1)), times=3)
    assert await carried_out(work(2)) == 2
    with pytest.raises(ValueError, match="no three"):
        await carried_out(work(3))
    await cancelled(asyncio.create_task(request(3)), times=2)  # and its failure is not left unseen
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
