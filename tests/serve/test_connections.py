"""Connections that wait for their client, at a server with a few places: none of them keeps others out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
import uvicorn
from ray.serve._private import http_util
from ray.serve.config import HTTPOptions
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from uvicorn.config import HTTP_PROTOCOLS
from websockets.asyncio.client import connect

from koda_ray.serve.connections import (
    HEAD_BYTES,
    MOST_CONNECTIONS,
    MOST_HEADERS,
    ApiConnection,
    BoundConnection,
    PreviewConnection,
    within_open_files,
)
from koda_ray.serve.inflow import CALLBACK
from koda_ray.serve.preview_server import PreviewServer

from .world import reached

PLACES = 8
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE_BYTES = 64 << 20
"""More than the kernel takes of what nobody reads."""


class Site:
    """What is served: something small, something large, what goes on until it is told to end, and a socket."""

    def __init__(self) -> None:
        self.following = self.received = 0
        self.end = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/", self.small, methods=["GET", "POST"]),
                Route("/large", self.large),
                Route("/upload", self.upload, methods=["POST"]),
                Route("/events", self.events),
                WebSocketRoute("/ws", self.socket),
            ]
        )

    async def small(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def large(self, request: Request) -> Response:
        async def parts() -> AsyncGenerator[bytes]:
            for _ in range(LARGE_BYTES >> 16):
                yield bytes(1 << 16)

        return StreamingResponse(parts())

    async def upload(self, request: Request) -> Response:
        async for part in request.stream():
            self.received += len(part)
        return PlainTextResponse("taken")

    async def events(self, request: Request) -> Response:
        async def parts() -> AsyncGenerator[bytes]:
            self.following += 1
            yield b"begun\n"
            await self.end.wait()
            yield b"over\n"

        return StreamingResponse(parts())

    async def socket(self, socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text.upper())


class Raw:
    """A connection on which anything may be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # what the server says to it can be read all the same
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self) -> bytes:
        """Read until the server ends the connection."""
        heard = b""
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(1 << 16):
                    heard += piece
        return heard


class Served:
    """The preview's server, and connections to it."""

    def __init__(self, server: PreviewServer, port: int, site: Site) -> None:
        self.site = site
        self.url = f"http://127.0.0.1:{port}"
        self._server = server
        self._port = port
        self._opened: list[Raw] = []

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    @property
    def http(self) -> list[BoundConnection]:
        return [each for each in self._server.server_state.connections if isinstance(each, BoundConnection)]

    async def open(self, count: int = 1, *, saying: bytes = b"") -> list[Raw]:
        """Connect, and wait until the server has heard of each."""
        made: list[Raw] = []
        for _ in range(count):
            heard = self._server.server_state.connections.copy()
            raw = Raw(*await asyncio.open_connection("127.0.0.1", self._port))
            await reached(lambda heard=heard: bool(self._server.server_state.connections - heard))
            await raw.send(saying)
            made.append(raw)
        self._opened += made
        return made

    async def is_answering(self) -> bool:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            return (await http.get(self.url)).status_code == 200

    def close(self) -> None:
        self.site.end.set()
        for raw in self._opened:
            raw.writer.transport.abort()


@asynccontextmanager
async def served() -> AsyncGenerator[Served]:
    site = Site()
    server = PreviewServer(site.app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server.show(listening))
        made = Served(server, listening.getsockname()[1], site)
        try:
            await reached(lambda: server.started)
            yield made
        finally:
            made.close()
            server.should_exit = True
            await task


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreviewConnection, "most_connections", PLACES)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "saying", [b"", b"GET / HT", HEAD, b"\r\n", HEAD + b"\r\n", POST, POST + b"123"],
    ids=["nothing", "word", "head", "line", "request", "post", "body"],
)  # fmt: skip
async def test_whoever_waits_keeps_nobody_out(saying: bytes) -> None:
    async with served() as server:
        idle = await server.open(5 * PLACES, saying=saying)
        assert server.connections <= PLACES
        assert await server.is_answering()
        await asyncio.gather(*(raw.answer() for raw in idle[: 4 * PLACES]))  # the oldest went
        assert not any(raw.reader.at_eof() for raw in idle[-PLACES + 2 :]), "the youngest are there"


@pytest.mark.usefixtures("few")
async def test_an_upload_that_comes_goes_after_those_that_do_not() -> None:
    async with served() as server:
        (upload,) = await server.open(saying=POST.replace(b"/", b"/upload", 1))
        for count in range(1, 11):
            await server.open(PLACES - 2)
            await upload.send(b"x")
            await reached(lambda count=count: server.site.received == count)
        assert b"taken" in await upload.reader.readuntil(b"taken")


@pytest.mark.full
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("more", [HEAD + b"\r\n", POST], ids=["another", "a body"])
async def test_whoever_reads_nothing_keeps_no_place_by_asking_for_more(more: bytes) -> None:
    async with served() as server:
        deaf = await server.open(PLACES - 1, saying=LARGE)
        await reached(lambda: all(each.flow.write_paused for each in server.http))
        for raw in deaf:
            await raw.send(more)
        await reached(lambda: all(each.flow.read_paused for each in server.http))
        await server.open(2 * PLACES)
        assert {len(await raw.answer()) < LARGE_BYTES for raw in deaf} == {True}


