"""Make the README's pictures of the page: ``python -m tests.web.pictures [FOLDER]``.

They are of the real page, in a browser, on a server whose agents follow a script: the studio with a live page out of a
sandbox, and the gallery with frames of videos that koda made (``docs/hero.png``).
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.async_api import Browser, Page, Route, ViewportSize, async_playwright, expect

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.render.programs import find_browser
from koda_ray.state.keys import thumbnail_key
from tests.serve.world import World
from tests.web.lives import live, running_in
from tests.web.looking import begin

_SIZE = (1440, 1100)
_QUALITY = 88
_GUTTER_PX = 8
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


async def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="koda-pictures-") as place:
        async with running_in(Path(place)) as running, async_playwright() as driver:
            running.koda.directory.asks = False
            program = find_browser(Settings().chromium_path).path
            browser = await driver.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
            try:
                async with _opened(browser, "light") as page:
                    await _made(running.koda, page)
                async with _opened(browser, "light") as page:
                    await _gallery(running.koda, page, folder / "gallery.webp")
                async with _opened(browser, "dark") as page:
                    await _studio(running.koda, page, folder / "studio.webp")
            finally:
                await browser.close()


if __name__ == "__main__":
    asyncio.run(_make(Path(sys.argv[1]) if len(sys.argv) > 1 else REPO_ROOT / "docs"))
