"""Files of one's own on a page: brought by button, by drop and by paste, seen, used and deleted."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Browser, FilePayload, Locator, Page, expect

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from tests.serve.test_assets import film, sound
from tests.serve.world import World, world
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking
from tests.web.test_queue import tabbed_to

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

HEARD = """async (each) => {
    const bytes = await (await fetch(each.src)).arrayBuffer();
    return (await new OfflineAudioContext(1, 1, 8000).decodeAudioData(bytes)).duration;
}"""  # without a sound card
GIVEN = """([what, name, type, data]) => {
    const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
    const given = new DataTransfer();
    given.items.add(new File([bytes], name, { type }));
    const about = { bubbles: true, cancelable: true };
    if (what === 'paste') document.body.dispatchEvent(new ClipboardEvent('paste', { ...about, clipboardData: given }));
    else document.body.dispatchEvent(new DragEvent(what, { ...about, dataTransfer: given }));
}"""


def picture(colour: str = "tomato", size: tuple[int, int] = (64, 36)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, colour).save(target, "PNG")
    return target.getvalue()


def file(name: str, data: bytes, kind: str = "image/png") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": data}


async def given(page: Page, what: str, name: str, data: bytes) -> None:
    """Drag a file over the page, drop it or paste it, as a browser does."""
    await page.evaluate(GIVEN, [what, name, "image/png", base64.b64encode(data).decode()])


def cards(page: Page) -> Locator:
    return page.get_by_role("list", name="Assets").get_by_role("listitem")


async def test_files_are_brought_by_button_drop_and_paste_and_seen_and_heard(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.get_by_role("link", name="Assets").click()
        await expect(page.get_by_text("Drop pictures, films and sounds here, or paste them")).to_be_visible()
        async with page.expect_file_chooser() as choosing:
            await page.get_by_role("button", name="Upload").click()
        await (await choosing.value).set_files([file("logo.png", picture()), file("beat.wav", sound(), "audio/wav")])
        await expect(cards(page)).to_have_count(2)
        await given(page, "dragover", "drop.png", picture())
        await expect(page.get_by_text("Drop them to store them")).to_be_visible()
        await given(page, "drop", "drop.png", picture("gold"))
        await expect(page.get_by_text("Drop them to store them")).to_have_count(0)
        await given(page, "paste", "paste.png", picture("teal"))
        await expect(cards(page)).to_have_count(4)
        await expect(page.get_by_role("list", name="On their way")).to_have_count(0)
        shown = cards(page).filter(has_text="drop.png")
        await expect(shown).to_contain_text("png · 1 kB · just now")
        await expect(shown).to_contain_text("Not used")
        assert await shown.locator("img").evaluate("each => each.decode().then(() => each.naturalWidth)") == 64
        tone = page.get_by_label("beat.wav", exact=True)
        assert await tone.evaluate(HEARD) == pytest.approx(1.0)
        async with page.expect_download() as saving:
            await shown.get_by_role("link", name="Download drop.png").click()
        saved = await saving.value
        assert saved.suggested_filename == "drop.png" and (await saved.path()).read_bytes() == picture("gold")
    assert sorted(asset.name for asset in await koda.store.own_assets("local")) == [
        "beat.wav", "drop.png", "logo.png", "paste.png",
    ]  # fmt: skip


async def test_a_film_plays_where_it_is_listed(koda: World, browser: Browser, tmp_path: Path) -> None:
    async with looking(browser, f"{koda.url}/assets") as page:
        await page.locator("input[type=file]").set_input_files(file("cat.mp4", film("mp4", tmp_path), "video/mp4"))
        shown = page.get_by_label("cat.mp4", exact=True)
        await expect(shown).to_have_js_property("videoWidth", 32)
        await shown.evaluate("video => video.play()")
        await expect(shown).to_have_js_property("ended", True)


async def test_what_is_refused_is_said_in_the_servers_words_and_sent_again(tmp_path: Path, browser: Browser) -> None:
    limits = {"KODA_WEB_PATH": Settings().web_path, "KODA_USER_ASSETS": 1, "KODA_MAX_BODY_MB": 1}
    async with world(tmp_path, **limits) as koda, looking(browser, f"{koda.url}/assets") as page:
        chosen = page.locator("input[type=file]")
        await chosen.set_input_files(file("notes.txt", b"not a picture", "text/plain"))
        going = page.get_by_role("list", name="On their way").get_by_role("listitem")
        await expect(going.get_by_role("alert")).to_contain_text("It is no picture, film or sound")
        await expect(going.get_by_role("button", name="Send notes.txt again")).to_have_count(0)
        await page.get_by_role("button", name="Forget notes.txt").click()
        await expect(going).to_have_count(0)
        await chosen.set_input_files(file("large.png", picture() + bytes(3 << 20)))
        await expect(going.get_by_role("alert")).to_contain_text("takes 1,048,576 at most")
        await page.get_by_role("button", name="Forget large.png").click()
        await chosen.set_input_files(file("one.png", picture()))
        await expect(cards(page)).to_have_count(1)
        await chosen.set_input_files(file("two.png", picture()))
        await expect(going.get_by_role("alert")).to_contain_text("KODA_USER_ASSETS")
        await page.get_by_role("button", name="Delete one.png").click()
        await page.get_by_role("button", name="Delete it").click()
        await expect(cards(page)).to_have_count(0)
        await page.get_by_role("button", name="Send two.png again").click()
        await expect(cards(page)).to_have_count(1)
        await expect(cards(page)).to_contain_text("two.png")
        await expect(going).to_have_count(0)


async def test_how_far_it_is_is_shown_and_it_can_be_stopped(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/assets") as page:
        session = await page.context.new_cdp_session(page)
        await session.send("Network.enable")
        slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 64 * 1024}
        await session.send("Network.emulateNetworkConditions", slow)
        await page.locator("input[type=file]").set_input_files(file("large.png", picture() + bytes(8 << 20)))
        bar = page.get_by_role("progressbar", name="Sending large.png")
        await expect(bar).to_be_visible()
        await expect(bar).not_to_have_attribute("aria-valuenow", "0")
        await page.get_by_role("button", name="Stop large.png").click()
        await expect(bar).to_have_count(0)
        await expect(page.get_by_text("Drop pictures, films and sounds here")).to_be_visible()
    assert await koda.store.own_assets("local") == []


async def test_the_keyboard_alone_brings_and_deletes(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        page.on("filechooser", lambda _: None)  # the browser is told in good time that somebody waits for one
        await tabbed_to(page, page.get_by_role("link", name="Assets"))
        await page.keyboard.press("Enter")
        await tabbed_to(page, page.get_by_role("button", name="Upload"))
        async with page.expect_file_chooser() as choosing:
            await page.keyboard.press("Enter")
        await (await choosing.value).set_files(file("logo.png", picture()))
        await expect(cards(page)).to_have_count(1)
        await expect(page.get_by_role("main").get_by_role("status").first).to_have_text("logo.png is stored")
        opener = page.get_by_role("button", name="Delete logo.png")
        await tabbed_to(page, opener)
        await page.keyboard.press("Enter")
        asked = page.get_by_role("group", name="Delete logo.png")
        await expect(asked).to_be_focused()
        await expect(asked).to_contain_text("It is gone for good then")
        await page.keyboard.press("Escape")
        await expect(opener).to_be_focused()
        await expect(cards(page)).to_have_count(1)
        await page.keyboard.press("Enter")
        await tabbed_to(page, page.get_by_role("button", name="Delete it"))
        await page.keyboard.press("Enter")
        await expect(cards(page)).to_have_count(0)
        await expect(page.get_by_role("heading", name="Assets")).to_be_focused()
        await expect(page.get_by_role("main").get_by_role("status").first).to_have_text("logo.png is deleted")
    assert await koda.store.own_assets("local") == []


async def test_something_is_made_with_one_and_then_it_goes_with_that(
    koda: World, browser: Browser, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    (tmp_path / "logo.png").write_bytes(picture())
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/assets") as page:
        asset = await client.upload(tmp_path / "logo.png")
        await page.reload()
        await page.get_by_role("link", name="Make something with logo.png").click()
        files = page.get_by_role("list", name="Files")
        await expect(files).to_contain_text("logo.png")
        await page.get_by_role("button", name="Remove logo.png").click()  # from the prompt alone
        await page.go_back()
        await page.get_by_role("link", name="Make something with logo.png").click()
        await expect(files).to_contain_text("logo.png")
        session_id = await begin(page, "Our logo spins")
        assert (await client.session(session_id)).state.asset_ids == (asset.id,)
        await page.get_by_role("link", name="Assets").click()
        await expect(cards(page)).to_contain_text("Used by Our logo spins")
        await page.get_by_role("button", name="Delete logo.png").click()
        await expect(cards(page)).to_contain_text("it stays for as long as that does")
        await expect(page.get_by_role("button", name="Delete it")).to_have_count(0)
        await page.get_by_role("link", name="To the animation").click()
        await page.wait_for_url(f"**/s/{session_id}")


async def test_of_one_that_an_animation_has_a_copy_goes_into_the_next(
    koda: World, browser: Browser, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    (tmp_path / "logo.png").write_bytes(picture())
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/assets") as page:
        asset = await client.upload(tmp_path / "logo.png")
        await client.create("Our logo spins", asset_ids=(asset.id,))
        await page.reload()
        await page.get_by_role("link", name="Make something with logo.png").click()
        files = page.get_by_role("list", name="Files").get_by_role("listitem")
        await expect(files).to_have_text(["logo.png"])
        await expect(page).to_have_url(f"{koda.url}/")
        await page.reload()
        await expect(files).to_have_text(["logo.png"])  # and no other copy
        session_id = await begin(page, "Our logo jumps")
        (copy,) = (await client.session(session_id)).state.asset_ids
        assert copy != asset.id
        found = await client.asset(copy)
        assert (found.name, found.sha256, found.session_id) == (asset.name, asset.sha256, session_id)
        await page.get_by_role("link", name="Assets").click()
        await expect(cards(page)).to_have_count(2)
        await expect(cards(page).first).to_contain_text("Used by Our logo jumps")


async def test_one_that_somebody_uses_meanwhile_is_kept_and_that_is_said(
    koda: World, browser: Browser, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    (tmp_path / "logo.png").write_bytes(picture())
    async with KodaClient(koda.url) as client:
        asset = await client.upload(tmp_path / "logo.png")
        async with looking(browser, f"{koda.url}/assets") as page:
            await page.get_by_role("button", name="Delete logo.png").click()
            await client.create("Our logo spins", asset_ids=(asset.id,))
            await page.get_by_role("button", name="Delete it").click()
            await expect(page.get_by_role("alert")).to_contain_text("belongs to session")
        assert (await client.asset(asset.id)).id == asset.id


async def test_everybody_can_use_it(koda: World, browser: Browser, tmp_path: Path) -> None:
    async with looking(browser, f"{koda.url}/assets") as page:
        await expect(page.get_by_text("Drop pictures, films and sounds here")).to_be_visible()
        await on_every_screen(page)
        await page.locator("input[type=file]").set_input_files(
            [
                file("logo.png", picture()),
                file("beat.wav", sound(), "audio/wav"),
                file("notes.txt", b"not a picture", "text/plain"),
            ]
        )
        await expect(cards(page)).to_have_count(2)
        await expect(page.get_by_role("alert")).to_be_visible()
        await page.get_by_role("button", name="Delete logo.png").click()
        await on_every_screen(page)
