"""A terminal in an E2B sandbox: E2B's own, in which its shell is at once replaced by a confined command.

E2B always begins with an interactive shell. The line that replaces it is typed, so the shell shows it; a mark that the
command prints first, and that stands nowhere in that line, says where the command's own output begins.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress

from e2b import AsyncCommandHandle, AsyncSandbox, CommandExitException, PtySize

from koda_ray.errors import KodaError
from koda_ray.sandbox import e2b_machine
from koda_ray.sandbox.terminal import check_size, pieces

__all__ = ["E2BTerminal"]

_BEGIN = 'printf %s%s "$0" "$1"; shift; exec "$@"'
_END_TIMEOUT_S = 20.0
_WAITING = 256  # pieces that are kept for whoever reads; more wait at E2B

_Translated = Callable[[str], AbstractContextManager[None]]


class E2BTerminal:
    """Our end of it; made by ``open``."""

    def __init__(
        self, machine: AsyncSandbox, *, mark: bytes, translated: _Translated, leave: Callable[[], Awaitable[None]]
    ) -> None:
        self._machine = machine
        self._mark = mark
        self._translated = translated
        self._leave = leave
        self._before = b""
        self._shown: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._handle: AsyncCommandHandle[str] | None = None
        self._running: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        machine: AsyncSandbox,
        walls: Callable[[Sequence[str]], Sequence[str]],
        argv: Sequence[str],
        *,
        size: PtySize,
        translated: _Translated,
        leave: Callable[[], Awaitable[None]],
    ) -> E2BTerminal:
        """Start a command.

        Args:
            machine: The sandbox at E2B.
            walls: Puts the walls around a command line.
            argv: The command.
            size: The terminal's.
            translated: Makes E2B's errors ours.
            leave: Called when the terminal is closed, also when it could not be opened.
        """
        mark = secrets.token_hex(8)
        line = e2b_machine.command(walls(["/bin/sh", "-c", _BEGIN, mark[:8], mark[8:], *argv]))
        terminal = cls(machine, mark=mark.encode(), translated=translated, leave=leave)
        try:
            with translated("open a terminal"):
                handle = await machine.pty.create(size, terminal._show, user="root", cwd="/", timeout=0)
                terminal._handle = handle
                terminal._running = asyncio.create_task(terminal._run(handle), name=f"e2b-terminal-{handle.pid}")
                await machine.pty.send_stdin(handle.pid, f" {line}\n".encode())
        except BaseException:
            await terminal.close()
            raise
        return terminal

    async def read(self) -> bytes:
        """Wait for what it writes next; empty at its end."""
        data = await self._shown.get()
        if not data:
            self._shown.put_nowait(b"")  # for whoever reads again
        return data

    async def write(self, data: bytes) -> None:
        """Type something; nothing happens when nobody reads any more."""
        with suppress(KodaError), self._translated("type into a terminal"):
            for piece in pieces(data):
                if self._handle is not None:
                    await self._machine.pty.send_stdin(self._handle.pid, piece)

    async def resize(self, *, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        check_size(rows=rows, columns=columns)
        if self._handle is not None:
            with suppress(KodaError), self._translated("resize a terminal"):
                await self._machine.pty.resize(self._handle.pid, PtySize(rows=rows, cols=columns))

    async def close(self) -> None:
        """End the command, where it has not ended; may be called twice."""
        running, self._running = self._running, None
        handle, self._handle = self._handle, None
        if running is not None and handle is not None:
            with suppress(KodaError, TimeoutError), self._translated("end a terminal"):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    if not running.done():
                        await handle.kill()
            running.cancel()
            await asyncio.wait({running})
        leave, self._leave = self._leave, _nothing
        await leave()

    # inside

    async def _run(self, handle: AsyncCommandHandle[str]) -> None:
        try:
            with suppress(KodaError, CommandExitException), self._translated("follow a terminal"):
                await handle.wait()
        finally:
            while self._shown.full():
                self._shown.get_nowait()
            self._shown.put_nowait(b"")

    async def _show(self, data: bytes) -> None:
        if self._mark:
            self._before += data
            _, mark, data = self._before.partition(self._mark)
            if not mark:
                return
            self._mark, self._before = b"", b""
        if data:
            await self._shown.put(data)


async def _nothing() -> None:
    """Leave what was left already."""
