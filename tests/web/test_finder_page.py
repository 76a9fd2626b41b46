"""Ctrl+K: places, animations and what can be done here, found by typing and chosen by the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_a_place_an_animation_and_what_can_be_done_are_found_by_typing(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A bouncing ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        found = page.get_by_role("listbox", name="What was found")
        field = page.get_by_role("combobox", name="What to find")
        marked = found.get_by_role("option", selected=True)
        await page.keyboard.press("Control+k")
        await expect(field).to_be_focused()
        await expect(found.get_by_role("option", name="A bouncing ball")).to_be_visible()
        await on_every_screen(page)
        await page.keyboard.type("usa")
        await expect(found.get_by_role("option")).to_have_count(1)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/usage")
        await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("bouncing")
        await expect(marked).to_contain_text("A bouncing ball")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/s/{session_id}")
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
        sought = {"change som": "Change something", "share": "Share the video", "rend": "Render 1080p"}
        for words, first in sought.items():
            await page.keyboard.press("Control+k")
            await page.keyboard.type(words)
            await expect(marked).to_contain_text(first)
            await page.keyboard.press("Enter")
            if first == "Change something":
                await expect(page.get_by_label("What should be different")).to_be_focused()
            elif first == "Share the video":
                await expect(page.get_by_role("dialog", name="Share this video")).to_be_visible()
                await page.keyboard.press("Control+k")  # over another dialog nothing opens
                await expect(field).to_have_count(0)
                await page.keyboard.press("Escape")
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)


async def test_the_arrows_go_round_and_escape_leaves_everything_as_it_was(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        found = page.get_by_role("listbox", name="What was found")
        words = page.get_by_role("textbox", name="What should move")
        await words.fill("A ball")
        await page.get_by_role("button", name="Keys").click()
        await page.get_by_label("Single letters and digits are keys").uncheck()  # this one is no single letter
        await expect(page.get_by_text("Find a place, an animation, something to do")).to_be_visible()
        await page.keyboard.press("Escape")
        await words.focus()
        await page.keyboard.press("Control+k")
        marked = found.get_by_role("option", selected=True)
        await expect(marked).to_have_text("List the keys")
        await page.keyboard.press("ArrowUp")
        await expect(marked).to_have_text("Usage")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        await expect(marked).to_have_text("New animation")
        await page.keyboard.type("nothing is called so")
        await expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Nothing is called")
        await expect(found.get_by_role("option")).to_have_count(0)
        await page.keyboard.press("Enter")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(words).to_be_focused()
        await expect(words).to_have_value("A ball")
        await page.get_by_role("link", name="Renders").click()
        await page.get_by_role("button", name="Find").click()
        await found.get_by_role("option", name="New animation").click()
        await expect(words).to_be_focused()
