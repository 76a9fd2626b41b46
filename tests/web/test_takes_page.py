"""Several takes of one prompt on a page: begun together, made together, and one goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.serve.scripted import VIDEO
from tests.serve.world import World, reached
from tests.web.looking import begin, looking
from tests.web.test_film_page import comes_true, counting

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

CARDS = "[aria-label=Takes] > li"
ALL = "[...document.querySelectorAll('video')]"


async def test_takes_are_made_beside_each_other_and_one_goes_on(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.get_by_label("Takes").select_option("3 takes")
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").dblclick()
        await page.wait_for_url("**/t/grp_*")
        cards = page.locator(CARDS)
        await expect(cards).to_have_count(3)
        await page.get_by_role("button", name="Make all 3").dblclick()
        for number in (1, 2, 3):
            await expect(cards.nth(number - 1).get_by_role("heading")).to_have_text(f"Take {number}")
            await expect(cards.nth(number - 1).get_by_text("Preview to look at")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("button", name="Play all")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await reached(lambda: koda.app.state.streams.count("local") == 1)  # all of them on one connection
        await page.get_by_role("link", name="Go on with Take 2").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
        await page.get_by_role("link", name="Take 2, beside the others").click()
        await expect(cards).to_have_count(3)
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(page.get_by_role("link", name="A ball Preview to look at Take 3")).to_be_visible()
    rows = await koda.store.list_sessions("local")
    assert [row.state.options.take for row in rows] == [3, 2, 1] and len({row.state.group for row in rows}) == 1
    for row in rows:
        told = await koda.store.events(row.id)
        assert sum(each.type == "state_change" and each.data["owes"] == "execute" for each in told) == 1


async def test_a_file_that_is_brought_once_goes_with_each_take(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page:
        png = {"name": "logo.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n" + bytes(64)}
        await page.locator("input[type=file]").set_input_files(png)  # type: ignore[arg-type]
        await page.get_by_label("Takes").select_option("2 takes")
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").click()
        await page.wait_for_url("**/t/grp_*")
        await expect(page.locator(CARDS)).to_have_count(2)
        rows = await koda.store.list_sessions("local")
        held = [asset for row in rows for asset in await koda.store.assets(user_id="local", session_id=row.id)]
        assert [asset.name for asset in held] == ["logo.png"] * 2 and len({asset.key for asset in held}) == 1
        await page.goto(f"{koda.url}/s/{rows[0].id}")
        await page.get_by_role("button", name="This session").click()
        await expect(page.get_by_role("list", name="What went along").get_by_role("link")).to_have_text("logo.png")


async def test_takes_are_played_by_one_clock_and_where_each_is_is_said(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(counting, tmp_path / "counting.webm"))
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.get_by_label("Takes").select_option("3 takes")
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").click()
        await page.get_by_role("button", name="Make all 3").click()
        await expect(page.get_by_role("status").filter(has_text="Preview to look at")).to_be_attached(timeout=60_000)
        await expect(page.locator("video")).to_have_count(3, timeout=60_000)
        await comes_true(page, f"{ALL}.every(({{ readyState }}) => readyState > 0)")
        await page.get_by_role("button", name="Play all").click()
        await comes_true(page, f"{ALL}.every(({{ currentTime }}) => currentTime > 0.5)")
        await page.evaluate(f"{ALL}[2].currentTime = 4")  # one of them runs ahead: it is brought back
        await comes_true(page, f"Math.abs({ALL}[2].currentTime - {ALL}[0].currentTime) < 0.3")
        await page.get_by_role("button", name="Pause all").click()
        await comes_true(page, f"{ALL}.every((each) => each.paused && !each.seeking)")
        first, *others = await page.evaluate(f"{ALL}.map(({{ currentTime }}) => currentTime)")
        assert others == [first, first]
        await page.get_by_role("button", name="Play all").click()
        await page.evaluate(f"{ALL}[1].pause()")  # by its own controls
        await expect(page.get_by_role("button", name="Play all")).to_be_visible()
        await comes_true(page, f"{ALL}.every(({{ paused }}) => paused)")


async def test_the_gallery_says_where_each_is_as_that_changes(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(page.get_by_role("link", name="A ball Plan to look at")).to_be_visible()
        row = await koda.store.get_session(session_id)
        await koda.directory.submit(session_id=session_id, user_id="local", name="accept", body={}, key=str(row.seq))
        said = page.get_by_role("status").filter(has_text="A ball: Preview to look at")
        await expect(said).to_be_attached(timeout=60_000)
