"""Escape leaves one thing on the page, the innermost, wherever the keyboard is by then."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.serve.world import World
from tests.web.looking import looking
from tests.web.test_versions_page import made

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def escape(page: Page) -> None:
    await page.keyboard.press("Escape")


async def test_a_version_and_the_comparison_are_left_from_anywhere(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page, "red")
        chosen = page.get_by_role("heading", name="Version 1")
        thumbnail = page.get_by_role("button", name="Version 1, A ball")
        await page.get_by_role("heading", name="Here is a preview").click()  # the keyboard is nowhere
        await page.keyboard.press("[")
        await expect(chosen).to_be_visible()
        await escape(page)
        await expect(chosen).to_have_count(0)
        await page.evaluate("localStorage.setItem('koda.single-keys-off', 'yes')")  # Escape is none of these
        await thumbnail.click()
        await expect(chosen).to_be_visible()
        await escape(page)
        await expect(chosen).to_have_count(0)
        await page.evaluate("localStorage.clear()")

        await thumbnail.click()
        await page.get_by_role("button", name="Add a note").click()
        await page.keyboard.type("the first")
        await escape(page)  # the note
        await expect(page.get_by_role("button", name="Add a note")).to_be_focused()
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await escape(page)  # the dialog
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.get_by_label("What should be different").fill("blue")
        await escape(page)  # who types means what they type
        await expect(chosen).to_be_visible()
        await page.get_by_role("button", name="Star it").focus()
        await escape(page)
        await expect(chosen).to_have_count(0)
        await expect(thumbnail).to_be_focused()  # what it was opened by

        await page.keyboard.press("c")
        await page.wait_for_url("**/compare?**")
        await page.get_by_role("combobox", name="A", exact=True).focus()
        await escape(page)
        await page.wait_for_url(re.compile(f"/s/{session_id}$"))
        await expect(page.get_by_label("What should be different")).to_have_value("blue")
