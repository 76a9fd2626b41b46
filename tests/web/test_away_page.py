"""A server that is away, is being stopped, or does not know one any more: said wherever one is, and gone on from."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray.config import Settings
from tests.serve.world import World, free_port, serving, world
from tests.web import axes
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

KEY = "k" * 32


def away(page: Page) -> Locator:
    return page.get_by_text("The server does not answer just now")


async def test_what_could_not_be_read_while_the_server_was_away_is_read_once_it_is_back(
    tmp_path: Path, browser: Browser
) -> None:
    async with world(tmp_path, serve=False, KODA_WEB_PATH=Settings().web_path) as koda:
        port = free_port()
        koda.directory.asks = False
        context = await browser.new_context()
        page, takes, list_page = [await context.new_page() for _ in range(3)]
        cards = takes.get_by_role("list", name="Takes").locator(":scope > li")
        async with serving(koda.app, port, graceful_s=0) as url:
            await page.goto(url)
            session_id = await begin(page, "A ball")
            await expect(page.get_by_role("button", name="Make this")).to_be_visible()
            await page.get_by_role("link", name="koda", exact=True).click()
            await page.get_by_role("link", name="Assets").click()
            await expect(page.get_by_text("One moment…")).to_have_count(0)
            await takes.goto(url)
            await takes.get_by_label("Takes").select_option("2 takes")
            await takes.get_by_role("textbox", name="What should move").fill("A cube")
            await takes.get_by_role("button", name="Make it").click()
            await expect(cards).to_have_count(2)
            await list_page.goto(url)
            await expect(list_page.get_by_role("link", name="A ball")).to_be_visible()
        for each in (page, takes, list_page):  # nothing is followed on the first
            await expect(away(each)).to_be_visible()
        await list_page.get_by_role("link", name="A ball").click()  # neither its screen nor its session can be read
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await page.get_by_role("link", name="Usage").click()
        await expect(cards).to_have_count(2)
        koda.deps.draining.clear()
        async with serving(koda.app, port):
            for each in (page, takes, list_page):
                await expect(away(each)).to_be_hidden()
            await expect(list_page.get_by_role("button", name="Make this")).to_be_visible()
            await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
            await expect(takes.get_by_role("button", name="Make all 2")).to_be_visible()
            for each in (page, takes, list_page):
                await expect(each.get_by_role("alert")).to_have_count(0)
        assert session_id in list_page.url
        await context.close()


async def test_what_is_asked_for_while_the_server_is_away_comes_once_it_is_back(
    tmp_path: Path, browser: Browser
) -> None:
    async with world(tmp_path, serve=False, KODA_WEB_PATH=Settings().web_path) as koda:
        port = free_port()
        koda.directory.asks = False
        context = await browser.new_context()
        page = await context.new_page()
        asked = ("This session", "Put on a canvas")  # each of which is a part of the page that comes late
        async with serving(koda.app, port, graceful_s=0) as url:
            await page.goto(url)
            await begin(page, "A ball")
            await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        await expect(away(page)).to_be_visible()
        for name in asked:
            await page.get_by_role("button", name=name).click()
        await expect(page.get_by_role("heading", name="A ball")).to_be_visible()
        koda.deps.draining.clear()
        async with serving(koda.app, port):
            await expect(away(page)).to_be_hidden()
            for name in ("This session", "Put it on a canvas"):
                await expect(page.get_by_role("dialog", name=name)).to_be_visible()
            await context.close()


async def test_a_server_that_is_being_stopped_says_so(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/usage") as page:
        await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
        koda.deps.draining.set()
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await expect(page.get_by_role("status").filter(has_text="is being stopped, or started anew")).to_be_visible()
        await axes.examine(page)
        koda.deps.draining.clear()
        await expect(page.get_by_text("is being stopped, or started anew")).to_have_count(0)


@pytest.mark.parametrize("path", ["/assets", "/renders", "/usage"])
async def test_whoever_is_not_signed_in_any_more_is_asked_for_the_key_where_nothing_is_followed(
    tmp_path: Path, browser: Browser, path: str
) -> None:
    settings = {"KODA_WEB_PATH": Settings().web_path, "KODA_API_KEYS": f"ann={KEY}"}
    async with world(tmp_path, **settings) as koda, looking(browser, koda.url) as page:
        await page.get_by_label("Key").fill(KEY)
        await page.keyboard.press("Enter")
        await page.get_by_role("textbox", name="What should move").fill("A ball, half typed")
        await page.context.clear_cookies()
        await page.locator(f"nav[aria-label=Places] a[href='{path}']").click()
        await page.get_by_label("Key").fill(KEY)
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(page.get_by_role("textbox", name="What should move")).to_have_value("A ball, half typed")


async def test_a_sign_out_that_nobody_heard_says_so(tmp_path: Path, browser: Browser) -> None:
    settings = {"KODA_WEB_PATH": Settings().web_path, "KODA_API_KEYS": f"ann={KEY}"}
    async with world(tmp_path, **settings) as koda, looking(browser, koda.url) as page:
        await page.get_by_label("Key").fill(KEY)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await page.route("**/v1/login", lambda route: route.abort())
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
        await page.unroute("**/v1/login")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Key")).to_be_visible()


async def test_an_address_where_there_is_nothing_is_a_page_that_says_so(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/nowhere/at/all") as page:
        await expect(page.get_by_role("heading", name="There is nothing at this address.")).to_be_visible()
        await axes.examine(page)
        await page.get_by_role("link", name="To all sessions").click()
        await expect(page.get_by_role("textbox", name="What should move")).to_be_visible()


async def test_without_scripts_the_page_leads_to_the_api_and_the_command_line(koda: World, browser: Browser) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    answer = await page.goto(koda.url)
    assert answer is not None
    told = (await answer.text()).partition("<noscript>")[2].partition("</noscript>")[0]
    assert "koda --help" in told and 'href="/docs"' in told
    docs = await page.goto(f"{koda.url}/docs")
    assert docs is not None and docs.ok
    await context.close()
