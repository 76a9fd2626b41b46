"""How far a render is: known as soon as its page is looked at, in the studio and on a canvas, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from playwright.async_api import Browser, expect

from koda_ray.client import KodaClient
from koda_ray.types import now
from tests.serve.world import World
from tests.web.axes import examine
from tests.web.looking import looking
from tests.web.test_queue import rendering

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_a_reload_knows_how_far_a_render_is_and_follows_it(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        job = await client.job(await rendering(koda, client))
        async with looking(browser, f"{koda.url}/s/{job.session_id}") as page:
            for _ in range(2):
                await expect(page.get_by_role("heading", name="Rendering the video")).to_be_visible()
                await expect(page.get_by_text("1 of 75 frames")).to_be_visible()
                await expect(page.get_by_text("Taking frames · about 5 s left")).to_be_visible()
                bar = page.get_by_role("progressbar", name="Rendering")
                await expect(bar).to_have_attribute("aria-valuenow", "10")
                await page.reload()
            await page.goto(f"{koda.url}/c")
            await page.wait_for_url("**/c/*")
            await page.goto(f"{page.url}?put={job.session_id}")
            node = page.locator(".react-flow__node")
            for _ in range(2):
                await expect(node.get_by_text("Taking frames · about 5 s left")).to_be_visible()
                await page.reload()
            await page.goto(f"{koda.url}/s/{job.session_id}")
            await expect(page.get_by_text("1 of 75 frames")).to_be_visible()
            assert koda.directory.rendering is not None
            koda.directory.rendering.set()
            await expect(page.get_by_role("heading", name="It is finished")).to_be_visible()


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_reload_says_that_a_render_waits(
    koda: World, browser: Browser, status: Literal["queued", "running"]
) -> None:
    async with KodaClient(koda.url) as client:
        job = await koda.store.get_job(await rendering(koda, client), user_id="local")
        waits = {"percent": 0.0, "stage": "waiting", "waitedS": 3.0} if status == "running" else {}
        told = replace(job, status=status, progress=waits, updated_at=now())
        await koda.directory.tell(told)
        words = "Waits for a machine" if status == "running" else "Waits for its turn"
        async with looking(browser, f"{koda.url}/s/{job.session_id}") as page:
            for _ in range(2):
                await expect(page.get_by_text(words)).to_be_visible()
                await page.reload()
            await expect(page.get_by_text(words)).to_be_visible()
            await examine(page)
            await page.get_by_role("button", name="Stop").click()
            await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
            await expect(page.get_by_role("progressbar")).to_have_count(0)
