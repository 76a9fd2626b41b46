"""The real template at E2B: its dev server by address and token, also behind the preview's proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from playwright.async_api import async_playwright
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.sandbox.base import PREVIEW_BASE, PreviewEndpoint
from koda_ray.sandbox.e2b_sandbox import E2BSandbox
from koda_ray.sandbox.preview import http_client, open_socket
from koda_ray.serve.preview import create_preview_app
from koda_ray.types import new_id
from tests.sandbox.e2b import provider_of
from tests.sandbox.e2b_server import E2BServer
from tests.sandbox.e2b_server.machine import TemplateImage
from tests.serve.framed import framed
from tests.serve.test_preview import CHROMIUM, PROMPT
from tests.serve.world import serving, world

pytestmark = [pytest.mark.full, pytest.mark.needs("e2b")]


@pytest.fixture
async def server() -> AsyncIterator[E2BServer]:
    settings = Settings()
    async with E2BServer(
        {"koda": TemplateImage(settings.template_path, settings.node_modules_path)}
    ).serving() as running:
        yield running


@pytest.fixture
async def project_box(server: E2BServer) -> E2BSandbox:
    """A sandbox of the real template, with its packages."""
    provider = provider_of(server, pids=256)
    return await provider.create(sandbox_id=new_id("sbx"), session_id="ses_test", user_id="local")


def without_token(endpoint: PreviewEndpoint) -> PreviewEndpoint:
    headers = {name: text for name, text in endpoint.headers.items() if "token" not in name}
    return PreviewEndpoint(url=endpoint.url, headers=headers)


async def test_only_who_has_its_token_gets_to_the_dev_server(project_box: E2BSandbox) -> None:
    endpoint = await project_box.start_preview(timeout_s=60)
    async with http_client(endpoint, timeout=httpx.Timeout(60)) as http:
        script = (await http.get(f"{endpoint.base}@vite/client")).text
    token = script.split('wsToken = "')[1].split('"')[0]
    target = f"{endpoint.base}?token={token}"
    async with await open_socket(endpoint, target, protocols=[Subprotocol("vite-hmr")]) as hmr:
        assert '"connected"' in str(await asyncio.wait_for(hmr.recv(), 60))
    async with http_client(without_token(endpoint), timeout=httpx.Timeout(60)) as http:
        assert (await http.get(endpoint.base)).status_code == 403
    with pytest.raises(InvalidStatus):
        await open_socket(without_token(endpoint), target, protocols=[Subprotocol("vite-hmr")])


@pytest.mark.browser
async def test_the_page_is_shown_by_the_proxy_and_reloads(
    tmp_path: Path, server: E2BServer, project_box: E2BSandbox
) -> None:
    async with world(tmp_path) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        session_id = (await client.create(PROMPT)).session_id
        koda.directory.elsewhere = endpoint = await project_box.start_preview(timeout_s=60)
        token, _ = koda.deps.signer.sign(session_id=session_id, user_id="local")
        app = create_preview_app(koda.directory, koda.deps.signer, api_port=urlsplit(koda.url).port or 0)
        async with serving(app) as url, async_playwright() as driver:
            async with httpx.AsyncClient(timeout=60) as http:
                shown = await http.get(f"{url}/p/{token}/")
                assert shown.status_code == 200 and PREVIEW_BASE not in shown.text
                assert not any(secret in str(shown.headers) + shown.text for secret in endpoint.headers.values())
            browser = await driver.chromium.launch(
                executable_path=str(CHROMIUM), args=["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
            )
            page = await browser.new_page()
            async with page.expect_console_message(lambda message: "[vite] connected" in message.text, timeout=60_000):
                # what is written before it listens, it does not hear of
                frame = await framed(page, f"{url}/p/{token}/")
            await frame.wait_for_function("window.__koda !== undefined", timeout=60_000)
            source = (await project_box.read_file("src/App.tsx")).decode()
            for turn in range(10):  # a server that answers may still be on its way through the files it is to watch
                await project_box.write_files({"src/App.tsx": f"document.title = 'changed {turn}';\n{source}".encode()})
                with suppress(PlaywrightTimeoutError):
                    await frame.wait_for_function("document.title.startsWith('changed')", timeout=6_000)
                    break
            else:
                pytest.fail("the page did not follow the files")
            await browser.close()
            await project_box.stop("preview")
            async with httpx.AsyncClient(timeout=60) as http:
                gone = await http.get(f"{url}/p/{token}/")
                assert (gone.status_code, gone.json()["code"]) == (502, "SERVER_FAILED")
