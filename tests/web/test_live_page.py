"""The live page on a session's page: a real dev server in a real sandbox, moved frame by frame, and doubted."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.async_api import Browser, Frame, Page, Route, expect

from koda_ray import commands
from tests.serve.scripted import VIDEO
from tests.serve.world import World, reached
from tests.web.axes import on_every_screen
from tests.web.films import film_of
from tests.web.lives import LiveWorld, live, running_in, shown_in
from tests.web.looking import begin, looking
from tests.web.test_page import tab_to

pytestmark = [
    pytest.mark.full,
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.needs("web", "node", "bwrap"),
]

FPS = 60
SOUNDS = """() => {
    const made = AudioContext.prototype.createGain;
    AudioContext.prototype.createGain = function () {
        return (window.volume = made.call(this));
    };
    const sounding = (muted) => {
        const each = new Audio(); // which stands nowhere in the document
        each.muted = muted;
        each.play().catch(() => {});
        return each;
    };
    [window.loud, window.quiet] = [sounding(false), sounding(true)];
    const context = new AudioContext();
    window.tone = new OscillatorNode(context);
    window.tone.connect(context.destination);
}"""
HEARD = "[!window.loud.muted, !window.quiet.muted, window.volume.gain.value]"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[LiveWorld]:
    async with running_in(tmp_path) as found:
        yield found


async def stands_at(page: Page, inside: Frame, frame: int) -> None:
    """Wait until a frame is shown: on the page, and in the page that is shown."""
    await expect(page.get_by_role("slider", name="Frame")).to_have_value(str(frame))
    async with asyncio.timeout(60):
        while not abs(float(await inside.evaluate("window.__koda?.time ?? NaN")) - frame / FPS) <= 1e-9:
            await asyncio.sleep(0.02)


async def test_the_live_page_plays_and_goes_to_the_very_frame_that_is_named(
    running: LiveWorld, browser: Browser
) -> None:
    async with looking(browser, running.koda.url) as page:
        session_id, inside = await live(running.koda, page)
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("button", name="Play")).to_be_visible()
        await on_every_screen(page)
        await page.set_viewport_size({"width": 1280, "height": 800})
        slider = page.get_by_role("slider", name="Frame")
        await slider.fill("141")
        await stands_at(page, inside, 141)
        assert "frame 141 of 300, scene 2 Bounce" in str(await slider.get_attribute("aria-valuetext"))
        await page.get_by_role("button", name="A frame back").click()
        await stands_at(page, inside, 140)
        await slider.press("ArrowRight")
        await slider.press("ArrowRight")
        await stands_at(page, inside, 142)
        await page.get_by_role("button", name="go elsewhere").click()
        await page.keyboard.type("0:03.5")
        await page.keyboard.press("Enter")
        await stands_at(page, inside, 210)
        await page.get_by_role("heading", name="Here is a preview").click()
        await page.keyboard.press("k")
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await inside.wait_for_function("before => window.__koda.time !== before", arg=210 / FPS)
        source = (await running.sandbox.read_file("src/App.tsx")).decode()
        await running.sandbox.write_files({"src/App.tsx": f"document.title = 'again';\n{source}".encode()})
        await inside.wait_for_function("document.title === 'again'", timeout=60_000)
        await slider.fill("30")
        await stands_at(page, inside, 30)
        await reached(lambda: running.koda.directory.watchers.get(session_id) == 1)
        await page.get_by_role("button", name="Back to the video").click()
        await expect(page.get_by_label("The preview")).to_be_visible()
        await reached(lambda: running.koda.directory.watchers.get(session_id) == 0)


async def test_the_keyboard_goes_along_to_the_live_page_and_back(
    running: LiveWorld, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (640, 360), "teal").save(made := io.BytesIO(), "JPEG")
    monkeypatch.setitem(VIDEO, "preview", film_of(made.getvalue()))  # the keys of what cannot be played are of no use
    async with looking(browser, running.koda.url) as page:
        await live(running.koda, page)
        there, back = (page.get_by_role("button", name=name) for name in ("See it live", "Back to the video"))
        slider = page.get_by_role("slider", name="Frame")
        await tab_to(page, back)
        await page.keyboard.press("Enter")
        await expect(there).to_be_focused()
        await expect(page.get_by_label("The preview")).to_be_visible()
        await page.keyboard.press("Space")
        await expect(slider).to_be_visible()  # by now what leads back was drawn three times
        await expect(page.get_by_text("The page is loading…")).to_have_count(0)
        await expect(back).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(there).to_be_focused()

        async def away(route: Route) -> None:
            await route.fulfill(status=503, json={"code": "STORAGE_FAILED", "detail": "It is away."})

        await page.route("**/preview", away)
        await page.keyboard.press("Enter")
        again = page.get_by_role("button", name="Try again")
        await expect(again).to_be_focused(timeout=60_000)
        await tab_to(page, page.get_by_role("button", name="Leave it"))
        await page.keyboard.press("Enter")
        await expect(there).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(again).to_be_focused(timeout=60_000)
        await page.unroute("**/preview")
        await page.keyboard.press("Enter")
        await expect(slider).to_be_visible(timeout=60_000)
        await expect(back).to_be_focused()
        await back.click()
        await expect(page.get_by_label("The preview")).to_be_visible()
        await page.keyboard.press("Space")  # after a click keys are the page's
        await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()


async def test_a_part_of_it_is_played_and_a_frame_of_it_saved(running: LiveWorld, browser: Browser) -> None:
    def played(inside: Frame) -> Awaitable[list[float]]:
        """Look at what is shown from when it began again, three times; return the least and the greatest time."""
        return inside.evaluate(
            """() => new Promise((done) => {
                let [least, most, turns, before] = [Infinity, -Infinity, 0, window.__koda.time];
                const look = () => {
                    const now = window.__koda.time;
                    if (Math.abs(now - before) > 0.2) turns += 1;
                    if (turns > 0) [least, most] = [Math.min(least, now), Math.max(most, now)];
                    before = now;
                    if (turns < 3) requestAnimationFrame(look);
                    else done([least, most]);
                };
                look();
            })"""
        )

    async with looking(browser, running.koda.url) as page:
        session_id, inside = await live(running.koda, page)
        await page.keyboard.press("k")
        slider = page.get_by_role("slider", name="Frame")
        for frame, name in ((60, "Begin here"), (89, "End here")):
            await slider.fill(str(frame))
            await stands_at(page, inside, frame)
            await page.get_by_role("button", name=name).click()
        for begins in ("l", "j", "click"):  # a click on it leaves the keys where they are
            await (page.locator("iframe").click(force=True) if begins == "click" else page.keyboard.press(begins))
            least, most = await played(inside)
            assert least >= 1 - 1e-6 and most < 1.5, (begins, least, most)
            await page.keyboard.press("k")
            await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Checkerboard").click()
        await inside.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgba(0, 0, 0, 0)'")
        await slider.fill("30")
        await stands_at(page, inside, 30)
        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Save this frame").click()
        saved = await downloading.value
        assert saved.suggested_filename == "a-ball-f30.png"
        with Image.open(await saved.path()) as picture:
            assert picture.size == (1920, 1080)
        before = await running.koda.store.get_session(session_id)
        assert before.state.phase == "preview"


async def test_all_that_sounds_is_muted_and_is_heard_again_but_for_what_the_page_muted(
    running: LiveWorld, browser: Browser
) -> None:
    async with looking(browser, running.koda.url) as page:
        _, inside = await live(running.koda, page)
        await inside.evaluate(SOUNDS)
        assert await inside.evaluate(HEARD) == [True, False, 1]
        await page.get_by_role("button", name="Mute").click()
        await expect(page.get_by_role("button", name="Mute", pressed=True)).to_be_visible()
        await inside.wait_for_function(f"({HEARD}).join() === 'false,false,0'")
        await inside.evaluate("window.loud.muted = false")  # it has to wait
        await inside.wait_for_function("window.loud.muted")
        await page.get_by_role("button", name="Mute").click()
        await inside.wait_for_function(f"({HEARD}).join() === 'true,false,1'")
        await inside.evaluate("window.tone.disconnect(window.tone.context.destination)")  # as it was connected


async def test_what_is_pointed_at_is_named_by_its_words_its_component_and_its_line(
    running: LiveWorld, browser: Browser
) -> None:
    async with looking(browser, running.koda.url) as page:
        session_id, inside = await live(running.koda, page)
        await page.keyboard.press("k")
        await page.get_by_role("slider", name="Frame").fill("290")
        await stands_at(page, inside, 290)
        shot = Image.open(io.BytesIO(await page.locator("iframe").screenshot()))
        pixels = np.asarray(shot.convert("RGB")).astype(int)
        red = (pixels[..., 0] > 180) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)
        around = np.lib.stride_tricks.sliding_window_view(red, (9, 9)).all(axis=(2, 3))  # no thin line
        ball_y, ball_x = np.argwhere(around).mean(axis=0) + 4
        over = page.get_by_role("application")
        words, ball = "“From a sentence to a film.” · Title", "Ball"
        for number, (x, y, named) in enumerate(
            ((shot.width * 0.3, shot.height * 0.79, words), (ball_x, ball_y, ball)), start=1
        ):
            await page.get_by_role("button", name="Point at something", exact=True).click()
            await over.hover(position={"x": x, "y": y})
            await expect(over.get_by_role("status")).to_have_text(named)
            await over.click(position={"x": x, "y": y})
            await expect(page.get_by_label(f"What should be different, note {number}")).to_be_focused()
            await page.keyboard.type("red")
        running.koda.directory.hold = {"execute"}
        await page.get_by_role("button", name="Send 2 notes").click()
        await expect(page.get_by_role("heading", name="Notes")).to_have_count(0, timeout=120_000)
    (change,) = (await running.koda.store.get_session(session_id)).state.pointed
    first, second = change.notes
    assert first.element == "From a sentence to a film." and first.component == "Title"
    assert str(first.source).startswith("src/components/Title.tsx:")
    assert second.component == "Ball" and str(second.source).startswith("src/components/Ball.tsx:")
    assert first.box is not None and 300 < first.box.x < 400 and 40 < first.box.height < 110
    assert first.picture is not None and second.picture is not None  # of the page itself, as a render would show it


async def test_what_stands_still_is_there_again_at_another_size(running: LiveWorld, browser: Browser) -> None:
    async def reds(page: Page) -> int:
        """Count the pixels of the template's red ball, which is drawn by WebGL."""
        shot = Image.open(io.BytesIO(await page.locator("iframe").screenshot()))
        pixels = np.asarray(shot.convert("RGB")).astype(int)
        return int(((pixels[..., 0] > 180) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)).sum())

    async def shown(page: Page) -> None:
        async with asyncio.timeout(60):
            while await reds(page) < 100:
                await asyncio.sleep(0.1)

    async with looking(browser, running.koda.url) as page:
        await page.set_viewport_size({"width": 1280, "height": 800})
        _, inside = await live(running.koda, page)
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("slider", name="Frame").fill("60")
        await stands_at(page, inside, 60)
        await shown(page)
        width = await inside.evaluate("innerWidth")
        await page.set_viewport_size({"width": 800, "height": 700})
        await inside.wait_for_function("before => innerWidth !== before", arg=width)
        await shown(page)


