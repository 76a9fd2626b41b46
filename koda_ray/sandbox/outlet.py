"""A port of a container's own loopback, for one command, that leads to the socket of its sandbox's egress proxy.

The first process passes bytes on and decides nothing: what may be reached is up to the proxy outside. The port is there
for as long as the command is; where the proxy is gone, connections end at once.
"""

from __future__ import annotations

import asyncio

from koda_ray.sandbox.frames import relay

__all__ = ["Outlet"]

_MAX_CLIENTS = 128


class Outlet:
    """A port that leads out; made by ``open``.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, socket: str) -> None:
        self.port = 0
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, socket: str) -> Outlet:
        """Listen on a free port.

        Args:
            socket: The proxy's, as it is seen from here.
        """
        made = cls(socket)
        made._server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
        made.port = int(made._server.sockets[0].getsockname()[1])
        return made

    def lead(self, socket: str) -> None:
        """Lead to another proxy's socket from now on."""
        self._socket = socket

    async def close(self) -> None:
        """Stop listening and break off what goes on; may be called twice."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in tuple(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._serving) >= _MAX_CLIENTS:
            writer.close()
            return
        self._serving.add(task)
        try:
            outer_reader, outer_writer = await asyncio.open_unix_connection(self._socket)
            try:
                await asyncio.gather(relay(reader, outer_writer), relay(outer_reader, writer))
            finally:
                outer_writer.close()
        except OSError:
            pass  # there is no way out; whoever connected sees that it ends
        except asyncio.CancelledError:
            if self._server is not None:  # not by close
                raise
        finally:
            self._serving.discard(task)
            writer.close()
