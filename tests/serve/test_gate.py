from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from starlette.types import Message
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.client import KodaClient

from .test_sessions import PROMPT
from .world import World, world

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
