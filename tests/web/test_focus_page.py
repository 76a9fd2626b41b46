"""Where the keyboard is after the screen, or what is to be decided on it, has changed, and what is heard of that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.events import NewEvent
from koda_ray.types import Todo
from tests.serve.scripted import CODE
from tests.serve.world import World, world
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking
from tests.web.test_page import tab_to

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

NOWHERE = "document.activeElement === document.body"
LISTEN = """(() => {
  const live = '[role=status], [role=alert], [role=log], [role=timer], [aria-live]';
  window.heard = [];
  const hear = (region) => window.heard.push(region.textContent);
  new MutationObserver((changes) => {
    for (const { target, addedNodes } of changes) {
      const around = (target instanceof Element ? target : target.parentElement)?.closest(live);
      if (around) hear(around);
      for (const each of addedNodes)
        if (each instanceof Element)
          [each, ...each.querySelectorAll('*')].filter((one) => one.matches(live)).forEach(hear);
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
})()"""
"""Keeps all that is ever in a live region, also of those that come with their words."""


async def heading(page: Page, name: str) -> None:
    """Wait until a heading is what the keyboard is at."""
    await expect(page.get_by_role("heading", name=name, exact=True)).to_be_focused(timeout=60_000)


async def test_each_screen_begins_at_its_heading(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
        assert await page.evaluate(NOWHERE)  # the first one begins as a browser has it
        for name in ("Renders", "Assets", "Usage"):
            await tab_to(page, page.get_by_role("navigation").get_by_role("link", name=name))
            await page.keyboard.press("Enter")
            await heading(page, name)
        await on_every_screen(page)
        await page.go_back()
        await heading(page, "Assets")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.closest('main') !== null")
        assert await page.evaluate("document.querySelector('main h1').hasAttribute('tabindex')") is True  # its own
        await page.get_by_role("link", name="koda", exact=True).click()
        await heading(page, "What should move?")
        await page.get_by_role("textbox", name="What should move").fill("A bouncing ball")
        assert await page.evaluate("document.querySelector('main h1').hasAttribute('tabindex')") is False
        await page.keyboard.press("Control+Enter")
        await heading(page, "A bouncing ball")
        await page.keyboard.press("Enter")  # at a heading keys are the page's
        await heading(page, "A bouncing ball")
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("combobox", name="What to find")).to_be_focused()
        await page.keyboard.type("canvas")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/c/*")
        await expect(page.locator("h1")).to_be_focused()


async def test_who_signs_in_begins_at_the_heading(tmp_path: Path, browser: Browser) -> None:
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=f"ann={'k' * 32}") as koda,
        looking(browser, koda.url) as page,
    ):
        await expect(page.get_by_label("Key")).to_be_focused()
        await page.keyboard.type("k" * 32)
        await page.keyboard.press("Enter")
        await heading(page, "What should move?")


async def test_a_screen_that_is_on_its_way_takes_the_focus_from_nobody(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        let = asyncio.Event()

        async def held(route: Route) -> None:
            await let.wait()
            await route.continue_()

        await page.route("**/page/usage-*.js", held)
        await page.route("**/page/assets-*.js", held)
        for name in ("Usage", "Assets"):
            let.clear()
            link = page.get_by_role("navigation").get_by_role("link", name=name)
            await tab_to(page, link)
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("main")).to_be_focused()
            if name == "Assets":
                await link.focus()  # somebody went on
            let.set()
            await expect(page.get_by_role("heading", name=name)).to_be_visible()
            await expect(page.get_by_role("heading", name=name) if name == "Usage" else link).to_be_focused()


async def test_the_keyboard_goes_from_one_card_to_the_next(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        koda.directory.hold = {"execute"}
        session_id = await begin(page, "A ball")
        await page.get_by_label("Playful").check()
        await page.keyboard.press("Enter")
        await heading(page, "The plan")
        await tab_to(page, page.get_by_role("button", name="Edit scenes"))
        await page.keyboard.press("Enter")
        await heading(page, "The plan")
        await page.keyboard.press("Tab")
        await expect(page.get_by_label("Title of scene 1")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Edit scenes")).to_be_focused()

        async def refused(route: Route) -> None:
            await route.fulfill(status=429, json={"code": "TOO_MANY_REQUESTS", "detail": "not just now"})

        await page.route("**/accept", refused)
        make = page.get_by_role("button", name="Make this")
        await tab_to(page, make)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("not just now")
        await expect(make).to_be_focused()  # it can be pressed again
        await page.unroute("**/accept")
        await page.keyboard.press("Enter")
        await heading(page, "Making it")
        koda.directory.hold = set()
        await koda.directory.wake(session_id)
        await heading(page, "Here is a preview")
        koda.directory.rendering = asyncio.Event()
        await tab_to(page, page.get_by_role("button", name="Render 1080p at 60 fps"))
        await page.keyboard.press("Enter")
        await heading(page, "Rendering the video")
        koda.directory.rendering.set()
        await heading(page, "It is finished")
        async with page.expect_download():
            await page.keyboard.press("d")


async def test_who_types_or_looks_elsewhere_stays_there(koda: World, browser: Browser) -> None:
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await heading(page, "Making it")  # also for who has a mouse: the next key is pressed here
        words = page.get_by_role("textbox", name="Say something")
        await words.fill("slower, pl")
        koda.directory.hold = set()
        await koda.directory.wake(session_id)
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        field = page.get_by_label("What should be different")
        await expect(field).to_be_focused()
        await page.keyboard.type("ease")
        await expect(field).to_have_value("slower, please")
        await page.get_by_text("Render it in full, or say below").click()
        assert await page.evaluate(NOWHERE)
        koda.directory.rendering = asyncio.Event()
        await koda.directory.submit(session_id=session_id, user_id="local", name="render", body={}, key="elsewhere")
        await expect(page.get_by_role("heading", name="Rendering the video")).to_be_visible()
        koda.directory.rendering.set()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        assert await page.evaluate(NOWHERE)  # who was nowhere is taken nowhere


async def test_phases_and_finished_todos_are_heard_and_no_thought_or_token_is(koda: World, browser: Browser) -> None:
    koda.directory.asks, koda.directory.hold = False, {"analyze", "execute"}
    async with looking(browser, koda.url) as page:
        await page.add_init_script(LISTEN)
        await page.reload()
        await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
        await page.evaluate("document.querySelectorAll('[role=status]').forEach((each) => (each.wasThere = true))")
        session_id = await begin(page, "A ball")
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        await koda.directory.move(session_id, commands.Think("Considering the rain"))
        await expect(page.get_by_text("Considering the rain").first).to_be_visible()
        said = page.get_by_role("status").filter(has_text="Reading the prompt")
        await expect(said).to_have_count(1)
        assert await said.evaluate("region => region.wasThere")
        koda.directory.hold = {"execute"}
        await koda.directory.wake(session_id)
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("status").filter(has_text="Making it")).to_have_count(1)
        todos = tuple(Todo(id=str(at), label=name) for at, name in enumerate(("Set up", "Drop in", "Roll", "Rest")))
        await koda.directory.move(session_id, commands.SetTodos(todos))
        tokens = (
            NewEvent(type="text_chunk", data={"messageId": "msg_1", "offset": 0, "delta": "The ball is round"}),
            NewEvent(type="code_chunk", data={"path": "src/scenes/S1.tsx", "offset": 0, "delta": CODE}),
        )
        await koda.directory.move(session_id, commands.Think("Pondering the gravity"), events=tokens)
        await expect(page.get_by_text("Pondering the gravity").first).to_be_visible()
        for at, told in ((0, "Set up: done, 1 of 4"), (1, "Drop in: done, 2 of 4")):
            await koda.directory.move(session_id, commands.SetTodoStatus(str(at), "done"))
            await expect(page.get_by_role("status").filter(has_text=told)).to_have_count(1)
        both = [commands.SetTodoStatus(at, "done") for at in ("2", "3")]
        await koda.directory.move(session_id, *both)
        await expect(page.get_by_role("status").filter(has_text="Roll, Rest: done, 4 of 4")).to_have_count(1)
        koda.directory.hold = set()
        await koda.directory.wake(session_id)
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("status").filter(has_text="Preview to look at")).to_have_count(1)
        heard = "\n".join(await page.evaluate("window.heard"))
        for words in ("Reading the prompt", "Plan to look at", "Making it", "Set up: done, 1 of 4"):
            assert words in heard
        for words in ("Considering", "Pondering", "round", "mesh"):
            assert words not in heard
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(page.get_by_role("link", name="A ball")).to_be_visible()
        await expect(page.get_by_role("status").filter(has_text="Preview to look at")).to_have_count(0)


async def test_what_was_heard_in_the_studio_is_not_told_again_by_the_list(koda: World, browser: Browser) -> None:
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
        home = page.get_by_role("link", name="koda", exact=True)
        await home.click()
        card = page.get_by_role("listitem").filter(has_text="A ball")
        await expect(card).to_contain_text("Making it")
        await card.get_by_role("link", name="A ball").click()
        koda.directory.hold = set()
        await koda.directory.wake(session_id)
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("status").filter(has_text="Preview to look at")).to_have_count(1)
        await page.evaluate(LISTEN)
        await home.click()  # where it stands as it was read there before, until it is read anew
        await expect(card).to_contain_text("Preview to look at")
        assert "Preview to look at" not in "\n".join(await page.evaluate("window.heard"))
        koda.directory.hold = {"execute"}
        async with KodaClient(koda.url) as client:
            await client.changes(session_id, "red")
        await expect(page.get_by_role("status").filter(has_text="A ball: Making it")).to_have_count(1)
