"""Files on their way while their screen is left: they go on, are told of elsewhere, and are where they belong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from playwright.async_api import Browser, Error, Locator, Page, Route, expect

from tests.serve.scripted import VIDEO
from tests.serve.test_assets import film as film_of
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking
from tests.web.test_assets_page import cards, file, picture
from tests.web.test_canvas_page import begun, finished, kept, node, wide
from tests.web.test_queue import tabbed_to

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


@asynccontextmanager
async def held(page: Page) -> AsyncGenerator[asyncio.Event]:
    """Let no file through to the server until that is said."""
    let = asyncio.Event()

    async def through(route: Route) -> None:
        await let.wait()
        with suppress(Error):  # it was stopped, or its page is closed
            await route.continue_()

    await page.route("**/v1/assets", through)
    try:
        yield let
    finally:
        let.set()


async def goes_to(page: Page, place: str) -> None:
    await page.get_by_role("navigation", name="Places").get_by_role("link", name=place).click()


def told(page: Page) -> Locator:
    """What the page says wherever one is."""
    return page.get_by_role("status").first


async def test_it_goes_on_elsewhere_and_is_there_when_one_comes_back(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/assets") as page, held(page) as let:
        await page.locator("input[type=file]").set_input_files(
            [file("a.png", picture()), file("b.png", picture("gold"))]
        )
        await expect(page.get_by_role("progressbar", name="Sending b.png")).to_be_visible()
        await goes_to(page, "Renders")
        await expect(page.get_by_role("progressbar", name="Assets: sending 2 files")).to_be_visible()
        await expect(page.get_by_role("heading", name="Renders")).to_be_visible()
        await on_every_screen(page)
        await goes_to(page, "Assets")
        await expect(page.get_by_role("progressbar")).to_have_count(2)  # of the files themselves
        await page.get_by_role("button", name="Stop b.png").click()
        await goes_to(page, "Sessions")
        await expect(page.get_by_role("progressbar", name="Assets: sending a.png")).to_be_visible()
        let.set()
        await expect(told(page)).to_have_text("a.png is stored")
        await expect(page.get_by_role("progressbar")).to_have_count(0)
        await goes_to(page, "Assets")
        await expect(cards(page)).to_have_count(1)
    assert [asset.name for asset in await koda.store.own_assets("local")] == ["a.png"]


async def test_what_was_not_taken_is_told_wherever_one_is(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/assets") as page, held(page) as let:
        await page.locator("input[type=file]").set_input_files(file("notes.txt", b"not a picture", "text/plain"))
        await goes_to(page, "Renders")
        let.set()
        region = page.get_by_role("region", name="Not stored")
        await expect(region.get_by_role("alert")).to_contain_text("notes.txt is no picture, film or sound")
        await expect(page.get_by_role("heading", name="Renders")).to_be_visible()
        await on_every_screen(page)
        await tabbed_to(page, region.get_by_role("link", name="Look at it"))
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/assets")
        going = page.get_by_role("list", name="On their way").get_by_role("listitem")
        await expect(going.get_by_role("alert")).to_contain_text("is no picture")
        await expect(region).to_have_count(0)
        await goes_to(page, "Renders")  # it is known by now
        await expect(page.get_by_role("heading", name="Renders")).to_be_visible()
        await expect(region).to_have_count(0)
        await goes_to(page, "Assets")
        await page.get_by_role("button", name="Forget notes.txt").click()
        await expect(going).to_have_count(0)


async def test_a_file_whose_answer_was_lost_is_stored_once_when_it_is_sent_again(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/assets") as page:

        async def lost(route: Route) -> None:
            await route.fetch()
            await route.abort()

        await page.route("**/v1/assets", lost, times=1)
        await page.locator("input[type=file]").set_input_files(file("a.png", picture()))
        going = page.get_by_role("list", name="On their way").get_by_role("listitem")
        await expect(going.get_by_role("alert")).to_contain_text("The server does not answer")
        assert len(await koda.store.own_assets("local")) == 1
        await page.get_by_role("button", name="Send a.png again").click()
        await expect(going).to_have_count(0)
        await expect(cards(page)).to_have_count(1)
    assert [asset.name for asset in await koda.store.own_assets("local")] == ["a.png"]


async def test_whoever_closes_the_page_is_asked_while_files_are_on_their_way(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/assets") as page, held(page):
        await page.get_by_role("heading", name="Assets").click()  # a page that nobody did anything on asks nothing
        await page.locator("input[type=file]").set_input_files(file("a.png", picture()))
        await goes_to(page, "Renders")
        async with page.expect_event("dialog") as asked:
            await page.close(run_before_unload=True)
        dialog = await asked.value
        assert dialog.type == "beforeunload"
        await dialog.dismiss()
        await goes_to(page, "Assets")
        await page.get_by_role("button", name="Stop a.png").click()
        async with page.expect_event("close"):
            await page.close(run_before_unload=True)


async def test_a_file_is_in_its_node_though_its_canvas_is_not_shown(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/c") as page, held(page) as let:
        await wide(page)
        await page.get_by_role("button", name="Add: File").click()
        await page.locator(".react-flow__node input[type=file]").set_input_files(file("logo.png", picture()))
        bar = page.get_by_role("progressbar", name="Sending logo.png")
        await expect(bar).to_be_visible()
        await page.get_by_role("button", name="Undo").click()  # with its node it is stopped, and with it it comes back
        await expect(bar).to_have_count(0)
        await page.get_by_role("button", name="Redo").click()
        await expect(bar).to_be_visible()
        await goes_to(page, "Renders")
        await expect(page.get_by_role("progressbar", name="Canvas: sending logo.png")).to_be_visible()
        let.set()
        await expect(told(page)).to_have_text("logo.png is stored")
        (asset,) = await koda.store.own_assets("local")
        (written,) = (await kept(page)).values()
        assert asset.id in written
        await goes_to(page, "Canvas")
        shown = node(page, "logo.png").locator("img")
        assert await shown.evaluate("each => each.decode().then(() => each.naturalWidth)") == 64
        await page.reload()
        await expect(shown).to_be_visible()


async def test_what_is_to_be_made_is_there_again_with_its_file(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page, held(page) as let:
        words = page.get_by_role("textbox", name="What should move")
        await words.fill("Our logo")
        await page.get_by_role("combobox", name="Length").select_option("5")
        await page.locator("input[type=file]").set_input_files(file("logo.png", picture()))
        await expect(page.get_by_role("button", name="Make it")).to_be_disabled()
        await goes_to(page, "Renders")
        await expect(page.get_by_role("progressbar", name="Sessions: sending logo.png")).to_be_visible()
        let.set()
        await expect(told(page)).to_have_text("logo.png is stored")
        await goes_to(page, "Sessions")
        await expect(words).to_have_value("Our logo")
        await expect(page.get_by_role("combobox", name="Length")).to_have_value("5")
        await expect(page.get_by_role("list", name="Files")).to_contain_text("logo.png")
        session_id = await begin(page, "Our logo spins")
        await goes_to(page, "Sessions")
        await expect(words).to_have_value("")
        await expect(page.get_by_role("list", name="Files")).to_have_count(0)
    state = (await koda.store.get_session(session_id, user_id="local")).state
    (asset,) = await koda.store.own_assets("local")
    assert (state.prompt, state.options.duration, state.asset_ids) == ("Our logo spins", 5, (asset.id,))


async def test_what_is_begun_in_a_node_is_there_though_its_canvas_was_left(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    koda.directory.asks = False
    made = await asyncio.to_thread(film_of, "mp4", tmp_path)
    for kind in ("preview", "final"):
        monkeypatch.setitem(VIDEO, kind, made)
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await begun(page, "A ball")
        await finished(node(page, "Animation Generator"), node(page, "A ball"))
        await node(page, "A ball").get_by_text("Finished", exact=True).click()
        await page.get_by_role("button", name="Go on with it: A ball").click()
        after = node(page, "Animation Generator")
        await after.get_by_role("textbox", name="What should move").fill("At night")
        async with held(page) as let:
            await after.get_by_role("button", name="Make it").click()  # the film is uploaded first
            await expect(after.get_by_role("button", name="Beginning…")).to_be_disabled()
            await goes_to(page, "Renders")
            await goes_to(page, "Canvas")
            await expect(after.get_by_role("button", name="Beginning…")).to_be_disabled()
            await goes_to(page, "Renders")
            let.set()
            async with asyncio.timeout(60):
                while len(await koda.store.list_sessions("local")) < 2:
                    await asyncio.sleep(0.01)
        await goes_to(page, "Canvas")
        await expect(node(page, "At night").get_by_role("button", name="Make this")).to_be_visible()
    assert len(await koda.store.list_sessions("local")) == 2
