"""The dev server of a sandbox, reached from outside through one Unix socket and nothing else.

The server listens on the loopback of its own network namespace. A forwarder inside (``guest/forward.mjs``) accepts on
a socket that was bound outside and handed in as an open descriptor, and pipes bytes to the server: HTTP, WebSocket,
whatever it speaks. The socket's directory is never shown to the inside, so hostile code cannot put a link to another
of this machine's sockets in its place and have the proxy in front of it talk to that.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["DEV_PORT", "PREVIEW", "answers", "dev_server", "forwarded", "listen", "socket_path"]

PREVIEW = "preview"
"""The name of the background process that is the dev server."""

DEV_PORT = 5173
_BACKLOG = 128
_MAX_SOCKET_PATH_BYTES = 100  # sun_path holds 108; tools that show or wrap it want a few
_PROBE_TIMEOUT_S = 5.0
_PROBE = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
_VITE = "node_modules/vite/bin/vite.js"


def dev_server(port: int = DEV_PORT) -> tuple[str, ...]:
    """The command that starts the template's dev server on loopback."""
    return ("node", _VITE, "--host", "127.0.0.1", "--port", str(port), "--strictPort", "--clearScreen", "false")


def forwarded(argv: Sequence[str], *, fd: int, port: int, script: str) -> tuple[str, ...]:
    """The command that runs a server and passes a listening descriptor's connections on to it."""
    return ("node", script, str(fd), str(port), *argv)


def socket_path(directory: Path) -> str:
    """Choose where a sandbox's socket lies: in its directory, or in a short one of its own."""
    path = directory / "preview.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
        return str(path)
    return str(Path(tempfile.mkdtemp(prefix="koda-", dir="/tmp")) / "preview.sock")


def listen(path: str) -> socket.socket:
    """Bind and listen, in place of a socket that nobody answers on any more; only this user can connect."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        os.chmod(path, 0o600)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


async def answers(path: str) -> bool:
    """Whether a server answers HTTP on a Unix socket now."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(_PROBE)
            await writer.drain()
            return (await reader.read(5)).startswith(b"HTTP")
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
