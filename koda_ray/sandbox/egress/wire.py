"""One side of a conversation: a stream, h11's reading of it, and the clock that ends it when it stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import h11

__all__ = ["READ_BYTES", "Idle", "Peer", "close", "linger"]

READ_BYTES = 64 * 1024
_LINGER_S = 1.0


class Idle:
    """Ends an ``asyncio.timeout`` block when nothing has been touched for a while.

    Args:
        timeout: The block's.
        idle_s: The while.
        end: When the block ends whatever happens, in the loop's time.
    """

    def __init__(self, timeout: asyncio.Timeout, idle_s: float, *, end: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._idle_s = idle_s
        self._end = end
        self._until = 0.0
        self.touch()

    def touch(self) -> None:
        """Begin to count anew; as good as free when it was done a moment ago."""
        until = self._loop.time() + self._idle_s
        if until - self._until > self._idle_s / 16:
            self._until = until
            self._timeout.reschedule(min(until, self._end))


class Peer:
    """A client or a server, in h11's events.

    Args:
        role: Which of the two we are to it.
        reader: What comes from it.
        writer: What goes to it.
        head_bytes: The longest head that is read.
        reads: Called with the size of what has come, before it is looked at.
        writes: Called with the size of what is about to go.
    """

    def __init__(
        self,
        role: type[h11.CLIENT] | type[h11.SERVER],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        head_bytes: int,
        reads: Callable[[int], None],
        writes: Callable[[int], None],
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=head_bytes)
        self._reader = reader
        self._writer = writer
        self._reads = reads
        self._writes = writes

    async def receive(self) -> h11.Event | type[h11.PAUSED]:
        """Read the next event.

        Raises:
            h11.RemoteProtocolError: It does not speak HTTP.
            OSError: The connection broke.
        """
        while True:
            event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return cast("h11.Event | type[h11.PAUSED]", event)
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            data = await self._reader.read(READ_BYTES)
            self._reads(len(data))
            self.http.receive_data(data)

    async def send(self, event: h11.Event) -> None:
        """Write an event out."""
        data = self.http.send(event)
        if data:
            self._writes(len(data))
            self._writer.write(data)
            await self._writer.drain()


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let a client that is still talking read its answer; one that is cut off while it talks may never see it."""
    with suppress(OSError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await reader.read(READ_BYTES):
                pass


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a stream; what it does not take within a second is thrown away."""
    writer.close()
    try:
        async with asyncio.timeout(_LINGER_S):
            await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
    except OSError:
        pass
