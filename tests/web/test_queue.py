"""All renders on a page: seen as they go, cancelled, made again; of sessions and of pages."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from koda_ray.client import KodaClient
from koda_ray.render.local import LocalExecutor
from koda_ray.types import RenderOptions
from koda_ray.wire import PageOptions
from tests.serve.test_jobs import previewed, under_way
from tests.serve.test_sessions import until
from tests.serve.world import World, reached
from tests.web.axes import on_every_screen
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

SMALL = PageOptions(width=160, height=90, fps=10, duration=1.0)
MOVING = """<!doctype html><style>body{margin:0;background:#123} div{width:40px;height:40px;background:orange;
animation:go 1s linear infinite} @keyframes go{to{transform:translateX(100px)}}</style><div></div>"""


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Renders").get_by_role("listitem")


def row(page: Page, *words: str) -> Locator:
    found = rows(page)
    for each in words:
        found = found.filter(has_text=each)
    return found


async def rendering(koda: World, client: KodaClient, prompt: str = "A ball") -> str:
    """Have a session render its final video, and stand still in the middle; return the job's id."""
    koda.directory.rendering = None
    session_id = await previewed(koda, client, prompt)
    koda.directory.rendering = asyncio.Event()
    await client.render(session_id, RenderOptions(resolution="720p", fps=30))
    return (await under_way(client, session_id, "final")).id


