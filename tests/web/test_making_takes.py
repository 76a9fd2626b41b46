"""Several takes while they are made: each card shows what goes on, and all of them are stopped at once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.types import Todo
from tests.serve.test_jobs import under_way
from tests.serve.world import World, reached
from tests.web.axes import on_every_screen
from tests.web.looking import looking
from tests.web.test_film_page import comes_true
from tests.web.test_page import ASKED
from tests.web.test_progress_page import Rendered, picture_units

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

STEPS = commands.SetTodos((Todo(id="setup", label="Set up the project"), Todo(id="s1", label="Scene 1: Drop in")))


async def begun(koda: World, page: Page, count: int) -> list[tuple[str, Locator]]:
    """Begin some takes; return each one's session and its card."""
    await page.get_by_label("Takes").select_option(f"{count} takes")
    await page.get_by_role("textbox", name="What should move").fill("A ball")
    await page.get_by_role("button", name="Make it").click()
    await page.wait_for_url("**/t/grp_*")
    cards = page.locator("[aria-label=Takes] > li")
    await expect(cards).to_have_count(count)
    rows = {row.state.options.take: row.id for row in await koda.store.list_sessions("local")}
    return [(rows[at], cards.nth(at - 1)) for at in range(1, count + 1)]


async def made(koda: World, page: Page, count: int) -> list[tuple[str, Locator]]:
    """Begin some takes and have all of them made, which comes to nothing yet."""
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    takes = await begun(koda, page, count)
    await page.get_by_role("button", name=f"Make all {count}").click()
    for _, card in takes:
        await expect(card.get_by_text("Making it…")).to_be_visible()
    return takes


