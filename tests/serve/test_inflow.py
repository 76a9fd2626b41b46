"""Bodies behind Serve's own queues: what is not asked for stays with its sender, however late the answer is.

The queues, and who fills and empties them, are Ray's own; between them the same bytes go from hand to hand that go
through Ray's processes otherwise.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from ray.serve._private.http_util import ASGIReceiveProxy, MessageQueue
from ray.serve._private.proxy import HTTPProxy
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect

from koda_ray.cancellation import end_all
from koda_ray.config import REPO_ROOT
from koda_ray.serve.inflow import CALLBACK, HELD_BYTES, ReceivedInTurn, TakenAsAsked, in_proxies
from koda_ray.serve.limits import refuse_body

from .world import reached, serving

MB = 1 << 20
PIECE_BYTES = 320 * 1024
"""What a server gives at once: 64 KB, after which it stops reading, and what it reads at a time."""
MOST_BYTES = HELD_BYTES + 2 * PIECE_BYTES
"""What waits in a proxy, and what a replica fetches at once."""
ENOUGH = 64 * MB
"""More than the kernel takes of what nobody reads."""


class Serve:
    """A proxy and a replica as Serve has them, without what is between them; counts what is in their queues."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.proxied = self.fetched = self.most_proxied = self.most_fetched = self.fetches = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Starlette()(scope, receive, send)
            return
        queue, named = MessageQueue(), cast("Any", SimpleNamespace(internal_request_id="id", request_id="id"))
        proxy = cast("HTTPProxy", SimpleNamespace(asgi_receive_queues={"id": queue}))

        async def fetch(request: Any) -> bytes:
            self.fetches += 1
            messages = await HTTPProxy.receive_asgi_messages(proxy, request)
            size = sum(map(size_of, messages))
            self.proxied -= size
            self.fetched += size
            self.most_fetched = max(self.most_fetched, self.fetched)
            return pickle.dumps(messages)

        async def received() -> Message:
            message = await receive()
            self.proxied += size_of(message)
            self.most_proxied = max(self.most_proxied, self.proxied)
            return message

        in_replica = ASGIReceiveProxy(scope, named, fetch)
        receiving = asyncio.create_task(HTTPProxy.proxy_asgi_receive(proxy, received, queue))
        fetching = asyncio.create_task(in_replica.fetch_until_disconnect())
        try:
            await self._app(scope, in_replica, send)
        finally:
            await end_all((receiving, fetching))


def size_of(message: Message) -> int:
    return len(message.get("body") or message.get("bytes") or message.get("text") or b"")


class Late:
    """An application that answers once it is told to, and reads nothing before."""

    def __init__(self) -> None:
        self.asked = 0
        self.answering = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        await self.answering.wait()
        await refuse_body(PlainTextResponse("who are you?", 401), receive, send, discard_bytes=0)


