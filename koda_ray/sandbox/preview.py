"""The dev server of a sandbox, and how it is reached from outside.

On this machine that is one Unix socket and nothing else. The server listens on the loopback of its own network
namespace. A forwarder inside (``guest/forward.mjs``) accepts on a socket that was bound outside and handed in as an
open descriptor, and pipes bytes to the server: HTTP, WebSocket, whatever it speaks. The socket's directory is never
shown to the inside, so hostile code cannot put a link to another of this machine's sockets in its place and have the
proxy in front of it talk to that.

A sandbox elsewhere has an address with headers that open it. ``http_client``, ``open_socket`` and ``answers_at`` go
wherever an endpoint says.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.errors import SandboxError, ServerFailed
from koda_ray.sandbox.base import PreviewEndpoint

if TYPE_CHECKING:
    import httpx
    from websockets.asyncio.client import ClientConnection
    from websockets.typing import Subprotocol

__all__ = [
    "BAD_GATEWAY",
    "DEV_PORT",
    "LOCATION",
    "MAX_FRAME_BYTES",
    "PREVIEW",
    "answers",
    "answers_at",
    "dev_server",
    "forwarded",
    "http_client",
    "is_listened",
    "late",
    "listen",
    "open_socket",
    "server_ended",
    "short_folder",
    "socket_path",
]

PREVIEW = "preview"
"""The name of the background process that is the dev server."""

DEV_PORT = 5173

LOCATION = "koda.location"
"""Where an answer of `http_client` says, as an extension, where it leads."""

BAD_GATEWAY = 502
"""What a sandbox's gateway answers when nobody listens behind it; no dev server of ours says so itself."""

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Largest message of a preview's WebSocket, in bytes, either way; what is larger ends it with 1009."""

_BACKLOG = 128
_MESSAGES_HELD = 1
_MAX_SOCKET_PATH_BYTES = 100  # sun_path holds 108; tools that show or wrap it want a few
_PROBE_TIMEOUT_S = 5.0
_PROBE = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
_VITE = "node_modules/vite/bin/vite.js"
_TAKEN = re.compile(r"Port ([0-9]{1,5}) is already in use|EADDRINUSE[^\n]*:([0-9]{1,5})")


def dev_server(port: int = DEV_PORT, *, host: str = "127.0.0.1") -> tuple[str, ...]:
    """The command that starts the template's dev server, on loopback where nothing else is asked for."""
    return ("node", _VITE, "--host", host, "--port", str(port), "--strictPort", "--clearScreen", "false")


def forwarded(argv: Sequence[str], *, fd: int, port: int, script: str) -> tuple[str, ...]:
    """The command that runs a server and passes a listening descriptor's connections on to it."""
    return ("node", script, str(fd), str(port), *argv)


def socket_path(directory: Path) -> str:
    """Choose where a sandbox's socket lies: in its directory, or in a short one of its own, which is made.

    Raises:
        SandboxError: PROVIDER_ERROR, the short one is somebody else's.
    """
    path = directory / "preview.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
        return str(path)
    folder = short_folder(directory)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SandboxError(f"{folder} is not this user's folder; remove it, or set SANDBOX_PATH to a shorter path")
    folder.chmod(0o700)
    return str(folder / "preview.sock")


def short_folder(directory: Path) -> Path:
    """Where the socket lies of a sandbox whose own path is too long to hold one.

    It follows from the path alone, so whoever clears the sandbox away finds it, however far its making had come.
    """
    return Path("/tmp") / f"koda-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:24]}"


def server_ended(exit_code: int | None, lines: str) -> ServerFailed:
    """Make the error of a dev server that ended before it answered: SERVER_FAILED, or PORT_UNAVAILABLE.

    Args:
        exit_code: How it ended; None where nobody knows.
        lines: What it said last.
    """
    taken = _TAKEN.search(lines)
    if taken is not None:
        port = taken[1] or taken[2]
        return ServerFailed(
            f"port {port} of the sandbox is taken by another of its processes, so the dev server did not start; list "
            "the processes and stop the one that listens there, or have it listen on another port",
            code="PORT_UNAVAILABLE",
            context={"port": int(port)},
        )
    return ServerFailed(
        f"the dev server ended with code {exit_code}; mend what its last lines say and start it again: {lines}"
    )


def late(timeout_s: float, lines: str) -> ServerFailed:
    """Make the error of a dev server that did not answer in time."""
    return ServerFailed(
        f"the dev server did not answer within {timeout_s:g} s; look at vite.config.ts and what it imports, or allow "
        f"more time; its last lines: {lines}",
        context={"timeout_s": timeout_s},
    )


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


def is_listened(path: str) -> bool:
    """Whether somebody listens on a Unix socket, however busy."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            caller.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


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


async def answers_at(endpoint: PreviewEndpoint) -> bool:
    """Whether a server answers HTTP at an endpoint now; a gateway that says that nobody is behind it does not count."""
    import httpx

    if endpoint.url is None:
        return await answers(endpoint.socket_path)
    try:
        async with (
            http_client(endpoint, timeout=httpx.Timeout(_PROBE_TIMEOUT_S)) as client,
            client.stream("GET", "/", headers={"accept": "text/html"}) as answer,
        ):
            return answer.status_code != BAD_GATEWAY
    except httpx.TransportError:
        return False


def http_client(endpoint: PreviewEndpoint, *, timeout: httpx.Timeout) -> httpx.AsyncClient:
    """Make a client whose relative addresses are the dev server's; the caller's to close.

    What a page says of where to go is not looked at: it may be anything, and httpx makes a request of it even where it
    follows none. An answer has it as the extension ``koda.location``, in bytes.
    """
    import httpx

    hooks = {"response": [_unfollowed]}
    if endpoint.url is not None:
        return httpx.AsyncClient(base_url=endpoint.url, headers=endpoint.headers, timeout=timeout, event_hooks=hooks)
    transport = httpx.AsyncHTTPTransport(uds=endpoint.socket_path)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=timeout, event_hooks=hooks)


async def _unfollowed(answer: httpx.Response) -> None:
    told = next((value for name, value in answer.headers.raw if name.lower() == b"location"), None)
    if told is not None:
        del answer.headers["location"]
        answer.extensions[LOCATION] = told


async def open_socket(
    endpoint: PreviewEndpoint, target: str, *, protocols: Sequence[Subprotocol] | None
) -> ClientConnection:
    """Open a WebSocket to the dev server.

    Args:
        endpoint: Where it answers.
        target: Path and query, escaped.
        protocols: What is offered; None for nothing.

    Returns:
        The socket. It holds one message of at most `MAX_FRAME_BYTES` until it is read, and ends with 1009 at a larger.

    Raises:
        OSError: Nobody answers.
        InvalidHandshake: The server takes no socket there.
    """
    from websockets.asyncio.client import connect, unix_connect

    if endpoint.url is None:
        return await unix_connect(
            endpoint.socket_path,
            f"ws://localhost{target}",
            subprotocols=protocols,
            max_size=MAX_FRAME_BYTES,
            max_queue=_MESSAGES_HELD,
        )
    scheme, _, rest = endpoint.url.partition("://")
    address = f"{'wss' if scheme == 'https' else 'ws'}://{rest}{target}"
    return await connect(
        address,
        additional_headers=endpoint.headers,
        subprotocols=protocols,
        max_size=MAX_FRAME_BYTES,
        max_queue=_MESSAGES_HELD,
    )
