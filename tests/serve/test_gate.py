from __future__ import annotations

import asyncio
import json
from asyncio import StreamReader
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.client import KodaClient
from koda_ray.serve.api import create_app

from .test_sessions import PROMPT
from .world import World, serving, world

KEY = "k" * 32

MB = 1 << 20


OURS = ["127.0.0.1:8420", "localhost", "LOCALHOST:1", "localhost.", "koda.localhost", "[::1]:8420", "127.9.9.9"]
THEIRS = ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.2", "[", ""]


@pytest.mark.parametrize("host", OURS)
async def test_a_server_without_keys_answers_to_its_machine(http: httpx.AsyncClient, host: str) -> None:
    assert (await http.get("/v1/sessions", headers={"Host": host})).status_code == 200
    assert (await http.get("/v1/sessions", headers={"Host": host, "Origin": f"http://{host}"})).status_code == 200


@pytest.mark.parametrize("host", THEIRS)
async def test_it_answers_to_no_other_name(http: httpx.AsyncClient, host: str) -> None:
    for method, path in (("GET", "/v1/sessions"), ("GET", "/v1/health"), ("POST", "/v1/sessions"), ("GET", "/docs")):
        response = await http.request(method, path, headers={"Host": host})
        assert (response.status_code, response.json()["code"]) == (421, "WRONG_HOST")
        assert response.headers["content-type"] == "application/problem+json"
        assert "KODA_API_KEYS" in response.json()["detail"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"])
async def test_pages_from_elsewhere_are_refused(
    koda: World, client: KodaClient, http: httpx.AsyncClient, origin: str
) -> None:
    session_id = (await client.create(PROMPT)).session_id
    for method in ("GET", "DELETE"):
        response = await http.request(method, f"/v1/sessions/{session_id}", headers={"Origin": origin})
        assert (response.status_code, response.json()["code"]) == (403, "WRONG_ORIGIN")
    with pytest.raises(InvalidStatus) as refused:
        async with connect(
            f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws", additional_headers={"Origin": origin}
        ):
            pass
    assert refused.value.response.status_code == 403
    assert json.loads(refused.value.response.body or b"{}")["code"] == "WRONG_ORIGIN"
    assert (await client.session(session_id)).id == session_id


async def test_a_name_that_others_can_reach_lets_nobody_in_without_a_key(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_HOST="Render-Box") as koda,
        httpx.AsyncClient(base_url=koda.url, timeout=60) as http,
    ):
        for host in ("render-box:8420", "localhost"):
            assert (await http.get("/v1/sessions", headers={"Host": host})).status_code == 401


async def test_with_keys_the_name_does_not_matter(tmp_path: Path) -> None:
    async with world(tmp_path, KODA_API_KEYS=KEY) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        known = {"Host": "koda.example", "Origin": "https://koda.example", "Authorization": f"Bearer {KEY}"}
        assert (await http.get("/v1/sessions", headers=known)).status_code == 200
        assert (await http.get("/v1/sessions", headers={"Host": "koda.example"})).status_code == 401


async def test_an_upload_without_a_key_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with world(tmp_path, KODA_API_KEYS=KEY) as koda, httpx.AsyncClient(base_url=koda.url, timeout=30) as http:
        # nothing that could be parsed: only whoever looked at the body would say so
        torn = {"Content-Type": "multipart/form-data"}
        for body in (b"no boundary", b"x" * (20 * 1024 * 1024)):
            response = await http.post("/v1/assets", content=body, headers=torn)
            assert (response.status_code, response.json()["code"]) == (401, "UNAUTHORIZED")
            assert response.headers["www-authenticate"] == "Bearer"
        put = await http.put("/v1/sandboxes/sbx_1/files/a", content=b"x" * (20 * 1024 * 1024))
        assert (put.status_code, put.json()["code"]) == (401, "UNAUTHORIZED")
        known = await http.post("/v1/assets", content=b"x", headers={**torn, "Authorization": f"Bearer {KEY}"})
        assert known.status_code in (400, 422)


async def test_few_of_the_refused_uploads_are_read_on(tmp_path: Path) -> None:
    """Whoever stands in front keeps what was sent: fifty uploads without a key are not each read to their limit."""
    read = 0

    async def receive() -> Message:
        nonlocal read
        await asyncio.sleep(0)
        read += MB
        return {"type": "http.request", "body": bytes(MB), "more_body": True}

    async def send(message: Message) -> None:
        assert message["type"] != "http.response.start" or message["status"] == 401

    scope = {"type": "http", "method": "POST", "path": "/v1/assets", "query_string": b"", "headers": [(b"host", b"x")]}
    async with world(tmp_path, serve=False, KODA_API_KEYS=f"ann={'a' * 32}") as koda:
        await asyncio.gather(*(koda.app(dict(scope), receive, send) for _ in range(50)))
    assert 64 * MB <= read <= 3 * 64 * MB


CLOSED = [
    "POST /v1/sessions",
    "PUT /v1/sandboxes/sbx_1/files/a",
    "GET /v1/sessions",
    "DELETE /v1/sessions/ses_1",
    "PATCH /v1/nowhere",
]
READ = ["POST /v1/sessions", "POST /v1/renders", "PUT /v1/sandboxes/sbx_1/files/a", "POST /v1/images?name=a"]


@asynccontextmanager
async def announced(url: str, asked: str, *, key: str | None = None, sent: bytes = b"") -> AsyncGenerator[StreamReader]:
    """Ask over a plain socket with a body of 100 bytes, of which no more than ``sent`` comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    try:
        known = f"Authorization: Bearer {key}\r\n" if key else ""
        head = (
            f"{asked} HTTP/1.1\r\nHost: localhost\r\n{known}Content-Type: application/json\r\nContent-Length: 100\r\n"
        )
        writer.write(f"{head}\r\n".encode() + sent)
        yield reader
    finally:
        writer.close()


async def answer_of(reader: StreamReader) -> tuple[int, str, dict[str, object]]:
    """Read an answer, which is there though the connection may stay open; return its status, head and problem."""
    async with asyncio.timeout(60):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split()[0])
        return int(head.split()[1]), head, json.loads(await reader.readexactly(length))


async def test_without_a_key_nobody_waits_for_a_body(tmp_path: Path) -> None:
    async with world(tmp_path, KODA_API_KEYS=KEY) as koda, AsyncExitStack() as opened:
        for asked in CLOSED:
            for key in (None, "w" * 32):
                reader = await opened.enter_async_context(announced(koda.url, asked, key=key, sent=b'{"prompt'))
                status, head, problem = await answer_of(reader)
                assert (status, problem["code"]) == (401, "UNAUTHORIZED"), asked
                assert "www-authenticate: bearer" in head
        for public in ("GET /v1/health", "GET /v1/ready", "GET /v1/openapi.json", "GET /docs"):
            reader = await opened.enter_async_context(announced(koda.url, public))
            async with asyncio.timeout(60):
                assert b" 200 " in await reader.readline(), public


async def test_a_body_that_does_not_come_is_answered_after_a_while(tmp_path: Path) -> None:
    async with (
        world(tmp_path, serve=False, KODA_API_KEYS=KEY) as koda,
        serving(create_app(koda.deps, stalled_s=0.05)) as url,
        AsyncExitStack() as opened,
    ):
        for asked in READ:
            for sent in (b"", b'{"prompt'):
                reader = await opened.enter_async_context(announced(url, asked, key=KEY, sent=sent))
                status, head, problem = await answer_of(reader)
                assert (status, problem["code"]) == (408, "BODY_STALLED"), asked
                assert "connection: close" in head and "send it again" in str(problem["detail"])
        # what comes whole is taken, however long the answer takes then
        whole = json.dumps({"prompt": PROMPT}).ljust(100).encode()
        reader = await opened.enter_async_context(announced(url, "POST /v1/sessions", key=KEY, sent=whole))
        status, _, made = await answer_of(reader)
        assert status == 202
        koda.directory.slow_s = 0.2
        said = f"POST /v1/sessions/{made['sessionId']}/messages"
        whole = json.dumps({"text": "a red one"}).ljust(100).encode()
        reader = await opened.enter_async_context(announced(url, said, key=KEY, sent=whole))
        assert (await answer_of(reader))[0] == 202
