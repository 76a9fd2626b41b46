"""What the server answers stands where it was asked for; what could not be read can be asked for again."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, Route, expect

from koda_ray import commands
from koda_ray.types import Question
from tests.serve.world import World
from tests.web import axes
from tests.web.looking import begin, looking
from tests.web.test_versions_page import made

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

PHONE = {"width": 390, "height": 844}


async def refusing(page: Page, path: str, said: str, *, methods: tuple[str, ...] = ("POST", "PATCH")) -> None:
    """Have a request answered with a problem."""

    async def refuse(route: Route) -> None:
        if route.request.method in methods:
            await route.fulfill(status=409, json={"code": "CONFLICT", "detail": said})
        else:
            await route.fallback()

    await page.route(path, refuse)


async def test_what_is_refused_is_answered_where_it_was_sent_from(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await made(page, "red")
        for path in ("rewind", "changes", "render", "accept"):
            await refusing(page, f"**/v1/sessions/*/{path}", f"no {path} now")
        versions = page.get_by_role("region", name="2 versions")
        await page.get_by_role("button", name="Version 1, A ball").click()
        await page.get_by_role("button", name="Go back to it").click()
        await expect(versions.get_by_role("alert")).to_have_text("no rewind now")
        await expect(page.get_by_role("alert")).to_have_count(1)

        talk = page.get_by_role("region", name="Talk")
        words = page.get_by_label("What should be different")
        await words.fill("blue")
        await page.keyboard.press("Control+Enter")
        await expect(talk.get_by_role("alert")).to_have_text("no changes now")
        await expect(page.get_by_role("alert")).to_have_count(1)
        await expect(words).to_have_accessible_description("no changes now")
        await expect(words).to_have_value("blue")
        await axes.on_every_screen(page)

        await page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(talk.get_by_role("alert")).to_be_in_viewport()
        await page.get_by_role("button", name="Render 1080p").click()
        await expect(page.get_by_role("alert")).to_have_text("no accept now")
        await expect(talk.get_by_role("alert")).to_have_count(0)


async def test_a_pin_that_was_refused_and_a_time_that_is_none_are_said(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page)
        await refusing(page, f"**/v1/sessions/{session_id}", "too many are pinned")
        await page.get_by_role("button", name="Pin it").click()
        await expect(page.get_by_role("alert")).to_have_text("too many are pinned")
        await axes.on_every_screen(page)
        await page.unroute_all()
        await page.get_by_role("button", name="Pin it").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.get_by_role("button", name="Pin it")).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("heading", name="Here is a preview").click()
        await page.keyboard.press("g")
        field = page.get_by_label("Time, or frame as f141")
        await field.fill("soon")
        await expect(page.get_by_role("alert")).to_have_count(0)  # it is still being typed
        await page.keyboard.press("Enter")
        await expect(field).to_have_accessible_description("That is no time and no frame: 2.35, 0:02.35 or f141.")
        await axes.on_every_screen(page)
        slider = page.get_by_role("slider", name="Frame")
        last = await slider.get_attribute("max")
        past = re.compile(rf"^It ends at \d\d:\d\d\.\d\d\d, and its last frame is f{last}\.$")
        for typed in ("99:00", f"f{int(str(last)) + 2}"):
            await field.fill(typed)
            await page.keyboard.press("Enter")
            await expect(field).to_have_accessible_description(past)
            await expect(field).to_have_value(typed)
        await axes.on_every_screen(page)
        await field.fill(f"f{last}")
        await page.keyboard.press("Enter")
        await expect(field).to_have_count(0)
        await expect(slider).to_have_value(str(last))


async def test_what_could_not_be_read_is_said_quietly_and_asked_for_again(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await made(page, "red")
        await page.get_by_role("button", name="Render 1080p").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        for path in ("**/messages?*", "**/versions?*", "**/v1/renders?*"):
            await refusing(page, path, "not just now", methods=("GET",))
        await page.reload()
        for what in ("What was said", "The versions", "What it was rendered to"):
            await expect(page.get_by_text(f"{what} could not be read: not just now")).to_be_visible()
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Ask again").first.click()
        await expect(page.get_by_role("button", name="Ask again").first).to_have_attribute("aria-disabled", "false")
        await page.unroute_all()
        for left in (2, 1, 0):
            await page.get_by_role("button", name="Ask again").first.click()
            await expect(page.get_by_role("button", name="Ask again")).to_have_count(left)
        await expect(page.get_by_role("region", name="2 versions")).to_be_visible()
        await expect(page.get_by_role("region", name="Talk").get_by_text("red", exact=True)).to_be_visible()


async def test_a_question_without_options_is_answered_in_words_and_by_ctrl_enter(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze", "plan"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await expect(page.get_by_role("heading", name="Reading what you wrote")).to_be_visible()
        asked = Question(text="Which ball do you mean?", options=(), custom_input=False)
        await koda.directory.move(session_id, commands.Ask(asked))
        words = page.get_by_label("Your answer")
        await refusing(page, "**/answer", "say more")
        await words.fill("the red one")
        await page.keyboard.press("Control+Enter")
        await expect(words).to_have_accessible_description("say more")
        await axes.on_every_screen(page)
        await page.unroute_all()
        await page.keyboard.press("Control+Enter")
        await expect(words).to_have_count(0)
    (answered,) = (await koda.store.get_session(session_id)).state.answers
    assert answered.text == "the red one"


async def test_a_video_that_failed_keeps_its_preview_gives_its_code_away_and_is_tried_again(
    koda: World, browser: Browser
) -> None:
    koda.directory.asks, koda.directory.fails = False, {"render_final": "the page was silent for 30 s"}
    async with looking(browser, koda.url) as page:
        session_id = await made(page)
        await page.get_by_role("button", name="Render 1080p").click()
        failed = page.get_by_role("region", name="This stopped")
        await expect(failed.get_by_role("alert")).to_contain_text("the page was silent for 30 s")
        await expect(page.get_by_label("The preview")).to_be_visible()
        await expect(failed.get_by_text("Kept: the plan, 2 files, the video.")).to_be_visible()
        told = failed.get_by_label("The code and the message", exact=True)
        await expect(told).to_have_value(f"RENDER_FAILED: the page was silent for 30 s {session_id}")
        await axes.on_every_screen(page)
        await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as without https
        await failed.get_by_role("button", name="Copy: The code and the message").click()
        await expect(failed.get_by_text("It is selected: copy it with your keyboard")).to_be_visible()
        await expect(told).to_be_focused()
        assert await told.evaluate("(field) => field.selectionEnd - field.selectionStart === field.value.length")
        await failed.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
