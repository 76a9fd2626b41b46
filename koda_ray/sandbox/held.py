"""The sandboxes that one provider has open: one object of each, however many ask for it at once.

Two objects of one sandbox would be two owners of it in one process, each with watchdogs, doors and a way out of its
own, of which the provider would know, and close, only one. So finding, making, closing and ending a sandbox take turns
for each id; those of different ids go on side by side. Nobody is given one while it is somebody's turn: it may not be
ready yet, or be about to be closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from koda_ray.cancellation import finish

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
        if sandbox_id not in self._turns:  # nobody waits who needs not
            held = await self.alive(sandbox_id)
            if held is not None and sandbox_id not in self._turns and self._open.get(sandbox_id) is held:
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

    async def close(self, close: Callable[[S], Coroutine[Any, Any, None]]) -> None:
        """Have all closed that are open, and those that are being opened as soon as they are.

        Whoever asks for one meanwhile waits, and has it opened anew.

        Args:
            close: Closes one, in its turn; seen to its end also where the caller is cancelled.
        """
        ids = dict.fromkeys((*self._open, *self._turns))
        closed = await asyncio.gather(*(self._close(one, close) for one in ids), return_exceptions=True)
        for error in closed:
            if error is not None:
                raise error

    async def _close(self, sandbox_id: str, close: Callable[[S], Coroutine[Any, Any, None]]) -> None:
        async with self.turn(sandbox_id):
            if (held := self.pop(sandbox_id)) is not None:
                await finish(close(held))
