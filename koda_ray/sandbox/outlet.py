"""A port of a container's own loopback, for one command, that leads to the socket of its sandbox's egress proxy.

The first process passes bytes on and decides nothing: what may be reached is up to the proxy outside. The port is there
for as long as the command is; where the proxy is gone, connections end at once.
"""

from __future__ import annotations

import asyncio

from koda_ray.sandbox.passing import Passing, relay_both

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
        self._passing = Passing(most=_MAX_CLIENTS)

    @classmethod
    async def open(cls, socket: str) -> Outlet:
        """Listen on a free port.

        Args:
            socket: The proxy's, as it is seen from here.
        """
        made = cls(socket)
        made._server = await asyncio.start_server(made._passing.serve(made._pass_on), "127.0.0.1", 0)
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
        await self._passing.break_off()
        await server.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            outer = await asyncio.open_unix_connection(self._socket)
            try:
                await relay_both((reader, writer), outer)
            finally:
                outer[1].close()
        except OSError:
            pass  # there is no way out; whoever connected sees that it ends
