"""What was said stands in its order, whether the place to say more is above it or below."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.serve.world import World
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_what_was_said_is_read_from_its_beginning_on_every_screen(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await page.get_by_label("Playful").check()
        await page.get_by_role("button", name="Answer").click()
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
        await page.get_by_label("What should be different").fill("red")
        await page.keyboard.press("Control+Enter")
        said = page.get_by_role("region", name="Talk").get_by_role("listitem")
        for width in (1440, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            await expect(said).to_have_text(["YouA ball", "YouPlayful", "Youred"])
