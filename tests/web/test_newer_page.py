"""A page that stays open while its server gets another build of it: it goes on whole, or says which part it misses."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray.config import Settings
from koda_ray.serve.api import create_app
from tests.serve.world import World, free_port, serving, world
from tests.web import axes
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

NEWER = "A newer version of this page is here"
HASHED = re.compile(r"(.+)-[A-Za-z0-9_-]{8}(\.\w+)")
STYLED = "name => [...document.styleSheets].some(({ href, cssRules }) => href?.includes(name) && cssRules.length > 0)"

Served = Callable[[], AbstractAsyncContextManager[str]]


def put(folder: Path, number: int) -> None:
    """Put a build in a folder's place as set-up does: the page as it is built, with other names for what has a hash."""
    build = folder.with_name(f"{folder.name}.builds") / str(number)
    shutil.copytree(Settings().web_path, build)
    names: dict[str, str] = {}
    for at, path in enumerate(sorted((build / "page").iterdir())):
        found = HASHED.fullmatch(path.name)
        assert found is not None, path
        names[path.name] = f"{found[1]}-{number}x{at:06d}{found[2]}"
        path.rename(path.with_name(names[path.name]))
    known = re.compile("|".join(re.escape(name) for name in names))
    for path in build.rglob("*"):
        if path.suffix in (".html", ".js", ".css"):
            path.write_text(known.sub(lambda each: names[each[0]], path.read_text()))
    folder.unlink(missing_ok=True)
    folder.symlink_to(build)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "web"


@pytest.fixture
async def served(tmp_path: Path, folder: Path) -> AsyncGenerator[Served]:
    """Starts a server with the build that is there then, always at one address."""
    put(folder, 1)
    port = free_port()
    async with world(tmp_path, serve=False, KODA_WEB_PATH=folder) as koda:
        koda.directory.asks = False

        @asynccontextmanager
        async def started() -> AsyncGenerator[str]:
            koda.deps.draining.clear()
            async with serving(create_app(koda.deps), port, graceful_s=0) as url:
                yield url

        yield started


async def is_away(page: Page) -> None:
    """Have the page see that the server is away."""
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.get_by_text("The server does not answer just now")).to_be_visible()


def place(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Places").get_by_role("link", name=name, exact=True)


async def test_an_open_page_goes_on_whole_with_the_parts_of_its_own_build(
    served: Served, folder: Path, browser: Browser
) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    given: list[str] = []
    page.on("response", lambda answer: given.append(f"{answer.status} {answer.url}"))
    async with served() as url:
        await page.goto(url)
        await expect(page.get_by_role("textbox", name="What should move")).to_be_visible()
    await is_away(page)
    put(folder, 2)
    given.clear()
    async with served():
        news = page.get_by_role("status").filter(has_text=NEWER)
        await expect(news).to_be_visible()
        await axes.on_every_screen(page)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await place(page, "Usage").click()
        await expect(page.get_by_role("meter", name="Animations awake")).to_be_visible()
        await place(page, "Canvas").click()
        await expect(page.get_by_role("button", name="Add: Prompt")).to_be_visible()
        assert await page.evaluate(STYLED, "/canvas-1x")
        parts = [each for each in given if "/page/" in each]
        assert parts and all(each.startswith("200 ") and "-1x" in each for each in parts)
        await expect(page.get_by_role("alert")).to_have_count(0)
        await place(page, "Usage").click()
        await news.get_by_role("button", name="Load it").click()
        await expect(page.locator("script[type=module]")).to_have_attribute("src", re.compile("/page/index-2x"))
        await expect(page.get_by_role("meter", name="Animations awake")).to_be_visible()
        await expect(news).to_have_count(0)
        await context.close()


async def test_where_its_build_is_gone_the_part_alone_says_so_and_loading_it_loses_nothing(
    served: Served, folder: Path, browser: Browser
) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    prompt = page.get_by_role("textbox", name="What should move")
    said = page.get_by_text(NEWER)
    async with served() as url:
        await page.goto(url)
        await prompt.fill("A ball, half typed")
    await is_away(page)
    put(folder, 2)
    shutil.rmtree(folder.with_name("web.builds") / "1")
    async with served():
        await expect(said).to_be_visible()
        await place(page, "Usage").click()
        part = page.get_by_role("main").get_by_role("alert")
        await expect(part.get_by_role("heading", name=NEWER)).to_be_focused()
        await expect(said).to_have_count(1)  # not over the page as well
        await axes.on_every_screen(page)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(prompt).to_have_value("A ball, half typed")
        await prompt.press("Control+k")
        found = page.get_by_role("dialog", name="Find")
        await expect(found.get_by_text(NEWER)).to_be_visible()
        await expect(found.get_by_role("button", name="Load it")).to_be_focused()
        await axes.examine(page)
        await page.keyboard.press("Escape")
        await expect(prompt).to_be_focused()
        await prompt.press("End")
        await page.keyboard.type(" and more")
        await expect(prompt).to_have_value("A ball, half typed and more")
        await place(page, "Usage").click()
        await part.get_by_role("button", name="Load it").click()
        await expect(page.get_by_role("meter", name="Animations awake")).to_be_visible()
        await expect(said).to_have_count(0)
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(prompt).to_have_value("A ball, half typed and more")
        await context.close()


async def test_what_is_missed_of_a_session_leaves_all_else_of_it(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.route("**/page/this-session-*.js", lambda route: route.fulfill(status=404))
        await begin(page, "A ball")
        await page.get_by_role("button", name="This session").click()
        dialog = page.get_by_role("dialog", name="This session")
        await expect(dialog.get_by_text("This part of the page did not come")).to_be_visible()
        await axes.on_every_screen(page)
        await page.keyboard.press("Escape")
        await page.unroute_all()
        await page.get_by_role("button", name="This session").click()  # it is asked for again
        await expect(dialog.get_by_role("heading", name="Used so far")).to_be_visible()


async def test_a_part_that_was_asked_for_while_the_server_was_away_comes_with_its_style(
    served: Served, browser: Browser
) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    async with served() as url:
        await page.goto(url)
        await expect(page.get_by_role("textbox", name="What should move")).to_be_visible()
    await is_away(page)
    async with page.expect_event("requestfailed", lambda request: request.url.endswith(".css")):
        await place(page, "Canvas").click()
    async with served():
        await expect(page.get_by_role("button", name="Add: Prompt")).to_be_visible()
        assert await page.evaluate(STYLED, "/canvas-1x")
        await expect(page.get_by_text(NEWER)).to_have_count(0)  # it is the same one
        await context.close()
