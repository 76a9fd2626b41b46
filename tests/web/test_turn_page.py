"""What it is a person's turn to do, or what is being done: asked, answered, stopped, and in sight while it goes on."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from koda_ray import commands
from koda_ray.types import Option, Question
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking
from tests.web.test_stage_page import DESK, PHONE, works
from tests.web.test_versions_page import made

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

OTHER = Question(
    text="Which style?",
    options=(
        Option(id="playful", label="Playful", description="Bright"),
        Option(id="other", label="Something else", description="Say it in your own words"),
    ),
)
AT_TOP = """shown => {
    const { left, top, width, height } = shown.getBoundingClientRect();
    return shown.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}"""
"""Whether nothing lies over something that is on the screen."""


async def asked(koda: World, page: Page) -> str:
    """Begin a session that asks with an option for own words."""
    koda.directory.hold = {"analyze", "plan"}
    session_id = await begin(page, "A ball")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await koda.directory.move(session_id, commands.Ask(OTHER))
    await expect(page.get_by_role("group", name="Which style?")).to_be_visible()
    return session_id


async def test_something_else_is_said_in_the_one_field_for_it_and_nothing_is_sent_without_words(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await asked(koda, page)
        field = page.get_by_role("textbox")
        await expect(field).to_have_count(1)
        await page.get_by_role("group", name="Which style?").press("2")
        await expect(page.get_by_label("Something else")).to_be_checked()
        await expect(field).to_be_focused()
        await expect(field).to_have_value("")
        await page.keyboard.press("Enter")
        said = "Say it in a few words: without any, nothing is sent."
        await expect(page.get_by_role("alert")).to_have_text(said)
        await expect(field).to_have_accessible_description(said)
        await on_every_screen(page)
        await page.get_by_text("Playful").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.get_by_text("Something else").click()
        await expect(field).to_be_focused()
        assert (await koda.store.get_session(session_id)).state.phase == "question"
        await page.keyboard.type("hand-drawn")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Planning the scenes")).to_be_visible()
        (answer,) = (await koda.store.get_session(session_id)).state.answers
        assert (answer.option_id, answer.text) == (None, "hand-drawn")
        await expect(page.get_by_role("region", name="Talk")).to_contain_text("Which style?hand-drawn")


async def test_what_stands_at_own_words_is_not_sent_with_another_option(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await asked(koda, page)
        await page.get_by_role("textbox").fill("hand-drawn")
        await expect(page.get_by_label("Something else")).to_be_checked()
        await page.get_by_label("Playful").check()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Planning the scenes")).to_be_visible()
        (answer,) = (await koda.store.get_session(session_id)).state.answers
        assert (answer.option_id, answer.text) == ("playful", None)


async def test_what_was_stopped_is_said_with_what_is_kept_until_it_goes_on(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await works(koda, page)
        await koda.directory.move(session_id, commands.Wrote((("src/scenes/S1.tsx", 10),)))
        await page.get_by_role("button", name="Stop").click()
        stopped = page.get_by_role("status").filter(has_text="This was stopped before there was a preview")
        await expect(stopped).to_contain_text("Kept: the plan, 1 file.")
        await expect(page.get_by_role("heading", name="The plan")).to_be_visible()
        await on_every_screen(page)
        await page.reload()
        await expect(stopped).to_be_visible()
        koda.directory.hold = set()
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        await expect(stopped).to_have_count(0)
        koda.directory.rendering = asyncio.Event()
        await page.get_by_role("button", name="Render 1080p").click()
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_text("The rendering was stopped.")).to_be_visible()
        koda.directory.rendering.set()


async def test_on_a_phone_one_bar_is_seen_and_what_stops_the_work_is_not_covered(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(PHONE)
        await made(page)
        koda.directory.rendering = asyncio.Event()
        await page.get_by_role("button", name="Render 1080p").click()
        bar = page.get_by_role("progressbar", name="Rendering")
        await expect(bar).to_be_attached()
        box = await bar.bounding_box()
        assert box is not None and box["height"] <= 1  # the one below the picture is seen
        await expect(page.get_by_role("list", name="Steps")).to_be_hidden()
        stop = page.get_by_role("button", name="Stop")
        await page.evaluate("scrollTo(0, 0)")
        await expect(stop).to_be_in_viewport(ratio=1)
        assert await stop.evaluate(AT_TOP)
        koda.directory.rendering.set()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)


async def test_nothing_lies_over_the_place_to_speak_to_agents_at_work(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(DESK)
        await made(page, *(f"larger, {number}: {' '.join(['and larger'] * 30)}" for number in range(4)))
        koda.directory.hold = {"execute"}
        await page.get_by_label("What should be different").fill("red")
        await page.keyboard.press("Control+Enter")
        place, stop = page.get_by_label("Say something"), page.get_by_role("button", name="Stop")
        await expect(place).to_be_visible()
        await page.get_by_text("A ball", exact=True).last.scroll_into_view_if_needed()
        await page.mouse.wheel(0, 4000)
        for shown in (place, stop):
            await expect(shown).to_be_in_viewport(ratio=1)
            assert await shown.evaluate(AT_TOP)
        await on_every_screen(page)


async def test_what_there_is_to_do_with_a_finished_video_stands_in_rows_of_one_height(
    koda: World, browser: Browser
) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await made(page)
        await page.get_by_role("button", name="Render 1080p").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        done = page.get_by_role("region", name="It is finished")
        acts: list[Locator] = [done.get_by_role("link", name=name) for name in ("Poster", "Beside its preview")]
        acts += [done.get_by_role("button", name=name) for name in ("Share", "Delete this video", "Files")]
        await expect(acts[3]).to_have_text("Delete this video")
        for width in (390, 1024, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            boxes = [box for each in acts if (box := await each.bounding_box()) is not None]
            assert len({round(box["x"]) for box in boxes}) == 2
            tops = sorted({round(box["y"]) for box in boxes})
            assert len(tops) == 3 and tops[1] - tops[0] == tops[2] - tops[1]
        await on_every_screen(page)


async def test_a_fork_says_that_it_is_being_made_and_of_what_it_was_made(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page, "red")
        let = asyncio.Event()

        async def through(route: Route) -> None:
            await let.wait()
            await route.continue_()

        await page.route("**/fork", through)
        await page.get_by_role("button", name="Version 1, A ball").click()
        await page.get_by_role("button", name="Go another way from here").click()
        makes = page.get_by_text("Another session is being made from here.")
        await expect(makes).to_be_visible()
        let.set()
        origin = page.get_by_text("Forked from A ball").get_by_role("link", name="A ball")
        await expect(origin).to_be_visible()
        await expect(makes).to_have_count(0)
        await on_every_screen(page)
        await origin.click()
        await page.wait_for_url(f"**/s/{session_id}*")
        await expect(page.get_by_text("Forked from")).to_have_count(0)
        await page.goto(koda.url)
        await expect(page.get_by_text("Forked from “A ball”")).to_have_count(1)


async def test_that_the_server_does_not_answer_is_said_until_it_does(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await made(page)
        for path in ("changes", "ready"):
            await page.route(f"**/{path}", lambda route: route.abort())
        words = page.get_by_label("What should be different")
        await words.fill("red")
        await page.keyboard.press("Control+Enter")
        said = page.get_by_role("region", name="Talk").get_by_role("alert")
        await expect(said).to_contain_text("The server does not answer")
        await page.unroute_all()
        await expect(said).to_have_count(0)
        await expect(words).to_have_value("red")


async def test_a_render_that_is_not_there_is_not_asked_for_again(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        asked_for: list[str] = []
        page.on("request", lambda sent: asked_for.append(sent.url) if "/v1/renders/job_nope" in sent.url else None)
        await page.clock.install()
        await page.goto(f"{koda.url}/renders/job_nope")
        await expect(page.get_by_text("This render is not there any more.")).to_be_visible()
        await page.clock.run_for(20_000)
        assert len(asked_for) == 1
