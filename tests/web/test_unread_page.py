"""What was said to agents at work, on the page: it waits there to be read, and until then can be taken back."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Route, expect

from koda_ray.client import KodaClient
from koda_ray.commands import Heed, Pause
from koda_ray.types import Note, Option, Question
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
        for words in ("make it red", "make it round"):
            its = waiting.get_by_role("listitem").filter(has_text=words).get_by_role("button", name="Take back")
            await expect(its).to_have_accessible_description(words)
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


async def test_notes_are_back_in_the_tray_and_the_focus_stays_where_nothing_can_be_said(
    koda: World, browser: Browser
) -> None:
    koda.directory.hold = {"analyze"}
    more = Question(text="More?", options=(Option(id="more", label="More"), Option(id="stop", label="Stop")))
    async with looking(browser, koda.url) as page, KodaClient(koda.url) as client:
        session_id = await begin(page, "A ball")
        for notes in ([Note(text="larger", time=1.0), Note(text="red", time=2.0)], [Note(text="calmer", time=3.0)]):
            await client.say(session_id, notes=notes)
        taking = page.get_by_role("button", name="Take back")
        await expect(taking).to_have_count(2)
        await taking.last.click()
        await expect(taking).to_have_count(1)
        for number, words in ((1, "larger"), (2, "red")):
            await expect(page.get_by_role("textbox", name=f"note {number}")).to_have_value(words)
        await expect(page.get_by_role("textbox", name="Say something")).to_be_focused()
        await koda.directory.move(session_id, Pause(more, "cost", session_id, 1, 2))
        await expect(page.get_by_role("textbox", name="Say something")).to_have_count(0)
        await taking.click()
        await expect(taking).to_have_count(0)
        await expect(page.get_by_role("heading", name="Talk")).to_be_focused()
        await expect(page.get_by_role("textbox", name="note 3")).to_have_value("calmer")
