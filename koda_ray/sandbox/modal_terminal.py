"""A terminal in a sandbox at Modal: the helper has it there (``inside_terminal``), Modal's exec carries its bytes.

Modal's own terminals cannot be given another size, nor a command that is not root's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from koda_ray.errors import KodaError
from koda_ray.sandbox.frames import send
from koda_ray.sandbox.inside_terminal import BEAT_S
from koda_ray.sandbox.terminal import check_size, pieces

if TYPE_CHECKING:
    import modal
    from modal.container_process import ContainerProcess

__all__ = ["ModalTerminal"]

_END_TIMEOUT_S = 20.0
_WAITING = 256  # pieces that are kept for whoever reads; more wait at Modal

_Translated = Callable[[str], AbstractContextManager[None]]


class ModalTerminal:
    """Our end of it; made by ``open``."""

    def __init__(self, process: ContainerProcess[bytes], *, translated: _Translated) -> None:
        self._process = process
        self._translated = translated
        self._shown: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._typing = asyncio.Lock()
        self._closed = False
        self._tasks = [
            asyncio.create_task(self._show(), name="modal-terminal-show"),
            asyncio.create_task(self._beat(), name="modal-terminal-beat"),
        ]

    @classmethod
    async def open(
        cls, machine: modal.Sandbox, line: Sequence[str], *, lasts_s: int, translated: _Translated
    ) -> ModalTerminal:
        """Start a command.

        Args:
            machine: The sandbox at Modal.
            line: The command line that serves the terminal.
            lasts_s: For how long it may.
            translated: Makes Modal's errors ours.
        """
        with translated("open a terminal"):
            process = await machine.exec.aio(*line, text=False, timeout=lasts_s)
        return cls(process, translated=translated)

    async def read(self) -> bytes:
        """Wait for what it writes next; empty at its end."""
        data = await self._shown.get()
        if not data:
            self._shown.put_nowait(b"")  # for whoever reads again
        return data

    async def write(self, data: bytes) -> None:
        """Type something; nothing happens when nobody reads any more."""
        await self._say(*[({"size": len(piece)}, piece) for piece in pieces(data)])

    async def resize(self, *, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        check_size(rows=rows, columns=columns)
        await self._say(({"rows": rows, "columns": columns}, b""))

    async def close(self) -> None:
        """End the command, where it has not ended; may be called twice."""
        tasks, self._tasks = self._tasks, []
        if not tasks:
            return
        with suppress(KodaError, ValueError), self._translated("end a terminal"):
            async with self._typing:
                self._process.stdin.write_eof()
                await self._process.stdin.drain.aio()
        tasks[1].cancel()
        self._closed = True  # nobody reads any more
        while not self._shown.empty():
            self._shown.get_nowait()
        await asyncio.wait({tasks[0]}, timeout=_END_TIMEOUT_S)
        tasks[0].cancel()
        await asyncio.wait(tasks)

    # inside

    async def _show(self) -> None:
        try:
            with suppress(KodaError), self._translated("follow a terminal"):
                async for data in self._process.stdout:
                    if data and not self._closed:
                        await self._shown.put(data)
        finally:
            while self._shown.full():
                self._shown.get_nowait()
            self._shown.put_nowait(b"")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self._say(({"size": 0}, b""))

    async def _say(self, *messages: tuple[Mapping[str, object], bytes]) -> None:
        with suppress(KodaError, ValueError), self._translated("type into a terminal"):
            async with self._typing:
                for value, data in messages:
                    await send(_Input(self._process), value, [data] if data else ())


class _Input:
    """The input of a command at Modal, as messages are written to it."""

    def __init__(self, process: ContainerProcess[bytes]) -> None:
        self._stdin = process.stdin

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    async def drain(self) -> None:
        await self._stdin.drain.aio()
