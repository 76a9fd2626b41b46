"""What fails after one has gone to another screen is told there, with the way back to what was typed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from tests.serve.world import world
from tests.web.axes import on_every_screen
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_a_prompt_that_is_not_taken_is_told_wherever_one_is(tmp_path: Path, browser: Browser) -> None:
    settings = {"KODA_WEB_PATH": Settings().web_path, "KODA_USER_SESSIONS": 1}
    async with world(tmp_path, **settings) as koda, looking(browser, koda.url) as page:
        koda.directory.hold = {"analyze"}
        async with KodaClient(koda.url) as client:
            taken = (await client.create("The one that is awake")).session_id
        let = asyncio.Event()

        async def held(route: Route) -> None:
            await let.wait()
            await route.continue_()

        await page.route("**/v1/sessions", held)
        words = page.get_by_role("textbox", name="What should move")
        await words.fill("A ball that has to wait")
        await page.get_by_role("button", name="Make it").click()
        await page.get_by_role("link", name="Renders").click()
        await expect(page.get_by_role("heading", name="Renders")).to_be_visible()
        let.set()
        region = page.get_by_role("region", name="Not begun")
        await expect(region.get_by_role("alert")).to_contain_text("A ball that has to wait: ")
        await expect(region.get_by_role("alert")).to_contain_text("sessions that are awake")
        await on_every_screen(page)
        await region.get_by_role("link", name="Look at it").click()
        await expect(region).to_have_count(0)
        await expect(words).to_have_value("A ball that has to wait")
        await expect(page.get_by_role("alert")).to_contain_text("sessions that are awake")  # where it was sent from
        await page.get_by_role("link", name="Assets").click()
        await expect(page.get_by_role("heading", name="Assets")).to_be_visible()
        await expect(region).to_have_count(0)  # it is known by now
        await page.get_by_role("link", name="Sessions").click()
        await deleted(koda.url, taken)
        await page.get_by_role("button", name="Make it").click()
        await page.wait_for_url("**/s/*")
        assert len(await koda.store.list_sessions("local")) == 1


async def deleted(url: str, session_id: str) -> None:
    async with KodaClient(url) as client:
        await client.delete(session_id)
