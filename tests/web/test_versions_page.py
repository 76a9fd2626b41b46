"""A session's versions on its page: looked at, gone back to, noted, played as they were, and compared."""

from __future__ import annotations

import asyncio
import subprocess
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.async_api import Browser, Page, expect

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources
from koda_ray.serve.stored_pages import StoredPages
from koda_ray.state.keys import thumbnail_key
from koda_ray.types import SceneEdit
from tests.serve.scripted import VIDEO
from tests.serve.test_sessions import until
from tests.serve.test_versions import with_versions
from tests.serve.world import World, free_port, serving, world
from tests.web import axes
from tests.web.looking import SHOWN, begin, looking

pytestmark = [pytest.mark.needs("web"), pytest.mark.browser]

FPS, SECONDS = 30, 4
PAGE = b"""<!doctype html><title>The page of then</title><p id=at>0</p>
<script type=module src=./assets/bridge.js></script>"""
BRIDGE = b"""
const at = document.getElementById('at');
const tell = (type, more) => parent.postMessage({ koda: 1, type, ...more }, '*');
addEventListener('message', ({ data }) => {
  if (data?.koda !== 1 || data.do !== 'seek') return;
  at.textContent = data.time.toFixed(3);
  tell('state', { id: data.id, time: data.time, playing: false });
});
tell('ready', { duration: 4, fps: 60, time: 0, playing: false });
"""


def film(path: Path, *, light: int) -> bytes:
    """Make a grey film, whose frame k is as light as ``light`` and k say."""
    drawn = f"color=black:s=64x36:r={FPS}:d={SECONDS},geq=lum='{light}+N':cb=128:cr=128,format=yuv420p"
    codec = ["-c:v", "libvpx", "-crf", "4", "-b:v", "2M", "-g", "15"]
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-f", "lavfi", "-i", drawn, *codec, str(path)], check=True)
    return path.read_bytes()


async def changed(page: Page, words: str) -> None:
    """Ask for a change, and wait for what comes of it."""
    await page.get_by_label("What should be different").fill(words)
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("button", name=f"{words}, shown now")).to_be_visible(timeout=60_000)


async def made(page: Page, *changes: str) -> str:
    """Make a session with a version for its prompt and for each change."""
    session_id = await begin(page, "A ball")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
    for words in changes:
        await changed(page, words)
    return session_id


@pytest.mark.full
async def test_a_version_is_looked_at_and_gone_back_to(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page, "red")
        strip = page.get_by_role("region", name="2 versions").get_by_role("list")
        await expect(strip.get_by_role("button")).to_have_count(2)
        await page.get_by_role("heading", name="Here is a preview").click()  # keys are the page's
        await page.keyboard.press("[")
        await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
        await expect(page.get_by_label("Version 1", exact=True)).to_be_visible()
        assert page.url.endswith("?v=1")
        await page.get_by_role("list", name="Scenes").get_by_role("button", name="Bounce").click()
        await expect(page.get_by_role("slider", name="Frame")).to_have_value("90")
        await page.get_by_role("button", name="Star it").click()
        await expect(page.get_by_role("button", name="Version 1, A ball, starred")).to_be_visible()
        await page.get_by_role("button", name="Go back to it").click()
        await expect(page.get_by_text("This is version 1 again")).to_be_visible()
        await expect(page.get_by_role("button", name="Version 2, red, left by going back")).to_be_visible()
        state = (await koda.store.get_session(session_id)).state
        assert state.phase == "preview" and state.feedback == ()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Version 2, red, shown now")).to_be_visible()
    assert (await koda.store.get_session(session_id)).state.feedback == ("red",)


@pytest.mark.full
async def test_which_version_is_looked_at_and_which_is_rendered_is_said(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page)
        render = page.get_by_role("button", name="Render 1080p")
        await expect(render).to_have_accessible_description("")  # there is one
        await changed(page, "red")
        await expect(render).to_have_accessible_description("Renders version 2, the newest.")
        await page.get_by_role("button", name="Version 1, A ball").click()
        over = page.get_by_text("Version 1 — version 2 is the current one")
        await expect(over).to_be_visible()
        await expect(render).to_have_accessible_description(
            "Renders version 2, the newest, not version 1 that you look at."
        )
        await page.get_by_role("button", name="Go back to it").click()
        await expect(over).to_have_count(0)
        await expect(render).to_have_accessible_description("Renders version 1, the current one.")
        await page.get_by_role("button", name="Version 2, red").click()
        await expect(page.get_by_text("Version 2 — version 1 is the current one")).to_be_visible()
        await render.click()
        async with asyncio.timeout(60):
            while True:
                second, first = await koda.store.versions(session_id, limit=2)
                if first.final_job_id is not None:
                    break
                await asyncio.sleep(0.02)
        assert second.final_job_id is None


