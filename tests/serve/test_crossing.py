"""What pages of other origins may read: those that are named, all that is answered them, and by a key alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.sse import SseDecoder
from koda_ray.state.sql import SqlStore

from .test_sessions import PROMPT
from .test_versions import with_versions
from .world import World, world

KEY = "k" * 32
BEARER = {"Authorization": f"Bearer {KEY}"}
NAMED, OTHER = "https://canvas.example.com", "https://evil.example"
ORIGIN = {"Origin": NAMED, "Sec-Fetch-Site": "cross-site"}
ASKED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,idempotency-key"}


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    settings = {"KODA_API_KEYS": f"ann={KEY}", "KODA_ALLOWED_ORIGINS": f"{NAMED},http://localhost:5173"}
    async with world(tmp_path, **settings, KODA_USER_CHANGES_PER_MIN=20) as found:
        yield found


@pytest.fixture
async def ann(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url, key=KEY) as client:
        yield client


def may_read(answer: httpx.Response, origin: str = NAMED) -> bool:
    """Whether a browser lets a page of an origin read an answer, which may be shown to nobody else in its place."""
    vary = [each.strip() for line in answer.headers.get_list("vary") for each in line.split(",")]
    assert "Origin" in vary, answer
    assert "access-control-allow-credentials" not in answer.headers
    return answer.headers.get("access-control-allow-origin") == origin


async def test_a_named_page_reads_answers_and_another_does_not(koda: World, http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/sessions", headers=BEARER | ORIGIN)
    assert answer.status_code == 200 and may_read(answer)
    told = answer.headers["access-control-expose-headers"].split(", ")
    assert {"ETag", "Content-Range", "Retry-After", "Location", "Content-Disposition"} <= set(told)
    for origin in (OTHER, "null", NAMED.upper(), f"{NAMED}:444", f"{NAMED}.evil.example", "http://localhost:5174"):
        answer = await http.get("/v1/sessions", headers=BEARER | {"Origin": origin})
        assert answer.status_code == 200 and not may_read(answer, origin)
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert not may_read(await http.get("/v1/sessions", headers=BEARER))


async def test_what_a_page_may_send_is_said_beforehand(koda: World, http: httpx.AsyncClient) -> None:
    for path in ("/v1/sessions", "/v1/events", "/v1/sessions/ses_1/shares", "/v1/media/x/video", "/nothing"):
        answer = await http.options(path, headers=ORIGIN | ASKED)  # which comes without the key
        assert answer.status_code == 204 and may_read(answer) and answer.content == b""
        assert {"POST", "PATCH", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
        sent = {each.lower() for each in answer.headers["access-control-allow-headers"].split(", ")}
        assert {"authorization", "content-type", "idempotency-key", "last-event-id", "range", "if-none-match"} <= sent
        refused = await http.options(path, headers={"Origin": OTHER} | ASKED)
        assert refused.status_code >= 400 and not may_read(refused, OTHER)
    assert (await http.options("/v1/sessions", headers=ORIGIN)).status_code == 401, "which asks for no page's sake"


async def test_refusals_can_be_read_too(
    koda: World, ann: KodaClient, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await with_versions(koda, ann)
    video = f"/v1/sessions/{session_id}/video"
    whole = await http.get(video, headers=BEARER | ORIGIN)
    known = {"If-None-Match": whole.headers["etag"]}
    plan = [
        (200, await http.get(video, headers=BEARER | ORIGIN)),
        (206, await http.get(video, headers=BEARER | ORIGIN | {"Range": "bytes=0-1"})),
        (304, await http.get(video, headers=BEARER | ORIGIN | known)),
        (416, await http.get(video, headers=BEARER | ORIGIN | {"Range": "bytes=99999999-"})),
        (401, await http.get(video, headers=ORIGIN)),
        (404, await http.get("/v1/sessions/ses_none", headers=BEARER | ORIGIN)),
        (404, await http.get("/v1/nothing", headers=BEARER | ORIGIN)),
        (405, await http.put("/v1/sessions", headers=BEARER | ORIGIN)),
        (413, await http.post("/v1/sessions", content=b"x" * (2 << 20), headers=BEARER | ORIGIN)),
        (422, await http.post("/v1/sessions", json={}, headers=BEARER | ORIGIN)),
        (403, await http.get("/v1/media/made-up/video", headers=ORIGIN)),
        (200, await http.get("/v1/health", headers=ORIGIN)),
    ]
    for status, answer in plan:
        assert answer.status_code == status and may_read(answer), (status, answer)
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
    for _ in range(20):
        limited = await http.post("/v1/sessions", json={}, headers=BEARER | ORIGIN)
    assert limited.status_code == 429 and may_read(limited) and int(limited.headers["retry-after"]) > 0

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(SqlStore, "whole_session", broken)
    bug = await http.get(f"/v1/sessions/{session_id}", headers=BEARER | ORIGIN)
    assert (bug.status_code, bug.json()["code"]) == (500, "INTERNAL") and may_read(bug)
    assert not may_read(await http.get(f"/v1/sessions/{session_id}", headers=BEARER | {"Origin": OTHER}), OTHER)


async def test_events_come_as_they_happen(koda: World, ann: KodaClient, http: httpx.AsyncClient) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await ann.create(PROMPT)).session_id
    decoder = SseDecoder()
    async with http.stream("GET", f"/v1/events?sessions={session_id}", headers=BEARER | ORIGIN) as answer:
        assert may_read(answer)
        async for block in answer.aiter_raw():
            if decoder.feed(block):
                return  # while the stream is open
    raise AssertionError("nothing came")


async def test_cookies_do_not_cross(koda: World, http: httpx.AsyncClient) -> None:
    own = {"Sec-Fetch-Site": "same-origin"}
    for method in ("POST", "DELETE"):  # a page would sign its visitor in as somebody else, or out
        refused = await http.request(method, "/v1/login", headers=BEARER | ORIGIN)
        assert (refused.status_code, refused.json()["code"]) == (403, "WRONG_ORIGIN") and may_read(refused)
        assert "set-cookie" not in refused.headers
    await http.post("/v1/login", headers=BEARER | own)
    assert len(http.cookies) == 1
    for origin in (ORIGIN, {"Origin": NAMED}, {"Origin": "http://localhost:5173", "Sec-Fetch-Site": "same-site"}):
        for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/sessions"), ("GET", "/v1/login")):
            refused = await http.request(method, path, headers=origin)
            assert (refused.status_code, refused.json()["code"]) == (403, "WRONG_ORIGIN"), path
            assert may_read(refused, origin["Origin"]) and "Authorization: Bearer" in refused.json()["detail"]
    told = await http.get("/v1/login", headers=BEARER | ORIGIN)
    assert told.json() == {"user": "ann", "signedIn": False, "expiresAt": None} and "set-cookie" not in told.headers
    assert (await http.get("/v1/sessions", headers=own)).status_code == 200


async def test_without_the_setting_nothing_is_said(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=f"ann={KEY}") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        answers = [
            await http.get("/v1/sessions", headers=BEARER | ORIGIN),
            await http.get("/v1/sessions", headers=ORIGIN),
            await http.options("/v1/sessions", headers=ORIGIN | ASKED),
        ]
        assert [each.status_code for each in answers] == [200, 401, 401]
        for answer in answers:
            assert "vary" not in answer.headers
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_without_keys_only_this_machines_own_pages_are_let_in(tmp_path: Path) -> None:
    here = "http://localhost:5173"
    async with (
        world(tmp_path, KODA_ALLOWED_ORIGINS=f"{here},{NAMED}") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        answer = await http.get("/v1/sessions", headers={"Origin": here})
        assert answer.status_code == 200 and may_read(answer, here)
        refused = await http.get("/v1/sessions", headers=ORIGIN)
        assert (refused.status_code, refused.json()["code"]) == (403, "WRONG_ORIGIN") and may_read(refused)
        assert "KODA_API_KEYS" in refused.json()["detail"]
