"""A video on a session's page, moved by frames: a real one, whose every frame says which it is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.async_api import Browser, Page, Route, expect

from koda_ray.types import now
from tests.serve.scripted import VIDEO
from tests.serve.world import World
from tests.web import axes
from tests.web.looking import SHOWN, begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web", "ffmpeg"), pytest.mark.browser]

FPS, STEPS, STEP = 60, 40, 5


def counting(path: Path) -> bytes:
    """Make five seconds of video: frame k is grey, the lighter the greater k is, forty shades round and round."""
    grey = f"color=black:s=64x36:r={FPS}:d=5,geq=lum='16+{STEP}*mod(N,{STEPS})':cb=128:cr=128,format=yuv420p"
    codec = ["-c:v", "libvpx", "-crf", "4", "-b:v", "2M", "-g", "30"]
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-f", "lavfi", "-i", grey, *codec, str(path)], check=True)
    return path.read_bytes()


async def shows(page: Page, frame: int) -> None:
    """Wait until a frame is the one that is drawn, and named."""
    await expect(page.get_by_role("slider", name="Frame")).to_have_value(str(frame))
    wanted = STEP * (frame % STEPS) * 255 / 219
    video = page.get_by_label("The preview")
    async with asyncio.timeout(30):
        while abs(await video.evaluate(SHOWN) - wanted) > STEP * 255 / 219 / 2:
            await asyncio.sleep(0.02)


async def comes_true(page: Page, expression: str) -> None:
    """Wait until something holds on the page, whose policy lets it evaluate nothing by itself."""
    async with asyncio.timeout(30):
        while not await page.evaluate(expression):
            await asyncio.sleep(0.02)


ROUND = """() => new Promise((done) => {
    const video = document.querySelector('video');
    let [least, most, turns, before] = [Infinity, -Infinity, 0, video.currentTime];
    const look = () => {
        const now = video.currentTime;
        if (now < before - 0.2) turns += 1;
        if (turns > 0) [least, most] = [Math.min(least, now), Math.max(most, now)];
        before = now;
        if (turns < 3) requestAnimationFrame(look);
        else done([least, most]);
    };
    look();
})"""


@pytest.fixture
async def shown(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[World, Page]]:
    """A session's page with its preview."""
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(counting, tmp_path / "counting.webm"))
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_label("The preview")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
        await page.get_by_role("heading", name="Here is a preview").click()  # keys are the page's
        yield koda, page


async def test_a_part_is_played_round_and_round_or_once(shown: tuple[World, Page]) -> None:
    _, page = shown
    slider = page.get_by_role("slider", name="Frame")
    for frame, key in ((60, "i"), (89, "o")):
        await slider.fill(str(frame))
        await shows(page, frame)
        await page.get_by_role("heading", name="Here is a preview").click()
        await page.keyboard.press(key)
    await expect(page.get_by_role("button", name="not only frames 60–89")).to_be_visible()
    await page.keyboard.press(" ")
    least, most = await page.evaluate(ROUND)
    assert least >= 1 - 1 / FPS and most <= 1.5 + 0.25, (least, most)  # a browser is drawn to so often
    await page.get_by_role("button", name="Again and again").click()
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await shows(page, 89)
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("k")  # it was over: it begins again
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await shows(page, 89)
    await page.keyboard.press("x")
    await expect(page.get_by_role("button", name="not only frames")).to_have_count(0)


async def test_it_is_shuttled_in_both_directions_at_any_speed(shown: tuple[World, Page]) -> None:
    _, page = shown
    speed = "document.querySelector('video').playbackRate"
    await page.get_by_label("Speed").select_option("0.25×")
    await page.get_by_role("heading", name="Here is a preview").click()
    for wanted in (0.25, 0.5, 1):
        await page.keyboard.press("l")
        await comes_true(page, f"{speed} === {wanted}")
    await expect(page.get_by_text("1×", exact=True).locator("visible=true")).to_have_count(1)
    await page.keyboard.press("k")
    await page.get_by_role("slider", name="Frame").fill("150")
    await shows(page, 150)
    await page.get_by_label("Speed").select_option("1×")
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(page.get_by_text("−2×")).to_be_visible()
    await comes_true(page, "document.querySelector('video').currentTime < 1.5")
    await comes_true(page, "document.querySelector('video').currentTime > 3.5")  # and round again
    await page.keyboard.press("k")
    await page.get_by_role("slider", name="Frame").fill("100")
    await page.get_by_role("heading", name="Here is a preview").click()
    for key, frame in (("ArrowRight", 101), ("Shift+ArrowRight", 161), ("ArrowLeft", 160), ("Shift+ArrowLeft", 100)):
        await page.keyboard.press(key)
        await shows(page, frame)
    await page.keyboard.press("g")
    await page.keyboard.type("f33")
    await page.keyboard.press("Enter")
    await shows(page, 33)


