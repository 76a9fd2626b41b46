"""Bytes both ways between two streams, until both are at their end; counted, and cut when they stand still."""

from __future__ import annotations

import asyncio

from koda_ray.sandbox.egress.budget import Tally, Way
from koda_ray.sandbox.egress.wire import READ_BYTES, Idle

__all__ = ["relay"]

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(client: Ends, server: Ends, *, first: bytes, tally: Tally, idle: Idle) -> None:
    """Pass bytes on in both directions.

    Args:
        client: Inside.
        server: Outside.
        first: What the client has sent already.
        tally: Counts each piece before it is passed on.
        idle: Is touched by each piece.

    Raises:
        Refused: BYTES_SPENT.
        OSError: One of the two broke off.
    """
    if first:
        tally.take("sent", len(first))
        server[1].write(first)
    up = asyncio.create_task(_pump(client[0], server[1], "sent", tally, idle))
    down = asyncio.create_task(_pump(server[0], client[1], "received", tally, idle))
    try:
        await asyncio.gather(up, down)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way, tally: Tally, idle: Idle) -> None:
    while data := await reader.read(READ_BYTES):
        tally.take(way, len(data))
        writer.write(data)
        await writer.drain()
        idle.touch()
    writer.write_eof()
