"""Canvases in several browsers: each has all, none writes over another, and a server that is away costs nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from koda_ray.client import KodaClient
from koda_ray.wire import CanvasView
from tests.serve.world import World
from tests.web.axes import examine, on_every_screen
from tests.web.looking import looking
from tests.web.test_canvas_page import begun, edges, node, wide

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

BACK = "document.dispatchEvent(new Event('visibilitychange'))"
"""What a page hears whose window is looked at again."""


async def away(route: Route) -> None:
    """Answer as a server that is not there."""
    await route.abort()


def words(page: Page) -> Locator:
    return page.get_by_role("textbox", name="What should move")


async def sent(client: KodaClient, text: str, *, nodes: int = 3) -> CanvasView:
    """Wait until the server has a canvas that says something."""
    async with asyncio.timeout(60):
        while True:
            for each in (await client.canvases()).canvases:
                found = await client.canvas(each.id)
                if len(found.nodes) == nodes and any(one.data.get("text") == text for one in found.nodes):
                    return found
            await asyncio.sleep(0.05)


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url) as found:
        yield found


@pytest.fixture
async def two(koda: World, browser: Browser) -> AsyncIterator[tuple[Page, Page]]:
    """The pages of two browsers, with nothing in common but the server."""
    async with looking(browser, f"{koda.url}/c") as one, looking(browser, koda.url) as other:
        await wide(one)
        await wide(other)
        yield one, other


async def test_what_was_drawn_in_one_browser_is_there_in_another(
    koda: World, two: tuple[Page, Page], client: KodaClient
) -> None:
    one, other = two
    await begun(one, "A ball")
    made = await sent(client, "A ball")
    await other.goto(f"{koda.url}/c")
    await other.wait_for_url(f"**/c/{made.id}")  # it is the one that there is, and none was begun for it
    await expect(words(other)).to_have_value("A ball")
    await expect(edges(other)).to_have_count(2)
    await words(other).fill("A cube")
    await other.get_by_role("button", name="Add: File").click()
    changed = await sent(client, "A cube", nodes=4)
    assert changed.version > made.version
    await one.evaluate(BACK)
    await expect(words(one)).to_have_value("A cube")
    await expect(one.locator(".react-flow__node")).to_have_count(4)
    await other.get_by_role("button", name="Canvas", exact=True).click()
    listed = other.get_by_role("dialog", name="Canvases")
    await listed.get_by_role("button", name="Rename Canvas").click()
    await listed.get_by_role("textbox", name="Name").fill("Spring")
    await other.keyboard.press("Enter")
    await listed.get_by_role("button", name="New canvas").click()
    await other.get_by_role("button", name="Add: Prompt").click()
    async with asyncio.timeout(60):
        while {each.name for each in (await client.canvases()).canvases} != {"Spring", "Canvas"}:
            await asyncio.sleep(0.05)
    await one.evaluate(BACK)
    await one.get_by_role("button", name="Spring").click()
    links = one.get_by_role("dialog", name="Canvases").get_by_role("link")
    await expect(links).to_have_count(2)
    await one.get_by_role("button", name="Delete Spring").click()
    await one.get_by_role("button", name="Delete it").click()
    await expect(one.get_by_role("button", name="Canvas", exact=True)).to_be_visible()
    async with asyncio.timeout(60):
        while len((await client.canvases()).canvases) > 1:
            await asyncio.sleep(0.05)
    await other.goto(f"{koda.url}/c/{made.id}")
    await expect(other.get_by_role("heading", name="There is no such canvas here.")).to_be_visible()


async def test_what_two_browsers_drew_is_written_over_by_neither(two: tuple[Page, Page], client: KodaClient) -> None:
    one, other = two
    await begun(one, "A ball")
    made = await sent(client, "A ball")
    await other.goto(one.url)
    await expect(words(other)).to_have_value("A ball")
    await other.route("**/v1/canvases**", away)
    await words(other).fill("A cone")
    await words(one).fill("A cube")
    await sent(client, "A cube")
    await other.unroute("**/v1/canvases**")
    await other.evaluate(BACK)
    refused = other.get_by_role("alert")
    await expect(refused).to_contain_text("was changed meanwhile: it is at version")
    await expect(words(other)).to_have_value("A cone")
    await examine(other)
    await refused.get_by_role("button", name="Show that one").click()
    await expect(words(other)).to_have_value("A cube")
    await expect(refused).to_have_count(0)
    copy = await sent(client, "A cone")
    assert copy.id != made.id and copy.name == "Canvas, as drawn here"
    assert (await sent(client, "A cube")).id == made.id
    await other.route("**/v1/canvases**", away)
    await words(other).fill("A torus")
    await words(one).fill("A sphere")
    await sent(client, "A sphere")
    await other.unroute("**/v1/canvases**")
    await other.evaluate(BACK)
    await refused.get_by_role("button", name="Keep this one").press("Enter")
    await expect(other.get_by_role("button", name="Canvas", exact=True)).to_be_focused()
    await sent(client, "A torus")
    await one.evaluate(BACK)
    await expect(words(one)).to_have_value("A torus")


async def test_what_is_drawn_while_the_server_is_away_is_sent_once_it_is_back(
    koda: World, browser: Browser, client: KodaClient
) -> None:
    async with looking(browser, koda.url) as page:
        await page.route("**/v1/canvases**", away)
        await page.goto(f"{koda.url}/c")
        await wide(page)
        await begun(page, "A ball")
        word = page.get_by_text("The server does not answer. What you draw is kept in this browser")
        await expect(word).to_be_visible()
        await on_every_screen(page)
        where = page.url
        await page.reload()
        await expect(words(page)).to_have_value("A ball")
        assert page.url == where and (await client.canvases()).canvases == ()
        await page.unroute("**/v1/canvases**")
        await sent(client, "A ball")
        await expect(word).to_have_count(0)


async def test_what_a_browser_kept_by_itself_before_is_taken_over_once(
    koda: World, browser: Browser, client: KodaClient
) -> None:
    words_on_it = {"id": "a", "position": {"x": 10, "y": 20}, "width": 300, "data": {"plugin": "prompt", "text": "Old"}}
    strange = {"id": "b", "position": {"x": 400, "y": 20}, "data": {"plugin": "storyboard", "of": [1, None]}}
    kept = json.dumps({"version": 1, "name": "Winter", "changedAt": 5, "nodes": [words_on_it, strange], "edges": []})
    async with looking(browser, f"{koda.url}/renders") as page:
        await page.evaluate("text => localStorage.setItem('koda.canvas/local/winter', text)", kept)
        await page.goto(f"{koda.url}/c")
        await page.wait_for_url("**/c/winter")
        found = await sent(client, "Old", nodes=2)
        assert (found.id, found.name, found.version) == ("winter", "Winter", 1)
        assert found.nodes[1].data == strange["data"]
        await client.delete_canvas("winter")
        await page.goto(f"{koda.url}/c")
        await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
        await page.goto(f"{koda.url}/c/winter")
        await expect(page.get_by_role("heading", name="There is no such canvas here.")).to_be_visible()
        assert (await client.canvases()).canvases == ()  # what was deleted does not come back


async def test_one_that_is_too_large_is_said_and_stays_here(koda: World, browser: Browser, client: KodaClient) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await begun(page, "A ball")
        await sent(client, "A ball")
        await words(page).fill("é" * 90_000)
        await expect(page.get_by_role("alert")).to_contain_text("that one may have: take nodes away")
        await page.reload()
        await expect(words(page)).to_have_value("é" * 90_000)
        await words(page).fill("A cube")
        await sent(client, "A cube")
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_an_animation_is_put_on_a_canvas_of_another_browser(
    koda: World, two: tuple[Page, Page], client: KodaClient
) -> None:
    koda.directory.asks = False
    one, other = two
    await begun(one, "A ball")
    made = await sent(client, "A ball")
    session = await client.create("A heart that beats")
    await other.goto(f"{koda.url}/s/{session.session_id}")
    await other.get_by_role("button", name="Put on a canvas").click()
    await other.get_by_role("dialog", name="Put it on a canvas").get_by_role("link", name="Canvas").click()
    await other.wait_for_url(f"**/c/{made.id}")
    await expect(node(other, "A heart that beats")).to_be_visible()
    await sent(client, "A ball", nodes=4)
