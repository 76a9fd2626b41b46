"""Who follows what while one look serves them all."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from koda_ray.state.lookout import Lookout, Newest
from koda_ray.state.notify import Notifier


async def test_who_comes_during_a_look_is_not_told_that_its_stream_is_over() -> None:
    looks: list[list[str]] = []
    asked, answered = asyncio.Event(), asyncio.Event()

    async def newest(streams: Collection[str]) -> Mapping[str, Newest]:
        looks.append(list(streams))
        asked.set()
        await answered.wait()
        return {stream: Newest(seq=1, over=False) for stream in streams}

    lookout = Lookout(newest, Notifier(), pause_min_s=0.001)
    async with asyncio.timeout(60), lookout.watching("ses_a") as first:
        await asked.wait()
        async with lookout.watching("ses_b") as second:
            answered.set()
            await first.changed.wait()
            assert not second.is_over
            await second.changed.wait()
            assert looks[0] == ["ses_a"] and not second.is_over