async def test_the_very_frame_is_saved_as_a_picture(shown: tuple[World, Page]) -> None:
    _, page = shown
    await page.get_by_role("slider", name="Frame").fill("57")
    await shows(page, 57)
    await page.get_by_role("heading", name="Here is a preview").click()
    async with page.expect_download() as downloading:
        await page.keyboard.press("s")
    saved = await downloading.value
    assert saved.suggested_filename == "a-ball-f57.png"
    with Image.open(await saved.path()) as picture:
        assert picture.format == "PNG" and picture.size == (64, 36)
        red = np.asarray(picture.convert("RGB"))[20, 30, 0]
    wanted = STEP * (57 % STEPS) * 255 / 219
    assert abs(int(red) - wanted) <= STEP * 255 / 219 / 2
    board = page.get_by_role("button", name="Checkerboard")
    await board.click()
    await expect(board).to_have_attribute("aria-pressed", "true")


async def test_a_video_goes_to_the_very_frame_that_is_named(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(counting, tmp_path / "counting.webm"))
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        video = page.get_by_label("The preview")
        await expect(video).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
        slider = page.get_by_role("slider", name="Frame")
        for frame in (141, 0, 299, 57):
            await slider.fill(str(frame))
            await shows(page, frame)
        await page.get_by_role("button", name="A frame on").click()
        await shows(page, 58)
        await page.get_by_role("button", name="Bounce").click()
        await shows(page, 90)
        await expect(page.get_by_role("button", name="Bounce")).to_have_attribute("aria-current", "true")
        await page.get_by_role("button", name="go elsewhere").click()
        await page.keyboard.type("f200")
        await page.keyboard.press("Enter")
        await shows(page, 200)
        await page.get_by_role("heading", name="Here is a preview").click()
        await page.keyboard.press(" ")
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await comes_true(page, "document.querySelector('video').currentTime > 3.5")
        await page.keyboard.press("k")
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Sound").click()
        assert await video.evaluate("video => video.muted")
        await page.keyboard.press("f")
        await comes_true(page, "document.fullscreenElement !== null")
        await expect(slider).to_be_visible()


async def test_a_video_whose_address_came_to_an_end_is_fetched_anew_and_plays_on(shown: tuple[World, Page]) -> None:
    """A bucket lends an address for an hour: what the browser says then is what it says of any video that stops."""
    _, page = shown
    listens = "document.querySelector('video').addEventListener('emptied', () => (window.anew = true)); 0"
    stops = "document.querySelector('video').dispatchEvent(new Event('error'))"
    await page.get_by_role("slider", name="Frame").fill("150")
    await shows(page, 150)
    await page.evaluate(listens)
    await page.evaluate(stops)
    await comes_true(page, "window.anew === true")
    await shows(page, 150)
    await page.wait_for_url("**/s/*?t=2.5")
    await page.reload()
    await shows(page, 150)
    await page.evaluate(listens)
    await page.get_by_label("Speed").select_option("0.5×")
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("k")
    await comes_true(page, "document.querySelector('video').currentTime > 2.6")
    await page.evaluate(stops)
    await comes_true(page, "window.anew === true")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await comes_true(page, "document.querySelector('video').currentTime > 3")
    assert await page.evaluate("document.querySelector('video').playbackRate") == 0.5
    await expect(page.get_by_text("This browser cannot play")).to_have_count(0)