async def test_the_pages_address_is_renewed_before_it_runs_out(running: LiveWorld, browser: Browser) -> None:
    async with looking(browser, running.koda.url) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/preview") else None)
        await page.clock.install()
        await page.reload()
        _, inside = await live(running.koda, page)
        before = urlsplit(inside.url).path
        slider = page.get_by_role("slider", name="Frame")
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_label("Speed").select_option("0.5×")
        await page.get_by_role("button", name="Again and again").click()
        for frame, name in ((60, "Begin here"), (149, "End here"), (120, "")):
            await slider.fill(str(frame))
            await stands_at(page, inside, frame)
            if name:
                await page.get_by_role("button", name=name).click()
        for minutes in ("20:00", "20:00", "18:30"):  # somebody is there meanwhile
            await page.clock.fast_forward(minutes)
            await page.mouse.move(200, 300)
            await page.mouse.move(210, 300)
        assert len(asked) == 1
        await page.clock.fast_forward("01:00")
        await reached(lambda: len(asked) == 2)
        async with asyncio.timeout(60):
            while not (renewed := [each for each in shown_in(page) if urlsplit(each.url).path != before]):
                await asyncio.sleep(0.02)
        await stands_at(page, renewed[0], 120)  # where it stood, and as it was set
        await expect(page.get_by_label("Speed")).to_have_value("0.5")
        await expect(page.get_by_role("button", name="Again and again")).to_have_attribute("aria-pressed", "false")
        await expect(page.get_by_role("button", name="not only frames 60–149")).to_be_visible()
        await slider.fill("90")
        await stands_at(page, renewed[0], 90)


