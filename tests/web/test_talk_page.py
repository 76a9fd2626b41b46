"""What was said stands in an order that begins, or ends, with the newest beside the place to say more."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.serve.world import World
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_the_newest_of_what_was_said_stands_beside_the_place_to_say_more(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await page.get_by_label("Playful").check()
        await page.get_by_role("button", name="Answer").click()
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
        await page.get_by_label("What should be different").fill("red")
        await page.keyboard.press("Control+Enter")
        said = page.get_by_role("region", name="Talk").get_by_role("listitem")
        in_order = ["YouA ball", "YouWhich style do you want?Playful", "Youred"]
        for width, words in ((1440, in_order[::-1]), (390, in_order)):  # above it, and on a phone below
            await page.set_viewport_size({"width": width, "height": 844})
            await expect(said).to_have_text(words)
