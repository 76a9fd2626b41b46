"""What a WebSocket carries through the preview's proxy: whole messages up to a size, and inwards what is granted."""

from __future__ import annotations

import json
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
    token, _ = koda.deps.signer.sign(session_id=(await client.create(PROMPT)).session_id, user_id="local", edit=True)
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


SENT: list[str | bytes] = [
    '{"type": "ping"}',
    '{"type": "custom", "event": "vite:invalidate", "data": {"path": "/a.tsx", "message": "why", "more": [1]}}',
]
KEPT: list[str | bytes] = [
    '{"type": "custom", "event": "theatre:save", "data": {"path": "/a.tsx"}}',
    '{"type": "custom", "event": "vite:invalidate"}',
    '{"type": "custom", "event": "vite:invalidate", "data": {"path": 1}}',
    '{"type": "custom", "event": ["vite:invalidate"], "data": {"path": "/a.tsx"}}',
    '[{"type": "ping"}]', "ping", "[" * 50_000, '"' + "x" * 70_000 + '"', b'{"type": "ping"}', b"\xff", "",
]  # fmt: skip


async def test_a_page_that_is_only_looked_at_sends_nothing_but_what_vite_needs(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    heard: list[str | bytes] = []

    async def listen(server: ServerConnection) -> None:
        async for message in server:
            heard.append(message)
            await server.send("heard")

    koda.directory.hold = {"analyze"}
    koda.directory.socket_path = str(tmp_path / "dev.sock")
    app = create_preview_app(koda.directory, koda.deps.signer, api_port=1)
    session_id = (await client.create(PROMPT)).session_id
    async with unix_serve(listen, koda.directory.socket_path, max_size=None), serving(app) as url:
        for edit in (False, True):
            heard.clear()
            token, _ = koda.deps.signer.sign(session_id=session_id, user_id="local", edit=edit)
            async with connect(f"{url.replace('http', 'ws')}/p/{token}/") as socket:
                for message in [*KEPT, *SENT]:
                    await socket.send(message)
                for _ in range(2 + edit * len(KEPT)):
                    assert await socket.recv() == "heard"
            if edit:
                assert heard == [*KEPT, *SENT]
            else:
                ping, invalid = (json.loads(message) for message in heard)
                assert ping == {"type": "ping"}
                assert invalid["event"] == "vite:invalidate"
                assert invalid["data"] == {"path": "/a.tsx", "message": "why"}
