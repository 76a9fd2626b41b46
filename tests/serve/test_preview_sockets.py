"""What a WebSocket carries through the preview's proxy: whole messages up to a size, either way."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed

from koda_ray.client import KodaClient
from koda_ray.sandbox.preview import MAX_FRAME_BYTES
from koda_ray.serve.preview import create_preview_app

from .test_sessions import PROMPT
from .world import World, serving


async def answer(server: ServerConnection) -> None:
    """Be a dev server: give back what comes, or as many bytes as a word says, or end with a code of one's own."""
    async for message in server:
        if message == "end":
            await server.close(4321, "of its own")
        else:
            await server.send(b"x" * int(message) if isinstance(message, str) else message)


async def ended_by(socket: ClientConnection, message: str | bytes) -> tuple[int, str]:
    """Send what the socket does not outlive; return the code and the reason of its end."""
    with pytest.raises(ConnectionClosed) as closed:
        await socket.send(message)
        await socket.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


async def test_a_message_that_is_too_large_ends_a_socket_and_says_so(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    koda.directory.socket_path = str(tmp_path / "dev.sock")
    token, _ = koda.deps.signer.sign(session_id=(await client.create(PROMPT)).session_id, user_id="local")
    app = create_preview_app(koda.directory, koda.deps.signer, api_port=1)
    async with unix_serve(answer, koda.directory.socket_path, max_size=None), serving(app) as url:
        address = f"{url.replace('http', 'ws')}/p/{token}/"
        async with connect(address, max_size=None, compression=None) as socket:
            await socket.send(b"y" * MAX_FRAME_BYTES)
            assert await socket.recv() == b"y" * MAX_FRAME_BYTES
            assert await ended_by(socket, str(MAX_FRAME_BYTES + 1)) == (1009, "a message has at most 16,777,216 bytes")
        async with connect(address, max_size=None, compression=None) as socket:
            code, reason = await ended_by(socket, b"y" * (MAX_FRAME_BYTES + 1))
            assert code == 1009 and "16777216" in reason
        async with connect(address) as socket:  # small as it comes, and unpacked to more
            assert (await ended_by(socket, b"y" * (MAX_FRAME_BYTES + 1)))[0] == 1009
        async with connect(address) as socket:
            assert await ended_by(socket, "end") == (1000, "")
