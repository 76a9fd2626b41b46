"""Pointing at a picture: notes are made by mouse and by keys, kept as they are typed, and sent together."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from koda_ray.types import Box, Pointed, now
from tests.serve.scripted import VIDEO
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking
from tests.web.test_page import tab_to

pytestmark = [pytest.mark.full, pytest.mark.needs("web", "ffmpeg"), pytest.mark.browser]


UNCOVERED = """each => {
    const { x, y, width, height } = each.getBoundingClientRect();
    return [0.05, 0.95].every(part => each.contains(document.elementFromPoint(x + width / 2, y + height * part)));
}"""
"""Whether nothing lies over something on the screen."""


def squares(path: Path) -> bytes:
    """Make a video of two halves."""
    halves = "color=red:s=64x72:r=60:d=5[left];color=blue:s=64x72:r=60:d=5[right];[left][right]hstack"
    made = ["-filter_complex", halves, "-c:v", "libvpx", "-b:v", "1M", str(path)]
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", *made], check=True)
    return path.read_bytes()


@pytest.fixture
async def shown(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, Page]]:
    """A session with its preview; its id and its page."""
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(squares, tmp_path / "squares.webm"))
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_label("The preview")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
        await page.get_by_role("heading", name="Here is a preview").click()  # keys are the page's
        koda.directory.hold = {"execute"}
        yield session_id, page


async def pointed(koda: World, session_id: str) -> tuple[Pointed, ...]:
    """Wait until something is asked for by pointing."""
    async with asyncio.timeout(60):
        while not (found := (await koda.store.get_session(session_id)).state.pointed):
            await asyncio.sleep(0.02)
    return found


def near(box: Box | None, x: float, y: float, width: float, height: float) -> bool:
    """Whether a box is where one is meant, but for a hundredth of the picture."""
    assert box is not None
    return max(abs(box.x - x), abs(box.width - width)) < 20 and max(abs(box.y - y), abs(box.height - height)) < 12


async def test_boxes_are_drawn_and_notes_kept_and_sent_together_with_their_pictures(
    koda: World, shown: tuple[str, Page]
) -> None:
    session_id, page = shown
    await page.get_by_role("slider", name="Frame").fill("141")
    await page.get_by_role("button", name="Point at something", exact=True).click()
    over = page.get_by_role("application")
    await expect(over).to_be_focused()
    place = await over.bounding_box()
    assert place is not None

    async def go(x: float, y: float) -> None:
        await page.mouse.move(place["x"] + place["width"] * x, place["y"] + place["height"] * y)

    await go(0.25, 0.25)
    await page.mouse.down()
    await go(0.4, 0.5)
    await go(0.5, 0.75)
    await page.mouse.up()
    await expect(page.get_by_label("What should be different, note 1")).to_be_focused()
    await page.keyboard.type("make it green")
    await page.get_by_role("button", name="Point at something else").click()
    await page.keyboard.press("Escape")  # which loses nothing
    await expect(over).to_have_count(0)
    await page.keyboard.press("n")
    await expect(page.get_by_label("What should be different, note 2")).to_be_focused()
    await page.keyboard.type("slower")
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("n")
    async with asyncio.timeout(60):
        while (await page.evaluate("Object.values(sessionStorage).join().split('\"picture\"').length")) < 4:
            await asyncio.sleep(0.02)
    await page.reload()
    await expect(page.get_by_label("What should be different, note 1")).to_have_value("make it green")
    await page.get_by_role("button", name="Remove note 3").click()
    await page.get_by_role("button", name="show the frame of note 1").click()
    await expect(page.get_by_role("slider", name="Frame")).to_have_value("141")
    await page.get_by_role("button", name="Send 2 notes").dblclick()
    await expect(page.get_by_role("heading", name="Notes")).to_have_count(0)
    (change,) = await pointed(koda, session_id)
    first, second = change.notes
    assert near(first.box, 480, 270, 480, 540) and (first.frame, first.text) == (141, "make it green")
    assert (second.box, second.frame, second.text, second.time) == (None, 141, "slower", 2.35)
    for note in (first, second):
        assert note.picture is not None
        asset = await koda.store.get_asset(note.picture, user_id="local")
        assert asset.media_type == "image/jpeg" and asset.size_bytes < 200_000
        assert asset.session_id == session_id
    await expect(page.get_by_role("listitem").get_by_text("make it green")).to_be_visible()
    assert await page.evaluate("sessionStorage.length") == 0
    await page.goto(f"{koda.url}/assets")
    await expect(page.get_by_text("Drop pictures, films and sounds here, or paste them")).to_be_visible()


async def test_what_was_pointed_at_stands_in_the_talk_as_pictures_that_lead_to_their_moment(
    koda: World, shown: tuple[str, Page]
) -> None:
    session_id, page = shown
    slider = page.get_by_role("slider", name="Frame")
    await slider.fill("141")
    await page.get_by_role("button", name="Point at something", exact=True).click()
    await page.get_by_role("application").click(position={"x": 40, "y": 40})
    await page.keyboard.type("make it green")
    await page.get_by_role("button", name="Send the note").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    talk = page.get_by_role("list", name="Notes")
    picture = talk.get_by_role("button", name="show the moment of note 1")
    is_seen = "one => one.querySelector('img')?.naturalWidth > 0"
    for reloads in (False, True):
        if reloads:
            await page.reload()
        await expect(talk).to_contain_text("make it green")
        await expect(picture).to_contain_text("00:02.350")
        await picture.scroll_into_view_if_needed()
        async with asyncio.timeout(60):
            while not await picture.evaluate(is_seen):
                await asyncio.sleep(0.02)
    await slider.fill("10")
    await tab_to(page, picture)
    await page.keyboard.press("Enter")
    await expect(slider).to_have_value("141")
    await on_every_screen(page)
    koda.directory.hold = set()
    await koda.directory.wake(session_id)
    await expect(page.get_by_role("button", name="Version 2, make it green, shown now")).to_be_visible(timeout=60_000)
    await page.get_by_role("link", name="Compare").click()
    b = page.get_by_role("region", name="B")
    await expect(b).to_contain_text("make it green")
    await expect(b).not_to_contain_text("At 2.35 s")
    await expect(page.get_by_role("combobox", name="B", exact=True).locator("option:checked")).to_have_text(
        "v2 (shown now): make it green"
    )
    await page.go_back()
    await expect(slider).to_be_visible()
    await slider.fill("10")
    await picture.click()  # it was said of the first one
    await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    await expect(slider).to_have_value("141")
    await page.wait_for_url(lambda url: "v=1" in url and "t=2.35" in url)
    (change,) = await pointed(koda, session_id)
    crop = await koda.store.get_asset(str(change.notes[0].picture), user_id="local")
    await koda.storage.delete(crop.key)
    async with page.expect_request("**/frames/141.jpg?w=192"):  # then it is taken out of the video
        await page.reload()
        await picture.scroll_into_view_if_needed()
    await expect(talk).to_contain_text("make it green")


async def test_what_agents_at_work_have_not_read_shows_what_it_points_at(koda: World, shown: tuple[str, Page]) -> None:
    _, page = shown
    for text in ("red", "slower"):  # the second while they work
        await page.keyboard.press("n")
        await page.keyboard.type(text)
        await page.get_by_role("button", name="Send the note").click()
        await expect(page.get_by_role("heading", name="Notes")).to_have_count(0)
    waiting = page.get_by_role("list", name="Not read yet")
    await expect(waiting.get_by_role("button", name="show the moment of note 1")).to_be_visible()
    await expect(waiting).to_contain_text("slower")
    await waiting.get_by_role("button", name="Take back").click()
    await expect(page.get_by_label("What should be different, note 1")).to_have_value("slower")


async def test_the_keyboard_alone_points_and_sends(koda: World, shown: tuple[str, Page]) -> None:
    session_id, page = shown
    await page.keyboard.press("p")
    await expect(page.get_by_role("application")).to_be_focused()
    for _ in range(10):
        await page.keyboard.press("ArrowLeft")
    for key in ["ArrowRight", "ArrowDown"] * 5:
        await page.keyboard.press(f"Shift+{key}")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("What should be different, note 1")).to_be_focused()
    await page.keyboard.type("remove this")
    await page.keyboard.press("Control+Enter")
    (change,) = await pointed(koda, session_id)
    assert near(change.notes[0].box, 576, 540, 192, 108)


async def test_pointing_is_left_by_escape_from_wherever_the_keyboard_went_and_nothing_else_is(
    shown: tuple[str, Page],
) -> None:
    _, page = shown
    await page.get_by_role("button", name="Version 1").click()
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("p")
    over = page.get_by_role("application")
    await expect(over).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(over).not_to_be_focused()
    await page.keyboard.press("Escape")
    await expect(over).to_have_count(0)
    await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("heading", name="Version 1")).to_have_count(0)


async def test_what_the_server_refuses_keeps_the_notes(koda: World, shown: tuple[str, Page]) -> None:
    session_id, page = shown
    await page.keyboard.press("n")
    await page.keyboard.type("red")
    async with asyncio.timeout(60):
        while not await page.evaluate("Object.values(sessionStorage).some((each) => each.includes('picture'))"):
            await asyncio.sleep(0.02)
    (crop,) = await koda.store.loose_assets(now())
    await koda.store.remove_asset(crop.id, user_id="local")
    await page.get_by_role("button", name="Send the note").click()
    await expect(page.get_by_role("form", name="Notes").get_by_role("alert")).to_contain_text("asset")
    await expect(page.get_by_label("What should be different, note 1")).to_have_value("red")
    assert (await koda.store.get_session(session_id)).state.pointed == ()


async def test_notes_stand_beside_the_picture_with_what_sends_them(shown: tuple[str, Page]) -> None:
    _, page = shown
    await page.set_viewport_size({"width": 1440, "height": 900})
    for _ in range(3):
        await page.keyboard.press("p")
        await page.get_by_role("application").click(position={"x": 200, "y": 150})
        await page.keyboard.type("larger")
        picture = page.get_by_label("The preview")
        send = page.get_by_role("form", name="Notes").get_by_role("button", name="Send")
        for one in (picture, page.locator("textarea:focus"), send):
            await expect(one).to_be_in_viewport(ratio=1)
        await page.get_by_role("heading", name="Notes").click()
    await page.set_viewport_size({"width": 390, "height": 844})
    tray, strip = page.get_by_role("form", name="Notes"), page.get_by_role("slider", name="Frame")
    below, above = await tray.bounding_box(), await strip.bounding_box()
    assert below is not None and above is not None and below["y"] > above["y"]
    await on_every_screen(page)


async def test_that_notes_are_being_sent_is_seen_before_anybody_answers(koda: World, shown: tuple[str, Page]) -> None:
    session_id, page = shown
    stored, answered = asyncio.Event(), asyncio.Event()

    async def hold(route: Route, until: asyncio.Event) -> None:
        await until.wait()
        await route.continue_()

    await page.route("**/v1/assets", lambda route: hold(route, stored))
    await page.route("**/changes", lambda route: hold(route, answered))
    await page.keyboard.press("n")
    await page.keyboard.type("larger")
    await page.get_by_role("button", name="Send the note").click()
    for waits in (stored, answered):  # its picture is on its way, and then itself
        await expect(page.get_by_role("button", name="Sending the note…")).to_be_disabled()
        await expect(page.get_by_label("What should be different, note 1")).to_have_value("larger")
        await expect(page.get_by_label("What should be different, note 1")).not_to_be_editable()
        assert (await koda.store.get_session(session_id)).state.pointed == ()
        waits.set()
    await expect(page.get_by_role("heading", name="Notes")).to_have_count(0)
    (change,) = await pointed(koda, session_id)
    assert change.notes[0].picture is not None


async def test_how_to_point_is_said_until_something_was_pointed_at(shown: tuple[str, Page]) -> None:
    _, page = shown
    said = page.get_by_text("Click what you mean, or draw a box around it")
    await expect(said).to_have_count(0)
    await page.keyboard.press("p")
    await expect(said).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("What should be different, note 1")).to_be_focused()
    await page.get_by_role("button", name="Point at something else").click()
    await expect(page.get_by_role("application")).to_be_visible()
    await expect(said).to_have_count(0)


async def test_a_finger_points_once_and_the_words_come_next(shown: tuple[str, Page], browser: Browser) -> None:
    _, page = shown
    context = await browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    phone = await context.new_page()
    await phone.goto(page.url)
    await expect(phone.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
    for name in ("More", "Point at something"):
        await phone.get_by_role("button", name=name, exact=True).tap()
    over = phone.get_by_role("application")
    await expect(over).to_be_visible()
    heard = "document.addEventListener('mousedown', ({ target }) => pressed.push(target.tagName), true)"
    await phone.evaluate(f"window.pressed = []; {heard}")
    await over.tap()
    words = phone.get_by_label("What should be different, note 1")
    await expect(words).to_be_focused()
    for one in (words, phone.get_by_role("button", name="Send the note")):  # beneath neither the picture nor the talk
        await phone.wait_for_function(UNCOVERED, arg=await one.element_handle())
    await phone.get_by_role("heading", name="Notes").tap()  # by then all that comes of the tap before has come
    await phone.wait_for_function("pressed.includes('H2')")
    assert await phone.evaluate("pressed") == ["H2"]
    await expect(phone.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await context.close()