@pytest.mark.full
async def test_a_note_is_typed_a_fork_begins_there_and_files_are_told_apart(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page, "red", "large")
        await page.get_by_role("button", name="Version 2, red").click()
        await page.get_by_role("button", name="Add a note").click()
        note = page.get_by_label("Note on version 2")
        await note.fill("x" * 501)
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(note).to_be_focused()
        await expect(note).to_have_accessible_description("at most 500 characters, not 501")
        await expect(note).to_have_value("x" * 501)
        await note.fill("the red one")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Version 2, the red one")).to_be_visible()
        await expect(page.get_by_role("button", name="change the note")).to_be_focused()
        await page.get_by_text("What changed in the files").click()
        await page.get_by_text("src/scenes/S1.tsx").click()
        await expect(page.get_by_label("Changes of src/scenes/S1.tsx")).to_contain_text("+// red")
        await page.reload()
        await expect(page.get_by_role("heading", name="Version 2")).to_be_visible()
        await page.get_by_role("button", name="Go another way from here").dblclick()
        await expect(page.get_by_role("button", name="Version 2, the red one, shown now")).to_be_visible()
        assert session_id not in page.url
        await changed(page, "green")
        await expect(page.get_by_role("region", name="3 versions")).to_be_visible()
    assert len(await koda.store.list_sessions("local")) == 2
    assert (await koda.store.get_session(session_id)).state.feedback == ("red", "large")


