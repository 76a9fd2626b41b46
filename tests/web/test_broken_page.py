"""A page of which a part does not come, or breaks: what is said of it, and that it can be loaded again."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_what_did_not_come_is_said_in_its_place_and_is_there_once_it_is_loaded_again(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, koda.url) as page:
        await page.route("**/page/usage-*.js", lambda route: route.abort())
        await page.get_by_role("link", name="Usage").click()
        await expect(page.get_by_role("heading", name="This part of the page did not come")).to_be_focused()
        await on_every_screen(page)
        await page.unroute_all()
        await page.get_by_role("button", name="Load it again").click()
        await expect(page.get_by_role("meter", name="Animations awake")).to_be_visible()


async def test_what_breaks_is_said_and_is_there_once_it_is_loaded_again(koda: World, browser: Browser) -> None:
    broken = "export const Usage = () => { throw new Error('it broke'); };"
    async with looking(browser, koda.url) as page:
        await page.route("**/page/usage-*.js", lambda route: route.fulfill(body=broken, content_type="text/javascript"))
        await page.get_by_role("link", name="Usage").click()
        await expect(page.get_by_role("heading", name="This page broke")).to_be_visible()
        await on_every_screen(page)
        await page.unroute_all()
        await page.get_by_role("button", name="Load it again").click()
        await expect(page.get_by_role("meter", name="Animations awake")).to_be_visible()
