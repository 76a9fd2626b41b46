"""The sandboxes that one provider has open: one object of each, however many ask for it at once.

Two objects of one sandbox would be two owners of it in one process, each with watchdogs, doors and a way out of its
own, of which the provider would know, and close, only one. So finding, making and ending a sandbox take turns for each
id; those of different ids go on side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

__all__ = ["Held"]


class _Lives(Protocol):
    async def is_alive(self) -> bool: ...


S = TypeVar("S", bound=_Lives)


@dataclass
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asking: int = 0


class Held(Generic[S]):
    """Open sandboxes by id; a copy that is sent to another process begins with none."""

    def __init__(self) -> None:
        self._open: dict[str, S] = {}
        self._turns: dict[str, _Turn] = {}

    def __reduce__(self) -> tuple[type[Held[S]], tuple[()]]:
        return Held, ()

    @asynccontextmanager
    async def turn(self, sandbox_id: str) -> AsyncGenerator[None]:
        """Have an id to oneself for the block, which must not ask for its turn again."""
        turn = self._turns.setdefault(sandbox_id, _Turn())
        turn.asking += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.asking -= 1
            if turn.asking == 0:
                del self._turns[sandbox_id]

    async def connected(self, sandbox_id: str, find: Callable[[str], Awaitable[S]]) -> S:
        """Return the one that is open and lives; else have it found, by one of those who ask.

        Args:
            sandbox_id: Whose.
            find: Makes the object, in its turn.
        """
        held = await self.alive(sandbox_id)  # nobody waits who needs not
        if held is not None:
            return held
        async with self.turn(sandbox_id):
            return await find(sandbox_id)

    async def alive(self, sandbox_id: str) -> S | None:
        """Return the one that is open, if it still lives."""
        held = self._open.get(sandbox_id)
        return held if held is not None and await held.is_alive() else None

    def put(self, sandbox_id: str, sandbox: S) -> None:
        """Take what was opened, in its turn."""
        self._open[sandbox_id] = sandbox

    def pop(self, sandbox_id: str) -> S | None:
        """Give away the one that is open; None where there is none."""
        return self._open.pop(sandbox_id, None)

    def pop_all(self) -> list[S]:
        """Give away all."""
        held, self._open = list(self._open.values()), {}
        return held
