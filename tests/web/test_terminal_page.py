"""A shell in a sandbox, typed into on the page: what is typed goes there, and nothing stays once it is left."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray.client import KodaClient
from tests.sandbox.conftest import write_packages, write_template
from tests.web.axes import SCHEMES, on_every_screen
from tests.web.boxes import making_boxes
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web", "tmux"), pytest.mark.browser, pytest.mark.sandbox]

KEY = "k" * 32
DEADLINE_S = 60.0


@asynccontextmanager
async def at_a_sandbox(folder: Path, browser: Browser) -> AsyncGenerator[tuple[Page, KodaClient, str]]:
    """Sign in, and go to a new sandbox; yield its page, a client and its id."""
    template, packages = write_template(folder / "template"), write_packages(folder / "node_modules")
    settings = {"KODA_TEMPLATE_PATH": template, "KODA_NODE_MODULES_PATH": packages, "KODA_API_KEYS": f"ann={KEY}"}
    async with (
        making_boxes(folder, key=KEY, **settings) as koda,
        looking(browser, koda.url) as page,
        KodaClient(koda.url, key=KEY) as client,
    ):
        await page.get_by_label("Key").fill(KEY)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("textbox", name="What should move")).to_be_visible()
        box = (await client.create_sandbox()).id
        await page.goto(f"{koda.url}/sandboxes/{box}")
        yield page, client, box
        await page.goto("about:blank")
        await over(client, box)


async def opened(page: Page) -> tuple[Locator, Locator]:
    """Open a terminal by keyboard; return its part of the page and what it shows, once a shell is there."""
    await page.get_by_role("button", name="Terminal", exact=True).focus()
    await page.keyboard.press("Enter")
    part = page.get_by_role("region", name="Terminal", exact=True)
    shown = part.locator(".xterm-rows")
    await expect(typed_into(page)).to_be_focused()
    await expect(shown).to_contain_text("$")
    return part, shown


def typed_into(page: Page) -> Locator:
    return page.get_by_role("textbox", name=re.compile("^Terminal of Animation template"))


async def run(page: Page, line: str) -> None:
    await page.keyboard.type(line)
    await page.keyboard.press("Enter")


async def size_inside(page: Page, shown: Locator) -> tuple[int, int]:
    """Ask the shell how large its terminal is, in rows and columns."""
    await run(page, "clear; echo size-$(stty size)-")
    size = re.compile(r"size-(\d+) (\d+)-")
    await expect(shown).to_contain_text(size)
    found = size.search(await shown.inner_text())
    return (int(found[1]), int(found[2])) if found else (0, 0)


def inside() -> list[str]:
    """What this process has started in sandboxes for terminals, shells among it."""
    found: list[str] = []
    for child in psutil.Process().children(recursive=True):
        try:
            words = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if "attach-session" in words or words in ("bash", "sh") or "a terminal on the page" in words:
            found.append(words)
    return found


async def over(client: KodaClient, box: str) -> None:
    """Wait until nothing runs of any terminal: no process in the sandbox, none that leads there."""
    left: list[str] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            while left := [*(each.name for each in (await client.processes(box)).processes), *inside()]:
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"this stays: {left}")


async def test_a_shell_is_typed_into_and_says_how_it_ended(tmp_path: Path, browser: Browser) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, client, box):
        part, shown = await opened(page)
        await run(page, "echo is-$((6*7))")
        await expect(shown).to_contain_text("is-42")
        assert inside()
        await run(page, "mkdir -p deep/inside")
        await page.keyboard.type("cd de")
        await page.keyboard.press("Tab")  # is the shell's
        await page.keyboard.press("Enter")
        await run(page, "echo at-$(basename $PWD)")
        await expect(shown).to_contain_text("at-deep")
        await page.keyboard.type("no such thing")
        await page.keyboard.press("Control+c")
        await page.keyboard.type("a")
        await page.keyboard.press("Control+b")  # is the shell's too
        await page.keyboard.type("echo b-")
        await page.keyboard.press("Enter")
        await expect(shown).to_contain_text("b-a")
        await on_every_screen(page)
        await page.keyboard.press("Control+m")
        await expect(part.get_by_role("button", name="Close the terminal")).to_be_focused()
        await typed_into(page).focus()
        await run(page, "exit 3")
        await expect(part.get_by_role("status")).to_have_text("The shell has ended with 3.")
        await over(client, box)
        await on_every_screen(page)
        await page.keyboard.press("Tab")  # nobody is there any more who would take it
        await expect(part.get_by_role("button", name="Begin another")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(typed_into(page)).to_be_focused()
        await expect(shown).to_contain_text("$")
        await run(page, "echo new-$((6*7))")
        await expect(shown).to_contain_text("new-42")


async def test_it_is_as_large_as_its_place_and_in_the_colours_of_the_page(tmp_path: Path, browser: Browser) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, _, _):
        _, shown = await opened(page)
        rows, columns = shown.locator("> div"), [0]
        for width, height in ((1280, 900), (390, 700)):
            await page.set_viewport_size({"width": width, "height": height})
            async with asyncio.timeout(DEADLINE_S):
                while (size := await size_inside(page, shown)) != (await rows.count(), size[1]) or size[1] == columns[
                    -1
                ]:
                    await asyncio.sleep(0.05)
            columns.append(size[1])
            place = await page.locator(".koda-terminal").evaluate("each => [each.scrollWidth, each.clientWidth]")
            assert place[0] <= place[1]
        assert columns[1] > 2 * columns[2] > 50
        grounds: list[list[str]] = []
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            await page.wait_for_function(
                """() => getComputedStyle(document.querySelector('.xterm-scrollable-element')).backgroundColor
                    === getComputedStyle(document.querySelector('.koda-terminal')).backgroundColor"""
            )
            grounds.append(await shown.evaluate("each => [getComputedStyle(each).color]"))
        assert grounds[0] != grounds[1]


async def test_what_scrolled_by_is_seen_by_wheel_and_keys_until_something_is_typed(
    tmp_path: Path, browser: Browser
) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, _, _):
        _, shown = await opened(page)
        await run(page, "for i in $(seq 500); do echo line-$i-; done; echo end-$((6*7))")
        await expect(shown).to_contain_text("end-42")
        await shown.hover(force=True)
        await page.mouse.wheel(0, -2000)
        await expect(shown).to_contain_text(re.compile(r"line-3\d\d-"))
        await expect(shown).not_to_contain_text("end-42")
        await run(page, "echo back-$((6*7))")
        await expect(shown).to_contain_text("back-42")
        await page.keyboard.press("Shift+PageUp")
        await page.keyboard.press("Shift+PageUp")
        await expect(shown).not_to_contain_text("back-42")
        await page.keyboard.press("Shift+PageDown")
        await page.keyboard.press("Shift+PageDown")
        await expect(shown).to_contain_text("back-42")
        await run(page, "echo there-$((6*7))")
        await expect(shown).to_contain_text("there-42")


async def test_a_shell_that_is_left_ends(tmp_path: Path, browser: Browser) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, client, box):
        part, shown = await opened(page)
        await run(page, "sleep 1000 & echo begun-$((6*7))")
        await expect(shown).to_contain_text("begun-42")
        await part.get_by_role("button", name="Close the terminal").click()
        await expect(page.get_by_role("button", name="Terminal", exact=True)).to_be_focused()
        await over(client, box)
        await opened(page)
        await page.get_by_role("navigation", name="Places").get_by_role("link", name="Usage").click()
        await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
        await over(client, box)
        await page.go_back()
        await opened(page)
        await page.goto("about:blank")
        await over(client, box)
        await page.go_back()
        await expect(page.get_by_role("button", name="Terminal", exact=True)).to_be_visible()


async def test_who_was_cut_off_comes_back_to_the_same_shell(tmp_path: Path, browser: Browser) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, client, box):
        part, shown = await opened(page)
        await run(page, "mark=$((6*7)); echo set-$mark")
        await expect(shown).to_contain_text("set-42")
        await page.context.set_offline(True)
        await expect(part.get_by_role("status")).to_contain_text("The connection is lost")
        await on_every_screen(page)
        await page.context.set_offline(False)
        await part.get_by_role("button", name="Connect again").click()
        await expect(typed_into(page)).to_be_focused()
        await expect(part.get_by_role("button", name="Connect again")).to_have_count(0)
        await run(page, "clear; echo still-$mark")
        await expect(shown).to_contain_text("still-42")
        (process,) = (await client.processes(box)).processes
        await client.kill_process(box, process.name)
        await expect(part.get_by_role("status")).to_have_text(re.compile("^The shell (was|has) ended"))


async def test_without_a_sandbox_it_says_so_in_the_servers_words(tmp_path: Path, browser: Browser) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, client, box):
        other = (await client.create_sandbox()).id
        await page.goto(page.url.replace(box, other))
        part, _ = await opened(page)
        await client.terminate_sandbox(other)
        await expect(part.get_by_role("alert")).to_contain_text(f"there is no sandbox '{other}'")
        await part.get_by_role("button", name="Try again").click()
        await expect(part.get_by_role("alert")).to_contain_text("; make another")


async def test_it_is_read_to_who_wants_that(tmp_path: Path, browser: Browser) -> None:
    async with at_a_sandbox(tmp_path, browser) as (page, _, _):
        part, _ = await opened(page)
        await part.get_by_label("For a screen reader").check()
        await typed_into(page).focus()
        await run(page, "echo said-$((6*7))")
        await expect(part.locator("[aria-live]").filter(has_text="said-42")).to_have_count(1)
        await on_every_screen(page)
        await page.reload()
        part, _ = await opened(page)
        await expect(part.get_by_label("For a screen reader")).to_be_checked()