class Sender:
    """A client that sends a body in chunks, for as long as somebody takes it."""

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port
        self.sent = 0

    async def send(self, size: int) -> str:
        """Send so much at most; return the first line of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        answer = asyncio.create_task(reader.readline())
        try:
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            while self.sent < size and not answer.done():
                writer.write(b"10000\r\n%s\r\n" % bytes(1 << 16))
                drained = asyncio.ensure_future(writer.drain())
                await asyncio.wait({drained, answer}, return_when=asyncio.FIRST_COMPLETED)
                await end_all((drained,))
                self.sent += 1 << 16
            return (await asyncio.wait_for(answer, 60)).decode()
        finally:
            writer.close()


async def at_rest(senders: list[Sender]) -> None:
    """Wait until none of them can send more."""
    before = -1
    while (now := sum(each.sent for each in senders)) != before:
        before = now
        await asyncio.sleep(0.5)


async def test_what_nobody_asks_for_stays_with_its_sender() -> None:
    late = Late()
    serve = Serve(TakenAsAsked(late))
    async with serving(ReceivedInTurn(serve)) as url:
        senders = [Sender(url) for _ in range(8)]
        answers = [asyncio.create_task(each.send(ENOUGH)) for each in senders]
        await reached(lambda: late.asked == len(senders))
        await at_rest(senders)
        assert not any(answer.done() for answer in answers)
        assert all(each.sent < ENOUGH for each in senders), "nobody can send what is not taken"
        assert (serve.fetches, serve.most_fetched) == (0, 0), "nothing reached the replica"
        assert serve.most_proxied <= len(senders) * MOST_BYTES
        late.answering.set()
        assert {line.split()[1] for line in await asyncio.gather(*answers)} == {"401"}, "each is told why"


@pytest.mark.parametrize("end", ["proxy", "replica"])
async def test_without_that_serve_takes_all_there_is(end: str) -> None:
    """Where this fails, Serve holds senders back by itself, and what does it here may go."""
    late = Late()
    serve = Serve(late if end == "replica" else TakenAsAsked(late))
    async with serving(ReceivedInTurn(serve) if end == "replica" else serve) as url:
        sender = Sender(url)
        answer = asyncio.create_task(sender.send(ENOUGH))
        await reached(lambda: sender.sent >= ENOUGH)
        await reached(lambda: (serve.fetched if end == "replica" else serve.proxied) > ENOUGH - MOST_BYTES)
        late.answering.set()
        assert "401" in await answer


async def test_a_body_that_is_taken_comes_whole_and_never_far_ahead() -> None:
    body = os.urandom(24 * MB)

    async def digest(scope: Scope, receive: Receive, send: Send) -> None:
        found = hashlib.sha256()
        async for part in Request(scope, receive).stream():
            serve.fetched -= len(part)
            found.update(part)
        await PlainTextResponse(found.hexdigest())(scope, receive, send)

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), MB):
            yield body[start : start + MB]

    serve = Serve(TakenAsAsked(digest))
    async with serving(ReceivedInTurn(serve)) as url, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answers = [await http.post(url, content=content) for content in (body, parts(), b"", b"x")]
    wanted = [hashlib.sha256(content).hexdigest() for content in (body, body, b"", b"x")]
    assert [answer.text for answer in answers] == wanted
    assert serve.most_proxied <= MOST_BYTES
    assert serve.most_fetched <= 2 * MOST_BYTES, "one batch that is worked on, and the next"


async def test_whoever_hangs_up_is_noticed_and_frames_come_in_turn() -> None:
    gone = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            socket = WebSocket(scope, receive, send)
            await socket.accept()
            async for text in socket.iter_text():
                await socket.send_text(text.upper())
        else:
            while (await receive())["type"] != "http.disconnect":
                pass
        gone.set()

    async with serving(ReceivedInTurn(Serve(TakenAsAsked(app)))) as url, AsyncExitStack() as left:
        async with connect(url.replace("http", "ws")) as socket:
            for text in ("a", "b" * 100_000, "c"):
                await socket.send(text)
                assert await socket.recv() == text.upper()
        await asyncio.wait_for(gone.wait(), 60)
        gone.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        left.callback(writer.close)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)
        assert not gone.is_set()
        writer.close()
        await asyncio.wait_for(gone.wait(), 60)


async def test_a_body_that_comes_byte_by_byte_is_no_more() -> None:
    queued = list[Message]()

    async def one_byte() -> Message:
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def hoard(scope: Scope, receive: Receive, send: Send) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                while True:
                    queued.append(await receive())

    await ReceivedInTurn(hoard)({"type": "http"}, one_byte, cast("Send", None))
    assert len(queued) <= HELD_BYTES // 1024 + 1
    assert type(pickle.loads(pickle.dumps(queued[0]))) is dict, "who gets it need not know us"


def test_serves_proxies_know_it_by_its_name() -> None:
    variable, name = CALLBACK
    assert name == f"{in_proxies.__module__}.{in_proxies.__name__}"
    assert f"{variable}={name}" in (REPO_ROOT / "cluster" / "Dockerfile").read_text()
