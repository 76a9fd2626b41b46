"""What was used beside what may be, on a page of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from tests.serve.world import world
from tests.web.axes import on_every_screen
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_what_is_nearly_used_up_is_said_with_what_to_do(tmp_path: Path, browser: Browser) -> None:
    settings = {"KODA_WEB_PATH": Settings().web_path, "KODA_USER_SESSIONS": 2, "KODA_MAX_SESSIONS_PER_USER": 0}
    async with world(tmp_path, **settings) as koda, looking(browser, koda.url) as page:
        await page.get_by_role("link", name="Usage").click()
        awake = page.get_by_role("meter", name="Animations awake")
        await expect(awake).to_have_attribute("aria-valuetext", "0 of 2")
        told = page.get_by_role("main").get_by_role("status")
        await expect(told).to_be_empty()
        await expect(page.get_by_role("listitem").filter(has_text="Animations in all")).to_contain_text("no limit")
        await on_every_screen(page)
        koda.directory.hold = {"analyze"}
        async with KodaClient(koda.url) as client:
            for _ in range(2):
                await client.create("A ball")
        await page.reload()
        await expect(awake).to_have_attribute("aria-valuetext", "2 of 2")
        await expect(told).to_contain_text("Animations awake: used up. They fall asleep by themselves")
        await on_every_screen(page)


async def test_other_months_are_looked_at(tmp_path: Path, browser: Browser) -> None:
    settings = {"KODA_WEB_PATH": Settings().web_path}
    async with world(tmp_path, **settings) as koda, looking(browser, f"{koda.url}/usage?month=2025-01") as page:
        await expect(page.get_by_role("heading", name="In January 2025")).to_be_visible()
        await page.get_by_role("button", name="The month before").click()
        await page.wait_for_url("**/usage?month=2024-12")
        await expect(page.get_by_role("heading", name="In December 2024")).to_be_visible()
        await page.get_by_role("button", name="The next month").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="In January 2025")).to_be_visible()
        await expect(page.get_by_role("button", name="The next month")).to_be_focused()
        await on_every_screen(page)
        await page.get_by_role("link", name="Usage").click()
        await expect(page.get_by_role("button", name="The next month")).to_have_attribute("aria-disabled", "true")
