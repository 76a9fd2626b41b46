"""Animations that are there, on a canvas: picked there, sent there from where they are, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray.client import KodaClient
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import looking
from tests.web.test_canvas_page import drawn, edges, node, wide
from tests.web.test_queue import tabbed_to

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    koda.directory.asks = False
    async with KodaClient(koda.url) as found:
        yield found


async def made(client: KodaClient, prompt: str, *phases: str) -> str:
    """Make a session, accept what it shows until it is as far; return its id."""
    session_id = (await client.create(prompt)).session_id
    for phase in phases:
        async with asyncio.timeout(60):
            while (await client.session(session_id)).state.phase != phase:
                await asyncio.sleep(0.02)
        if phase != phases[-1]:
            await client.accept(session_id)
    return session_id


def picker(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Your animations")


async def test_the_keyboard_alone_finds_one_and_puts_it_there(
    koda: World, browser: Browser, client: KodaClient
) -> None:
    await made(client, "A ball", "plan", "preview", "complete")
    await made(client, "A cube", "plan")
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        press = page.keyboard.press
        opener = page.get_by_role("button", name="Add: One of yours")
        await tabbed_to(page, opener)
        await press("Enter")
        await expect(picker(page).get_by_role("listitem")).to_have_count(2)
        await expect(picker(page).get_by_role("searchbox", name="Search")).to_be_focused()
        await press("Escape")
        await expect(opener).to_be_focused()
        await press("Enter")
        await page.keyboard.type("nothing of the kind")
        await expect(picker(page)).to_contain_text("Nothing has “nothing of the kind”")
        await press("Control+a")
        await page.keyboard.type("ball")
        await expect(picker(page).get_by_role("listitem")).to_have_count(1)
        await press("ArrowDown")
        await expect(picker(page).get_by_role("button", name="A ball Finished")).to_be_focused()
        await press("Enter")
        ball = node(page, "A ball")
        await expect(picker(page)).to_have_count(0)
        await expect(ball).to_be_focused()
        await expect(ball.get_by_label("The finished video")).to_be_visible()
        await expect(page.get_by_role("status").filter(has_text="Added: A ball")).to_be_attached()
        await press("Control+z")
        await expect(ball).to_have_count(0)
        await press("Control+Shift+z")
        await expect(ball.get_by_label("The finished video")).to_be_visible()
        await opener.click()
        await picker(page).get_by_role("button", name="A cube").click()
        await expect(node(page, "A cube").get_by_role("button", name="Make this")).to_be_visible()
        await opener.click()
        await (
            picker(page)
            .get_by_role("button", name="A ball")
            .and_(picker(page).get_by_role("button", name="On this canvas"))
            .click()
        )
        await expect(ball).to_be_focused()  # and not doubled
        await expect(page.locator(".react-flow__node")).to_have_count(2)


async def test_it_works_as_one_that_was_made_there(koda: World, browser: Browser, client: KodaClient) -> None:
    session_id = await made(client, "A ball", "plan", "preview")
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await page.get_by_role("button", name="Add: One of yours").click()
        await picker(page).get_by_role("button", name="A ball").click()
        ball = node(page, "A ball")
        await ball.get_by_role("button", name="Render 1080p at 60 fps").press("Enter")
        await expect(ball.get_by_label("The finished video")).to_be_visible()
        await page.mouse.click(20, 500)
        await page.get_by_role("button", name="Add: Animation").click()
        await page.get_by_role("button", name="See all of it").click()
        after = node(page, "Animation Generator")
        await drawn(page, ball, "Video", after, "Assets")
        await expect(edges(page)).to_have_count(1)
        await expect(after.get_by_role("list", name="What goes along")).to_contain_text("The film itself goes along")
        await ball.get_by_text("Finished", exact=True).click()
        await page.get_by_role("button", name="Remove A ball").click()
        await expect(ball).to_have_count(0)
        assert [row.id for row in await koda.store.list_sessions("local")] == [session_id]
        await page.get_by_role("button", name="Undo").click()
        await expect(ball.get_by_label("The finished video")).to_be_visible()
        await expect(edges(page)).to_have_count(1)


async def test_the_studio_and_the_gallery_send_one_there(koda: World, browser: Browser, client: KodaClient) -> None:
    ball = await made(client, "A ball", "plan", "preview", "complete")
    await made(client, "A cube", "plan")
    async with looking(browser, f"{koda.url}/s/{ball}") as page:
        await wide(page)
        opener = page.get_by_role("button", name="Put on a canvas")
        chosen = page.get_by_role("dialog", name="Put it on a canvas")
        await tabbed_to(page, opener)
        await page.keyboard.press("Enter")
        await page.keyboard.press("Escape")
        await expect(chosen).to_have_count(0)
        await expect(opener).to_be_focused()
        await page.keyboard.press("Enter")
        await tabbed_to(page, chosen.get_by_role("button", name="New canvas"))
        await page.keyboard.press("Enter")
        await expect(node(page, "A ball").get_by_label("The finished video")).to_be_visible()
        await expect(node(page, "A ball")).to_be_focused()
        where = page.url
        assert "?" not in where
        await page.reload()
        await expect(page.locator(".react-flow__node")).to_have_count(1)
        await page.go_back()
        await expect(opener).to_be_visible()
        await page.get_by_role("navigation", name="Places").get_by_role("link", name="Sessions").click()
        await page.get_by_role("button", name="Put A cube on a canvas").click()
        await chosen.get_by_role("link", name="Canvas").click()
        await page.wait_for_url(where)
        await expect(node(page, "A cube").get_by_role("button", name="Make this")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".react-flow__node")).to_have_count(1)
        await page.get_by_role("navigation", name="Places").get_by_role("link", name="Sessions").click()
        await page.get_by_role("button", name="Put A ball on a canvas").click()
        await chosen.get_by_role("link", name="It is on it").focus()
        await page.keyboard.press("Delete")  # which is a card's key, and none of this
        await expect(page.get_by_role("region", name="Deleted")).to_be_hidden()
        await chosen.get_by_role("link", name="It is on it").click()
        await expect(node(page, "A ball")).to_be_focused()
        await expect(page.locator(".react-flow__node")).to_have_count(1)


async def test_one_that_was_deleted_says_so_and_comes_back_with_its_session(
    koda: World, browser: Browser, client: KodaClient
) -> None:
    ball = await made(client, "A ball", "plan")
    cube = await made(client, "A cube", "plan")
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        for name in ("A ball", "A cube"):
            await page.get_by_role("button", name="Add: One of yours").click()
            await picker(page).get_by_role("button", name=name).click()
            await expect(node(page, name).get_by_role("button", name="Make this")).to_be_attached()
        places = page.get_by_role("navigation", name="Places")
        await places.get_by_role("link", name="Sessions").click()
        await page.get_by_role("button", name="Delete A ball").click()
        await places.get_by_role("link", name="Canvas").click()
        await expect(page.get_by_text("This animation is not there any more.")).to_be_attached()
        await page.get_by_role("region", name="Deleted").get_by_role("button", name="Undo").click()
        await expect(node(page, "A ball").get_by_role("button", name="Make this")).to_be_attached()
        for session_id in (ball, cube):
            await client.delete(session_id)
        await expect(page.get_by_text("This animation is not there any more.")).to_have_count(2)
        await page.reload()
        await expect(page.get_by_text("This animation is not there any more.")).to_have_count(2)
        await page.get_by_role("button", name="Make another one").first.press("Enter")
        await expect(page.get_by_role("textbox", name="What should move")).to_have_count(1)


async def test_on_a_narrow_screen_it_comes_below_the_others(koda: World, browser: Browser, client: KodaClient) -> None:
    for prompt in ("A ball", "A cube", "A heart"):
        await made(client, prompt, "plan")
    async with looking(browser, f"{koda.url}/c") as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        shown = page.get_by_role("list", name="Nodes of the canvas").locator("> li")
        for number, name in enumerate(("A ball", "A cube", "A heart")):
            await page.get_by_role("button", name="Add: One of yours").click()
            await picker(page).get_by_role("button", name=name).click()
            await expect(shown).to_have_count(number + 1)
            await expect(shown.last).to_be_focused()
            await expect(shown.last.get_by_role("button", name="Make this")).to_be_in_viewport()


async def test_everybody_can_use_it(koda: World, browser: Browser, client: KodaClient) -> None:
    ball = await made(client, "A ball", "plan", "preview", "complete")
    await made(client, "A cube", "plan")
    async with looking(browser, f"{koda.url}/c") as page:
        await page.get_by_role("button", name="Add: One of yours").click()
        await picker(page).get_by_role("button", name="A ball").click()
        await expect(page.get_by_label("The finished video")).to_be_visible()
        await page.get_by_role("button", name="Add: One of yours").click()
        await expect(picker(page).get_by_text("On this canvas")).to_be_visible()
        await on_every_screen(page)
        await page.keyboard.press("Escape")
        await page.goto(f"{koda.url}/s/{ball}")
        await page.get_by_role("button", name="Put on a canvas").click()
        await expect(page.get_by_text("It is on it")).to_be_visible()
        await on_every_screen(page)
        await page.goto(koda.url)
        await expect(page.get_by_role("button", name="Put A cube on a canvas")).to_be_attached()
        await on_every_screen(page)
