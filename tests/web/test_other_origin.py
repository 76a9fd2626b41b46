"""A page of another origin, in a real browser: with a key, one that is named does everything, and another nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, Page
from starlette.responses import HTMLResponse

from koda_ray.client import KodaClient
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Surroundings
from tests.serve.scripted import VIDEO
from tests.serve.test_versions import with_versions
from tests.serve.world import World, free_port, serving, serving_on, world
from tests.web.test_versions_page import film

pytestmark = [pytest.mark.full, pytest.mark.browser]

KEY = "k" * 32
ASK = """async ({ method = 'GET', path, body, key, given = {} }) => {
    const headers = { Authorization: `Bearer ${window.given.key}`, ...given };
    if (body) headers['Content-Type'] = 'application/json';
    if (key) headers['Idempotency-Key'] = key;
    const sent = { method, headers, body: body && JSON.stringify(body) };
    const answer = await fetch(window.given.api + path, sent).catch(() => null);
    if (answer === null) return null;
    const told = Object.fromEntries(answer.headers);
    return { status: answer.status, told, body: (await answer.text()).slice(0, 100_000) };
}"""
FOLLOW = """async (path) => {
    const headers = { Authorization: `Bearer ${window.given.key}`, 'Last-Event-ID': '0' };
    const answer = await fetch(window.given.api + path, { headers });
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let said = '';
    while (!said.includes('event: STATE_CHANGE')) said += (await pieces.read()).value;
    await pieces.cancel();
    return said;
}"""
SHOW = """({ video, picture }) => new Promise((found) => {
    const film = document.body.appendChild(document.createElement('video'));
    const still = document.body.appendChild(new Image());
    const seen = {};
    const see = (name, value) => { seen[name] = value; if (Object.keys(seen).length === 2) found(seen); };
    film.onloadeddata = () => see('video', film.videoWidth);
    film.onerror = () => see('video', 0);
    still.onload = () => see('picture', still.naturalWidth);
    still.onerror = () => see('picture', 0);
    film.src = video;
    still.src = picture;
})"""
FRAME = """(address) => new Promise((found) => {
    const frame = document.body.appendChild(document.createElement('iframe'));
    frame.onload = () => found();
    frame.src = address;
})"""
PICTURE = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="  # one pixel


@dataclass
class Elsewhere:
    """A server, and two origins of other people's pages, of which it names one."""

    koda: World
    named: str
    other: str


@pytest.fixture
async def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Elsewhere]:
    monkeypatch.setitem(VIDEO, "preview", film(tmp_path / "preview.webm", light=20))
    canvas, dev, preview = FastAPI(), FastAPI(), free_port()

    @dev.get("/{path:path}")
    async def developed(path: str) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>A ball</title><p id=ball>round")

    @canvas.get("/")
    async def shown() -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>A canvas</title>")

    at = free_port()
    named = f"http://localhost:{at}"
    settings = {"KODA_API_KEYS": KEY, "KODA_ALLOWED_ORIGINS": named, "KODA_PREVIEW_PORT": preview}
    async with (
        world(tmp_path, **settings) as koda,
        serving_on(dev, tmp_path / "dev.sock"),
        serving(canvas, at),
        serving(canvas) as other,
    ):
        koda.directory.socket_path = str(tmp_path / "dev.sock")
        app = create_preview_app(
            koda.directory,
            koda.deps.signer,
            api_port=urlsplit(koda.url).port or 0,
            around=Surroundings.from_settings(koda.settings),
        )
        async with serving(app, preview):
            yield Elsewhere(koda, named, other.replace("127.0.0.1", "localhost"))


async def opened(browser: Browser, origin: str, koda: World) -> Page:
    """Open a page of an origin, which has the server's address and a key."""
    page = await (await browser.new_context()).new_page()
    await page.goto(origin)
    await page.evaluate("given => { window.given = given; }", {"api": koda.url, "key": KEY})
    return page


