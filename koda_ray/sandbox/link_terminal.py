"""A terminal in a container: the first process has it there, and its bytes go over the connection to the owner.

What is typed, and new sizes, are messages as all requests are; what the terminal shows comes back as plain bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from koda_ray.errors import InvalidInput, SandboxError
from koda_ray.sandbox.base import Terminal
from koda_ray.sandbox.frames import receive_bytes, receive_object, send
from koda_ray.sandbox.terminal import PIECE_BYTES, check_size, pieces

__all__ = ["LinkTerminal", "serve_terminal"]


class LinkTerminal:
    """The owner's end.

    Args:
        reader: Where what it shows comes from.
        writer: Where what is typed goes to.
        release: Gives the connection back.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        release: Callable[[asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._release = release
        self._closed = False

    async def read(self) -> bytes:
        """Wait for what it writes next; empty at its end."""
        try:
            return await self._reader.read(PIECE_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Type something; nothing happens when nobody reads any more."""
        with suppress(OSError):
            for piece in pieces(data):
                await send(self._writer, {"size": len(piece)}, [piece])

    async def resize(self, *, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        check_size(rows=rows, columns=columns)
        with suppress(OSError):
            await send(self._writer, {"rows": rows, "columns": columns})

    async def close(self) -> None:
        """End the command, where it has not ended; may be called twice."""
        if not self._closed:
            self._closed = True
            await self._release(self._writer)


async def serve_terminal(
    terminal: Terminal, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, silence_s: float | None = None
) -> None:
    """Be the other end, until the terminal ends or the connection does.

    Args:
        terminal: What is served.
        reader: What is typed.
        writer: What is shown.
        silence_s: For how long the owner may say nothing; None for ever.
    """
    typing = asyncio.create_task(_take(terminal, reader, silence_s))
    showing = asyncio.create_task(_show(terminal, writer))
    try:
        await asyncio.wait({typing, showing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (typing, showing):
            task.cancel()
        await asyncio.wait({typing, showing})


async def _show(terminal: Terminal, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await terminal.read():
            writer.write(data)
            await writer.drain()


async def _take(terminal: Terminal, reader: asyncio.StreamReader, silence_s: float | None) -> None:
    with suppress(OSError, EOFError, SandboxError, InvalidInput, TypeError, KeyError):  # OSError: TimeoutError too
        while True:
            async with asyncio.timeout(silence_s):
                said = await receive_object(reader)
            if "size" in said:
                [data] = await receive_bytes(reader, [cast("int", said["size"])], most=PIECE_BYTES)
                await terminal.write(data)
            else:
                await terminal.resize(rows=cast("int", said["rows"]), columns=cast("int", said["columns"]))