async def test_one_that_cannot_be_fetched_is_tried_again_by_whoever_wants_that(shown: tuple[World, Page]) -> None:
    _, page = shown
    await page.get_by_role("slider", name="Frame").fill("150")
    await shows(page, 150)
    await page.route("**/video?job=*", lambda route: route.abort())
    await page.evaluate("document.querySelector('video').dispatchEvent(new Event('error'))")
    said = page.get_by_role("status").filter(has_text="cannot be fetched just now")
    await expect(said).to_be_visible()
    await page.unroute_all(behavior="wait")
    await page.get_by_role("button", name="Try again").click()
    await expect(said).to_have_count(0)
    await shows(page, 150)


async def test_what_the_browser_cannot_play_is_downloaded_or_made_otherwise(koda: World, browser: Browser) -> None:
    koda.directory.asks = False  # and its videos are none
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        said = page.get_by_role("status").filter(has_text="This browser cannot play this video")
        await expect(said).to_contain_text("render it in another format", timeout=60_000)
        await expect(page.get_by_role("button", name="Point at something")).to_be_disabled()
        link = said.get_by_role("link", name="Download it")
        assert session_id in str(await link.get_attribute("href"))
        async with page.expect_download() as downloading:
            await link.click()
        assert (await (await downloading.value).path()).read_bytes() == VIDEO["preview"]
        await axes.on_every_screen(page)


async def test_the_timeline_shows_what_is_at_its_thumb_to_the_keyboard(shown: tuple[World, Page]) -> None:
    _, page = shown
    slider = page.get_by_role("slider", name="Frame")
    await slider.focus()
    await page.keyboard.press("Home")
    for _ in range(3):
        await page.keyboard.press("Shift+ArrowRight")
    await expect(page.get_by_text("00:03.000 · f 180", exact=True)).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_text("00:03.000 · f 180", exact=True)).to_have_count(0)


async def test_where_a_page_may_not_have_the_whole_screen_nothing_offers_it(shown: tuple[World, Page]) -> None:
    _, page = shown
    await expect(page.get_by_role("button", name="Full screen")).to_be_visible()
    await page.add_init_script("Object.defineProperty(document, 'fullscreenEnabled', { get: () => false })")
    await page.reload()
    await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
    await expect(page.get_by_role("button", name="Full screen")).to_have_count(0)
    await page.keyboard.press("f")
    assert await page.evaluate("document.fullscreenElement") is None


async def test_one_that_nobody_moved_shows_the_frame_that_it_is_said_to_be_at(shown: tuple[World, Page]) -> None:
    _, page = shown
    await shows(page, 0)
    video = page.get_by_label("The preview")
    middle = await video.evaluate("({ currentTime, paused }) => [currentTime, paused]")
    assert middle == [pytest.approx(0.5 / FPS, abs=1e-4), True]  # a poster goes once something was sought
    async with page.expect_download() as downloading:
        await page.keyboard.press("s")
    with Image.open(await (await downloading.value).path()) as picture:
        pixels = np.asarray(picture.convert("RGBA"))
    assert (pixels[..., 3] == 255).all() and pixels[18, 32, 0] < STEP


async def test_what_is_pointed_at_or_saved_before_the_video_is_there_waits_for_it(shown: tuple[World, Page]) -> None:
    koda, page = shown
    there = asyncio.Event()

    async def hold(route: Route) -> None:
        await there.wait()
        await route.continue_()

    await page.route("**/video?job=*", hold)
    await page.reload()
    await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("p")
    over = page.get_by_role("application")
    async with page.expect_download() as downloading:
        await page.keyboard.press("s")
        await expect(page.get_by_role("button", name="Save this frame")).to_be_disabled()
        await expect(over).to_have_count(0)  # what is seen is another moment yet
        there.set()
    with Image.open(await (await downloading.value).path()) as picture:
        assert (np.asarray(picture.convert("RGBA"))[..., 3] == 255).all()
    await over.click(position={"x": 40, "y": 40})
    await expect(page.get_by_label("What should be different, note 1")).to_be_focused()
    async with asyncio.timeout(60):
        while not (kept := await koda.store.loose_assets(now() + timedelta(days=1))):
            await asyncio.sleep(0.02)
    assert kept[0].media_type == "image/jpeg"