async def test_a_named_page_makes_follows_and_shows_animations(elsewhere: Elsewhere, browser: Browser) -> None:
    koda = elsewhere.koda
    page = await opened(browser, elsewhere.named, koda)
    asked = {"method": "POST", "path": "/v1/sessions", "body": {"prompt": "A ball"}, "key": "one"}
    made = await page.evaluate(ASK, asked)
    assert made["status"] == 202 and made["told"]["location"].startswith("/v1/sessions/ses_")
    assert (await page.evaluate(ASK, asked))["told"]["location"] == made["told"]["location"]
    place = made["told"]["location"]
    assert place.rpartition("/")[2] in (await page.evaluate(ASK, {"path": "/v1/sessions"}))["body"]
    assert "event: STATE_CHANGE" in await page.evaluate(FOLLOW, f"{place}/events")
    renamed = {"method": "PATCH", "path": place, "body": {"title": "Ball"}}
    assert (await page.evaluate(ASK, renamed))["status"] in (200, 204)
    missing = await page.evaluate(ASK, {"path": "/v1/sessions/ses_none"})
    assert missing["status"] == 404 and '"NOT_FOUND"' in missing["body"], "why it was refused can be read"
    unknown = await page.evaluate(ASK, {"path": "/v1/sessions", "given": {"Authorization": "Bearer nobody's key"}})
    assert unknown["status"] == 401 and unknown["told"]["www-authenticate"] == "Bearer"


async def test_a_named_page_shows_videos_pictures_and_the_live_page(elsewhere: Elsewhere, browser: Browser) -> None:
    koda = elsewhere.koda
    async with KodaClient(koda.url, key=KEY) as client:
        session_id = await with_versions(koda, client)
        preview = (await client.preview(session_id)).url
    page = await opened(browser, elsewhere.named, koda)
    place = f"/v1/sessions/{session_id}"
    part = await page.evaluate(ASK, {"path": f"{place}/video", "given": {"Range": "bytes=0-9"}})
    assert part["status"] == 206 and part["told"]["content-range"].startswith("bytes 0-9/") and part["told"]["etag"]
    links = await page.evaluate(
        "async (path) => (await fetch(window.given.api + path, "
        "{ headers: { Authorization: `Bearer ${window.given.key}` } })).json()",
        f"{place}/media",
    )
    by_address = {"video": koda.url + links["videoUrl"], "picture": koda.url + links["thumbnailUrl"]}
    seen = await page.evaluate(SHOW, {**by_address, "picture": PICTURE})
    assert seen == {"video": 64, "picture": 1}
    with_key = {"video": f"{koda.url}{place}/video", "picture": f"{koda.url}{place}/thumbnail"}
    assert await page.evaluate(SHOW, with_key) == {"video": 0, "picture": 0}, "without the key nothing is shown"
    answer = await page.request.get(by_address["picture"])
    assert answer.status == 200 and answer.headers["content-type"] == "image/jpeg"
    await page.evaluate(FRAME, preview)
    assert await shown_inside(page) == "round"


async def test_a_page_that_is_not_named_reads_nothing_and_frames_nothing(
    elsewhere: Elsewhere, browser: Browser
) -> None:
    koda = elsewhere.koda
    async with KodaClient(koda.url, key=KEY) as client:
        session_id = await with_versions(koda, client)
        preview = (await client.preview(session_id)).url
        before = len((await client.sessions()).sessions)
        page = await opened(browser, elsewhere.other, koda)
        made = {"method": "POST", "path": "/v1/sessions", "body": {"prompt": "A ball"}}
        for asked in (made, {"path": "/v1/sessions"}, {"path": "/v1/health"}):
            assert await page.evaluate(ASK, asked) is None
        assert len((await client.sessions()).sessions) == before
    await page.evaluate(FRAME, preview)
    assert len(page.frames) == 2 and await page.frames[1].query_selector("iframe") is None


async def test_no_page_speaks_with_anothers_sign_in(elsewhere: Elsewhere, browser: Browser) -> None:
    koda = elsewhere.koda
    context = await browser.new_context()
    await context.request.post(
        f"{koda.url.replace('127.0.0.1', 'localhost')}/v1/login",
        headers={"Authorization": f"Bearer {KEY}", "Sec-Fetch-Site": "same-origin"},
    )
    assert len(await context.cookies()) == 1
    page = await context.new_page()
    await page.goto(elsewhere.named)  # of the same site: there the cookie is sent along
    api = koda.url.replace("127.0.0.1", "localhost")
    for credentials in ("include", "same-origin", "omit"):
        read = await page.evaluate(
            "([address, credentials]) => fetch(address, { credentials }).then(({ status }) => status, () => 0)",
            [f"{api}/v1/sessions", credentials],
        )
        assert read == {"include": 0}.get(credentials, 401)
    await context.close()


async def shown_inside(page: Page) -> str:
    """Return what the hostile page says that a preview in a frame shows."""
    for _ in range(600):
        for frame in page.frames:
            if urlsplit(frame.url).path.startswith("/v/") and (found := await frame.query_selector("#ball")):
                return await found.inner_text()
        await page.wait_for_timeout(100)
    raise AssertionError("the preview is not shown")
