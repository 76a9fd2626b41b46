"""The built page as it is given away, and what is said where it is not built."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from koda_ray.serve.web import is_nowhere, is_page

from .world import world

SCRIPT = "console.log('koda')\n" * 100


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "web"
    (folder / "page").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>koda</title>")
    (folder / "page" / "index-abc.js").write_text(SCRIPT)
    (folder / "koda.svg").write_text("<svg/>")
    return folder


@pytest.fixture
async def page(tmp_path: Path, built: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        world(tmp_path, KODA_WEB_PATH=built, KODA_API_KEYS="k" * 32) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as client,
    ):
        yield client


async def test_the_page_is_for_everybody_and_what_it_shows_is_not(page: httpx.AsyncClient) -> None:
    for path in ("/", "/c", "/c/0a1b2c", "/s/ses_1", "/t/grp_1", "/w/token"):
        response = await page.get(path)
        assert response.status_code == 200 and response.headers["cache-control"] == "no-cache"
        assert response.text.startswith("<!doctype html>")
    assert (await page.get("/v1/sessions")).status_code == 401
    for path in ("/page/../koda.db", "/page/%2e%2e/koda.db", "/page/none.js", "/s/a/b", "/c/a/b", "/nowhere"):
        assert (await page.get(path)).status_code in (401, 404), path


async def test_an_address_where_nothing_is_is_the_page_for_browsers_and_a_problem_for_programs(
    page: httpx.AsyncClient,
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nowhere", "/s/a/b", "/c/a/b", "/V1/sessions"):
        shown = await page.get(path, headers=browser)
        assert shown.status_code == 404 and shown.text.startswith("<!doctype html>"), path
        assert "script-src 'self';" in shown.headers["content-security-policy"]
        assert shown.headers["cache-control"] == "no-store"
        told = await page.get(path)
        assert told.status_code == 404 and told.json()["code"] == "NOT_FOUND", path
    for path in ("/v1/nowhere", "/v1/sessions", "/elsewhere/v1/sessions"):
        assert (await page.get(path, headers=browser)).json()["status"] == 401, path
    assert (await page.post("/nowhere", headers=browser)).json()["status"] == 404


async def test_the_api_is_where_an_address_needs_a_key(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False) as koda:
        paths = [getattr(route, "path", "") for route in koda.app.routes]
        assert [path for path in paths if path and is_nowhere(path) and not is_page(path)] == []


async def test_no_script_runs_but_its_own(page: httpx.AsyncClient) -> None:
    headers = (await page.get("/")).headers
    rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert rules["default-src"] == "'none'" and rules["script-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'" and rules["frame-src"] == "http://127.0.0.1:8421"
    own = page.base_url.netloc.decode()
    assert rules["style-src"] == "'self'" and rules["connect-src"] == f"'self' ws://{own} wss://{own}"
    odd = (await page.get("/", headers={"Host": "a;b"})).headers["content-security-policy"]
    assert "; connect-src 'self';" in odd
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"


async def test_what_is_shared_may_stand_in_other_pages(
    page: httpx.AsyncClient,
) -> None:
    shown, embedded = await page.get("/w/token"), await page.get("/w/token/embed")
    for response in (shown, embedded):
        assert response.status_code == 200 and "script-src 'self';" in response.headers["content-security-policy"]
        assert response.headers["referrer-policy"] == "no-referrer" and response.headers["x-robots-tag"] == "noindex"
    assert shown.headers["content-security-policy"].endswith("frame-ancestors 'none'")
    for path in ("/w/token/embed%0A", "/w/%ff/embed", "/w/token/%65mbed"):  # the page would take none of them for it
        assert (await page.get(path)).headers.get("content-security-policy", "'none'").endswith("'none'"), path
    assert embedded.headers["content-security-policy"].endswith("frame-ancestors *")


async def test_what_never_changes_is_kept_and_the_rest_is_asked_for(page: httpx.AsyncClient) -> None:
    script = await page.get("/page/index-abc.js")
    assert script.text == SCRIPT and "immutable" in script.headers["cache-control"]
    assert script.headers["content-encoding"] == "gzip" and int(script.headers["content-length"]) < len(SCRIPT)
    missed = await page.get("/page/index-def.js", headers={"Accept": "text/html,*/*;q=0.8"})
    assert missed.status_code == 404 and missed.headers["content-type"] == "application/problem+json"  # not the page
    assert missed.headers["cache-control"] == "no-store"
    plain = await page.get("/page/index-abc.js", headers={"Accept-Encoding": "identity"})
    assert plain.text == SCRIPT and "content-encoding" not in plain.headers
    known = await page.get("/", headers={"If-None-Match": (await page.get("/")).headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    assert (await page.head("/koda.svg")).headers["content-type"] == "image/svg+xml"


async def test_without_the_build_the_server_says_so_and_works(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_WEB_PATH=tmp_path / "none") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as client,
    ):
        response = await client.get("/")
        assert response.status_code == 503 and "./koda setup" in response.text
        assert (await client.get("/v1/sessions")).status_code == 200
