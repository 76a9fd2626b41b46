"""Make the README's pictures of the page: ``python -m tests.web.pictures [FOLDER]``; or those of all its screens.

They are of the real page, in a browser, on a server whose agents follow a script: the studio with a live page out of a
sandbox, and the gallery with frames of videos that koda made (``docs/hero.png``).

``--all FOLDER`` goes to every place there is instead (`places`), and pictures each in both schemes and three widths,
from top to bottom, to be looked at; ``--only PART`` goes to some of them.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.async_api import Browser, Page, Route, ViewportSize, async_playwright, expect

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.render.programs import find_browser
from koda_ray.state.keys import thumbnail_key
from tests.serve.world import World
from tests.web.axes import SCHEMES
from tests.web.films import have_films
from tests.web.lives import live, running_in
from tests.web.looking import begin
from tests.web.places import PARTS, places

_SIZE = (1440, 1100)
_QUALITY = 88
_GUTTER_PX = 8
_WIDTHS = (1440, 1024, 390)
_PROMPTS = (
    "A bouncing ball that comes to rest",
    "A logo reveal for Acme, smooth",
    "A film title: The long night",
    "A bar chart of 12, 30, 45, 70",
    "Count down from five, playful",
    "Fireworks over the hills",
)


def _frames() -> list[bytes]:
    """Cut the frames of videos out of the README's first picture: three by two."""
    whole = Image.open(REPO_ROOT / "docs" / "hero.png").convert("RGB")
    width, height = (whole.width - 2 * _GUTTER_PX) // 3, (whole.height - _GUTTER_PX) // 2
    found: list[bytes] = []
    for number in range(6):
        left, top = number % 3 * (width + _GUTTER_PX), number // 3 * (height + _GUTTER_PX)
        into = io.BytesIO()
        whole.crop((left, top, left + width, top + height)).save(into, "JPEG", quality=92)
        found.append(into.getvalue())
    return found


async def _save(page: Page, path: Path) -> None:
    """Save what is seen."""
    shot = Image.open(io.BytesIO(await page.screenshot(animations="disabled"))).convert("RGB")
    await asyncio.to_thread(shot.save, path, quality=_QUALITY, method=6)
    sys.stdout.write(f"{path}\n")


@asynccontextmanager
async def _opened(browser: Browser, scheme: Literal["light", "dark"]) -> AsyncGenerator[Page]:
    """Open a page of a browser that has seen nothing yet."""
    size = ViewportSize(width=_SIZE[0], height=_SIZE[1])
    context = await browser.new_context(viewport=size, color_scheme=scheme)
    try:
        page = await context.new_page()
        page.set_default_timeout(120_000)
        yield page
    finally:
        await context.close()


async def _made(koda: World, page: Page) -> None:
    """Have all videos made, and give each its frame."""
    for prompt, frame in zip(_PROMPTS, _frames(), strict=True):
        await page.goto(koda.url)
        session_id = await begin(page, prompt)
        await page.get_by_role("button", name="Make this").click()
        await page.get_by_role("button", name="Render 1080p").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        output = (await koda.store.get_session(session_id)).state.output
        assert output is not None
        await koda.storage.put(thumbnail_key("local", output.job_id), frame)


async def _gallery(koda: World, page: Page, path: Path) -> None:
    await page.goto(koda.url)
    await expect(page.get_by_role("link", name=_PROMPTS[-1])).to_be_visible()
    await page.evaluate("Promise.all([...document.images].map((each) => (each.loading = 'eager', each.decode())))")
    await _save(page, path)


async def _studio(koda: World, page: Page, path: Path) -> None:
    seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def of_version(route: Route) -> None:
        await route.fulfill(body=await seen, content_type="image/jpeg")

    await page.route("**/thumbnail*", of_version)
    await page.goto(koda.url)
    _, inside = await live(koda, page, "koda, from a sentence to a film")
    await page.keyboard.press("k")
    slider = page.get_by_role("slider", name="Frame")
    for frame, name in ((150, "Begin here"), (270, "End here")):
        await slider.fill(str(frame))
        await page.get_by_role("button", name=name).click()
    await slider.fill("204")
    await inside.wait_for_function("Math.abs(window.__koda.time - 204 / 60) < 1e-9")
    seen.set_result(await page.locator("iframe").screenshot(type="jpeg"))
    await page.evaluate("Promise.all([...document.images].map((each) => (each.loading = 'eager', each.decode())))")
    await page.get_by_role("button", name="Point at something", exact=True).click()
    over = page.get_by_role("application")
    place = await over.bounding_box()
    assert place is not None
    await over.click(position={"x": place["width"] * 0.3, "y": place["height"] * 0.79})
    await expect(page.get_by_label("What should be different, note 1")).to_be_focused()
    await page.keyboard.type("larger, and dark blue")
    await page.evaluate("scrollTo(0, 0)")
    await _save(page, path)


@asynccontextmanager
async def _with_browser() -> AsyncGenerator[tuple[World, Browser]]:
    with tempfile.TemporaryDirectory(prefix="koda-pictures-") as place:
        async with running_in(Path(place)) as running, async_playwright() as driver:
            program = find_browser(Settings().chromium_path).path
            browser = await driver.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
            try:
                yield running.koda, browser
            finally:
                await browser.close()


async def _make(folder: Path) -> None:
    async with _with_browser() as (koda, browser):
        koda.directory.asks = False
        async with _opened(browser, "light") as page:
            await _made(koda, page)
        async with _opened(browser, "light") as page:
            await _gallery(koda, page, folder / "gallery.webp")
        async with _opened(browser, "dark") as page:
            await _studio(koda, page, folder / "studio.webp")


async def _make_all(folder: Path, parts: Sequence[str]) -> None:
    """Picture every screen, as ``PLACE-WIDTH-SCHEME.png``."""
    frame = _frames()[0]
    await asyncio.to_thread(have_films, frame)
    async with _with_browser() as (koda, browser), _opened(browser, "light") as page:
        async for place in places(koda, page, *parts):
            for width in _WIDTHS:
                await page.set_viewport_size({"width": width, "height": 844 if width < 500 else 900})
                for scheme in SCHEMES:
                    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                    await page.screenshot(path=folder / f"{place}-{width}-{scheme}.png", full_page=True)
            sys.stdout.write(f"{place}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=REPO_ROOT / "docs", metavar="FOLDER")
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=[*PARTS], default=[], metavar="PART")
    asked = parser.parse_args(arguments)
    if asked.all is None:
        asyncio.run(_make(asked.folder))
        return
    asked.all.mkdir(parents=True, exist_ok=True)
    asyncio.run(_make_all(asked.all, asked.only))


if __name__ == "__main__":
    main()