async def test_a_live_page_keeps_its_session_awake_for_as_long_as_somebody_is_at_it(
    running: LiveWorld, browser: Browser
) -> None:
    """The proxy counts the page's own socket as somebody who looks, and tells the session so again and again."""
    watchers = running.koda.directory.watchers
    async with looking(browser, running.koda.url) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/preview") else None)
        await page.clock.install()
        await page.reload()
        session_id, _ = await live(running.koda, page)
        await reached(lambda: watchers.get(session_id) == 1)
        for _ in range(3):
            await page.clock.fast_forward("29:00")
            await page.mouse.move(200, 300)
            await page.mouse.move(210, 300)
        watchers.pop(session_id)
        await reached(lambda: watchers.get(session_id) == 1)  # told anew
        await page.clock.fast_forward("30:30")  # nobody is there, though the page is in sight
        await expect(page.get_by_label("The preview")).to_be_visible()
        await expect(page.get_by_text("Nobody was here for half an hour")).to_be_visible()
        await reached(lambda: watchers.get(session_id) == 0)
        before = len(asked)
        await page.clock.fast_forward("08:00:00")
        assert (watchers.get(session_id), len(asked), shown_in(page)) == (0, before, [])
        await page.get_by_role("button", name="See it live").click()
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        await expect(page.get_by_text("Nobody was here for half an hour")).to_have_count(0)
        await reached(lambda: watchers.get(session_id) == 1)


