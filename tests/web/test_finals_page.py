"""A session's finished videos on its page: in other formats, beside each other, and looked through by small frames."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path

import pytest
from PIL import Image
from PIL.ImageColor import getrgb
from playwright.async_api import Browser, Page, expect

from koda_ray.client import KodaClient
from koda_ray.errors import StorageError
from koda_ray.state.keys import thumbnail_key
from koda_ray.types import RenderOptions
from tests.serve.scripted import VIDEO
from tests.serve.test_finals import made
from tests.serve.test_frames import FPS, SECONDS, lighter
from tests.serve.test_sessions import until
from tests.serve.test_versions import with_versions
from tests.serve.world import World
from tests.web import axes
from tests.web.looking import begin, looking
from tests.web.test_versions_page import film

pytestmark = [pytest.mark.full, pytest.mark.needs("web", "ffmpeg"), pytest.mark.browser]


async def finished(page: Page) -> None:
    await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)


async def rendered(page: Page, form: str, *, clear: bool | None = None) -> None:
    """Have a finished video rendered once more, to another format."""
    await page.reload()  # what is folded is folded again
    await page.get_by_text("Another size or format").click()
    await page.get_by_label("Format").select_option(form)
    if clear is not None:
        await page.get_by_role("checkbox", name="Transparent").set_checked(clear)
    await page.get_by_role("button", name="Render 720p at 30 fps").click()
    await expect(page.get_by_text(f"{form} · 5 s")).to_be_visible(timeout=60_000)


async def test_a_video_is_rendered_to_what_is_wanted_and_each_is_taken_away(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        clear = page.get_by_role("checkbox", name="Transparent")
        await page.get_by_label("Size").select_option("720p")
        await expect(clear).to_have_count(0)
        await page.get_by_label("Format").select_option("gif")
        await expect(page.get_by_role("button", name="Render 720p at 30 fps")).to_be_visible()
        await expect(page.get_by_label("Frames per second").locator("option", has_text="60")).to_be_disabled()
        await page.get_by_label("Format").select_option("mov")
        await expect(page.get_by_role("button", name="Render 720p at 60 fps")).to_be_visible()
        await page.get_by_label("Frames per second").select_option("30 fps")
        await clear.press(" ")
        await expect(clear).to_be_checked()
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Render 720p at 30 fps").click()
        await finished(page)
        await expect(page.get_by_text("mov, transparent · 5 s")).to_be_visible()
        await expect(page.get_by_text("This is the preview: a mov is to be downloaded")).to_be_visible()
        await expect(page.get_by_label("The preview")).to_be_visible()
        state = (await koda.store.get_session(session_id)).state
        assert state.render == RenderOptions(resolution="720p", fps=30, format="mov", transparent=True)
        await expect(page.get_by_role("region", name="Rendered before")).to_have_count(0)
        await page.get_by_text("Another size or format").click()
        await expect(clear).to_be_checked()
        await rendered(page, "webm", clear=False)
        await expect(page.get_by_label("The finished video")).to_be_visible()
        await rendered(page, "mp4")
        before = page.get_by_role("region", name="Rendered before").get_by_role("link")
        await expect(before).to_contain_text(["webm · 1280 × 720 · 30 fps", "mov, transparent · 1280 × 720 · 30 fps"])
        async with page.expect_download() as downloading:
            await before.nth(1).press("Enter")
        assert (await downloading.value).suggested_filename.endswith("final.mov")
        await axes.on_every_screen(page)


async def test_a_final_is_deleted_once_somebody_is_sure_and_the_rest_stays(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        session_id, (gif, first, mp4) = await made(koda, client, "gif", "webm", "mp4")
        await client.render_again(gif)
        await until(client, session_id, "complete")
        await client.render_again(mp4)
        state = await until(client, session_id, "complete")
        assert state.output is not None
        link = await client.share(session_id, job=first, label="for Bob")
        async with looking(browser, f"{koda.url}/s/{session_id}") as page:
            before = page.get_by_role("region", name="Rendered before")
            webm = "webm · 1280 × 720 · 60 fps"
            await expect(before.get_by_role("listitem")).to_have_count(2)  # the same once more counts once
            await before.get_by_role("button", name=f"Delete {webm}").press("Enter")
            sure = page.get_by_role("group", name=f"Delete {webm}")
            await expect(sure).to_be_focused()
            await expect(sure).to_contain_text("links to it show nothing any more")
            await axes.on_every_screen(page)
            await page.keyboard.press("Escape")
            await expect(before.get_by_role("button", name=f"Delete {webm}")).to_be_focused()
            assert len((await client.finals(session_id)).renders) == 5
            await page.keyboard.press("Enter")
            await sure.get_by_role("button", name="Delete it").dblclick()
            await expect(before.get_by_role("listitem")).to_have_count(1)
            await expect(page.get_by_role("heading", name="It is finished")).to_be_focused()
            await expect(page.get_by_text(f"Deleted: {webm}")).to_be_attached()
            assert first not in [each.id for each in (await client.finals(session_id)).renders]
            async with looking(browser, f"{koda.url}{link.url}") as guest:
                await expect(guest.get_by_role("heading", name="There is nothing to see here")).to_be_visible()

            await page.get_by_role("button", name="Delete this video").click()
            sure = page.get_by_role("group", name="Delete this video")
            await expect(sure).to_contain_text("It was rendered 2 times: all of them go")
            await sure.get_by_role("button", name="Delete it").click()
            await expect(page.get_by_role("heading", name="Its finished video was deleted")).to_be_focused()
            await expect(page.get_by_label("The preview")).to_be_visible()
            await expect(page.get_by_text("This is the preview: the finished video was deleted.")).to_be_visible()
            await expect(page.get_by_role("link", name="Download the video")).to_have_count(0)
            await expect(before.get_by_role("listitem")).to_contain_text(["gif · 1280 × 720 · 30 fps"])
            await axes.on_every_screen(page)
            assert [each.format for each in (await client.finals(session_id)).renders] == ["gif", "gif"]
            await page.reload()
            await expect(page.get_by_role("heading", name="Its finished video was deleted")).to_be_visible()
            await page.get_by_role("button", name="Render 720p at 60 fps").click()
            await finished(page)
            await expect(page.get_by_label("The finished video")).to_be_visible()


async def test_a_final_that_could_not_be_deleted_is_there_still_and_deleted_by_another_press(
    koda: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with KodaClient(koda.url) as client:
        session_id, _ = await made(koda, client, "gif", "mp4")
    async with looking(browser, f"{koda.url}/s/{session_id}") as page:
        name = "gif · 1280 × 720 · 30 fps"
        await page.get_by_role("button", name=f"Delete {name}").click()
        sure = page.get_by_role("group", name=f"Delete {name}")
        with monkeypatch.context() as patch:

            async def broken(*_: object, **__: object) -> None:
                raise StorageError("the database does not answer")

            patch.setattr(koda.store, "delete_job", broken)
            await sure.get_by_role("button", name="Delete it").click()
            await expect(sure.get_by_role("alert")).to_be_visible()
        await sure.get_by_role("button", name="Delete it").click()
        await expect(page.get_by_role("region", name="Rendered before")).to_have_count(0)
        await expect(page.get_by_role("heading", name="It is finished")).to_be_focused()


async def test_a_gif_is_seen_as_it_moves_rests_when_asked_and_gives_way_to_its_preview(
    koda: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [Image.new("RGB", (64, 36), colour) for colour in ("#123456", "#E63946")]
    frames[0].save(moving := io.BytesIO(), "GIF", save_all=True, append_images=frames[1:], duration=200, loop=0)
    monkeypatch.setitem(VIDEO, "final", moving.getvalue())
    async with KodaClient(koda.url) as client:
        session_id, (job,) = await made(koda, client, "gif")
    frames[0].save(still := io.BytesIO(), "JPEG")
    await koda.storage.put(thumbnail_key("local", job), still.getvalue())
    async with looking(browser, f"{koda.url}/s/{session_id}") as page:
        gif = page.get_by_role("img", name="The finished video, a gif")
        await expect(gif).to_be_visible()
        assert await gif.evaluate("async (image) => (await image.decode(), image.naturalWidth)") == 64
        await axes.on_every_screen(page)  # which asks for less motion: what moves already goes on
        await page.get_by_role("button", name="Pause the gif").press("Enter")
        await expect(gif).to_have_count(0)
        await expect(page.get_by_role("img", name="A frame of the finished video")).to_be_visible()
        await page.get_by_role("button", name="Play the gif").click()
        await expect(gif).to_be_visible()
        await page.get_by_role("button", name="Frame by frame").click()
        await expect(page.get_by_label("The preview")).to_be_visible()
        await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Back to the gif").click()
        await expect(page.get_by_role("img", name="A frame of the finished video")).to_be_visible()  # less motion
        await expect(gif).to_have_count(0)
        await page.get_by_role("button", name="Play the gif").click()
        await expect(gif).to_be_visible()


async def test_a_final_that_was_deleted_elsewhere_is_told_to_be(
    koda: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (64, 36), "#123456").save(shown := io.BytesIO(), "GIF")
    monkeypatch.setitem(VIDEO, "final", shown.getvalue())
    async with KodaClient(koda.url) as client, looking(browser, koda.url) as page:
        session_id, (before, last) = await made(koda, client, "mp4", "gif")
        await page.emulate_media(reduced_motion="reduce")
        await page.goto(f"{koda.url}/s/{session_id}")
        await expect(page.get_by_role("region", name="Rendered before")).to_be_visible()
        for job in (before, last):
            await client.delete_final(session_id, job)
        await page.get_by_role("button", name="Play the gif").click()
        await expect(page.get_by_role("heading", name="Its finished video was deleted")).to_be_visible()
        await expect(page.get_by_text("This is the preview: the finished video was deleted.")).to_be_visible()
        await expect(page.get_by_role("region", name="Rendered before")).to_have_count(0)


async def test_a_finished_video_is_compared_with_its_preview_and_with_another(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dark, light = [await asyncio.to_thread(film, tmp_path / "film.webm", light=each) for each in (40, 80)]
    koda.directory.asks = False
    monkeypatch.setitem(VIDEO, "preview", dark)
    monkeypatch.setitem(VIDEO, "final", light)
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await page.get_by_role("button", name="Render 1080p").click()
        await finished(page)
        await page.get_by_role("link", name="Beside its preview").click()
        await expect(page.get_by_role("heading", name="A: version 1", exact=True)).to_be_visible()
        await expect(page.get_by_role("heading", name="B: version 1, finished (mp4)")).to_be_visible()
        await expect(page.get_by_role("img", name="How much they differ")).to_be_visible(timeout=60_000)
        one, other = [page.get_by_role("combobox", name=name, exact=True) for name in ("A", "B")]
        await expect(other.locator("option:checked")).to_have_text("v1: mp4 · 1920 × 1080 · 60 fps")
        await expect(one.locator("option:checked")).to_contain_text("v1 (shown now)")
        await one.select_option(label="v1: mp4 · 1920 × 1080 · 60 fps")
        await expect(page.get_by_role("heading", name="A: version 1, finished (mp4)")).to_be_visible()
        await page.get_by_role("button", name="The other way round").click()
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Keep A").click()
        await finished(page)


async def test_what_is_shown_takes_the_colours_of_another_version(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await with_versions(koda, client, "large")
    second, first = await koda.store.versions(session_id, limit=2)
    picture = Image.new("RGB", (64, 36), "#123456")
    picture.paste("#E63946", (16, 8, 40, 24))
    picture.save(stored := io.BytesIO(), "JPEG", quality=98, subsampling=0)
    await koda.storage.put(thumbnail_key("local", first.job_id), stored.getvalue())
    async with looking(browser, f"{koda.url}/s/{session_id}/compare?a={first.id}&b={second.id}") as page:
        await expect(page.get_by_role("button", name="Take the colours of A")).to_be_visible()
        await expect(page.get_by_role("button", name="Take the colours of B")).to_have_count(0)  # it is shown
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Take the colours of A").click()
        await expect(page.get_by_role("button", name="background., shown now")).to_be_visible(timeout=60_000)
    said = (await koda.store.get_session(session_id)).state.feedback[-1]
    told = re.fullmatch(r"Take the colours of version 1: (#\w{6}) on a (#\w{6}) background\.", said)
    assert told is not None, said
    for found, wanted in zip(told.groups(), ("#E63946", "#123456"), strict=True):
        assert all(abs(one - other) < 8 for one, other in zip(getrgb(found), getrgb(wanted), strict=True)), said


async def test_small_frames_are_seen_under_the_pointer_on_the_timeline(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(lighter, tmp_path / "lighter.webm"))
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        slider = page.get_by_role("slider", name="Frame")
        await expect(slider).to_have_attribute("max", "299")
        small = page.locator("[data-small]")
        await expect(small).to_have_count(0)
        place = await slider.bounding_box()
        assert place is not None
        for part in (0.02, 0.5, 0.9):
            await page.mouse.move(place["x"] + part * place["width"], place["y"] + place["height"] / 2)
            await expect(small).to_be_visible()
            shown = Image.open(io.BytesIO(await small.screenshot())).convert("L")
            found = shown.getpixel((shown.width // 2, shown.height // 2))
            assert isinstance(found, int)
            assert abs(found * 219 / 255 + 16 - 20 - 2 * part * FPS * SECONDS) < 8, part
        await page.mouse.move(place["x"], place["y"] - 200)
        await expect(small).to_have_count(0)


@pytest.mark.parametrize("form", ["gif", "mov"])
async def test_who_has_a_link_to_what_browsers_do_not_play_sees_it_and_takes_it_away(
    koda: World, browser: Browser, form: str
) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await with_versions(koda, client)
        await client.render(session_id, RenderOptions.model_validate({"format": form}))
        await until(client, session_id, "complete")
        link = await client.share(session_id, comments=True)
    async with looking(browser, f"{koda.url}/w/{link.token}") as page:
        await expect(page.get_by_role("img", name="An animation")).to_be_visible()
        await expect(page.get_by_text("About this moment")).to_have_count(0)
        await axes.on_every_screen(page)
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name=f"Download the {form}").click()
        assert (await downloading.value).suggested_filename == f"video.{form}"
        await page.get_by_role("textbox", name="Your comment").fill("Fine.")
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_role("list", name="What you said")).to_contain_text("Fine.")