@pytest.mark.usefixtures("few")
async def test_whoever_reads_nothing_goes_before_whoever_is_answered() -> None:
    async with served() as server:
        (follower,) = await server.open(saying=b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reached(lambda: server.site.following == 1)
        async with connect(f"{server.url.replace('http', 'ws')}/ws") as talking:
            deaf = await server.open(3 * PLACES, saying=LARGE)
            assert server.connections <= PLACES + 1
            assert await server.is_answering()
            assert len(await deaf[0].answer()) < LARGE_BYTES
            await talking.send("still here")
            assert await talking.recv() == "STILL HERE"
        server.site.end.set()
        follower.writer.write_eof()
        assert b"over" in await follower.reader.readuntil(b"over")


@pytest.mark.usefixtures("few")
async def test_where_all_are_answered_a_newcomer_is_told_so() -> None:
    async with served() as server:
        followers = await server.open(PLACES, saying=b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reached(lambda: server.site.following == PLACES)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.get(server.url)).status_code == 503
        upgrade = (
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
        )
        (other,) = await server.open(saying=HEAD.replace(b"/", b"/ws", 1) + upgrade + b"\r\n")
        assert (await other.answer()).startswith(b"HTTP/1.1 503 ")
        server.site.end.set()
        await asyncio.gather(*(each.reader.readuntil(b"over\n\r\n0\r\n\r\n") for each in followers))
        assert await server.is_answering(), "who waits for nothing any more makes room"


@pytest.mark.parametrize("said", [b"", b"GET / HT", HEAD])
async def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(PreviewConnection, "head_s", 0.2)
    async with served() as server:
        (first,) = await server.open(saying=said)
        assert (await first.answer())[:13] == (b"HTTP/1.1 408 " if said else b"")
        (second,) = await server.open(saying=HEAD + b"\r\n" + (said or b"G"))
        heard = await second.answer()
        assert heard.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 408 " in heard, "nor a second one"


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (HEAD + b"X: ", b"a" * 4096),
        (b"GET /", b"a" * 4096),
        (HEAD, b"a:b\r\n" * 100),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"a:b\r\n" * 100),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ", b"a" * 4096),
        (b"", b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20),
    ],
    ids=["value", "address", "headers", "fields", "field", "requests"],
)
async def test_what_has_no_end_is_not_kept(begun: bytes, more: bytes) -> None:
    async with served() as server:
        (raw,) = await server.open(saying=begun)
        ended = asyncio.create_task(raw.answer())
        sent = 0
        while not ended.done() and sent < LARGE_BYTES:
            await raw.send(more)
            sent += len(more)
            await asyncio.sleep(0)
        assert sent < LARGE_BYTES, "all of it was taken"
        heard = await ended
        assert heard == b"" or b"HTTP/1.1 431 " in heard
        assert await server.is_answering()


async def test_large_bodies_and_usual_heads_pass() -> None:
    async with served() as server, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        headers = {f"x-{number}": "v" * 200 for number in range(MOST_HEADERS - 20)}
        assert sum(len(name) + len(value) for name, value in headers.items()) < HEAD_BYTES

        async def parts() -> AsyncGenerator[bytes]:
            for _ in range(40):
                yield bytes(HEAD_BYTES)

        for content in (bytes(1 << 20), parts()):
            answer = await http.post(server.url, content=content, headers=headers)
            assert answer.text == str(len(content) if isinstance(content, bytes) else 40 * HEAD_BYTES)
        assert server.connections == 1, "one connection for both"


def test_a_process_that_may_open_few_files_has_fewer_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def most(soft: int) -> int:
        def limit(_: int) -> tuple[int, int]:
            return soft, soft

        monkeypatch.setattr(resource, "getrlimit", limit)
        return within_open_files(MOST_CONNECTIONS)

    assert [most(soft) for soft in (1024, 1 << 20, resource.RLIM_INFINITY)] == [512, MOST_CONNECTIONS, MOST_CONNECTIONS]


async def test_serves_proxies_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS["auto"])
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "level", logging.WARNING)  # Serve sets it, for all
    before = uvicorn.Config(Starlette())
    before.load()
    assert not issubclass(before.http_protocol_class, BoundConnection)
    serves = cast("Any", http_util)
    monkeypatch.setattr(serves, CALLBACK[0], CALLBACK[1])
    options = serves.configure_http_options_with_defaults(HTTPOptions(host="127.0.0.1", port=0))
    options = serves.configure_http_middlewares(options)
    task, server = await serves.start_asgi_http_server(Site().app, options, event_loop=asyncio.get_running_loop())
    try:
        await reached(lambda: server.started)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        many = {f"x-{number}": "v" for number in range(MOST_HEADERS + 1)}
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.get(url)).status_code == 200
            assert {type(each) for each in server.server_state.connections} == {ApiConnection}
            assert (await http.get(url, headers=many)).status_code == 431
    finally:
        server.should_exit = True
        await task
