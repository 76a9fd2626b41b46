"""What was said to agents at work, on the page: it waits there to be read, and until then can be taken back."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Route, expect

from koda_ray.commands import Heed
from tests.serve.world import World
from tests.web.axes import examine
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


@pytest.mark.parametrize("width", [1440, 390])
async def test_a_message_is_taken_back_and_its_words_are_there_to_be_said_otherwise(
    koda: World, browser: Browser, width: int
) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size({"width": width, "height": 900})
        session_id = await begin(page, "A ball")
        field = page.get_by_role("textbox", name="Say something")
        waiting = page.get_by_role("list", name="Not read yet")
        for words in ("make it red", "make it round"):
            await field.fill(words)
            await page.get_by_role("button", name="Send").click()
            await expect(waiting.get_by_text(words)).to_be_visible()
            await expect(field).to_have_value("")
        await examine(page)
        await waiting.get_by_role("listitem").filter(has_text="make it red").get_by_role("button").click()
        await expect(waiting.get_by_text("make it red")).to_have_count(0)
        await expect(field).to_have_value("make it red")
        await expect(field).to_be_focused()
        state = (await koda.store.get_session(session_id)).state
        assert [each.told for each in state.unread] == ["make it round"]
        await page.reload()
        await expect(waiting.get_by_text("make it round")).to_be_visible()
        await koda.directory.move(session_id, Heed(state.unread[0].id))
        await expect(waiting).to_have_count(0)
        await expect(page.get_by_role("listitem").get_by_text("make it round")).to_be_visible()
        await expect(page.get_by_role("button", name="Take back")).to_have_count(0)


async def test_what_is_heeded_the_moment_it_is_taken_back_is_said_to_be(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("textbox", name="Say something").fill("make it red")
        await page.get_by_role("button", name="Send").click()
        button = page.get_by_role("button", name="Take back")
        await expect(button).to_be_visible()

        async def late(route: Route) -> None:
            unread = (await koda.store.get_session(session_id)).state.unread
            await koda.directory.move(session_id, *(Heed(each.id) for each in unread))
            await route.continue_()

        await page.route("**/messages/*", late)
        await button.click()
        await expect(page.get_by_role("alert")).to_contain_text("stop the work (cancel)")
        await expect(page.get_by_role("listitem").get_by_text("make it red")).to_be_visible()
