"""Several takes of one prompt on a page: begun together, made together, and one goes on."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.serve.world import World, reached
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_takes_are_made_beside_each_other_and_one_goes_on(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.get_by_label("Takes").select_option("3 takes")
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").dblclick()
        await page.wait_for_url("**/t/grp_*")
        cards = page.get_by_role("list", name="Takes").get_by_role("listitem")
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


async def test_files_do_not_go_with_takes_and_that_is_said_where_it_was_typed(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        png = {"name": "logo.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n" + bytes(64)}
        await page.locator("input[type=file]").set_input_files(png)  # type: ignore[arg-type]
        await page.get_by_label("Takes").select_option("2 takes")
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("alert")).to_contain_text("files belong to one session")
        await expect(page.get_by_role("textbox", name="What should move")).to_have_value("A ball")
    assert await koda.store.list_sessions("local") == []