async def tabbed_to(page: Page, target: Locator) -> None:
    """Go with the Tab key until something has the focus."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await target.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not lead to {target}")


async def test_a_render_is_followed_cancelled_and_made_again_by_mouse(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client, looking(browser, koda.url) as page:
        job_id = await rendering(koda, client)
        places = page.get_by_role("navigation", name="Places")
        await expect(places.get_by_role("link", name="Sessions")).to_have_attribute("aria-current", "page")
        await places.get_by_role("link", name="Renders").click()
        await expect(places.get_by_role("link", name="Renders")).to_have_attribute("aria-current", "page")
        await expect(places.get_by_role("link", name="Sessions")).not_to_have_attribute("aria-current", "page")
        going = row(page, "Taking frames")
        await expect(going).to_contain_text("1 of 75 frames · about 5 s left")
        await expect(going).to_contain_text("Video · 1280×720 · 30 fps · mp4 · 5 s")
        await expect(going.get_by_role("progressbar", name="Rendering A ball")).to_have_attribute("aria-valuenow", "10")
        await expect(row(page, "Preview", "Done")).to_have_count(1)
        await page.get_by_role("button", name="Cancel A ball").click()
        await expect(row(page, "Cancelled")).to_have_count(1)
        await expect(row(page, "Cancelled")).to_be_focused()  # what had it is not there any more
        assert (await client.job(job_id)).status == "cancelled"
        koda.directory.rendering = asyncio.Event()
        await page.get_by_role("button", name="Render again: A ball").dblclick()
        await expect(row(page, "Taking frames")).to_have_count(1)
        koda.directory.rendering.set()
        done = row(page, "Video", "Done")
        await expect(done).to_have_count(1)
        await expect(done).to_contain_text(re.compile(r"1280×720 · 30 fps · mp4 · 5 s · [0-9.]+ MB"))
        await expect(page.get_by_role("main").get_by_role("status").first).to_have_text("A ball: Done")
        async with page.expect_download() as saving:
            await done.get_by_role("link", name="Download A ball").click()
        assert (await (await saving.value).path()).stat().st_size > 1000
        finals = (await client.page_renders(kinds=["final"])).renders
        assert [one.status for one in finals] == ["succeeded", "cancelled"]
        await done.get_by_role("link", name="A ball", exact=True).click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible()


async def test_the_keyboard_alone_goes_there_cancels_and_renders_again(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client, looking(browser, koda.url) as page:
        await rendering(koda, client)
        await tabbed_to(page, page.get_by_role("link", name="Renders"))
        await page.keyboard.press("Enter")
        await expect(row(page, "Taking frames")).to_have_count(1)
        await tabbed_to(page, page.get_by_role("button", name="Cancel A ball"))
        await page.keyboard.press("Enter")
        await expect(row(page, "Cancelled")).to_be_focused()
        koda.directory.rendering = None
        await tabbed_to(page, page.get_by_role("button", name="Render again: A ball"))
        await page.keyboard.press("Enter")
        await expect(row(page, "Video", "Done")).to_have_count(1)
        await page.reload()
        await tabbed_to(page, page.get_by_role("link", name="Done"))
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/renders?show=done")
        await expect(page.get_by_role("link", name="Done")).to_be_focused()
        await expect(rows(page)).to_have_count(2)
        await tabbed_to(page, rows(page).get_by_role("link", name="A ball", exact=True).first)


async def test_what_failed_says_why_and_the_address_says_what_is_shown(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/renders") as page:
        await expect(page.get_by_text("Nothing was rendered yet.")).to_be_visible()
        session_id = await previewed(koda, client, "A cube")
        koda.directory.fails = {"render_final": "the page was silent for 30 s"}
        await client.render(session_id, RenderOptions())
        await until(client, session_id, "error")
        await expect(row(page, "Failed")).to_have_count(1)  # begun elsewhere, and seen here
        await page.get_by_role("navigation", name="Which renders").get_by_role("link", name="Failed").click()
        await page.wait_for_url("**/renders?show=failed")
        await expect(rows(page)).to_have_count(1)
        await page.reload()
        failed = row(page, "RENDER_FAILED")
        await expect(failed).to_have_count(1)
        await expect(page.get_by_role("link", name="Failed")).to_have_attribute("aria-current", "page")
        await expect(failed.get_by_text("the page was silent for 30 s")).to_be_hidden()
        await failed.get_by_text("RENDER_FAILED").click()
        await expect(failed.get_by_text("the page was silent for 30 s")).to_be_visible()
        await client.retry(session_id)  # elsewhere: what is pressed here comes too late
        await until(client, session_id, "complete")
        await client.changes(session_id, "make it red")
        await until(client, session_id, "preview")
        await page.goto(f"{koda.url}/renders?show=running")
        await expect(page.get_by_text("Nothing is under way.")).to_be_visible()
        await page.goto(f"{koda.url}/renders?show=done")
        await expect(rows(page)).to_have_count(3)
        await expect(page.get_by_role("button", name=re.compile("^Render again"))).to_have_count(1)  # no preview is


async def test_what_is_refused_is_said_at_its_render(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await previewed(koda, client)
        await client.render(session_id, RenderOptions())
        await until(client, session_id, "complete")
        koda.directory.bundle = "1" * 64
        await client.changes(session_id, "make it red")
        await until(client, session_id, "preview")
        async with looking(browser, f"{koda.url}/renders") as page:
            await page.get_by_role("button", name="Render again: A ball").click()
            await expect(row(page, "Video").get_by_role("alert")).to_contain_text("shows another version")
            await expect(rows(page)).to_have_count(3)


async def test_pages_and_rows_of_batches_stand_with_them(koda: World, browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text(MOVING)
    async with LocalExecutor(workers=1) as executor, KodaClient(koda.url) as client:
        koda.directory.executor = executor
        one = await client.render_page(folder, SMALL)
        async with looking(browser, f"{koda.url}/renders") as page:
            name = f"Page {one.bundle[:8]}"
            await expect(row(page, name, "Done")).to_have_count(1, timeout=120_000)
            async with page.expect_download() as saving:
                await page.get_by_role("link", name=f"Download {name}").click()
            assert (await (await saving.value).path()).read_bytes()[4:8] == b"ftyp"
            report = await page.get_by_role("link", name=f"Report on {name}").get_attribute("href")
            assert report == f"/v1/renders/{one.id}/report?format=html"
            picture = page.locator("img[src$=thumbnail]")
            assert await picture.evaluate("each => each.decode().then(() => each.naturalWidth)") > 0
            await page.get_by_role("button", name=f"Render again: {name}").click()
            await expect(row(page, name, "Done")).to_have_count(2, timeout=120_000)
            koda.directory.executor = None
            await client.render_batch(folder, [{"name": str(number)} for number in range(40)], SMALL)
            waiting = row(page, "Waits for its turn")
            await expect(waiting).to_have_count(30)
            await expect(waiting.first).to_contain_text(f"{name}, row 1")
            await page.get_by_role("button", name="Show all that wait").click()
            await expect(waiting).to_have_count(40)
            await page.get_by_role("button", name=f"Cancel {name}, row 1", exact=True).click()
            await expect(waiting).to_have_count(39)
            await page.get_by_role("link", name="Under way").click()
            await expect(rows(page)).to_have_count(39)
            await page.get_by_role("button", name=f"Cancel the batch of {name}, row 2", exact=True).click()
            await page.get_by_role("button", name="Cancel them all").click()
            await expect(page.get_by_text("Nothing is under way.")).to_be_visible()
        await koda.directory.close()


async def test_renders_are_found_by_words_which_stand_in_the_address(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/renders") as page:
        await rendering(koda, client, "A ball in the rain")
        await rendering(koda, client, "A cube in the rain")
        await expect(rows(page)).to_have_count(4)
        search = page.get_by_role("searchbox", name="Search")
        await search.fill("BALL rain")
        await expect(rows(page)).to_have_count(2)
        await expect(row(page, "A ball in the rain", "Taking frames")).to_have_count(1)
        await expect(page.get_by_role("main").get_by_role("status").nth(1)).to_have_text("2 renders")
        await page.wait_for_url("**/renders?q=BALL+rain")
        await page.get_by_role("link", name="Done").click()
        await expect(rows(page)).to_have_count(1)
        await page.reload()
        await expect(search).to_have_value("BALL rain")
        await expect(rows(page)).to_have_count(1)
        await search.fill("sphere")
        await expect(page.get_by_text("Nothing has “sphere” in its name among what is done.")).to_be_visible()
        await on_every_screen(page)
        await page.get_by_role("button", name="Clear the search").click()
        await expect(rows(page)).to_have_count(2)
        await expect(search).to_have_value("")
        assert page.url.endswith("/renders?show=done")


async def test_however_much_is_under_way_it_takes_two_connections_and_wakes_nobody(
    koda: World, browser: Browser
) -> None:
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/s/ses_none") as page:
        for number in range(6):
            await rendering(koda, client, f"Ball {number}")
        awake = koda.directory.activations
        asked, most = set[object](), 0

        def began(request: object) -> None:
            nonlocal most
            asked.add(request)
            most = max(most, len(asked))

        page.on("request", lambda request: began(request) if "/v1/renders?" in request.url else None)
        page.on("requestfinished", lambda request: asked.discard(request))
        page.on("requestfailed", lambda request: asked.discard(request))
        await page.get_by_role("link", name="Renders").click()
        await expect(row(page, "Taking frames")).to_have_count(6)
        await expect(row(page, "Preview", "Done")).to_have_count(6)
        await page.get_by_role("button", name="Cancel Ball 3").click()
        await expect(row(page, "Cancelled")).to_have_count(1)
        assert 1 <= most <= 2, most
        await reached(lambda: koda.app.state.streams.count("local") == 0)
        assert koda.directory.activations == awake and not any(koda.directory.watchers.values())


async def test_a_server_that_is_away_is_said_and_what_was_seen_stays(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/renders") as page:
        await rendering(koda, client)
        await expect(row(page, "Taking frames")).to_have_count(1)
        await page.route("**/v1/renders?*", lambda route: route.abort())
        await expect(page.get_by_text("The server does not answer just now")).to_be_visible()
        await expect(row(page, "Taking frames")).to_have_count(1)
        await page.unroute("**/v1/renders?*")
        await expect(page.get_by_text("The server does not answer just now")).to_have_count(0)


async def test_everybody_can_use_it(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await previewed(koda, client, "A film title: The long night, in four acts")
        koda.directory.fails = {"render_final": "the page was silent"}
        await client.render(session_id, RenderOptions())
        await until(client, session_id, "error")
        await rendering(koda, client, "A ball")
        async with looking(browser, f"{koda.url}/renders") as page:
            await expect(row(page, "Taking frames")).to_have_count(1)
            await page.get_by_text("RENDER_FAILED").click()
            await on_every_screen(page)
            await page.goto(f"{koda.url}/renders?show=done")
            await expect(rows(page)).to_have_count(2)
            await on_every_screen(page)
