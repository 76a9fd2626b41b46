"""An owner's end of its socket: listens, lets only the first process in, and hands out its connections.

Each owner has a socket of its own, so several can use one container at once. A socket gets the name by which it is
dialled once somebody listens on it; one that refuses is a dead owner's, and whoever comes next removes it. Those of
their proxies lie beside them, and are treated alike.

The folder of the sockets is seen from inside as ``/run/koda``, read-only, so nothing in there can put anything else in
their place. Everything inside may dial, though: who does not begin with the container's secret is turned away, and no
more than a few may hesitate at a time.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from collections import deque
from contextlib import suppress
from pathlib import Path

from koda_ray.sandbox.frames import HELLO_BYTES
from koda_ray.sandbox.preview import is_listened, listen

__all__ = ["INSIDE_FOLDER", "Connection", "Link"]

INSIDE_FOLDER = "/run/koda"
"""Where the folder of the sockets is seen from inside."""

_HELLO_TIMEOUT_S = 5.0
_MAX_STRANGERS = 16
_MAX_WAITING = 16

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """Connections to one container's first process.

    Args:
        folder: The sockets' folder on this machine.
        secret: What the first process says first.
    """

    def __init__(self, folder: Path, *, secret: str) -> None:
        self._folder = folder
        self._path = folder / f"a-{secrets.token_hex(3)}.sock"
        self._secret = secret.encode()
        self._server: asyncio.Server | None = None
        self._waiting: deque[Connection] = deque()
        self._arrived = asyncio.Event()
        self._greeting: set[asyncio.StreamWriter] = set()
        self._used: set[asyncio.StreamWriter] = set()

    @property
    def closed(self) -> bool:
        """Whether nobody is listened to."""
        return self._server is None

    async def open(self) -> None:
        """Listen, beside any other owner."""
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._greet, sock=self._listen())

    async def connection(self, *, timeout_s: float) -> Connection | None:
        """Take a connection on which the first process waits for one request; None when none came in time.

        The caller gives it back with ``release``.
        """
        if self._server is None:
            return None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    while self._waiting:
                        reader, writer = self._waiting.popleft()
                        if reader.at_eof() or writer.is_closing():
                            writer.close()
                            continue
                        self._used.add(writer)
                        return reader, writer
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return None

    async def release(self, writer: asyncio.StreamWriter) -> None:
        """Close a connection that was taken."""
        self._used.discard(writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def close(self) -> None:
        """Stop listening and close every connection; may be called twice."""
        server, self._server = self._server, None
        if server is None:
            return
        with suppress(OSError):
            self._path.unlink()
        server.close()
        writers = [writer for _, writer in self._waiting] + list(self._greeting) + list(self._used)
        self._waiting.clear()
        for writer in writers:
            writer.close()
        for writer in writers:
            with suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()

    # inside

    def _listen(self) -> socket.socket:
        for name in os.listdir(self._folder):
            if name.endswith(".sock") and not is_listened(str(self._folder / name)):  # an owner's, or its proxy's
                with suppress(FileNotFoundError):
                    os.unlink(self._folder / name)
        unnamed = self._path.with_suffix(".new")
        listening = listen(str(unnamed))
        try:
            os.chmod(unnamed, 0o666)  # the first process is another user; the folder around it is closed to others
            unnamed.rename(self._path)
        except OSError:
            listening.close()
            raise
        return listening

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._greeting) >= _MAX_STRANGERS or len(self._waiting) >= _MAX_WAITING:
            writer.close()
            return
        self._greeting.add(writer)
        try:
            async with asyncio.timeout(_HELLO_TIMEOUT_S):
                said = await reader.readexactly(HELLO_BYTES)
        except (EOFError, OSError, TimeoutError):
            said = b""
        finally:
            self._greeting.discard(writer)
        if self._server is None or not hmac.compare_digest(said, self._secret):
            writer.close()
            return
        self._waiting.append((reader, writer))
        self._arrived.set()