async def test_each_card_shows_what_goes_on(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        (writing, first), (renders, second), (fails, third) = await made(koda, page, 3)
        await expect(first.get_by_role("list", name="Scenes").get_by_role("listitem")).to_have_count(3)
        await koda.directory.move(writing, STEPS, commands.SetTodoStatus("setup", "done"))
        wrote = commands.Wrote((("src/scenes/S1.tsx", 9),))
        active = commands.SetTodoStatus("s1", "active")
        await koda.directory.move(writing, active, wrote, commands.Think("Writing src/scenes/S1.tsx"))
        await expect(first.get_by_text("Writing src/scenes/S1.tsx")).to_be_visible()
        await expect(first.get_by_text(re.compile(r"^\d+:\d\d$"))).to_be_visible()
        await expect(first.get_by_text("1 of 2")).to_be_visible()
        await first.locator("summary").click()
        await expect(first.get_by_role("list", name="Steps").get_by_role("listitem")).to_have_count(2)
        await expect(first.get_by_role("button", name="See it live: Take 1")).to_be_visible()

        koda.directory.hold, koda.directory.fails = set(), {"execute": "the animation does not build"}
        await koda.directory.wake(fails)
        await expect(third.get_by_role("alert")).to_have_text("the animation does not build")
        await expect(third.get_by_text("Kept: the plan.")).to_be_visible()
        koda.directory.rendering = asyncio.Event()
        await koda.directory.wake(renders)
        await expect(second.get_by_text("Rendering the preview")).to_be_visible()
        await expect(second.get_by_text("1 of 75 frames")).to_be_visible()
        await expect(second.get_by_text("Taking frames · about 5 s left")).to_be_visible()
        await expect(second.get_by_role("progressbar", name="Rendering Take 2")).to_have_attribute(
            "aria-valuenow", "10"
        )
        await reached(lambda: koda.app.state.streams.count("local") == 1)  # all of it on one connection
        await on_every_screen(page)

        await third.get_by_role("button", name="Try again: Take 3").click()
        await expect(third.get_by_text("1 of 75 frames")).to_be_visible()
        koda.directory.rendering.set()
        for card, name in ((second, "Take 2"), (third, "Take 3")):
            await expect(card.get_by_text("Preview to look at")).to_be_visible()
            await expect(card.get_by_label(name, exact=True)).to_be_visible()
        await first.get_by_role("button", name="Stop Take 1").click()
        await expect(first.get_by_text("This was stopped before there was a preview")).to_be_visible()
        await on_every_screen(page)


async def test_what_a_take_asks_is_answered_on_its_card(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        (_, first), (second_id, second) = await begun(koda, page, 2)
        for card in (first, second):
            await expect(card.get_by_text("Which style do you want?")).to_be_visible()
        await page.keyboard.press("2")  # of two questions it is nobody's
        await expect(page.get_by_role("radio", checked=True)).to_have_count(0)
        await on_every_screen(page)
        await second.get_by_label("Minimal").check()
        await second.get_by_role("button", name="Answer").click()
        await expect(second.get_by_text("minimal · 5 s · 3 scenes")).to_be_visible()
        await expect(first.get_by_text("Which style do you want?")).to_be_visible()
        koda.directory.hold = {"execute"}
        await second.get_by_role("button", name="Make this: Take 2").click()
        await expect(second.get_by_text("Making it…")).to_be_visible()
        await koda.directory.ask_agreement(second_id, ASKED)
        await expect(second.get_by_role("heading", name="May koda run edit_file?")).to_be_visible()
        await on_every_screen(page)
        await second.get_by_role("button", name="Approve").click()
        await expect(second.get_by_text("Making it…")).to_be_visible()


async def test_all_are_stopped_by_who_says_so_twice(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        takes = await made(koda, page, 3)
        await page.get_by_role("button", name="Stop all 3").click()
        sure = page.get_by_role("group", name="Stop all")
        await expect(sure).to_be_focused()
        await expect(sure).to_contain_text("Take 1, Take 2, Take 3: what is there of each is kept")
        await on_every_screen(page)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Stop all 3")).to_be_focused()
        await page.keyboard.press("Enter")
        await sure.get_by_role("button", name="Stop all 3").dblclick()
        said = page.get_by_role("status").filter(has_text="3 takes were stopped.")
        await expect(said).to_be_focused()
        for _, card in takes:
            await expect(card.get_by_text("Plan to look at")).to_be_visible()
            await expect(card.get_by_text("Made again, it goes on with that.")).to_be_visible()
        await on_every_screen(page)
        await page.get_by_role("button", name="Make all 3").click()
        await expect(said).to_have_count(0)


async def test_what_could_not_be_stopped_is_said(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        (_, first), (second_id, second), (_, third) = await made(koda, page, 3)
        problem = {"status": 503, "code": "STORAGE_FAILED", "title": "", "detail": "the database does not answer"}
        await page.route(f"**/{second_id}/cancel", lambda route: route.fulfill(status=503, json=problem))
        await page.get_by_role("button", name="Stop all 3").click()
        await page.get_by_role("group", name="Stop all").get_by_role("button", name="Stop all 3").click()
        said = page.get_by_role("status").filter(has_text="were stopped")
        await expect(said).to_have_text("2 takes were stopped. Take 2 was not stopped: the database does not answer.")
        for card in (first, third):
            await expect(card.get_by_text("Plan to look at")).to_be_visible()
        await expect(second.get_by_text("Making it…")).to_be_visible()
        await on_every_screen(page)
        await page.unroute_all()
        await second.get_by_role("button", name="Stop Take 2").click()
        await expect(second.get_by_text("Plan to look at")).to_be_visible()


async def test_what_is_rendered_is_watched_on_few_connections(koda: World, browser: Browser, tmp_path: Path) -> None:
    koda.directory.asks, koda.directory.rendering = False, asyncio.Event()
    units = await picture_units(tmp_path, seconds=2)
    async with KodaClient(koda.url) as client, looking(browser, koda.url) as page:
        takes = await begun(koda, page, 3)
        await page.get_by_role("button", name="Make all 3").click()
        for session_id, _ in takes:
            job = await koda.store.get_job((await under_way(client, session_id, "preview")).id, user_id="local")
            await Rendered(koda, job, units).stand(2)
        watched = page.get_by_label(re.compile(r"^Take \d as it is rendered$"))
        await expect(watched).to_have_count(2)
        await comes_true(page, "[...document.querySelectorAll('video')].every(({ currentTime }) => currentTime > 0.5)")
        await expect(page.get_by_role("button", name=re.compile("^Pause Take"))).to_have_count(2)
        koda.directory.rendering.set()
        for _, card in takes:
            await expect(card.get_by_text("Preview to look at")).to_be_visible()
