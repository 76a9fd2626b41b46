"""Two versions compared by the keyboard alone: how they are seen, what moves them, and which of them goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.serve.scripted import VIDEO
from tests.serve.world import World
from tests.web.looking import looking
from tests.web.test_page import tab_to
from tests.web.test_versions_page import FPS, changed, film, lights, made

pytestmark = [pytest.mark.full, pytest.mark.needs("web", "ffmpeg"), pytest.mark.browser]

OVER = "document.querySelectorAll('video')[1].parentElement.parentElement"
"""What B is in, where it lies over A."""


@pytest.fixture
async def compared(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Page]:
    """The comparison of two versions, one lighter than the other, to which the keyboard has just come."""
    koda.directory.asks = False
    dark, light = [await asyncio.to_thread(film, tmp_path / "film.webm", light=each) for each in (40, 80)]
    monkeypatch.setitem(VIDEO, "preview", dark)
    async with looking(browser, koda.url) as page:
        await made(page)
        monkeypatch.setitem(VIDEO, "preview", light)
        await changed(page, "red")
        link = page.get_by_role("link", name="Compare")
        await tab_to(page, link)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/compare?**")
        await expect(page.get_by_role("heading", name="A ball", exact=True)).to_be_focused()
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        yield page


async def seen(page: Page, *wanted: float) -> None:
    """Wait until A and B are about as light as that."""
    async with asyncio.timeout(60):
        while any(abs(one - light) > 1.5 for one, light in zip(await lights(page), wanted, strict=True)):
            await asyncio.sleep(0.02)


async def style(page: Page, name: str, wanted: str) -> None:
    """Wait until what B is in has a style."""
    script = f"([name, wanted]) => getComputedStyle({OVER})[name] === wanted"
    await page.wait_for_function(script, arg=[name, wanted])


async def chosen(page: Page, mode: str) -> Locator:
    """Choose how they are compared at its button, as who has switched single keys off does."""
    button = page.get_by_role("button", name=mode)
    await tab_to(page, button)
    await page.keyboard.press("Enter")
    await expect(button).to_have_attribute("aria-pressed", "true")
    await expect(button).to_be_focused()
    return button


async def test_the_wipe_is_moved_to_either_end_and_played_meanwhile(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    await press("2")
    line = page.get_by_role("slider", name="Where A ends and B begins")
    await expect(line).to_have_attribute("aria-valuetext", "A up to 50 % of the width")
    await tab_to(page, line)
    outline = "document.activeElement.nextElementSibling"
    assert await page.evaluate(f"getComputedStyle({outline}).outlineStyle") == "solid"  # where it is is seen
    for key, at in (("ArrowRight", "50.5"), ("ArrowLeft", "50"), ("PageUp", "60"), ("Home", "0"), ("End", "100")):
        await press(key)
        await expect(line).to_have_value(at)
    await style(page, "clipPath", "inset(0px 0px 0px 100%)")
    await press("Home")
    await style(page, "clipPath", "inset(0px 0px 0px 0%)")
    frame = page.get_by_role("slider", name="Frame")
    await expect(frame).to_have_value("0")  # these keys were the line's
    await press(" ")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await press("k")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await expect(line).to_be_focused()


async def test_the_flip_is_turned_at_its_button_and_from_anywhere_and_is_heard(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    await chosen(page, "Flip")
    said = page.get_by_role("status").filter(has_text="is shown")
    await expect(said).to_have_text("A is shown")
    await style(page, "visibility", "hidden")
    await tab_to(page, page.get_by_role("button", name="Show B"))
    await press("Enter")
    await style(page, "visibility", "visible")
    await expect(said).to_have_text("B is shown")
    await expect(page.get_by_role("button", name="Show A")).to_be_focused()
    await press(" ")
    await style(page, "visibility", "hidden")
    await tab_to(page, page.get_by_role("slider", name="Frame"))
    await press("b")
    await style(page, "visibility", "visible")
    await expect(page.get_by_role("slider", name="Frame")).to_be_focused()


async def test_the_difference_is_made_brighter_and_found_where_it_is_most(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    await chosen(page, "Difference")
    await style(page, "mixBlendMode", "difference")
    gain = page.get_by_role("combobox", name="Black is where both show the same")
    await tab_to(page, gain)
    await press("ArrowDown")
    await expect(gain).to_have_value("16")
    await page.wait_for_function(f"getComputedStyle({OVER}.parentElement).filter === 'brightness(16)'")
    most = page.get_by_role("button", name="They differ most at frame")
    await expect(most).to_be_visible(timeout=60_000)
    at = (await most.inner_text()).rpartition(" ")[2]
    await tab_to(page, most)
    await press("Enter")
    await expect(page.get_by_role("slider", name="Frame")).to_have_value(at)


async def test_both_are_moved_marked_and_played_and_one_goes_on(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    frame = page.get_by_role("slider", name="Frame")
    await press("ArrowRight")  # at the heading: the page's
    await expect(frame).to_have_value("1")
    await tab_to(page, frame)
    for key, at in (("ArrowRight", "2"), ("Shift+ArrowRight", "62"), ("Home", "0"), ("Shift+ArrowRight", "60")):
        await press(key)
        await expect(frame).to_have_value(at)
    await seen(page, 70, 110)
    await tab_to(page, page.get_by_role("button", name="A frame on"))
    await press("Enter")
    await press("Enter")
    await expect(frame).to_have_value("62")
    await tab_to(page, page.get_by_role("button", name="go elsewhere"))
    await press("Enter")
    await page.keyboard.type("f90")
    await press("Enter")
    await expect(frame).to_have_value("90")
    await seen(page, 85, 125)
    await tab_to(page, page.get_by_role("button", name="Begin here"))
    await press("Enter")
    clear = page.get_by_role("button", name="Play all again")
    await tab_to(page, clear)
    await press("Enter")
    await expect(clear).to_have_count(0)
    speed = page.get_by_role("combobox", name="Speed")
    await tab_to(page, speed)
    before = await speed.input_value()
    await press("ArrowDown")
    await expect(speed).not_to_have_value(before)
    play = page.get_by_role("button", name="Play", exact=True)
    await tab_to(page, play)
    await press(" ")
    await expect(page.get_by_role("button", name="Pause")).to_be_focused()
    await press("Enter")
    await expect(play).to_be_focused()
    await tab_to(page, page.get_by_role("combobox", name="A", exact=True))
    await press("ArrowDown")
    of = "new URLSearchParams(location.search).get"
    await page.wait_for_function(f"{of}('a') === {of}('b')")
    await expect(page.get_by_role("combobox", name="A", exact=True)).to_be_focused()
    await press("ArrowUp")
    await expect(page.get_by_role("heading", name="A: version 1")).to_be_visible()
    swap = page.get_by_role("button", name="The other way round")
    await tab_to(page, swap)
    await press("Enter")
    await expect(page.get_by_role("heading", name="A: version 2")).to_be_visible()
    await expect(swap).to_be_focused()
    await tab_to(page, page.get_by_role("button", name="Keep B"))
    await press("Enter")
    await page.wait_for_url("**/s/*")
    await expect(page.get_by_role("heading", name="A ball", exact=True)).to_be_focused()
    await expect(page.get_by_role("button", name="Version 1, A ball, shown now")).to_be_visible()


async def test_how_they_are_seen_is_chosen_without_single_keys_and_escape_leaves(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    await page.evaluate("localStorage.setItem('koda.single-keys-off', 'yes')")
    await press("4")
    for mode in ("Wipe", "Flip", "Difference", "Side by side"):
        await chosen(page, mode)
    await press("Escape")
    await page.wait_for_url("**/s/*")
    await expect(page.get_by_role("heading", name="A ball", exact=True)).to_be_focused()


DRAWN = """() => {
    window.drawn = [];
    document.querySelectorAll('video').forEach((video, at) => {
        const told = (_, { mediaTime }) => {
            window.drawn[at] = mediaTime;
            video.requestVideoFrameCallback(told);
        };
        video.requestVideoFrameCallback(told);
    });
}"""
STILL = """fps => new Promise((done) => {
    let [before, same] = ['', 0];
    const look = () => {
        const videos = [...document.querySelectorAll('video')];
        const frames = window.drawn.map((time) => Math.round(time * fps));
        const now = JSON.stringify([frames, videos.map(({ currentTime }) => currentTime)]);
        same = now === before && videos.every(({ seeking, paused }) => paused && !seeking) ? same + 1 : 0;
        before = now;
        if (same < 12) requestAnimationFrame(look);
        else done(frames);
    };
    look();
})"""
"""The frames that both drew last, once nothing has moved for a while: whatever they drew before that is passed over."""


async def test_wherever_they_stand_both_draw_the_frame_that_is_named(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    slider = page.get_by_role("slider", name="Frame")
    await press("ArrowRight")
    await page.evaluate(DRAWN)
    wrong: list[tuple[int, list[int]]] = []

    async def look() -> None:
        named = int(await slider.input_value())
        if (drawn := await page.evaluate(STILL, FPS)) != [named * FPS // 60] * 2:
            wrong.append((named, drawn))

    for frame in range(2, 62):
        await press("ArrowRight")
        await expect(slider).to_have_value(str(frame))
        await look()
    for _ in range(6):
        before = await slider.input_value()
        await press("k")
        await expect(slider).not_to_have_value(before)
        await press("k")
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        await look()
    assert wrong == []


async def test_keys_are_the_films_wherever_one_is_on_its_screen(compared: Page) -> None:
    page, press = compared, compared.keyboard.press
    frame = page.get_by_role("slider", name="Frame")
    end = "240"  # the films are shorter than they are said to be
    for key, at in (("End", end), ("Home", "0")):  # at the heading: nobody has pressed on anything
        await press(key)
        await expect(frame).to_have_value(at)
    await page.get_by_role("button", name="Wipe").click()
    await press(" ")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await press("k")
    await press("Home")
    await expect(frame).to_have_value("0")
