"""A way to PostgreSQL that breaks after COMMIT and before its answer: what was asked is done, and nobody is told.

A proxy between a store and a real server. Once it has cut a connection the others pass; or all are cut, and it turns
away or keeps waiting whoever connects anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Literal

from sqlalchemy.engine import make_url

__all__ = ["Cutting"]


class Cutting:
    """Stands between a client and PostgreSQL, and cuts a connection once its next COMMIT is answered."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._server = Path(str(self._url.query["host"]), ".s.PGSQL.5432")
        self._folder = tempfile.TemporaryDirectory(prefix="cut-")
        self._serving: asyncio.Server | None = None
        self._then: Literal["passes", "refuses", "waits"] = "passes"
        self._way: Literal["passes", "refuses", "waits"] = "passes"
        self._moved = asyncio.Condition()
        self._open: set[asyncio.Task[None]] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self.armed = False
        self.cuts = 0

    async def __aenter__(self) -> Cutting:
        self._serving = await asyncio.start_unix_server(self._handle, Path(self._folder.name, self._server.name))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._serving is not None
        await self.passes()
        self._serving.close()
        await asyncio.wait_for(self._serving.wait_closed(), 60)
        if self._handling:
            await asyncio.wait(self._handling, timeout=60)  # each closes what it opened
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """The way through here."""
        return self._url.set(query={"host": self._folder.name}).render_as_string(hide_password=False)

    def arm(self, then: Literal["passes", "refuses", "waits"] = "passes") -> None:
        """Cut at the next COMMIT; ``then`` says what becomes of connections that are made after it."""
        self.armed, self._then = True, then

    async def passes(self) -> None:
        """Let connections through from here on, those that wait too."""
        async with self._moved:
            self._way = "passes"
            self._moved.notify_all()

    async def until_cut(self, count: int = 1) -> None:
        """Wait until so many connections were cut: what they committed stands."""
        async with asyncio.timeout(60), self._moved:
            await self._moved.wait_for(lambda: self.cuts >= count)

    async def _cut(self) -> None:
        async with self._moved:
            self.armed, self._way, self.cuts = False, self._then, self.cuts + 1
            self._moved.notify_all()
        if self._way != "passes":
            for task in self._open - {asyncio.current_task()}:
                task.cancel()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._pass(reader, writer))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)
        await task

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._way != "waits")
        if self._way == "refuses":
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return
        there, to = await asyncio.open_unix_connection(self._server)

        async def forward() -> None:
            while data := await reader.read(65536):
                to.write(data)

        async def back() -> None:
            while data := await there.read(65536):
                if self.armed and b"COMMIT\0" in data:  # the server has done it, and nobody hears of it
                    await self._cut()
                    return
                writer.write(data)

        passing = {asyncio.create_task(forward()), asyncio.create_task(back())}
        self._open |= passing
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= passing
            for task in passing:
                task.cancel()
            await asyncio.wait(passing)
            for each in (writer, to):
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()
