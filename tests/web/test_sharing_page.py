"""A video shown to others: a link made on its page, watched without a key, commented, embedded and revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, Page, Route, expect
from starlette.responses import HTMLResponse

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from tests.serve.scripted import VIDEO
from tests.serve.test_sessions import until
from tests.serve.test_versions import with_versions
from tests.serve.world import World, serving, world
from tests.web.axes import examine, on_every_screen
from tests.web.looking import SHOWN, looking
from tests.web.test_queue import tabbed_to
from tests.web.test_versions_page import FPS, film

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

KEY = "k" * 32
WIDE = "each => each.videoWidth || new Promise((found) => { each.onloadedmetadata = () => found(each.videoWidth); })"
SOUGHT = """(each, time) => new Promise((found) => {
    each.pause();
    each.onseeked = () => found();
    each.currentTime = time;
})"""


@pytest.fixture
async def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A server that asks for keys, with films that can be seen."""
    monkeypatch.setitem(VIDEO, "final", film(tmp_path / "final.webm", light=60))
    monkeypatch.setitem(VIDEO, "preview", film(tmp_path / "preview.webm", light=20))
    async with world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=KEY) as found:
        yield found


@pytest.fixture
async def session_id(closed: World) -> str:
    async with KodaClient(closed.url, key=KEY) as client:
        made = await with_versions(closed, client, "make the ball red")
        await client.accept(made)
        await until(client, made, "complete")
        await client.label(made, title="A red ball")
        return made


@asynccontextmanager
async def owning(browser: Browser, koda: World, path: str) -> AsyncIterator[Page]:
    """A page of who has the key."""
    async with looking(browser, koda.url) as page:
        await page.get_by_label("Key").fill(KEY)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("navigation", name="Places")).to_be_visible()
        await page.goto(koda.url + path)
        yield page


async def linked(page: Page, label: str = "", *, of: str | None = None, comments: bool = True) -> str:
    """Make a link in the dialog; return its address. ``of`` is the part of the page whose video is meant."""
    place = page if of is None else page.get_by_role("region", name=of)
    await place.get_by_role("button", name="Share").first.click()
    dialog = page.get_by_role("dialog", name="Share this video")
    await dialog.get_by_label("Who is it for?").fill(label)
    await dialog.get_by_label("They may comment").set_checked(comments)
    await dialog.get_by_role("button", name="Make a link").dblclick()
    await expect(dialog.get_by_role("group", name="The new link")).to_be_focused()
    return await dialog.get_by_label("The link", exact=True).input_value()


