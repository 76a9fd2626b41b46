"""A page's own render on its screen: watched as it is made, then played, with all that is known of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from koda_ray.client import KodaClient
from koda_ray.wire import PageOptions
from tests.serve.test_renders import browsers, held_after
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import looking
from tests.web.test_queue import MOVING, row, rows

__all__ = ["browsers"]

pytestmark = [pytest.mark.needs("web"), pytest.mark.browser]

SMALL = PageOptions(width=160, height=90, fps=10, duration=2.0)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Return the folder of a page whose picture moves."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "film.html").write_text(MOVING)
    return folder


async def test_what_waits_is_told_with_its_options_and_its_batch_and_cancelled_there(
    koda: World, browser: Browser, film: Path
) -> None:
    async with KodaClient(koda.url) as client:
        batch = await client.render_batch(film, [{"name": name} for name in ("Ada", "Grace", "Mary")], SMALL)
        async with looking(browser, f"{koda.url}/renders/{batch.render_ids[1]}") as page:
            await expect(page.get_by_role("heading", name="film.html, row 2")).to_be_visible()
            told = page.get_by_role("region", name="Rendered with")
            await expect(told).to_contain_text("160 × 90")
            await expect(told).to_contain_text('{"name":"Grace"}')
            of = page.get_by_role("region", name="Row 2 of 3")
            await expect(of).to_contain_text("3 waiting")
            await page.get_by_role("button", name="Cancel film.html, row 2", exact=True).click()
            await expect(page.get_by_role("heading", name="It was cancelled")).to_be_visible()
            await expect(of).to_contain_text("2 waiting · 1 cancelled")
            await page.get_by_role("button", name="Render again: film.html, row 2").click()
            await expect(page.get_by_role("heading", name="It waits")).to_be_visible()
            assert page.url.rpartition("/")[2] not in batch.render_ids
            await page.go_back()
            await of.get_by_role("link", name="All of its videos").click()
            await expect(rows(page)).to_have_count(3)


@pytest.mark.full
async def test_a_page_is_played_frame_by_frame_and_all_of_it_is_there(
    browsers: World, browser: Browser, film: Path
) -> None:
    async with KodaClient(browsers.url) as client:
        made = await client.render_page(film, SMALL)
        async with looking(browser, f"{browsers.url}/renders") as page:
            await expect(row(page, "film.html", "Done")).to_have_count(1, timeout=120_000)
            await page.get_by_role("link", name="film.html", exact=True).click()
            await page.wait_for_url(f"**/renders/{made.id}")
            places = page.get_by_role("navigation", name="Places")
            await expect(places.get_by_role("link", name="Renders")).to_have_attribute("aria-current", "true")
            await expect(page.get_by_text(re.compile("Page · 160×90 · 10 fps · mp4 · 2 s · "))).to_be_visible()
            slider = page.get_by_role("slider", name="Frame")
            await slider.fill("12")
            await page.wait_for_function("() => Math.abs(document.querySelector('video').currentTime - 1.25) < 0.06")
            await page.wait_for_url("**?t=1.2")
            async with page.expect_response("**/sprite.jpg*") as sprite:
                await slider.hover()
            assert (await sprite.value).ok
            async with page.expect_download() as saving:
                await page.get_by_role("button", name="Save this frame as a picture").click()
            assert (await saving.value).suggested_filename == "film-html-f12.png"
            await page.get_by_text("Contact sheet").click()
            sheet = page.get_by_role("img", name="Frames of film.html, side by side")
            assert await sheet.evaluate("each => each.decode().then(() => each.naturalWidth)") > 0
            report = page.get_by_role("link", name="Report on film.html")
            assert await report.get_attribute("href") == f"/v1/renders/{made.id}/report?format=html"
            await expect(page.get_by_role("region", name="Rendered with")).to_contain_text("CRF")
            await on_every_screen(page)
            await page.locator("h1").click()
            async with page.expect_download() as saving:
                await page.keyboard.press("d")
            assert (await (await saving.value).path()).read_bytes()[4:8] == b"ftyp"
            await page.get_by_role("button", name="Delete film.html").click()
            await page.get_by_role("button", name="Delete it").click()
            await expect(page.get_by_text("Nothing was rendered yet.")).to_be_visible()
            await page.goto(f"{browsers.url}/renders/{made.id}")
            await expect(page.get_by_role("heading", name="This render is not there any more.")).to_be_visible()
            await page.get_by_role("link", name="To all renders").click()
            await page.wait_for_url("**/renders")


@pytest.mark.full
@pytest.mark.parametrize(("fps", "units"), [(10.0, 3), (30.0, 2)])
async def test_a_page_is_watched_as_it_is_rendered_and_then_played(
    browsers: World, browser: Browser, film: Path, monkeypatch: pytest.MonkeyPatch, fps: float, units: int
) -> None:
    go_on = held_after(units, monkeypatch)
    async with KodaClient(browsers.url) as client:
        made = await client.render_page(film, SMALL.model_copy(update={"duration": 4.0, "fps": fps}))
        async with looking(browser, f"{browsers.url}/renders/{made.id}") as page:
            video = page.get_by_label("The video as it is rendered")
            await expect(video).to_be_visible(timeout=120_000)
            await expect(page.get_by_text("As it is rendered: more is coming")).to_be_visible()
            await page.wait_for_function("() => document.querySelector('video').videoWidth === 160")
            await on_every_screen(page)
            await page.get_by_role("button", name="Leave it").click()
            await expect(page.get_by_text("The picture comes here as soon as there is one.")).to_be_visible()
            await page.get_by_role("button", name="Watch it as it is rendered").click()
            await expect(video).to_be_visible()
            go_on.set()
            await expect(page.get_by_role("heading", name="It is finished")).to_be_visible()
            await expect(page.get_by_role("slider", name="Frame")).to_be_visible()


@pytest.mark.full
async def test_what_no_browser_plays_is_seen_and_what_failed_says_why(
    browsers: World, browser: Browser, film: Path
) -> None:
    async with KodaClient(browsers.url) as client:
        moving = await client.render_page(film, SMALL.model_copy(update={"format": "gif"}))
        pictures = await client.render_page(film, SMALL.model_copy(update={"format": "png", "duration": 0.5}))
        (film / "film.html").write_text("<script>throw new Error('it is broken')</script>")
        broken = await client.render_page(film, SMALL)
        async with looking(browser, f"{browsers.url}/renders/{moving.id}") as page:
            await expect(page.get_by_role("img", name="The finished video, a gif")).to_be_visible(timeout=120_000)
            await page.goto(f"{browsers.url}/renders/{pictures.id}")
            await expect(page.get_by_text("A png is to be downloaded")).to_be_visible(timeout=120_000)
            picture = page.get_by_role("img", name="A frame of the video")
            assert await picture.evaluate("each => each.decode().then(() => each.naturalWidth)") > 0
            await page.goto(f"{browsers.url}/renders/{broken.id}")
            await expect(page.get_by_role("heading", name="This stopped")).to_be_visible(timeout=120_000)
            await expect(page.get_by_text("it is broken")).to_be_visible()
            await on_every_screen(page)
