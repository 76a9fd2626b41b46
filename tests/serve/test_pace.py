"""Whoever sends or reads too slowly to be waited for: how long, and what is let go of then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from koda_ray.serve.api import create_app
from koda_ray.serve.pace import LeastPace, TooSlow
from koda_ray.serve.stalls import BodyDeadline
from koda_ray.serve.unpacking import Unpacking
from koda_ray.serve.unread import ReadingDeadline

from .test_gate import KEY, announced, answer_of
from .world import reached, serving, world

MB = 1 << 20


async def test_time_is_given_back_for_what_comes_and_never_more_than_there_was() -> None:
    pace = LeastPace(0.05, least_bytes_per_s=1000)
    for _ in range(20):
        await pace.wait(asyncio.sleep(0.01))
        pace.came(1000)  # a second's worth
    with pytest.raises(TooSlow):
        await pace.wait(asyncio.sleep(60))
    pace.came(10)
    assert not pace.is_over
    with pytest.raises(TooSlow):
        await pace.wait(asyncio.sleep(60))
    assert pace.is_over


async def drip(url: str, every_s: float) -> tuple[int, int]:
    """Send a body of 100 bytes one by one; return the answer's status and how many were sent until it came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    answer = asyncio.create_task(reader.readline())
    sent = 0
    try:
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        while not answer.done() and sent < 100:
            writer.write(b"x")
            sent += 1
            await asyncio.wait({answer}, timeout=every_s)
        async with asyncio.timeout(60):
            return int((await answer).split()[1]), sent
    finally:
        answer.cancel()
        writer.close()


async def test_one_byte_before_each_deadline_keeps_no_place() -> None:
    async def take(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    app = Starlette(routes=[Route("/", take, methods=["POST"])])
    async with (
        serving(BodyDeadline(app, stalled_s=0.2)) as strict,
        serving(BodyDeadline(app, stalled_s=0.2, least_bytes_per_s=1)) as lenient,
    ):
        status, sent = await drip(strict, 0.1)
        assert status == 408 and sent < 100
        assert (await drip(lenient, 0.001)) == (200, 100)


async def test_bodies_that_come_slowly_are_counted_among_their_user_s_streams(tmp_path: Path) -> None:
    keys = f"ada={KEY},bob={'b' * 32}"
    async with (
        world(tmp_path, serve=False, KODA_API_KEYS=keys, KODA_USER_STREAMS=2) as koda,
        serving(create_app(koda.deps, quick_s=0.05)) as url,
        AsyncExitStack() as opened,
    ):
        slow = [
            await opened.enter_async_context(announced(url, "POST /v1/sessions", key=KEY, sent=b"{")) for _ in range(4)
        ]
        answers = [asyncio.create_task(answer_of(reader)) for reader in slow]
        async with asyncio.timeout(60):
            while sum(answer.done() for answer in answers) < 2:
                await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
        for status, head, problem in (answer.result() for answer in answers if answer.done()):
            assert (status, problem["code"], problem["retryable"]) == (429, "LIMIT_REACHED", True)
            assert "retry-after: 10" in head and "KODA_USER_STREAMS" in str(problem["detail"])
        for answer in answers:
            answer.cancel()
    # somebody else's, and what comes at once, is as before: see test_gate


class Held:
    """An application that answers with megabytes, for which it holds room until they are read."""

    def __init__(self) -> None:
        self.limit = Unpacking(64 * MB)
        self.read_on = 0

    async def whole(self, _: Request) -> Response:
        return Response(bytes(16 * MB))

    async def streamed(self, _: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(16):
                self.read_on += 1
                yield bytes(MB)

        return StreamingResponse(parts())

    @asynccontextmanager
    async def serving(self, *, unread_s: float) -> AsyncGenerator[str]:
        inner = Starlette(routes=[Route("/whole", self.whole), Route("/streamed", self.streamed)])

        async def holding(scope: Scope, receive: Receive, send: Send) -> None:
            async with self.limit.holding("ada", 16 * MB) if scope["type"] == "http" else nullcontext():
                await inner(scope, receive, send)

        async with serving(ReadingDeadline(holding, unread_s=unread_s)) as url:
            yield url


@pytest.mark.parametrize("path", ["whole", "streamed"])
async def test_an_answer_that_nobody_reads_gives_its_room_back(path: str) -> None:
    held = Held()
    async with held.serving(unread_s=0.2) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port, limit=1024)
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reached(lambda: held.limit.held_bytes == 16 * MB)
        await reached(lambda: held.limit.held_bytes == 0)
        assert held.read_on < 16
        writer.transport.abort()


@pytest.mark.parametrize("path", ["whole", "streamed"])
async def test_an_answer_that_is_read_is_held_to_its_end_and_whole(path: str) -> None:
    held = Held()
    async with held.serving(unread_s=60) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port, limit=1024)
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        await reached(lambda: held.limit.held_bytes == 16 * MB)
        async with asyncio.timeout(60):
            answer = await reader.read(-1)
        assert len(answer) >= 16 * MB and answer.startswith(b"HTTP/1.1 200")
        await reached(lambda: held.limit.held_bytes == 0)
        writer.close()
