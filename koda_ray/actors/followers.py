"""How many people follow a session, added up over all servers that say so.

Each server repeats its own number while it has followers. What one said last counts for a while only, so a server
that is killed, or whose last word is lost, stops counting by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from koda_ray.cancellation import OneTask

__all__ = ["TTL_S", "Followers"]

TTL_S = 30.0
"""How long a server's number counts, in seconds; it is repeated every third of that."""


class Followers:
    """Adds up what servers say, and tells each change of the sum.

    Args:
        tell: Called with the new sum.
        ttl_s: How long a number counts, in seconds.
    """

    def __init__(self, tell: Callable[[int], Awaitable[None]], *, ttl_s: float = TTL_S) -> None:
        self._tell = tell
        self._ttl_s = ttl_s
        self._said: dict[str, tuple[int, float]] = {}
        self._told = 0
        self._telling = asyncio.Lock()
        self._forgetting = OneTask(self._forget)

    async def heard(self, source: str, count: int) -> int:
        """Note how many follow at one server; 0 takes it out. Returns how many follow in all."""
        if count:
            self._said[source] = (count, asyncio.get_running_loop().time() + self._ttl_s)
        else:
            self._said.pop(source, None)
        if self._said:
            self._forgetting.begin()
        await self._look()
        return self._told

    async def close(self) -> None:
        """Stop watching the clock; may be called twice."""
        await self._forgetting.end()

    async def _forget(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._said:
            await asyncio.sleep(max(0.0, min(until for _, until in self._said.values()) - clock()))
            self._said = {source: said for source, said in self._said.items() if said[1] > clock()}
            with contextlib.suppress(Exception):  # a session that is ending needs no count
                await self._look()

    async def _look(self) -> None:
        async with self._telling:
            total = sum(count for count, _ in self._said.values())
            if total != self._told:
                self._told = total
                await self._tell(total)
