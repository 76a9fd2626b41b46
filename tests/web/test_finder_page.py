"""Ctrl+K: places, animations and what can be done here, found by typing and chosen by the keyboard alone."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Browser, Route, expect

from koda_ray.client import KodaClient
from tests.serve.world import World
from tests.web.axes import examine, on_every_screen
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
        await expect(marked).to_have_text("Sandboxes")
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
        await page.keyboard.type(", slow")  # where one was typing
        await expect(words).to_have_value("A ball, slow")
        await page.get_by_role("link", name="Renders").click()
        await page.get_by_role("button", name="Find").click()
        await found.get_by_role("option", name="New animation").click()
        await expect(words).to_be_focused()


async def test_who_presses_enter_at_once_opens_none_that_was_found_for_fewer_words(
    koda: World, browser: Browser
) -> None:
    koda.directory.hold = {"analyze"}
    async with KodaClient(koda.url) as client:
        wanted = (await client.create("A bouncing ball")).session_id
        await client.create("A kite in the wind")
    async with looking(browser, koda.url) as page:
        let = asyncio.Event()

        async def held(route: Route) -> None:
            await let.wait()
            await route.continue_()

        await page.route(re.compile("/v1/sessions.*bouncing"), held)
        found = page.get_by_role("listbox", name="What was found")
        await expect(page.get_by_role("button", name="Find")).to_be_visible()
        await page.keyboard.press("Control+k")
        await expect(found.get_by_role("option", name="A kite in the wind")).to_be_visible()
        async with page.expect_request(re.compile("/v1/sessions.*bouncing")):
            await page.keyboard.type("bouncing")
            await page.keyboard.press("Enter")
        await page.keyboard.press("Enter")  # what is asked for is not known yet
        await expect(page.get_by_role("combobox", name="What to find")).to_have_value("bouncing")
        await expect(page.locator("dialog [role=option]")).to_have_count(0)
        let.set()
        await expect(found.get_by_role("option", selected=True)).to_contain_text("A bouncing ball")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/s/{wanted}")


async def test_what_is_typed_before_all_of_it_is_there_is_not_for_the_page_below(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        let = asyncio.Event()

        async def held(route: Route) -> None:
            await let.wait()
            await route.continue_()

        await page.route("**/page/palette-*.js", held)
        await expect(page.get_by_role("button", name="Find")).to_be_visible()
        async with page.expect_request("**/page/palette-*.js"):
            await page.keyboard.press("Control+k")
        await page.keyboard.type("?us")  # a key that lists the keys, elsewhere
        await page.keyboard.press("Enter")
        field = page.get_by_label("What to find")
        await expect(field).to_have_value("?us")
        await expect(page.get_by_role("dialog")).to_have_count(1)
        await page.keyboard.press("Home")
        await page.keyboard.press("Delete")
        let.set()
        await expect(page.get_by_role("combobox", name="What to find")).to_be_focused()
        await page.keyboard.type("a")
        await expect(field).to_have_value("usa")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/usage")


async def test_a_mac_has_its_own_key(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.add_init_script("Object.defineProperty(navigator, 'platform', { get: () => 'MacIntel' })")
        await page.reload()
        await expect(page.get_by_role("button", name="Find")).to_have_attribute("aria-keyshortcuts", "Meta+K")
        await page.keyboard.press("Control+k")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("⌘ K")  # nothing was open over it
        await page.keyboard.press("Escape")
        await page.keyboard.press("Meta+k")
        await expect(page.get_by_role("dialog", name="Find")).to_be_visible()


async def test_on_a_phone_what_helps_is_behind_one_button(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        more = page.get_by_role("button", name="Find, keys and motion")
        await more.click()
        await examine(page)
        await page.get_by_role("button", name="Find a place").click()
        await expect(page.get_by_role("combobox", name="What to find")).to_be_focused()
        await page.keyboard.type("renders")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/renders")
        await more.click()
        await page.get_by_role("button", name="Keys, notices and motion").click()
        await page.get_by_label("Single letters and digits").uncheck()
        await examine(page)
        await page.keyboard.press("Escape")
        await expect(more).to_be_focused()
        await page.set_viewport_size({"width": 1280, "height": 800})
        await expect(more).to_be_hidden()
        await expect(page.get_by_role("button", name="Keys", exact=True)).to_be_visible()
