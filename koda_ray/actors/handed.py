"""How much of what a person said agents have been given to read, so that none of that is taken back.

The state says so only once an agent has answered. Until then it is known here, in the process whose agents read it:
where that ends, so does what they began, and whoever takes the session up gives it to them anew, or no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["Handed"]


class Handed:
    """What was handed to agents, and whose turn it is: theirs to read, or a person's to take a message back.

    Attributes:
        changes: So many of the changes that were asked for have been in a request.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._turn = asyncio.Lock()

    async def settled(self) -> None:
        """Wait while something is being taken back; whoever reads right after this reads without it."""
        async with self._turn:
            pass

    @asynccontextmanager
    async def held_back(self) -> AsyncGenerator[None]:
        """Have nothing handed to agents meanwhile."""
        async with self._turn:
            yield
