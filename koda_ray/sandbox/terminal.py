"""A terminal of this machine with a sandboxed command at its other end.

The command gets a pseudo-terminal that nobody else has, as its controlling one (``setsid``), so that a change of size
reaches it as a signal and Ctrl-C is a signal too. Nothing that it does to its terminal reaches ours.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.process import wait_readable

__all__ = ["CONTROLLING", "PIECE_BYTES", "LocalTerminal", "check_size", "open_terminal", "pieces"]

CONTROLLING = ("setsid", "--ctty", "--wait")
"""What a command line begins with that is to own the terminal that it is started at."""

PIECE_BYTES = 64 * 1024
"""How much is typed, or shown, at once; a paste may be larger, and goes in pieces."""

_MOST = 1000


def check_size(*, rows: int, columns: int) -> tuple[int, int]:
    """Check a terminal's size.

    Raises:
        InvalidInput: INVALID_INPUT, with the size.
    """
    if not (1 <= rows <= _MOST and 1 <= columns <= _MOST):
        raise InvalidInput(f"no terminal has {rows} rows and {columns} columns; give from 1 to {_MOST} of each")
    return rows, columns


def pieces(data: bytes) -> list[bytes]:
    """Divide what is typed into what can be sent at once."""
    return [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]


def open_terminal(*, rows: int, columns: int) -> tuple[int, int]:
    """Open a terminal of a size.

    Returns:
        Our end and the command's end, both the caller's to close.
    """
    size = check_size(rows=rows, columns=columns)
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, size)
    os.set_blocking(ours, False)
    return ours, theirs


class LocalTerminal:
    """Our end of a terminal.

    Args:
        fd: That end; owned and closed here.
        end: Ends the command.
        resized: Tells the command of another size where the kernel does not.
        gone: Is done once nothing has the other end any more, where the kernel does not say that either.
    """

    def __init__(
        self,
        fd: int,
        end: Callable[[], Awaitable[None]],
        *,
        resized: Callable[[], None] = lambda: None,
        gone: asyncio.Future[None] | None = None,
    ) -> None:
        self._fd = fd
        self._end = end
        self._resized = resized
        self._gone = gone

    async def read(self) -> bytes:
        """Wait for what it writes next; empty at its end."""
        await asyncio.sleep(0)  # one that always has something to show must not keep all others waiting
        while self._fd >= 0:
            try:
                return os.read(self._fd, PIECE_BYTES)
            except BlockingIOError:
                if self._gone is not None and self._gone.done():
                    break
                await self._readable()
            except OSError:  # nobody has the other end any more
                break
        return b""

    async def write(self, data: bytes) -> None:
        """Type something; nothing happens when nobody reads any more."""
        while data and self._fd >= 0:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                await _wait_writable(self._fd)
            except OSError:
                return

    async def resize(self, *, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        size = check_size(rows=rows, columns=columns)
        if self._fd >= 0:
            with suppress(OSError, termios.error):
                termios.tcsetwinsize(self._fd, size)
                self._resized()

    async def close(self) -> None:
        """End the command, where it has not ended; may be called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                await self._end()
            finally:
                os.close(fd)

    async def _readable(self) -> None:
        """Wait until there is something to read, or nothing has the other end any more."""
        waiting = asyncio.ensure_future(wait_readable(self._fd))
        try:
            await asyncio.wait({waiting, *filter(None, (self._gone,))}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})


async def _wait_writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def fire() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(fd, fire)
    try:
        await ready
    finally:
        loop.remove_writer(fd)
