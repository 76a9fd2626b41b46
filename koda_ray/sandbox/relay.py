"""Sockets on this machine that lead into a container: what connects to one reaches a port inside, through the link.

The dev server's is there from the first preview on, and a container's owners have it between them: whoever finds
nobody listening there listens, until it goes. Those of other ports (``Relays``) are bounded, and go once nobody has
connected for a while; whoever wants to look again asks again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from contextlib import suppress

from koda_ray.cancellation import OneTask
from koda_ray.errors import SandboxError, ServerFailed
from koda_ray.sandbox.frames import receive_object, send
from koda_ray.sandbox.link import Link
from koda_ray.sandbox.passing import Passing, relay_both
from koda_ray.sandbox.preview import is_listened, listen

__all__ = ["Relay", "Relays"]

_CONNECT_TIMEOUT_S = 10.0
_MAX_CLIENTS = 256
_MOST = 16
_IDLE_S = 60.0
_LOOKS = 4


class Relay:
    """Listens on a socket and passes bytes on.

    Args:
        path: The socket; only this user can connect.
        link: The way in.
        port: Where the server listens on the container's own loopback.
    """

    def __init__(self, path: str, link: Link, *, port: int) -> None:
        self._path = path
        self._link = link
        self._port = port
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._passing = Passing(most=_MAX_CLIENTS)
        self._used_at = time.monotonic()

    @property
    def idle_s(self) -> float:
        """For how long nobody has been connected, in seconds; 0 where somebody is."""
        return 0.0 if self._passing.count else time.monotonic() - self._used_at

    async def open(self) -> None:
        """Listen; nothing happens where this owner or another one does already.

        Raises:
            SandboxError: PROVIDER_ERROR, this owner has let go of the container.
        """
        self._used_at = time.monotonic()
        if await asyncio.to_thread(is_listened, self._path):
            return
        await self.close()  # somebody has removed the socket
        listening = await asyncio.to_thread(listen, self._path)
        self._inode = os.stat(self._path).st_ino
        self._server = await asyncio.start_unix_server(self._passing.serve(self._pass_on), sock=listening)
        if self._link.closed:
            await self.close()
            raise SandboxError("this program has let go of the sandbox; connect to it again")

    async def close(self) -> None:
        """Stop listening, break off what goes on, and remove the socket; may be called twice."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        with suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        await self._passing.break_off()
        await server.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            inner = await self._link.connection(timeout_s=_CONNECT_TIMEOUT_S)
            if inner is not None and await self._reaches(inner):
                await relay_both((reader, writer), inner)
        except (EOFError, OSError, SandboxError):
            pass  # whoever connected sees that it ends
        finally:
            self._used_at = time.monotonic()
            if inner is not None:
                await self._link.release(inner[1])

    async def _reaches(self, inner: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await send(inner[1], {"op": "forward", "port": self._port})
            return (await receive_object(inner[0])).get("connected") is True


class Relays:
    """The sockets of one container's ports, apart from the dev server's: each is there while it is used.

    Args:
        folder: Where they lie, with a path that is short enough.
        link: The way in.
        most: How many there may be at once.
        idle_s: After how long without a connection one is closed.
    """

    def __init__(self, folder: str, link: Link, *, most: int = _MOST, idle_s: float = _IDLE_S) -> None:
        self._folder = folder
        self._link = link
        self._most = most
        self._idle_s = idle_s
        self._open: dict[int, Relay] = {}
        self._opening = asyncio.Lock()
        self._sweeping = OneTask(self._sweep, name="relays")

    async def path(self, port: int) -> str:
        """Return a socket that leads to a port; it is there for a while, and for as long as somebody is connected.

        Raises:
            ServerFailed: PORT_UNAVAILABLE, as many others are in use as there may be.
            SandboxError: PROVIDER_ERROR, there can be no socket.
        """
        path = f"{self._folder}/{port:x}.{os.getpid():x}"
        async with self._opening:
            if port not in self._open:
                await self._close_idle(port)
                self._open[port] = Relay(path, self._link, port=port)
            try:
                await self._open[port].open()
            except OSError as error:
                del self._open[port]
                raise SandboxError(
                    f"port {port} of the sandbox cannot be opened at {path}: {error}; see that its folder is there, "
                    "and connect to the sandbox again"
                ) from error
            self._sweeping.begin()
        return path

    async def close(self) -> None:
        """Close them all; may be called twice."""
        await self._sweeping.end()
        async with self._opening:
            await self._close(tuple(self._open))

    async def _sweep(self) -> None:
        while self._open:
            await asyncio.sleep(self._idle_s / _LOOKS)
            async with self._opening:
                await self._close([port for port, relay in self._open.items() if relay.idle_s >= self._idle_s])

    async def _close_idle(self, port: int) -> None:
        if len(self._open) < self._most:
            return
        longest = max(self._open, key=lambda other: self._open[other].idle_s)
        if self._open[longest].idle_s == 0:
            raise ServerFailed(
                f"port {port} of the sandbox cannot be opened beside the {self._most} that somebody looks at just now "
                f"({', '.join(map(str, sorted(self._open)))}); close one of those pages, and try again",
                code="PORT_UNAVAILABLE",
                context={"port": port, "most": self._most},
                retryable=True,
            )
        await self._close([longest])

    async def _close(self, ports: Iterable[int]) -> None:
        for port in ports:
            await self._open.pop(port).close()
