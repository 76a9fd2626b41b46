"""What agents look at while they work is seen by the person, too: pictures of a real page, among what was said."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from koda_ray.agent.runner import run_tool
from koda_ray.agent.toolkit import BoundCall, ToolCall, Toolkit
from koda_ray.events import NewEvent
from koda_ray.tools.render import render_tools
from koda_ray.tools.workbench import Picture, Workbench
from koda_ray.types import new_id
from tests.serve.scripted import ScriptedDirectory
from tests.serve.world import World
from tests.web.axes import SCHEMES, examine, on_every_screen
from tests.web.lives import LiveWorld, running_in
from tests.web.looking import begin, looking

pytestmark = [
    pytest.mark.full,
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.needs("web", "node", "bwrap"),
]

WIDTH_PX, HEIGHT_PX = 640, 360
IN_ORDER = "all => all.map((each) => each.innerText.replace(/\\s+/g, ' ').trim())"


class Looking:
    """As much of a session as the tool asks for: its page is that of the sandbox."""

    def __init__(self, directory: ScriptedDirectory, session_id: str) -> None:
        self._directory, self._session_id = directory, session_id

    async def picture(self, at_s: float, *, width_px: int, height_px: int) -> Picture:
        size = (width_px, height_px)
        return await self._directory.picture(session_id=self._session_id, user_id="local", at_s=at_s, size=size)


async def looks(koda: World, session_id: str, *times_s: float) -> None:
    """Have an agent of a session look at its page, with the tool that it has for that."""
    toolkit = Toolkit(render_tools(cast("Workbench", Looking(koda.directory, session_id))))
    for at_s in times_s:
        bound = toolkit.bind("sandbox_screenshot", {"seek_to": at_s, "width": WIDTH_PX, "height": HEIGHT_PX})
        assert isinstance(bound, BoundCall), bound
        call = ToolCall(id=new_id("cal"), attempt=1, agent="orchestrator", name="sandbox_screenshot")
        outcome = await run_tool(bound, call)
        assert not outcome.is_error and outcome.batch is not None, outcome.content
        await koda.directory.move(session_id, events=tuple(outcome.batch.events))


async def says(koda: World, session_id: str, words: str) -> None:
    said = NewEvent(type="message", data={"role": "assistant", "content": words})
    await koda.directory.move(session_id, events=(said,))


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    running: LiveWorld
    async with running_in(tmp_path) as running:
        yield running.koda


async def at_work(koda: World, page: Page) -> str:
    koda.directory.asks = False
    session_id = await begin(page, "A ball")
    koda.directory.hold = {"execute"}
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    return session_id


def small(page: Page, at: str) -> Locator:
    """The picture of a time, which opens it large."""
    return page.get_by_role("button", name=f"The page at {at}")


async def test_what_an_agent_looked_at_stands_among_what_was_said_and_is_opened_large(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await at_work(koda, page)
        await looks(koda, session_id, 0.5)
        await expect(page.get_by_text("koda looked at 0.50 s")).to_be_visible()
        await says(koda, session_id, "It is round.")
        await looks(koda, session_id, 1.5, 2.25)
        await expect(page.get_by_text("koda looked at 2 moments")).to_be_visible()
        awake = koda.directory.activations
        lines = page.get_by_role("region", name="Talk").locator(":scope > ol > li")
        told = [
            "koda looked at 2 moments 1.50 s 2.25 s",
            "koda It is round.",
            "koda looked at 0.50 s 0.50 s",
            "You A ball",
        ]
        for turn in ("as it came", "after a reload"):
            await expect(lines, turn).to_have_count(4)
            await expect(small(page, "2.25 s")).to_be_visible()
            assert await lines.evaluate_all(IN_ORDER) == told, turn
            for at in ("0.50 s", "1.50 s", "2.25 s"):
                shown = small(page, at).get_by_role("img", name=f"The page at {at}")
                await shown.scroll_into_view_if_needed()
                await expect(shown).to_have_js_property("naturalWidth", WIDTH_PX)
            await page.reload()
        await small(page, "1.50 s").focus()
        await page.keyboard.press("Enter")
        large = page.get_by_role("dialog", name="The page at 1.50 s")
        await expect(large.get_by_role("img")).to_have_js_property("naturalWidth", WIDTH_PX)
        await expect(large.get_by_text("1 of 2")).to_be_visible()
        before = await large.get_by_role("img").get_attribute("src")
        await page.keyboard.press("ArrowRight")
        large = page.get_by_role("dialog", name="The page at 2.25 s")
        await expect(large.get_by_text("2 of 2")).to_be_visible()
        await expect(large.get_by_role("img")).not_to_have_attribute("src", str(before))
        await page.keyboard.press("ArrowRight")  # there is none after it
        await expect(large.get_by_text("2 of 2")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(small(page, "1.50 s")).to_be_focused()
        await on_every_screen(page)
        for width, order in ((1280, told), (390, told[::-1])):  # on a phone the newest is last
            await page.set_viewport_size({"width": width, "height": 844})
            await expect(lines.first).to_have_text(re.compile(f"^{order[0].partition(' ')[0]}"))
            assert await lines.evaluate_all(IN_ORDER) == order
            await small(page, "0.50 s").click()
            large = page.get_by_role("dialog", name="The page at 0.50 s")
            await expect(large.get_by_role("img")).to_have_js_property("naturalWidth", WIDTH_PX)
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                await examine(page)
            await large.get_by_role("button", name="Close").click()
            await expect(page.get_by_role("dialog")).to_have_count(0)
        await small(page, "1.50 s").click()
        large = page.get_by_role("dialog", name="The page at 1.50 s")
        for width in (1280, 390, 1280):  # as the window grows and shrinks, the talk changes its place
            await page.set_viewport_size({"width": width, "height": 844})
            await expect(lines.first).to_have_text(re.compile("^You" if width == 390 else "^koda looked"))
            await expect(large.get_by_text("1 of 2")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(small(page, "1.50 s")).to_be_focused()
        assert koda.directory.activations == awake


async def test_a_picture_that_cannot_be_read_says_so(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await at_work(koda, page)

        async def gone(route: Route) -> None:
            await route.fulfill(status=404)

        await page.route(re.compile(r"/pictures/[0-9a-f]{64}$"), gone)
        await looks(koda, session_id, 1.0)
        await small(page, "1.00 s").click()
        large = page.get_by_role("dialog", name="The page at 1.00 s")
        await expect(large.get_by_text("The page at 1.00 s: this picture cannot be read just now.")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.unroute_all()
        await page.reload()
        shown = small(page, "1.00 s").get_by_role("img")
        await expect(shown).to_have_js_property("naturalWidth", WIDTH_PX)
