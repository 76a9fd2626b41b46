"""A pipe to a process for megabytes at a time.

asyncio's own writers keep what did not fit and move all of it forward at each write: for a raw frame that is more work
than the frame. Here a frame is written from where it lies, as the pipe takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os

__all__ = ["PIPE_ENDED", "Pipe"]

PIPE_ENDED = (BrokenPipeError, ConnectionResetError)
"""What writing raises once nobody reads, or the pipe is closed."""

_PIPE_BYTES = 1 << 20
_STUCK_S = 120.0


class Pipe:
    """A pipe whose reading end a process gets as its standard input. One writes at a time.

    Attributes:
        reader: The descriptor for the process.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        with contextlib.suppress(OSError):  # a user may have only so much of them
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def started(self) -> None:
        """Let go of the reading end: the process has it."""
        os.close(self.reader)
        self.reader = -1

    async def write(self, data: bytes) -> None:
        """Write everything; waits while the pipe is full.

        Raises:
            BrokenPipeError: Nobody reads any more.
            ConnectionResetError: It was closed.
            TimeoutError: Whoever reads has taken nothing for two minutes.
        """
        left = memoryview(data)
        while left:
            if self._writer < 0:
                raise ConnectionResetError("the pipe is closed")
            try:
                left = left[os.write(self._writer, left) :]
            except BlockingIOError:
                await self._until_read()

    async def _until_read(self) -> None:
        loop = asyncio.get_running_loop()
        writer, there = self._writer, loop.create_future()
        loop.add_writer(writer, lambda: there.done() or there.set_result(None))
        try:
            async with asyncio.timeout(_STUCK_S):
                await there
        finally:
            loop.remove_writer(writer)

    def close(self) -> None:
        """Close what is ours still; who reads comes to the end of what was written."""
        if self.reader >= 0:  # there is no process
            self.started()
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