async def test_who_is_sent_a_link_watches_comments_and_sees_nothing_once_it_is_revoked(
    closed: World, session_id: str, browser: Browser
) -> None:
    woken = closed.directory.activations
    async with owning(browser, closed, f"/s/{session_id}") as page:
        address = await linked(page, "for Bob")
        dialog = page.get_by_role("dialog", name="Share this video")
        links = dialog.get_by_role("list", name="Links").get_by_role("listitem")
        await expect(links).to_have_count(1)  # of a double click
        await expect(links).to_contain_text("for Bob")
        async with looking(browser, address) as guest:
            await expect(guest.get_by_role("heading", name="A red ball")).to_be_visible()
            await expect(guest).to_have_title("A red ball · koda")
            await expect(guest.get_by_role("list", name="Scenes").get_by_role("button")).to_have_count(3)
            video = guest.get_by_label("A red ball", exact=True)
            closed.deps.draining.set()
            await guest.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            stopped = guest.get_by_role("status").filter(has_text="is being stopped, or started anew")
            await expect(stopped).to_be_visible()
            await examine(guest)
            closed.deps.draining.clear()
            await expect(stopped).to_have_count(0)
            assert await video.evaluate(WIDE) == 64
            await guest.keyboard.press("ArrowRight")
            await guest.keyboard.press("ArrowRight")
            moment = guest.get_by_label("About this moment: 00:00.033")
            await expect(moment).to_be_checked()
            await guest.get_by_label("Your comment").fill("Slower here")
            await guest.get_by_label("Your name").fill("B" * 81)
            await guest.get_by_role("button", name="Send").click()
            await expect(guest.get_by_label("Your name")).to_be_focused()
            await expect(guest.get_by_label("Your name")).to_have_accessible_description(
                "at most 80 characters, not 81"
            )
            await expect(guest.get_by_label("Your comment")).to_have_value("Slower here")
            await guest.get_by_label("Your name").fill("Bob")
            await guest.get_by_role("button", name="Send").dblclick()
            sent = guest.get_by_role("list", name="What you said").get_by_role("listitem")
            await expect(sent).to_have_count(1)
            await expect(sent).to_contain_text("Bob · just now · 00:00.033")
            await expect(guest.get_by_label("Your comment")).to_have_value("")
            await guest.get_by_label("Your comment").fill("All of it is good")
            await guest.get_by_label("About this moment").uncheck()
            await guest.get_by_label("Your comment").press("Control+Enter")
            await expect(sent).to_have_count(2)
            await expect(guest.get_by_label("Your comment")).to_be_focused()
            assert await guest.evaluate("document.cookie") == ""
            await page.reload()
            await expect(page.get_by_role("button", name="Share").first).to_have_text("Share 2 comments")
            await page.get_by_role("button", name="Share").first.click()
            await links.get_by_text("2 comments").click()
            said = dialog.get_by_role("list", name="Comments of for Bob")
            await expect(said).to_contain_text("Bob · just now · 00:00.033")
            await expect(said).to_contain_text("Slower here")
            await said.get_by_role("button", name="Go to 00:00.033").click()
            await expect(dialog).to_be_hidden()
            await expect(page.get_by_role("slider", name="Frame")).to_have_value("2")
            await page.get_by_role("button", name="Share").first.click()
            await dialog.get_by_role("button", name="Revoke for Bob").click()
            await expect(dialog.get_by_role("group", name="Revoke for Bob")).to_contain_text(
                "its 2 comments go with it"
            )
            await dialog.get_by_role("button", name="Revoke it").click()
            await expect(links).to_have_count(0)
            await expect(dialog.get_by_role("heading", name="No links")).to_be_focused()
            await guest.get_by_label("Your comment").fill("Too late")
            await guest.get_by_role("button", name="Send").click()
            await expect(guest.get_by_role("alert")).to_contain_text("there is nothing behind this link")
            await expect(guest.get_by_label("Your comment")).to_have_value("Too late")
            await guest.reload()
            await expect(guest.get_by_role("heading", name="There is nothing to see here")).to_be_visible()
    assert closed.directory.activations == woken


async def test_what_is_sent_again_because_its_answer_was_lost_is_there_once(
    closed: World, session_id: str, browser: Browser
) -> None:
    async def unheard(route: Route) -> None:
        await route.fetch()  # it is done, and nobody hears of it
        await route.abort()

    async with owning(browser, closed, f"/s/{session_id}") as page:
        await page.get_by_role("button", name="Share").first.click()
        dialog = page.get_by_role("dialog", name="Share this video")
        await dialog.get_by_label("They may comment").set_checked(True)
        label = dialog.get_by_label("Who is it for?")
        await label.fill("x" * 101)
        await dialog.get_by_role("button", name="Make a link").click()
        await expect(label).to_be_focused()
        await expect(label).to_have_accessible_description("at most 100 characters, not 101")
        await expect(label).to_have_value("x" * 101)
        await label.fill("Bob")
        await page.route("**/shares", lambda each: unheard(each) if each.request.method == "POST" else each.continue_())
        await dialog.get_by_role("button", name="Make a link").click()
        await expect(dialog.get_by_role("alert").first).to_contain_text("The server does not answer")
        await page.unroute("**/shares")
        await dialog.get_by_role("button", name="Make a link").click()
        address = await dialog.get_by_label("The link", exact=True).input_value()
        async with looking(browser, address) as guest, KodaClient(closed.url, key=KEY) as client:
            (share,) = (await client.shares(session_id)).shares
            await guest.route("**/comments", unheard)
            await guest.get_by_label("Your comment").fill("Slower here")
            await guest.get_by_role("button", name="Send").click()
            await expect(guest.get_by_role("alert")).to_contain_text("The server does not answer")
            await guest.unroute("**/comments")
            await guest.get_by_role("button", name="Send").click()
            await expect(guest.get_by_role("list", name="What you said").get_by_role("listitem")).to_have_count(1)
            assert [each.text for each in (await client.share_comments(session_id, share.id)).said] == ["Slower here"]
            # once it is answered, the same words are another comment
            await guest.get_by_label("Your comment").fill("Slower here")
            await guest.get_by_role("button", name="Send").click()
            await expect(guest.get_by_role("list", name="What you said").get_by_role("listitem")).to_have_count(2)