async def test_what_a_hostile_page_posts_changes_nothing(running: LiveWorld, browser: Browser) -> None:
    async with looking(browser, running.koda.url) as page:
        session_id, inside = await live(running.koda, page)
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("slider", name="Frame").fill("60")
        await stands_at(page, inside, 60)
        before = await running.koda.store.get_session(session_id)
        await inside.evaluate(
            """() => {
                const posted = [
                    {koda: 1, type: 'ready', duration: 1e12, fps: 60, time: 0}, {koda: 1, type: 'accept'},
                    {koda: 1, type: 'state', time: '1', playing: true}, {koda: 1, type: 'state', time: -5},
                    {koda: 1, do: 'seek', time: 2}, {koda: 1, type: '__proto__', __proto__: {time: 3}},
                    {koda: 2}, 'text', null,
                ];
                for (const each of posted) for (const window of [parent, top]) window.postMessage(each, '*');
                top.postMessage({koda: 1, type: 'state', time: 4, playing: true}, '*');  // not by way of our frame
                parent.postMessage({koda: 1, type: 'error', message: '<b>Sign in again</b>'}, '*');
            }"""
        )
        await expect(page.get_by_text("The page says: <b>Sign in again</b>")).to_be_visible()
        await expect(page.get_by_role("slider", name="Frame")).to_have_value("60")
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        assert await running.koda.store.get_session(session_id) == before


async def executing(koda: World, page: Page) -> str:
    """Bring a session to where its first file is written."""
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    session_id = await begin(page, "A ball")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    await koda.directory.move(session_id, commands.Wrote((("src/App.tsx", 10),)))
    return session_id


async def test_while_it_is_made_the_live_page_comes_by_itself_once(running: LiveWorld, browser: Browser) -> None:
    koda = running.koda
    async with looking(browser, koda.url) as page:
        session_id = await executing(koda, page)
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        assert len(shown_in(page)) == 1
        await page.get_by_role("button", name="Back to the scenes").click()
        await expect(page.get_by_role("list", name="Scenes", exact=True)).to_be_visible()
        await koda.directory.move(session_id, commands.Wrote((("src/scenes/S1.tsx", 10),)))
        await expect(page.get_by_text("2 files written")).to_be_visible()
        await asyncio.sleep(2)  # it was chosen otherwise
        await expect(page.get_by_role("slider", name="Frame")).to_have_count(0)
        await page.get_by_role("button", name="See it live").click()
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()


async def test_where_motion_is_switched_off_it_comes_when_asked_for_and_stands(
    running: LiveWorld, browser: Browser
) -> None:
    async with looking(browser, running.koda.url) as page:
        await page.get_by_role("button", name="Keys", exact=True).click()
        await page.get_by_label("may move by themselves").uncheck()
        await page.keyboard.press("Escape")
        await page.reload()
        await executing(running.koda, page)
        await expect(page.get_by_text("1 file written")).to_be_visible()
        await asyncio.sleep(2)
        assert running.koda.directory.previews == 0
        moving = "document.getAnimations().filter(({ playState }) => playState === 'running').length"
        assert await page.evaluate(moving) == 0
        await page.get_by_role("button", name="See it live").click()
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        (inside,) = shown_in(page)
        stands = await inside.evaluate("window.__koda.time")
        assert stands < 1
        await asyncio.sleep(1)
        assert await inside.evaluate("window.__koda.time") == stands
        await page.get_by_role("button", name="Play", exact=True).click()
        await inside.wait_for_function("before => window.__koda.time !== before", arg=stands)


async def test_where_there_is_no_live_page_yet_the_scenes_stay(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        async with page.expect_response("**/preview"):
            await executing(koda, page)
        await expect(page.get_by_role("list", name="Scenes", exact=True)).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
