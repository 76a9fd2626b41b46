from __future__ import annotations

import asyncio

from koda_ray.actors.followers import Followers


async def test_each_change_of_the_sum_is_told_once() -> None:
    told: list[int] = []

    async def tell(count: int) -> None:
        told.append(count)

    followers = Followers(tell)
    for source, count, total in (("a", 1, 1), ("b", 2, 3), ("a", 1, 3), ("b", 0, 1), ("a", 0, 0), ("c", 0, 0)):
        assert await followers.heard(source, count) == total
    await followers.close()
    assert told == [1, 3, 1, 0]


async def test_a_server_that_says_nothing_more_counts_no_more() -> None:
    told: asyncio.Queue[int] = asyncio.Queue()
    followers = Followers(told.put, ttl_s=0.3)
    await followers.heard("killed", 2)
    await followers.heard("alive", 1)
    assert [await told.get() for _ in range(2)] == [2, 3]
    async with asyncio.timeout(60):
        while told.empty():
            await asyncio.sleep(0.05)
            await followers.heard("alive", 1)
    assert await told.get() == 1
    assert await asyncio.wait_for(told.get(), 60) == 0
    await followers.close()
    await followers.close()