async def test_the_keyboard_alone_makes_and_revokes_and_escape_leaves_one_thing(
    closed: World, session_id: str, browser: Browser
) -> None:
    async with owning(browser, closed, f"/s/{session_id}") as page:
        await expect(page.get_by_role("region", name="2 versions")).to_be_visible()
        await page.keyboard.press("[")
        await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
        opener = page.get_by_role("button", name="Share").first
        await tabbed_to(page, opener)
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Share this video")
        await expect(dialog).to_be_visible()
        await tabbed_to(page, dialog.get_by_label("Who is it for?"))
        await page.keyboard.type("Ann")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("group", name="The new link")).to_be_focused()
        revoke = dialog.get_by_role("button", name="Revoke Ann")
        await tabbed_to(page, revoke)
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("group", name="Revoke Ann")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(revoke).to_be_focused()
        await page.keyboard.press("Enter")
        await tabbed_to(page, dialog.get_by_role("button", name="Revoke it"))
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("heading", name="No links")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(opener).to_be_focused()
        await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
        async with KodaClient(closed.url, key=KEY) as client:
            assert (await client.shares(session_id)).shares == ()


async def test_a_versions_video_stands_in_a_page_of_others_and_the_page_around_it_does_not(
    closed: World, session_id: str, browser: Browser
) -> None:
    async with owning(browser, closed, f"/s/{session_id}?v=1") as page:
        await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
        address = await linked(page, of="2 versions", comments=False)
        dialog = page.get_by_role("dialog", name="Share this video")
        await dialog.get_by_text("To put the video into another page").click()
        code = await dialog.get_by_label("For another page", exact=True).input_value()
    other = FastAPI()
    framed = f'<iframe src="{address}"></iframe>'
    other.add_api_route("/", lambda: HTMLResponse(f"<!doctype html><title>A paper</title>{code}{framed}"))
    async with serving(other) as elsewhere:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(elsewhere.replace("127.0.0.1", "localhost"))
        inside = page.frame_locator("iframe[title=Animation]")
        video = inside.get_by_label("A red ball")
        await expect(video).to_be_visible()
        await video.evaluate("each => { each.muted = true; return each.play(); }")
        await video.evaluate(SOUGHT, 10.5 / FPS)
        frame_10 = (20 + 10 - 16) * 255 / 219  # of the preview, in limited range
        assert abs(await video.evaluate(SHOWN) - frame_10) < 6
        async with asyncio.timeout(60):
            while not page.frames[2].url.startswith("chrome-error:"):
                await asyncio.sleep(0.05)
        await context.close()


async def test_an_embedded_video_plays_by_itself_and_again_where_its_address_says_so(
    closed: World, session_id: str, browser: Browser
) -> None:
    async with owning(browser, closed, f"/s/{session_id}") as page:
        address = await linked(page)
        told = "({ loop, muted, autoplay }) => [loop, muted, autoplay]"
        for asked, wanted in (("", [False] * 3), ("?loop", [True, False, False]), ("?loop&autoplay", [True] * 3)):
            async with looking(browser, f"{address}/embed{asked}") as guest:
                video = guest.get_by_label("A red ball")
                await expect(video).to_be_visible()
                assert await video.evaluate(told) == wanted
                if "autoplay" in asked:
                    await guest.wait_for_function("document.querySelector('video').currentTime > 0")
                    await guest.emulate_media(reduced_motion="reduce")
                    await guest.reload()
                    await expect(video).to_be_visible()
                    assert await video.evaluate(told) == [True, False, False]


async def test_everybody_can_use_it(closed: World, session_id: str, browser: Browser) -> None:
    async with owning(browser, closed, f"/s/{session_id}") as page:
        address = await linked(page, "for Bob")
        await on_every_screen(page)
        async with looking(browser, address) as guest:
            await expect(guest.get_by_role("heading", name="A red ball")).to_be_visible()
            await guest.get_by_label("Your comment").fill("Slower here")
            await guest.get_by_role("button", name="Send").click()
            await expect(guest.get_by_role("list", name="What you said")).to_be_visible()
            await on_every_screen(guest)
            await guest.goto(f"{address}/embed")
            await expect(guest.get_by_label("A red ball")).to_be_visible()
            await on_every_screen(guest)
            await guest.goto(address[:-3])
            await expect(guest.get_by_role("alert")).to_be_visible()
            await on_every_screen(guest)
