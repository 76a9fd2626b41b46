"""Work that, cancelled, is slow to end: as a tool, or in place of whoever hears how an answer comes."""

from __future__ import annotations

import asyncio

from koda_ray.agent import tool

__all__ = ["Lingering"]


class Lingering:
    """It has ``begun``, is ``ending`` once it was cancelled, and ends when it is let go by ``end``."""

    def __init__(self) -> None:
        self.begun, self.ending, self.end = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait."""
            await self.work()
            return "waited"

        self.tool = wait

    async def work(self, *_: object) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.end.wait()
