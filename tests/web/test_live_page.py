"""The live page on a session's page: a real dev server in a real sandbox, moved frame by frame, and doubted."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.async_api import Browser, Frame, Page, expect

from koda_ray.config import Settings
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.service import provider_from
from koda_ray.serve.preview import create_preview_app
from koda_ray.types import new_id
from tests.serve.world import World, free_port, reached, serving, world
from tests.web.looking import begin, looking

pytestmark = [
    pytest.mark.full,
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.needs("web", "node", "bwrap"),
]

FPS = 60


@dataclass
class Running:
    """A server whose sessions all show the template's page, out of one sandbox."""

    koda: World
    sandbox: Sandbox


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    port = free_port()
    settings = {"KODA_PREVIEW_PORT": port, "SANDBOX_PATH": tmp_path / "boxes", "KODA_WEB_PATH": Settings().web_path}
    async with world(tmp_path, **settings) as koda:
        provider = provider_from(koda.settings, deployment=await koda.store.deployment())
        sandbox = await provider.create(sandbox_id=new_id("sbx"), session_id="s", user_id="local")
        try:
            koda.directory.socket_path = (await sandbox.start_preview()).socket_path
            api_port = urlsplit(koda.url).port or 0
            async with serving(create_preview_app(koda.directory, koda.deps.signer, api_port=api_port), port):
                yield Running(koda, sandbox)
        finally:
            await sandbox.destroy()


async def live(koda: World, page: Page) -> tuple[str, Frame]:
    """Bring a session to its preview and see it live; return its id and the hostile page's frame."""
    koda.directory.asks = False
    session_id = await begin(page, "A ball")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
    assert koda.directory.previews == 0  # nobody asked for it yet
    await page.get_by_role("button", name="See it live").click()
    await expect(page.get_by_role("slider", name="Frame")).to_be_visible(timeout=60_000)
    (inside,) = shown_in(page)
    return session_id, inside


def shown_in(page: Page) -> list[Frame]:
    """Return the frames of hostile pages."""
    return [frame for frame in page.frames if urlsplit(frame.url).path.startswith("/v/")]


async def stands_at(page: Page, inside: Frame, frame: int) -> None:
    """Wait until a frame is shown: on the page, and in the page that is shown."""
    await expect(page.get_by_role("slider", name="Frame")).to_have_value(str(frame))
    async with asyncio.timeout(60):
        while abs(await inside.evaluate("window.__koda.time") - frame / FPS) > 1e-9:
            await asyncio.sleep(0.02)


async def test_the_live_page_plays_and_goes_to_the_very_frame_that_is_named(running: Running, browser: Browser) -> None:
    async with looking(browser, running.koda.url) as page:
        session_id, inside = await live(running.koda, page)
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("button", name="Play")).to_be_visible()
        slider = page.get_by_role("slider", name="Frame")
        await slider.fill("141")
        await stands_at(page, inside, 141)
        assert "frame 141 of 300, scene 2 Bounce" in str(await slider.get_attribute("aria-valuetext"))
        await page.get_by_role("button", name="A frame back").click()
        await stands_at(page, inside, 140)
        await slider.press("ArrowRight")
        await slider.press("ArrowRight")
        await stands_at(page, inside, 142)
        await page.get_by_role("button", name="go elsewhere").click()
        await page.keyboard.type("0:03.5")
        await page.keyboard.press("Enter")
        await stands_at(page, inside, 210)
        await page.get_by_role("heading", name="Here is a preview").click()
        await page.keyboard.press("k")
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await inside.wait_for_function("before => window.__koda.time !== before", arg=210 / FPS)
        source = (await running.sandbox.read_file("src/App.tsx")).decode()
        await running.sandbox.write_files({"src/App.tsx": f"document.title = 'again';\n{source}".encode()})
        await inside.wait_for_function("document.title === 'again'", timeout=60_000)
        await slider.fill("30")
        await stands_at(page, inside, 30)
        await reached(lambda: running.koda.directory.watchers.get(session_id) == 1)
        await page.get_by_role("button", name="Back to the video").click()
        await expect(page.get_by_label("The preview")).to_be_visible()
        await reached(lambda: running.koda.directory.watchers.get(session_id) == 0)


async def test_what_stands_still_is_there_again_at_another_size(running: Running, browser: Browser) -> None:
    async def reds(page: Page) -> int:
        """Count the pixels of the template's red ball, which is drawn by WebGL."""
        shot = Image.open(io.BytesIO(await page.locator("iframe").screenshot()))
        pixels = np.asarray(shot.convert("RGB")).astype(int)
        return int(((pixels[..., 0] > 180) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)).sum())

    async def shown(page: Page) -> None:
        async with asyncio.timeout(60):
            while await reds(page) < 100:
                await asyncio.sleep(0.1)

    async with looking(browser, running.koda.url) as page:
        await page.set_viewport_size({"width": 1280, "height": 800})
        _, inside = await live(running.koda, page)
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("slider", name="Frame").fill("60")
        await stands_at(page, inside, 60)
        await shown(page)
        width = await inside.evaluate("innerWidth")
        await page.set_viewport_size({"width": 800, "height": 700})
        await inside.wait_for_function("before => innerWidth !== before", arg=width)
        await shown(page)


async def test_the_pages_address_is_renewed_before_it_runs_out(running: Running, browser: Browser) -> None:
    async with looking(browser, running.koda.url) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/preview") else None)
        await page.clock.install()
        await page.reload()
        _, inside = await live(running.koda, page)
        before = urlsplit(inside.url).path
        await page.clock.fast_forward("58:30")
        assert len(asked) == 1
        await page.clock.fast_forward("01:00")
        await reached(lambda: len(asked) == 2)
        async with asyncio.timeout(60):
            while not (renewed := [each for each in shown_in(page) if urlsplit(each.url).path != before]):
                await asyncio.sleep(0.02)
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        await page.get_by_role("slider", name="Frame").fill("90")
        await stands_at(page, renewed[0], 90)


async def test_what_a_hostile_page_posts_changes_nothing(running: Running, browser: Browser) -> None:
    async with looking(browser, running.koda.url) as page:
        session_id, inside = await live(running.koda, page)
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("slider", name="Frame").fill("60")
        await stands_at(page, inside, 60)
        before = await running.koda.store.get_session(session_id)
        await inside.evaluate(
            """() => {
                const posted = [
                    {koda: 1, type: 'ready', duration: 1e12, fps: 60, time: 0}, {koda: 1, type: 'accept'},
                    {koda: 1, type: 'state', time: '1', playing: true}, {koda: 1, type: 'state', time: -5},
                    {koda: 1, do: 'seek', time: 2}, {koda: 1, type: '__proto__', __proto__: {time: 3}},
                    {koda: 2}, 'text', null,
                ];
                for (const each of posted) for (const window of [parent, top]) window.postMessage(each, '*');
                top.postMessage({koda: 1, type: 'state', time: 4, playing: true}, '*');  // not by way of our frame
                parent.postMessage({koda: 1, type: 'error', message: '<b>Sign in again</b>'}, '*');
            }"""
        )
        await expect(page.get_by_text("The page says: <b>Sign in again</b>")).to_be_visible()
        await expect(page.get_by_role("slider", name="Frame")).to_have_value("60")
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        assert await running.koda.store.get_session(session_id) == before
