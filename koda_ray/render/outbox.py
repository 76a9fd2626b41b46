"""Messages on their way to a browser, made as its pipe takes them.

A page may ask for the bundle's largest file a thousand times before its browser has read one answer. What waits here is
how an answer is made, not the answer: a few hundred bytes each, whatever it carries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import cast

__all__ = ["Outbox"]


class Outbox(asyncio.BaseProtocol):
    """What is to be written to a pipe, in order; the protocol of the pipe's transport."""

    def __init__(self) -> None:
        self._messages: deque[Iterator[bytes]] = deque()
        self._transport: asyncio.WriteTransport | None = None
        self._full = self._over = False

    @property
    def waiting(self) -> int:
        """How many messages have not gone yet, or not whole."""
        return len(self._messages)

    def put(self, pieces: Iterable[bytes]) -> None:
        """Send a message; each of its pieces is asked for when there is room for it. After the end it is dropped."""
        if not self._over:
            self._messages.append(iter(pieces))
            self._write()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipe."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=0)  # what a pipe does not take at once is all that is kept
        self._write()

    def pause_writing(self) -> None:
        """Make nothing more: the pipe is full."""
        self._full = True

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything: nobody reads any more."""
        self._over = True
        self._messages.clear()

    def _write(self) -> None:
        while self._messages and not self._full and not self._over and self._transport is not None:
            piece = next(self._messages[0], None)
            if piece is None:
                self._messages.popleft()
            else:
                self._transport.write(piece)
