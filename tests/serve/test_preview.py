"""The proxy against a real dev server in a real sandbox, seen by a real browser."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Page, async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, KodaError, NotFound
from koda_ray.sandbox.base import PREVIEW_BASE, PreviewEndpoint, Sandbox
from koda_ray.sandbox.service import provider_from
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources, Surroundings
from koda_ray.serve.signing import Forbidden, Signer, signing_key
from koda_ray.types import new_id, now

from .framed import framed
from .test_sessions import PROMPT
from .world import World, free_port, serving, serving_on, world

CHROMIUM = Path("/usr/bin/chromium-headless-shell")


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_says_whose_preview_until_when() -> None:
    signer = Signer(b"k" * 32)
    token, expires_at = signer.sign(session_id="ses_1", user_id="local", ttl_s=60)
    grant = signer.check(token)
    assert (grant.session_id, grant.user_id, grant.expires_at) == ("ses_1", "local", expires_at)


def test_a_changed_or_foreign_or_old_token_opens_nothing() -> None:
    signer = Signer(b"k" * 32)
    token, _ = signer.sign(session_id="ses_1", user_id="local", ttl_s=60)
    other, _ = Signer(b"j" * 32).sign(session_id="ses_1", user_id="local", ttl_s=60)
    for bad in (
        token.replace("ses_1", "ses_2"),
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        other,
        "",
        "a.b",
        "....",
    ):
        with pytest.raises(Forbidden):
            signer.check(bad)
    late = Signer(b"k" * 32, clock=lambda: now() + timedelta(seconds=61))
    with pytest.raises(Forbidden, match="ran out") as error:
        late.check(token)
    assert error.value.code == "TOKEN_EXPIRED"


def test_to_see_and_to_edit_are_two_grants() -> None:
    signer = Signer(b"k" * 32)
    seen, _ = signer.sign(session_id="ses_1", user_id="local")
    edited, _ = signer.sign(session_id="ses_1", user_id="local", edit=True)
    assert (signer.check(seen).edit, signer.check(edited).edit) == (False, True)
    body, _, mac = seen.rpartition(".")
    for bad in (f"{body}.edit.{mac}", edited.replace(".edit", ""), edited.replace(".edit", ".edit.edit")):
        with pytest.raises(Forbidden):
            signer.check(bad)


async def test_an_address_for_looking_cannot_write(tmp_path: Path) -> None:
    said: list[str] = []

    async def dev_server(scope: Scope, receive: Receive, send: Send) -> None:
        said.append(scope["method"])
        await Response("taken")(scope, receive, send)

    path = tmp_path / "dev.sock"
    async with (
        world(tmp_path) as koda,
        KodaClient(koda.url) as client,
        serving(create_preview_app(koda.directory, koda.deps.signer, api_port=1)) as url,
        serving_on(dev_server, path),
        httpx.AsyncClient(trust_env=False, timeout=60) as http,
    ):
        koda.directory.hold, koda.directory.socket_path = {"analyze"}, str(path)
        session_id = (await client.create(PROMPT)).session_id
        seen, edited = await client.preview(session_id), await client.preview(session_id, edit=True)
        assert (seen.edit, edited.edit) == (False, True)
        look, edit = (url + urlsplit(each.url).path for each in (seen, edited))
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            refused = await http.request(method, f"{look}__koda/theatre-state", json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "READ_ONLY")
            assert "edit=true" in refused.json()["detail"]
            assert (await http.request(method, f"{edit}__koda/theatre-state", json={})).status_code == 200
        for address in (look, edit):
            assert (await http.get(address)).text == "taken"
        assert said == ["POST", "PUT", "PATCH", "DELETE", "GET", "GET"]


async def test_what_a_browser_shows_in_our_frame_is_never_told_the_token(koda: World) -> None:
    app = create_preview_app(koda.directory, koda.deps.signer, api_port=1)
    token, _ = koda.deps.signer.sign(session_id="sbx_1", user_id="local", port=6080, edit=True)
    async with serving(app) as url, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        asked = f"{url}/p/{token}/a%20%22%3Cb/vnc.html?x=%3C&path=p/{token}/websockify"
        opened = await http.get(asked, headers={"Accept": "text/html,*/*"})
        (line,) = re.findall(r"JSON\.parse\((.*)\);", opened.text)
        given = json.loads(json.loads(line))
        address = given["shown"].split("/")[2]
        assert given["shown"] == f"/v/{address}/a%20%22%3Cb/vnc.html?x=%3C&path=v/{address}/websockify"
        assert given["hold"] == f"/h/{token}/{address}" and opened.text.count(token) == 1
        assert opened.headers["cache-control"] == "no-store"
        other, _ = koda.deps.signer.sign(session_id="sbx_2", user_id="eve", port=6080, edit=True)
        for held, code in ((f"/h/{other}/{address}", 4403), (f"/h/nonsense/{address}", 4403), (f"/h/{token}/x", 4403)):
            async with connect(url.replace("http", "ws") + held) as socket:
                await socket.wait_closed()
                assert socket.close_code == code


@pytest.mark.parametrize("origin", [None, "https://previews.test"])
async def test_a_passing_address_is_good_only_where_its_token_was_shown(tmp_path: Path, origin: str | None) -> None:
    """Where somebody stands in front, who asks is not known."""

    async def page(_: Request) -> Response:
        return Response("the page")

    signer = Signer(b"x" * 32)
    token, _ = signer.sign(session_id="sbx_1", user_id="ann", port=3000)
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with serving(Starlette(routes=[Route("/{path:path}", page)])) as inside:

        async def reach(sandbox_id: str, user_id: str, port: int) -> PreviewEndpoint:
            return PreviewEndpoint(url=inside, base="/")

        app = create_preview_app(
            None, signer, api_port=1, sources=Sources(reach=reach), around=Surroundings(origin=origin)
        )
        async with (
            serving(app) as url,
            httpx.AsyncClient(trust_env=False, timeout=60) as here,
            httpx.AsyncClient(transport=elsewhere, timeout=60) as there,
        ):
            opened = await here.get(f"{url}/p/{token}/", headers={"Accept": "text/html"})
            (address,) = re.findall(r"/v/([A-Za-z0-9_-]+)/", opened.text)
            assert (await here.get(f"{url}/v/{address}/a.js")).text == "the page"
            assert (await there.get(f"{url}/v/{address}/a.js")).status_code == (403 if origin is None else 200)
            socket = url.replace("http", "ws")
            async with connect(f"{socket}/h/{token}/{address}", local_addr=("127.0.0.2", 0)) as held:
                await held.ping()
                async with asyncio.timeout(60):  # a machine that came to another network
                    while (await there.get(f"{url}/v/{address}/a.js")).status_code != 200:
                        await asyncio.sleep(0.01)
            assert (await here.get(f"{url}/v/{address}/a.js")).text == "the page"


def test_an_installation_keeps_its_key(tmp_path: Path) -> None:
    settings = Settings.model_validate({"DATABASE_PATH": tmp_path / "koda.db"})
    key = signing_key(settings)
    assert len(key) == 64 and signing_key(settings) == key
    assert (tmp_path / "signing.key").stat().st_mode & 0o777 == 0o600
    given = Settings.model_validate({"DATABASE_PATH": tmp_path / "koda.db", "KODA_SIGNING_KEY": "s" * 20})
    assert signing_key(given) == b"s" * 20
    carried = Settings.model_validate({"KODA_SIGNING_KEY": key.decode()})  # as another process gets it
    token, _ = Signer.from_settings(carried).sign(session_id="ses_1", user_id="local")
    assert Signer.from_settings(settings).check(token).session_id == "ses_1"
    with pytest.raises(KodaError, match="KODA_SIGNING_KEY"):
        signing_key(Settings.model_validate({"KODA_SIGNING_KEY": "short"}))


# --- the proxy ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template() -> Settings:
    settings = Settings.model_validate({})
    if not settings.node_modules_path.is_dir():
        pytest.skip(f"the template's packages are not installed at {settings.node_modules_path}; run ./koda setup")
    return settings


class Shown:
    """A session whose page is running behind the proxy."""

    def __init__(self, koda: World, sandbox: Sandbox, session_id: str, url: str) -> None:
        self.koda, self.sandbox, self.session_id, self.url = koda, sandbox, session_id, url
        self.token = urlsplit(url).path.split("/")[2]
        self.origin = url.split("/p/")[0]


@pytest.fixture
async def shown(tmp_path: Path, template: Settings) -> AsyncIterator[Shown]:
    port = free_port()
    async with world(tmp_path, KODA_PREVIEW_PORT=port, SANDBOX_PATH=tmp_path / "sandboxes") as koda:
        koda.directory.hold = {"analyze"}
        provider = provider_from(koda.settings, deployment=await koda.store.deployment())
        async with KodaClient(koda.url) as client:
            session_id = (await client.create(PROMPT)).session_id
            sandbox = await provider.create(sandbox_id=new_id("sbx"), session_id=session_id, user_id="local")
            try:
                endpoint = await sandbox.start_preview()
                koda.directory.socket_path = endpoint.socket_path
                api_port = urlsplit(koda.url).port or 0
                app = create_preview_app(koda.directory, koda.deps.signer, api_port=api_port)
                async with serving(app, port):
                    link = await client.preview(session_id)
                    assert link.expires_at > now()
                    yield Shown(koda, sandbox, session_id, link.url)
            finally:
                await sandbox.destroy()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
        )
        yield await browser.new_page()
        await browser.close()


@pytest.mark.sandbox
@pytest.mark.browser
@pytest.mark.full
async def test_the_page_runs_and_reloads_as_files_change(shown: Shown, page: Page) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    frame = await framed(page, shown.url)
    await frame.wait_for_function("window.__koda !== undefined", timeout=60_000)
    await frame.evaluate("window.__koda.ready")
    assert await frame.evaluate("window.origin") == "null"
    assert problems == []
    source = (await shown.sandbox.read_file("src/App.tsx")).decode()
    marked = f"document.title = 'changed by the agent';\n{source}"
    await shown.sandbox.write_files({"src/App.tsx": marked.encode()})
    await frame.wait_for_function("document.title === 'changed by the agent'", timeout=60_000)
    await told(shown, 1)
    assert page.context.browser is not None
    other = await page.context.browser.new_page()
    await framed(other, shown.url)
    await told(shown, 2)
    await other.close()
    await told(shown, 1)
    await page.close()
    await told(shown, 0)


@pytest.mark.sandbox
@pytest.mark.browser
@pytest.mark.full
async def test_an_open_page_does_not_wake_a_session_that_sleeps(shown: Shown, page: Page) -> None:
    frame = await framed(page, shown.url)
    await frame.wait_for_function("window.__koda !== undefined", timeout=60_000)
    await frame.evaluate("window.__koda.ready")
    await told(shown, 1)
    directory = shown.koda.directory
    directory.asleep = True
    await shown.sandbox.destroy()
    asked = directory.previews
    async with asyncio.timeout(60):
        while directory.pings < 3:
            await asyncio.sleep(0.05)
    assert directory.previews == asked
    assert await frame.evaluate("window.__koda !== undefined")  # what was loaded is still shown
    provider = provider_from(shown.koda.settings, deployment=await shown.koda.store.deployment())
    again = await provider.create(sandbox_id=new_id("sbx"), session_id=shown.session_id, user_id="local")
    try:
        source = (await again.read_file("src/App.tsx")).decode()
        await again.write_files({"src/App.tsx": f"document.title = 'awake';\n{source}".encode()})
        directory.socket_path = (await again.start_preview()).socket_path
        directory.asleep = False
        await frame.wait_for_function("document.title === 'awake'", timeout=60_000)
    finally:
        await page.close()
        await again.destroy()


async def told(shown: Shown, watchers: int) -> None:
    """Wait until the session has heard that so many look at its page."""
    async with asyncio.timeout(60):
        while shown.koda.directory.watchers.get(shown.session_id) != watchers:
            await asyncio.sleep(0.02)


@pytest.mark.sandbox
async def test_what_comes_through_and_what_does_not(shown: Shown) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        opened = await http.get(shown.url, headers={"Accept": "text/html"})  # as a browser does
        assert opened.status_code == 200 and "frame-src 'self';" in opened.headers["content-security-policy"]
        assert opened.headers["referrer-policy"] == "no-referrer" and "src/main.tsx" not in opened.text
        response = await http.get(shown.url)
        assert response.status_code == 200
        assert PREVIEW_BASE not in response.text and f"/p/{shown.token}/@vite/client" in response.text
        policy = response.headers["content-security-policy"]
        api_port = urlsplit(shown.koda.url).port
        assert policy.startswith("sandbox allow-scripts;") and f"http://127.0.0.1:{api_port}" in policy
        assert "allow-same-origin" not in policy
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in response.headers
        module = await http.get(f"{shown.url}src/main.tsx")
        assert module.headers["content-type"].startswith("text/javascript") and PREVIEW_BASE not in module.text

        other, _ = shown.koda.deps.signer.sign(session_id="ses_other", user_id="local")
        stranger, _ = shown.koda.deps.signer.sign(session_id=shown.session_id, user_id="mallory")
        old, _ = shown.koda.deps.signer.sign(session_id=shown.session_id, user_id="local", ttl_s=-5)
        forged = shown.token.replace(shown.session_id, "ses_forged")
        for token, status in ((forged, 403), ("what-is-this", 403), (old, 403), (other, 404), (stranger, 404)):
            refused = await http.get(f"{shown.origin}/p/{token}/")
            assert refused.status_code == status, token
            assert token not in refused.text
        shown_to_people = await http.get(f"{shown.origin}/p/{old}/", headers={"Accept": "text/html"})
        assert shown_to_people.status_code == 403 and "<script" not in shown_to_people.text
        assert (await http.get(f"{shown.origin}/")).status_code == 404
        too_much = await http.post(shown.url, content=b"x" * (5 * 1024 * 1024))
        assert too_much.status_code == 413


async def test_a_dev_server_that_is_gone_is_said(tmp_path: Path) -> None:
    async with world(tmp_path) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        session_id = (await client.create(PROMPT)).session_id
        koda.directory.socket_path = str(tmp_path / "nobody.sock")
        token, _ = koda.deps.signer.sign(session_id=session_id, user_id="local")
        async with (
            serving(create_preview_app(koda.directory, koda.deps.signer, api_port=1)) as url,
            httpx.AsyncClient(trust_env=False, timeout=60) as http,
        ):
            response = await http.get(f"{url}/p/{token}/")
            assert (response.status_code, response.json()["code"]) == (502, "SERVER_FAILED")
            assert token not in response.text
            assert (await http.get(f"{url}/p/{token}")).headers["location"] == f"/p/{token}/"
        with pytest.raises(NotFound):
            await client.preview("ses_unknown")
        await asyncio.sleep(0)


async def test_previews_are_on_the_origin_that_settings_name_whoever_stands_in_front(tmp_path: Path) -> None:
    port = free_port()
    origin = f"http://localhost:{port}"
    async with world(tmp_path, KODA_PREVIEW_ORIGIN=origin) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        koda.directory.socket_path = str(tmp_path / "nobody.sock")
        link = (await client.preview((await client.create(PROMPT)).session_id)).url
        assert link.startswith(f"{origin}/p/")
        app = create_preview_app(
            koda.directory, koda.deps.signer, api_port=1, around=Surroundings.from_settings(koda.settings)
        )
        async with serving(app, port), httpx.AsyncClient(trust_env=False, timeout=60) as http:
            answer = await http.options(link, headers={"Host": "inside:8421"})  # as a proxy may send it
            policy = answer.headers["content-security-policy"]
            assert answer.status_code == 204 and "inside" not in policy
            assert f"connect-src 'self' ws://localhost:{port} wss://localhost:{port}" in policy

            token, _ = koda.deps.signer.sign(session_id="sbx_1", user_id="local", port=3000)
            for referer, status in ((f"{origin}/p/{token}/", 307), (f"http://inside:8421/p/{token}/", 404)):
                asked = await http.get(f"{origin}/style.css", headers={"Host": "inside:8421", "Referer": referer})
                assert asked.status_code == status
    for wrong in ("preview.example.org", "https://preview.example.org/", "https://a b", "https://x;script-src"):
        with pytest.raises(InvalidInput, match="KODA_PREVIEW_ORIGIN"):
            Settings.model_validate({"KODA_PREVIEW_ORIGIN": wrong})


async def test_named_origins_may_frame_it_and_nobody_else(tmp_path: Path) -> None:
    named = "https://canvas.example.com"
    async with world(tmp_path, KODA_ALLOWED_ORIGINS=named) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        koda.directory.socket_path = str(tmp_path / "nobody.sock")
        path = urlsplit((await client.preview((await client.create(PROMPT)).session_id)).url).path
        for around, framers in ((Surroundings.from_settings(koda.settings), f" {named}"), (Surroundings(), "")):
            app = create_preview_app(koda.directory, koda.deps.signer, api_port=1, around=around)
            async with serving(app) as url, httpx.AsyncClient(trust_env=False, timeout=60) as http:
                ours = await http.get(url + path, headers={"Accept": "text/html"})
                hostile = await http.options(url + path)
            parents = f"http://127.0.0.1:1 http://localhost:1{framers}"
            assert ours.headers["content-security-policy"].endswith(f"; frame-ancestors {parents}")
            assert hostile.headers["content-security-policy"].endswith(f"; frame-ancestors 'self' {parents}")
