"""A way to PostgreSQL that breaks after COMMIT and before its answer: what was asked is done, and nobody is told."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

from sqlalchemy.engine import make_url

__all__ = ["Cutting"]


class Cutting:
    """Stands between a client and PostgreSQL, and cuts a connection once its next COMMIT is answered."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._server = Path(str(self._url.query["host"]), ".s.PGSQL.5432")
        self._folder = tempfile.TemporaryDirectory(prefix="cut-")
        self._serving: asyncio.Server | None = None
        self.armed = False
        self.cuts = 0

    async def __aenter__(self) -> Cutting:
        self._serving = await asyncio.start_unix_server(self._pass, Path(self._folder.name, self._server.name))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._serving is not None
        self._serving.close()
        await asyncio.wait_for(self._serving.wait_closed(), 60)
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """The way through here."""
        return self._url.set(query={"host": self._folder.name}).render_as_string(hide_password=False)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_unix_connection(self._server)

        async def forward() -> None:
            while data := await reader.read(65536):
                to.write(data)

        async def back() -> None:
            while data := await there.read(65536):
                if self.armed and b"COMMIT\0" in data:  # the server has done it, and nobody hears of it
                    self.armed, self.cuts = False, self.cuts + 1
                    return
                writer.write(data)

        passing = [asyncio.create_task(forward()), asyncio.create_task(back())]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.wait(passing)
            for each in (writer, to):
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()
