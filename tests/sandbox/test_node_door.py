"""A sandbox's socket from another node: who has the key comes in, and nobody else; bytes go both ways unchanged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed

from koda_ray.actors import passages as module
from koda_ray.actors.passages import Passages
from koda_ray.errors import Missing, ServerFailed
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.node_door import DoorAddress, NodeDoor, door_key, enter
from koda_ray.sandbox.preview import http_client, open_socket
from tests.serve.world import serving_on

KEY = door_key(b"a signing key of thirty-two bytes")


async def _echo(request: Request) -> Response:
    return Response(await request.body(), headers={"x-headers": ",".join(sorted(request.headers))})


async def _talk(websocket: WebSocket) -> None:
    await websocket.accept()
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        await websocket.send_text(str(message["text"])[::-1])


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[PreviewEndpoint]:
    app = Starlette(routes=[Route("/echo", _echo, methods=["POST"]), WebSocketRoute("/talk", _talk)])
    async with serving_on(app, tmp_path / "s.sock"):
        yield PreviewEndpoint(socket_path=str(tmp_path / "s.sock"), base="/base/")


@pytest.fixture
async def door() -> AsyncIterator[NodeDoor]:
    made = NodeDoor("127.0.0.1", KEY)
    yield made
    await made.close()


@pytest.fixture
async def passages() -> AsyncIterator[Passages]:
    made = Passages(KEY)
    yield made
    await made.close()


async def shown(door: NodeDoor, endpoint: PreviewEndpoint) -> DoorAddress:
    address = await door.to(endpoint)
    assert isinstance(address, DoorAddress)
    return address


async def test_http_and_sockets_go_through_as_they_are(
    door: NodeDoor, passages: Passages, behind: PreviewEndpoint
) -> None:
    address = await shown(door, behind)
    assert await shown(door, behind) == address
    here = await passages.to(address)
    assert here.base == "/base/" and here == await passages.to(address)
    body = bytes(range(256)) * 8192
    async with http_client(here, timeout=httpx.Timeout(30)) as client:
        for _ in range(2):
            answer = await client.post("/echo", content=body)
            assert answer.content == body and "koda" not in answer.headers["x-headers"], "no secret goes inside"
    socket = await open_socket(here, "/talk", protocols=None)
    await socket.send("abc")
    assert await socket.recv() == "cba"
    await socket.close()
    assert Path(here.socket_path).parent.stat().st_mode & 0o077 == 0, "this user's alone"


async def test_without_the_key_nobody_is_let_in_and_nothing_is_told(
    door: NodeDoor, behind: PreviewEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = await shown(door, behind)
    wrong = door_key(b"another signing key of many bytes")
    for given, key in ((address, wrong), (replace(address, name="0" * 32), KEY)):
        with pytest.raises(ServerFailed, match="all nodes one KODA_SIGNING_KEY"):
            await enter(given, key)
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"a b c\n", b"x" * 100_000):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        greeting = await reader.readline()
        assert greeting.startswith(b"koda-door-1 ") and address.name.encode() not in greeting
        with suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
            assert await reader.read() == b""
        writer.close()
    assert address.name not in caplog.text and KEY.hex() not in caplog.text


async def test_what_was_said_once_opens_nothing_again(door: NodeDoor, behind: PreviewEndpoint) -> None:
    address, said = await shown(door, behind), list[bytes]()

    async def listening(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Stands between the two and passes on, remembering what opened the door."""
        far_reader, far_writer = await asyncio.open_connection(address.host, address.port)
        writer.write(await far_reader.readline())
        said.append(await reader.readline())
        far_writer.write(said[-1])
        writer.write(await far_reader.readline())
        far_writer.close()
        writer.close()

    async with await asyncio.start_server(listening, "127.0.0.1", 0) as between:
        port = between.sockets[0].getsockname()[1]
        _, writer = await enter(replace(address, port=port), KEY)
        writer.close()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    await reader.readline()
    writer.write(said[0])
    assert await reader.read() == b""
    writer.close()


async def test_another_server_at_the_doors_place_is_not_taken_for_it() -> None:
    async def pretending(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"koda-door-1 0123\n")
        await reader.readline()
        writer.write(b"0" * 64 + b"\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(pretending, "127.0.0.1", 0) as false:
        address = DoorAddress(host="127.0.0.1", port=false.sockets[0].getsockname()[1], name="a" * 32, base="/")
        with pytest.raises(ServerFailed):
            await enter(address, KEY)


async def test_a_closed_door_breaks_off_and_its_passage_ends(passages: Passages, behind: PreviewEndpoint) -> None:
    door = NodeDoor("127.0.0.1", KEY)
    address = await shown(door, behind)
    here = await passages.to(address)
    socket = await open_socket(here, "/talk", protocols=None)
    await door.close()
    await door.close()
    with pytest.raises(ConnectionClosed):
        await socket.recv()
    async with http_client(here, timeout=httpx.Timeout(30)) as client:
        with pytest.raises(httpx.TransportError):
            await client.post("/echo", content=b"")


async def test_only_so_many_passages_stay_and_none_is_left(
    door: NodeDoor, behind: PreviewEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    address, passages = await shown(door, behind), Passages(KEY)
    made = [await passages.to(replace(address, name=f"{number:032}")) for number in range(3)]
    async with http_client(made[0], timeout=httpx.Timeout(30)) as client:
        with pytest.raises(httpx.ConnectError):
            await client.post("/echo")
    folder = Path(made[0].socket_path).parent
    await passages.close()
    await passages.close()
    assert not folder.exists()


async def test_what_is_in_a_cloud_is_reached_from_everywhere(door: NodeDoor) -> None:
    endpoint = PreviewEndpoint(url="https://5173-abc.e2b.app")
    assert await door.to(endpoint) is endpoint


@pytest.mark.parametrize("key", [None, b""])
def test_a_node_without_the_key_says_what_to_set(key: bytes | None) -> None:
    with pytest.raises(Missing, match="KODA_SIGNING_KEY"):
        door_key(key)
