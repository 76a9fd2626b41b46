"""Work in the background has one owner, who begins it once and sees it end."""

from __future__ import annotations

import asyncio

from koda_ray.cancellation import OneTask


async def test_work_is_under_way_once_and_again_once_it_is_over() -> None:
    begun: list[asyncio.Event] = []

    async def work() -> None:
        begun.append(asyncio.Event())
        await begun[-1].wait()

    one = OneTask(work, name="some work")
    await one.end()  # where none was begun
    first = one.begin()
    await asyncio.sleep(0)
    assert one.begin() is first and len(begun) == 1 and first.get_name() == "some work"
    begun[0].set()
    await first
    second = one.begin()
    await asyncio.sleep(0)
    assert second is not first and len(begun) == 2
    for _ in range(2):
        await one.end()
    assert second.cancelled()


async def test_whoever_ends_it_waits_until_it_has_cleaned_up() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    one = OneTask(work)
    one.begin()
    await asyncio.sleep(0)
    await one.end()
    assert cleaned == ["up"]
    again = one.begin()
    await one.end()
    assert again.cancelled(), "also before it could begin"
