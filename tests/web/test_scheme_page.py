"""Light or dark, as the system has it or as somebody chose: before the page is painted, and in every window."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from koda_ray.config import Settings
from tests.serve.world import World, world
from tests.web.axes import on_every_screen
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

IS_DARK = "getComputedStyle(document.body).backgroundColor === 'rgb(12, 13, 16)'"


async def dark(page: Page, wanted: bool) -> None:
    """Wait until a page is dark, or light."""
    await page.wait_for_function(f"document.body && ({IS_DARK}) === {str(wanted).lower()}")


async def test_light_or_dark_is_chosen_for_all_windows_and_is_there_before_the_page_is(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, koda.url) as page:
        await page.emulate_media(color_scheme="light")
        other = await page.context.new_page()
        await other.emulate_media(color_scheme="light")
        await other.goto(f"{koda.url}/renders")
        await page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        looks = dialog.get_by_role("group", name="Light or dark")
        await expect(looks.get_by_role("radio", name="As the system")).to_be_checked()
        await on_every_screen(page)
        await page.emulate_media(color_scheme="light")
        await dark(page, wanted=False)
        await looks.get_by_role("radio", name="As the system").focus()
        await page.keyboard.press("ArrowUp")  # round to the last
        await expect(looks.get_by_role("radio", name="Dark")).to_be_checked()
        await dark(page, wanted=True)
        await dark(other, wanted=True)
        let = asyncio.Event()

        async def held(route: Route) -> None:
            await let.wait()
            await route.continue_()

        await page.route("**/page/*.js", held)
        loading = asyncio.create_task(page.reload())
        await dark(page, wanted=True)
        assert await page.locator("#root > *").count() == 0  # nothing of the page was run yet
        let.set()
        await loading
        await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
        await page.keyboard.press("?")
        await looks.get_by_role("radio", name="Light").check()
        await page.emulate_media(color_scheme="dark")
        await dark(page, wanted=False)
        await looks.get_by_role("radio", name="As the system").check()
        await dark(page, wanted=True)
        assert await page.evaluate("localStorage.getItem('koda.scheme')") is None


async def test_who_is_not_signed_in_sees_what_was_chosen_here_too(tmp_path: Path, browser: Browser) -> None:
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=f"ann={'k' * 32}") as koda,
        looking(browser, koda.url) as page,
    ):
        await page.emulate_media(color_scheme="light")
        await page.evaluate("localStorage.setItem('koda.scheme', 'dark')")
        await page.reload()
        await expect(page.get_by_label("Key")).to_be_visible()
        await dark(page, wanted=True)
