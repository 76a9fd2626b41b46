"""Browsers are signed in with a cookie, which counts for our own pages alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.responses import Response
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.client import KodaClient
from koda_ray.errors import LimitReached
from koda_ray.serve.logins import LOGIN_TTL, Logins, is_own_page
from koda_ray.serve.tries import Tries

from .test_events import take
from .test_sessions import PROMPT
from .world import World, world

KEY, OTHER = "k" * 32, "o" * 32
BEARER = {"Authorization": f"Bearer {KEY}"}
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, KODA_API_KEYS=f"ann={KEY},bob={OTHER}") as found:
        yield found


@pytest.fixture
async def browser(closed: World) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, as a browser does."""
    async with httpx.AsyncClient(base_url=closed.url, trust_env=False, timeout=60) as client:
        yield client


async def test_a_key_is_typed_once(closed: World, browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/v1/login")).status_code == 401
    made = await browser.post("/v1/login", headers=BEARER | OWN)
    assert made.status_code == 200 and made.json()["user"] == "ann" and made.json()["signedIn"]
    cookie = made.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie and KEY not in cookie
    assert (await browser.get("/v1/login", headers=OWN)).json()["user"] == "ann"
    created = await browser.post("/v1/sessions", json={"prompt": PROMPT}, headers=OWN)
    session_id = created.json()["sessionId"]
    assert (await closed.store.get_session(session_id)).user_id == "ann"
    assert (await take(browser, f"/v1/events?sessions={session_id}", 1))[0][0] == "1"
    socket = f"{closed.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws"
    carried = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
    async with connect(socket, additional_headers={**carried, "Origin": closed.url}) as open_one:
        assert "STATE_CHANGE" in str(await open_one.recv())
    for elsewhere in ({}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(socket, additional_headers={**carried, **elsewhere}):
                pass
        assert refused.value.response.status_code == 403


async def test_who_signs_out_is_out(browser: httpx.AsyncClient) -> None:
    await browser.post("/v1/login", headers=BEARER | OWN)
    assert (await browser.delete("/v1/login", headers=OWN)).status_code == 204
    assert len(browser.cookies) == 0
    assert (await browser.get("/v1/sessions")).status_code == 401


@pytest.mark.parametrize(
    "elsewhere",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_no_other_page_writes_with_the_cookie(
    closed: World, browser: httpx.AsyncClient, elsewhere: dict[str, str]
) -> None:
    await browser.post("/v1/login", headers=BEARER | OWN)
    for method, path in (("POST", "/v1/sessions"), ("DELETE", "/v1/login"), ("DELETE", "/v1/sessions/ses_1")):
        response = await browser.request(method, path, headers=elsewhere, json={"prompt": PROMPT})
        assert (response.status_code, response.json()["code"]) == (403, "WRONG_ORIGIN"), path
    assert await closed.store.list_sessions("ann") == []
    # a key is as good from anywhere
    assert (await browser.get("/v1/sessions", headers=elsewhere | BEARER)).status_code == 200


async def test_other_pages_read_nothing_with_it(browser: httpx.AsyncClient) -> None:
    await browser.post("/v1/login", headers=BEARER | OWN)
    for site in ("same-site", "cross-site"):
        assert (await browser.get("/v1/sessions", headers={"Sec-Fetch-Site": site})).status_code == 403
    for headers in ({}, {"Sec-Fetch-Site": "none"}, {"Origin": str(browser.base_url)}):
        assert (await browser.get("/v1/sessions", headers=headers)).status_code == 200


async def test_a_cookie_ends_with_its_key(tmp_path: Path) -> None:
    async with world(tmp_path) as koda:
        key = await koda.store.create_api_key("ann")
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as browser:
            await browser.post("/v1/login", headers={"Authorization": f"Bearer {key}"} | OWN)
            assert (await browser.get("/v1/login")).json()["user"] == "ann"
            await koda.store.revoke_api_key(key)
            assert (await browser.get("/v1/login")).status_code == 401


async def test_a_cookie_that_was_changed_or_is_anothers_is_none(closed: World, browser: httpx.AsyncClient) -> None:
    await browser.post("/v1/login", headers=BEARER | OWN)
    ((name, value),) = browser.cookies.items()
    key_id, end, mac = value.split(".")
    foreign = Response()
    Logins(b"another installation").sign_in(foreign, key_id, secure=False)
    others = foreign.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert not foreign.headers["set-cookie"].startswith(name)
    for bad in (f"{key_id}.{int(end) + 1}.{mac}", f"{key_id[::-1]}.{end}.{mac}", "", "a.b", others, f"{value}x"):
        browser.cookies.set(name, bad, domain="127.0.0.1", path="/")
        async with httpx.AsyncClient(base_url=closed.url, trust_env=False) as plain:
            assert (await plain.get("/v1/login", headers={"Cookie": f"{name}={bad}"})).status_code == 401, bad


async def test_without_keys_nobody_signs_in(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    for method in ("GET", "POST"):
        response = await http.request(method, "/v1/login")
        assert response.json() == {"user": "local", "signedIn": False, "expiresAt": None}
        assert "set-cookie" not in response.headers


def test_it_lasts_for_a_while_and_is_renewed_by_use() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    logins = Logins(b"a key of ours", clock=lambda: at)
    response = Response()
    assert logins.sign_in(response, "0" * 16, secure=True) == at + LOGIN_TTL
    assert "Secure" in response.headers["set-cookie"]
    headers = Headers({"cookie": response.headers["set-cookie"].partition(";")[0]})
    for later, is_in in ((LOGIN_TTL - timedelta(seconds=1), True), (LOGIN_TTL, False)):
        again = Logins(logins.key, clock=lambda later=later: at + later)
        assert (again.read(headers) is not None) is is_in


def test_a_page_is_ours_by_what_the_browser_says() -> None:
    def ours(method: str | None, **headers: str) -> bool:
        return is_own_page(Headers({name.replace("_", "-"): value for name, value in headers.items()}), method)

    assert ours("POST", origin="https://koda.example", host="koda.example")
    assert ours("POST", origin="http://[::1]:8420", host="[::1]:8420")
    assert ours("POST", origin="https://koda.example", host="inside:8420", sec_fetch_site="same-origin")
    assert not ours("POST", origin="https://koda.example", host="inside:8420")
    assert not ours("POST", origin="http://[", host="[")
    assert not ours(None, host="koda.example") and ours("GET", host="koda.example")


# --- tries --------------------------------------------------------------------------------------------------------


def test_who_guesses_waits_and_shuts_out_nobody_who_is_in() -> None:
    at = 0.0
    tries = Tries(most=3, window_s=60, clock=lambda: at)
    tries.was_right("good")
    for number in range(3):
        tries.check("10.0.0.1", f"wrong {number}")
        tries.was_wrong("10.0.0.1", f"wrong {number}")
        at += 1
    with pytest.raises(LimitReached) as refused:
        tries.check("10.0.0.1", "right, but never seen")
    assert refused.value.context["retryAfterS"] == 57
    tries.check("10.0.0.1", "good")
    tries.check("10.0.0.2", "wrong 1")
    tries.was_wrong("10.0.0.1", "good")  # it was revoked
    with pytest.raises(LimitReached):
        tries.check("10.0.0.1", "good")
    at += 60
    tries.check("10.0.0.1", "wrong 4")


def test_of_ipv6_a_whole_network_is_one() -> None:
    tries = Tries(most=1)
    tries.was_wrong("2001:db8::1", "wrong")
    with pytest.raises(LimitReached):
        tries.check("2001:db8::ffff", "wrong")
    tries.check("2001:db8:0:1::1", "wrong")
    tries.was_wrong("::ffff:192.0.2.1", "wrong")
    tries.check("::ffff:192.0.2.2", "wrong")
    with pytest.raises(LimitReached):
        tries.check("192.0.2.1", "wrong")


async def test_too_many_wrong_keys_are_answered_with_when_to_come_back(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/v1/sessions", headers=BEARER)).status_code == 200
    wrong = [await browser.post("/v1/login", headers={"Authorization": f"Bearer {n:032}"}) for n in range(21)]
    assert [response.status_code for response in wrong] == [401] * 20 + [429]
    assert wrong[-1].json()["code"] == "LIMIT_REACHED" and int(wrong[-1].headers["retry-after"]) > 0
    assert (await browser.get("/v1/sessions", headers=BEARER)).status_code == 200
    unseen = {"Authorization": f"Bearer {OTHER}"}
    assert (await browser.get("/v1/sessions", headers=unseen)).status_code == 429
