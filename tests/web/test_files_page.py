"""A project's files on its page: the tree, what is in a file, and how they were in each version."""

from __future__ import annotations

import zipfile

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray.client import KodaClient
from tests.serve.test_jobs import previewed
from tests.serve.test_sessions import until
from tests.serve.world import World
from tests.web import axes
from tests.web.looking import looking

pytestmark = [pytest.mark.needs("web"), pytest.mark.browser]

PATH = "src/scenes/S1.tsx"


def line(page: Page, name: str) -> Locator:
    return page.get_by_role("tree", name="The project").get_by_role("treeitem", name=name, exact=True)


async def test_files_are_read_as_they_are_now_and_as_they_were_in_the_first_version(
    koda: World, browser: Browser
) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await previewed(koda, client)
        await client.changes(session_id, "a round thing")
        await until(client, session_id, "preview")
        async with looking(browser, f"{koda.url}/s/{session_id}") as page:
            await page.get_by_role("button", name="Files", exact=True).click()
            now = page.get_by_role("dialog", name="Files", exact=True)
            await expect(now.get_by_label(PATH)).to_contain_text("// a round thing")
            assert page.url.endswith("?files=")
            await page.keyboard.press("Escape")
            await expect(now).to_have_count(0)
            await expect(page.get_by_role("button", name="Files", exact=True)).to_be_focused()
            await page.get_by_role("button", name="Version 1, ").click()
            await page.get_by_role("button", name="Its files").click()
            then = page.get_by_role("dialog", name="Files of version 1")
            await expect(then.get_by_label(PATH)).to_contain_text("export function Ball()")
            await expect(then.get_by_label(PATH)).not_to_contain_text("// a round thing")


@pytest.mark.full
async def test_the_tree_is_gone_through_by_keys_and_a_file_has_an_address(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await previewed(koda, client)
        files = {PATH: b"export const S1 = 1;\n", "index.html": b"<p>Begin</p>\n", "public/a b.bin": b"\0\1"}
        await koda.directory.checkpoint(session_id, files)
        async with looking(browser, f"{koda.url}/s/{session_id}") as page:
            await page.get_by_role("button", name="Files", exact=True).focus()
            await page.keyboard.press("Enter")
            await expect(line(page, "S1.tsx")).to_have_attribute("aria-selected", "true")
            await expect(line(page, "S1.tsx")).to_have_attribute("aria-level", "3")
            await page.keyboard.press("Tab")
            await expect(line(page, "S1.tsx")).to_be_focused()
            for key, name in (("ArrowUp", "scenes"), ("ArrowLeft", "scenes"), ("ArrowLeft", "src"), ("Home", "public")):
                await page.keyboard.press(key)
                await expect(line(page, name)).to_be_focused()
            await expect(line(page, "S1.tsx")).to_have_count(0)  # its folder was closed
            await page.keyboard.press("ArrowRight")
            await page.keyboard.press("ArrowRight")
            await expect(line(page, "a b.bin")).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("link", name="It is no text: open it")).to_be_visible()
            await page.keyboard.press("i")
            await page.keyboard.press(" ")
            await expect(page.get_by_label("index.html")).to_have_text("<p>Begin</p>")
            await page.wait_for_url("**?files=index.html")
            await page.reload()
            await expect(page.get_by_label("index.html")).to_have_text("<p>Begin</p>")
            await axes.on_every_screen(page)
            async with page.expect_download() as downloading:
                await page.get_by_role("link", name="All of it as a zip").click()
            with zipfile.ZipFile(await (await downloading.value).path()) as source:
                assert sorted(source.namelist()) == sorted(files)
            await page.goto(f"{koda.url}/s/{session_id}?files=src/Gone.tsx")
            await expect(page.get_by_text("There is no such file here.")).to_be_visible()


@pytest.mark.full
async def test_files_are_read_where_it_stopped_where_it_is_finished_and_of_the_only_version(
    koda: World, browser: Browser
) -> None:
    async with KodaClient(koda.url) as client, looking(browser, koda.url) as page:
        session_id = await previewed(koda, client)
        await page.goto(f"{koda.url}/s/{session_id}?v=1")
        await page.get_by_role("button", name="Its files").click()
        await expect(page.get_by_role("dialog", name="Files of version 1").get_by_label(PATH)).to_be_visible()
        koda.directory.fails = {"render_final": "the page was silent"}
        await page.goto(f"{koda.url}/s/{session_id}")
        await page.get_by_role("button", name="Render 1080p at 60 fps").click()
        await expect(page.get_by_role("heading", name="This stopped")).to_be_visible()
        await page.get_by_role("button", name="Files", exact=True).click()
        await expect(page.get_by_role("dialog").get_by_label(PATH)).to_be_visible()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("look at")
        await expect(page.get_by_role("option", name="Look at the files")).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog", name="Files", exact=True).get_by_label(PATH)).to_be_visible()


@pytest.mark.full
async def test_what_is_saved_while_files_are_looked_at_comes_there(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"execute"}
    async with KodaClient(koda.url) as client:
        koda.directory.asks = False
        session_id = (await client.create("A ball")).session_id
        await until(client, session_id, "plan")
        await client.accept(session_id)
        async with looking(browser, f"{koda.url}/s/{session_id}?files=") as page:
            await expect(page.get_by_text("Nothing was saved yet.")).to_be_visible()
            await koda.directory.checkpoint(session_id, {PATH: b"const before = 1;\n"})
            await expect(page.get_by_label(PATH)).to_contain_text("before")
            await koda.directory.checkpoint(session_id, {PATH: b"const after = 2;\n"})
            await expect(page.get_by_label(PATH)).to_contain_text("after")