@pytest.mark.full
async def test_an_older_version_s_source_is_taken_along(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await made(page, "red")
        for number, has_it in ((1, False), (2, True)):
            await page.get_by_role("button", name=f"Version {number}, ").click()
            async with page.expect_download() as saving:
                await page.get_by_role("link", name="Its source").click()
            with zipfile.ZipFile(await (await saving.value).path()) as source:
                files = [name for name in source.namelist() if name.endswith("src/scenes/S1.tsx")]
                assert [b"red" in source.read(name) for name in files] == [has_it]


@pytest.mark.full
async def test_a_version_that_is_made_while_an_older_one_is_looked_at_does_not_take_it_away(
    koda: World, browser: Browser
) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await made(page)
        await koda.directory.submit(
            session_id=session_id, user_id="local", name="changes", body={"feedback": "red"}, key="red"
        )
        await expect(page.get_by_role("button", name="Version 2, red, shown now")).to_be_visible(timeout=60_000)
        await page.get_by_role("button", name="Version 1, A ball").click()
        await koda.directory.submit(
            session_id=session_id, user_id="local", name="changes", body={"feedback": "blue"}, key="blue"
        )
        await expect(page.get_by_role("button", name="Version 3, blue, shown now")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
        await page.keyboard.press("]")
        await expect(page.get_by_role("heading", name="Version 2")).to_be_visible()
        await page.get_by_role("button", name="Back to what is shown now").click()
        await expect(page.get_by_label("The preview")).to_be_visible()


@pytest.fixture
async def playing(tmp_path: Path) -> AsyncIterator[World]:
    """A server whose sessions show a page out of storage, which can be moved."""
    port = free_port()
    async with world(tmp_path, KODA_PREVIEW_PORT=port, KODA_WEB_PATH=Settings().web_path) as koda:
        bundle = Bundle({"index.html": PAGE, "assets/bridge.js": BRIDGE})
        koda.directory.asks, koda.directory.bundle = False, await store_bundle(koda.storage, "local", bundle)
        sources = Sources(pages=StoredPages(koda.storage))
        api_port = urlsplit(koda.url).port or 0
        app = create_preview_app(koda.directory, koda.deps.signer, api_port=api_port, sources=sources)
        async with serving(app, port):
            yield koda


@pytest.mark.full
@pytest.mark.needs("ffmpeg")
async def test_the_page_of_an_old_version_is_moved_and_wakes_nobody(
    playing: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(film, tmp_path / "film.webm", light=40))
    async with looking(browser, playing.url) as page:
        session_id = await made(page, "red")
        row = await playing.store.get_session(session_id)
        await playing.store.release(session_id, row.epoch)
        playing.directory.forget(session_id)
        activations = playing.directory.activations
        await page.get_by_role("button", name="Version 1, A ball").click()
        await page.get_by_role("button", name="See it live").click()
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "239", timeout=60_000)
        await page.get_by_role("slider", name="Frame").fill("90")
        (inside,) = [frame for frame in page.frames if urlsplit(frame.url).path.startswith("/v/")]
        await expect(inside.locator("#at")).to_have_text("1.500")
        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Save this frame").click()
        with Image.open(await (await downloading.value).path()) as picture:  # of its video: nothing runs
            assert abs(float(np.asarray(picture.convert("RGB"))[18, 32, 0]) * 219 / 255 + 16 - 40 - 45) < 2
        assert playing.directory.activations == activations and playing.directory.previews == 0
        await page.get_by_role("button", name="Back to the video").click()
        await expect(page.get_by_label("Version 1", exact=True)).to_be_visible()


@pytest.mark.full
async def test_two_pages_out_of_storage_are_moved_by_one_clock(playing: World, browser: Browser) -> None:
    async with looking(browser, playing.url) as page:
        await made(page, "red")
        await page.get_by_role("link", name="Compare").click()
        await page.get_by_role("button", name="See them live").click()
        slider = page.get_by_role("slider", name="Frame")
        await expect(page.get_by_text("The pages are loading")).to_have_count(0, timeout=60_000)
        await slider.fill("150")
        inside = [frame for frame in page.frames if urlsplit(frame.url).path.startswith("/v/")]
        assert len(inside) == 2
        for frame in inside:
            await expect(frame.locator("#at")).to_have_text("2.500")
        await page.get_by_role("button", name="Difference").click()
        assert [frame for frame in page.frames if urlsplit(frame.url).path.startswith("/v/")] == inside, "they stay"
        await page.get_by_role("button", name="Back to the videos").click()
        await expect(page.get_by_label("A: version 1")).to_be_visible()
        assert playing.directory.previews == 0


@pytest.fixture
async def pair(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[World, Page, str]]:
    """A session with two versions, whose videos tell their frames by how light they are, seen by the comparison."""
    koda.directory.asks = False
    dark, light = [await asyncio.to_thread(film, tmp_path / "film.webm", light=each) for each in (40, 80)]
    monkeypatch.setitem(VIDEO, "preview", dark)
    async with looking(browser, koda.url) as page:
        session_id = await made(page)
        monkeypatch.setitem(VIDEO, "preview", light)
        await changed(page, "red")
        await page.get_by_role("heading", name="Here is a preview").click()
        await page.keyboard.press("c")
        await page.wait_for_url("**/compare?**")
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        yield koda, page, session_id


@pytest.mark.full
async def test_scenes_stand_below_both_and_below_each_where_they_are_others(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        one = await with_versions(koda, client, "red")
        other = (await client.create("Another ball", style="playful")).session_id
        await until(client, other, "plan")
        await client.edit_plan(other, [SceneEdit(scene=2, title="Roll"), SceneEdit(scene=3)])
        await client.accept(other)
        await until(client, other, "preview")
        second, first = (await client.versions(one)).versions
    async with looking(browser, f"{koda.url}/s/{one}/compare?a={first.id}&b={second.id}") as page:
        slider = page.get_by_role("slider", name="Frame")
        await page.get_by_role("list", name="Scenes").get_by_role("button", name="Rest").click()
        await expect(slider).to_have_value("210")
        await page.goto(f"{koda.url}/s/{one}/compare?a={first.id}&b={other}")
        await page.get_by_role("list", name="Scenes of B").get_by_role("button", name="Rest").click()
        await expect(slider).to_have_value("120")
        of_a = page.get_by_role("list", name="Scenes of A").get_by_role("button")
        await expect(of_a.filter(has_text="Bounce")).to_have_attribute("aria-current", "true")
        await axes.on_every_screen(page)


async def lights(page: Page) -> tuple[float, float]:
    """Return how light A and B are, as luminance."""
    found = [await page.get_by_label(name).evaluate(SHOWN) for name in ("A: version 1", "B: version 2")]
    return found[0] * 219 / 255 + 16, found[1] * 219 / 255 + 16


@pytest.mark.full
@pytest.mark.needs("ffmpeg")
async def test_two_versions_are_moved_by_one_clock(pair: tuple[World, Page, str]) -> None:
    koda, page, session_id = pair
    slider = page.get_by_role("slider", name="Frame")
    for frame in (60, 200, 0, 101):  # of 60 a second; the films have 30
        await slider.fill(str(frame))
        async with asyncio.timeout(30):
            while True:
                one, other = await lights(page)
                if abs(one - 40 - frame // 2) < 1 and abs(other - 80 - frame // 2) < 1:
                    break
                await asyncio.sleep(0.02)
    for number, mode in enumerate(("Side by side", "Wipe", "Flip", "Difference"), 1):
        await page.locator("h1").click()
        await page.keyboard.press(str(number))
        await expect(page.get_by_role("button", name=mode)).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_role("img", name="How much they differ")).to_be_visible(timeout=60_000)
    await page.keyboard.press("3")
    await page.get_by_role("button", name="Show B").click()
    await page.keyboard.press("b")
    await page.keyboard.press("b")
    await expect(page.get_by_role("button", name="Show A")).to_be_visible()
    assert "mode=flip" in page.url
    await page.get_by_role("button", name="Keep A").click()
    await page.wait_for_url(f"**/s/{session_id}")
    await expect(page.get_by_role("button", name="Version 1, A ball, shown now")).to_be_visible()
    state = (await koda.store.get_session(session_id)).state
    assert state.feedback == ()


@pytest.mark.full
@pytest.mark.needs("ffmpeg")
async def test_while_they_play_both_are_within_a_frame(pair: tuple[World, Page, str]) -> None:
    _, page, _ = pair
    await page.locator("h1").click()
    await page.keyboard.press(" ")
    watched = """() => new Promise((done) => {
        const [one, other] = document.querySelectorAll('video');
        const found = [];
        let last;
        one.requestVideoFrameCallback(function first(now, meta) {
            last = { time: meta.mediaTime, at: meta.expectedDisplayTime };
            one.requestVideoFrameCallback(first);
        });
        other.requestVideoFrameCallback(function second(now, meta) {
            if (last && !one.seeking && !other.seeking)
                found.push(meta.mediaTime - (last.time + (meta.expectedDisplayTime - last.at) / 1000));
            if (found.length < 90) other.requestVideoFrameCallback(second);
            else done(found.slice(30));
        });
    })"""
    apart = await page.evaluate(watched)
    typical = sorted(abs(each) for each in apart)[len(apart) // 2]
    assert typical <= 1.5 / FPS, apart
    await page.keyboard.press("k")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    async with asyncio.timeout(30):
        while True:
            one, other = await lights(page)
            if abs(other - one - 40) < 1.5:
                break
            await asyncio.sleep(0.02)


@pytest.mark.full
@pytest.mark.needs("ffmpeg")
async def test_both_are_seen_on_the_whole_screen_heard_and_saved_as_one_picture(pair: tuple[World, Page, str]) -> None:
    _, page, _ = pair
    await page.get_by_role("slider", name="Frame").fill("60")
    async with asyncio.timeout(30):
        while abs((await lights(page))[0] - 70) > 1:
            await asyncio.sleep(0.02)
    await page.locator("h1").click()
    async with page.expect_download() as downloading:
        await page.keyboard.press("s")
    saved = await downloading.value
    assert saved.suggested_filename.endswith("-f60.png")
    with Image.open(await saved.path()) as picture:
        assert picture.size == (128, 36)
        one, other = (float(np.asarray(picture.convert("RGB"))[18, x, 0]) * 219 / 255 + 16 for x in (32, 96))
    assert abs(one - 70) < 2 and abs(other - 110) < 2
    await page.get_by_role("button", name="Sound of A").click()
    muted = "[...document.querySelectorAll('video')].map(({ muted }) => muted)"
    assert await page.evaluate(muted) == [False, True]
    await page.get_by_role("button", name="Sound of B").click()  # one of them at a time
    assert await page.evaluate(muted) == [True, False]
    await expect(page.get_by_role("button", name="Sound of A")).to_have_attribute("aria-pressed", "false")
    await page.get_by_role("button", name="Sound of B").click()
    assert await page.evaluate(muted) == [True, True]
    await page.get_by_role("button", name="Full screen").click()
    async with asyncio.timeout(30):
        while not await page.evaluate("document.fullscreenElement?.querySelectorAll('video').length === 2"):
            await asyncio.sleep(0.02)


@pytest.mark.full
@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_strip_and_comparison_can_be_used_by_everybody(
    pair: tuple[World, Page, str], scheme: str, width: int
) -> None:
    koda, page, session_id = pair
    version = (await koda.store.versions(session_id, limit=1))[0]
    await koda.storage.put(thumbnail_key("local", version.job_id), b"")
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    await page.set_viewport_size({"width": width, "height": 900})
    for mode in ("side", "wipe", "flip", "difference"):
        await page.goto(page.url.split("&mode")[0] + f"&mode={mode}")
        await expect(page.get_by_role("img", name="How much they differ")).to_be_visible(timeout=60_000)
        await axes.examine(page)
    await page.goto(f"{koda.url}/s/{session_id}?v=1")
    await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    await axes.examine(page)


@pytest.mark.full
async def test_takes_are_compared_and_one_is_kept(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.get_by_label("Takes").select_option("2 takes")
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").click()
        await page.get_by_role("button", name="Make all 2").click()
        await page.get_by_role("link", name="Compare").click()
        await expect(page.get_by_role("heading", name="B: Take 2, version 1")).to_be_visible()
        await page.get_by_role("button", name="Keep B").click()
        await expect(page.get_by_role("link", name="Take 2, beside the others")).to_be_visible()
