"""What a hostile page, and whoever holds its link, may take of the preview's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.client import KodaClient
from koda_ray.sandbox.base import PREVIEW_BASE
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_quota import MAX_REQUESTS, MAX_SOCKETS
from koda_ray.serve.preview_texts import with_replaced

from .test_sessions import PROMPT
from .world import serving, serving_on, world

LARGE = 48 << 20
PART = (PREVIEW_BASE.encode() * (1 << 12))[: 1 << 15]


@given(st.lists(st.text("ab/", max_size=9)), st.text("ab/", min_size=1, max_size=4), st.text("ab/", max_size=5))
def test_a_word_is_replaced_wherever_its_text_is_cut(parts: list[str], old: str, new: str) -> None:
    async def said() -> AsyncGenerator[bytes]:
        for part in parts:
            yield part.encode()

    async def whole() -> bytes:
        return b"".join([part async for part in with_replaced(said(), old.encode(), new.encode())])

    assert asyncio.run(whole()).decode() == "".join(parts).replace(old, new)


async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
    """A dev server whose page is large, grows when it passes, and takes every socket."""
    if scope["type"] == "websocket":
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await socket.receive()
    elif scope["path"].endswith("/large"):

        async def text() -> AsyncIterator[bytes]:
            for _ in range(LARGE // len(PART)):
                yield PART

        await StreamingResponse(text(), media_type="text/javascript")(scope, receive, send)
    else:
        await Response("a page", media_type="text/plain")(scope, receive, send)


@asynccontextmanager
async def shown(tmp_path: Path) -> AsyncGenerator[str]:
    """Show the hostile page; gives its address."""
    path = tmp_path / "dev.sock"
    async with (
        world(tmp_path) as koda,
        KodaClient(koda.url) as client,
        serving(create_preview_app(koda.directory, koda.deps.signer, api_port=1)) as url,
        serving_on(hostile, path),
    ):
        koda.directory.hold, koda.directory.socket_path = {"analyze"}, str(path)
        session_id = (await client.create(PROMPT)).session_id
        yield url + urlsplit((await client.preview(session_id)).url).path


async def test_a_large_text_that_grows_is_never_held_whole(tmp_path: Path) -> None:
    me = psutil.Process()
    async with shown(tmp_path) as address, httpx.AsyncClient(trust_env=False, timeout=120) as http:
        assert (await http.get(address)).text == "a page"
        before, most, size = me.memory_info().rss, 0, 0
        async with http.stream("GET", f"{address}large") as answer:
            assert answer.status_code == 200
            async for part in answer.aiter_raw():
                size += len(part)
                most = max(most, me.memory_info().rss)
    assert size > 2 * LARGE, "it grew"
    assert most - before < LARGE, f"{(most - before) >> 20} MB more"


async def test_a_user_has_so_many_requests_under_way_and_no_more(tmp_path: Path) -> None:
    unlimited = httpx.Limits(max_connections=None)
    async with (
        shown(tmp_path) as address,
        httpx.AsyncClient(trust_env=False, timeout=120, limits=unlimited) as http,
        AsyncExitStack() as reading,
    ):
        for _ in range(MAX_REQUESTS):
            answer = await reading.enter_async_context(http.stream("GET", f"{address}large"))
            assert answer.status_code == 200
        refused = await http.get(address)
        assert (refused.status_code, refused.json()["code"]) == (429, "LIMIT_REACHED")
        assert int(refused.headers["retry-after"]) >= 1 and str(MAX_REQUESTS) in refused.json()["detail"]
        await reading.aclose()
        async with asyncio.timeout(60):
            while (await http.get(address)).status_code == 429:
                await asyncio.sleep(0.05)
        assert (await http.get(address)).text == "a page"


async def test_a_user_has_so_many_sockets_and_no_more(tmp_path: Path) -> None:
    async with shown(tmp_path) as address, AsyncExitStack() as held:
        socket = address.replace("http", "ws", 1) + "hmr"
        for _ in range(MAX_SOCKETS):
            await held.enter_async_context(connect(socket))
        with pytest.raises(InvalidStatus):
            await connect(socket)
        await held.aclose()
        async with asyncio.timeout(60):
            while not await _opens(socket):
                await asyncio.sleep(0.05)


async def _opens(address: str) -> bool:
    try:
        async with connect(address):
            return True
    except InvalidStatus:
        return False
