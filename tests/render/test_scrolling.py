"""Smooth scrolling goes by the clock: the same however a frame is gone to, and in either browser."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FPS = 20
STYLE = """<!doctype html><style>
body { margin: 0; height: 1200px; background: linear-gradient(#000, #fff) }
.box { position: fixed; top: 0; width: 40px; height: 30px; overflow: auto }
.box div { height: 400px; background: repeating-linear-gradient(red 0 10px, blue 10px 20px) }
</style>"""
BOX = "<div class=box id=box><div id=inner></div></div>"
# each scrolls by 324 px from 0.2 s on
KINDS = {
    "asked for": (BOX, "scrollTo({ top: 324, behavior: 'smooth' })", "scrollY"),
    "by so much": (BOX, "scrollBy({ top: 324, behavior: 'smooth' })", "scrollY"),
    "styled": ("<style>html { scroll-behavior: smooth }</style>", "scroll(0, 324)", "scrollY"),
    "set": (
        f"<style>.box {{ scroll-behavior: smooth }}</style>{BOX}",
        "box.scrollTop = 324",
        "box.scrollTop",
    ),
    "into view": (
        f"{BOX}<p id=place style='position: absolute; margin: 0; top: 324px'>here</p>",
        "place.scrollIntoView({ behavior: 'smooth' })",
        "scrollY",
    ),
    "into view within": (
        f"{BOX}<script>inner.innerHTML = '<p style=\"margin: 324px 0 0\">here</p>'</script>",
        "inner.firstChild.scrollIntoView({ behavior: 'smooth' })",
        "box.scrollTop",
    ),
    "snapped": (
        "<style>.box { scroll-snap-type: y mandatory } #inner { height: 324px; scroll-snap-align: start }</style>"
        "<div class=box id=box><div id=inner></div><div style='scroll-snap-align: start'></div></div>",
        "box.scrollTo({ top: 316, behavior: 'smooth' })",
        "box.scrollTop",
    ),
}


async def opened(browser: Browser, body: str, script: str) -> LoadedPage:
    html = f"{STYLE}<body>{body}<script>setTimeout(() => {{ {script} }}, 200)</script>"
    page = await LoadedPage.open(browser, Bundle({"index.html": html.encode()}), PageSetup(width=64, height=48))
    await page.wait_ready(20)
    return page


async def value(page: LoadedPage, expression: str) -> Any:
    return json.loads(str(await page.evaluate(f"JSON.stringify({expression})")))


def expected(frame: int) -> float:
    """Where Chromium has scrolled to: ease-in-out, in the square root of 324 frames of a sixtieth of a second."""
    part = min(1.0, max(0.0, (frame / FPS - 0.2) / (math.sqrt(324) / 60)))
    low, high = 0.0, 1.0
    for _ in range(50):
        t = (low + high) / 2
        low, high = (t, high) if 3 * (1 - t) ** 2 * t * 0.42 + 3 * (1 - t) * t**2 * 0.58 + t**3 < part else (low, t)
    return 324 * low * low * (3 - 2 * low)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full
async def test_it_takes_its_time_by_the_clock_however_a_frame_is_gone_to(either: Browser, kind: str) -> None:
    body, script, where = KINDS[kind]
    page = await opened(either, body, script)
    played: dict[int, bytes] = {}
    for frame in range(13):
        await page.go(frame, FPS)
        assert await value(page, where) == pytest.approx(expected(frame), abs=1.01), frame
        played[frame] = await page.picture()
    assert await value(page, where) == 324
    await page.close()
    page = await opened(either, body, script)
    for frame in (7, 12):
        await page.go(frame, FPS)
        assert await page.picture() == played[frame], frame
    await page.close()


async def test_who_scrolls_elsewhere_meanwhile_ends_it_and_its_end_is_told_once(either: Browser) -> None:
    page = await opened(
        either,
        f"{BOX}<script>ends = []; document.addEventListener('scrollend', () => ends.push(scrollY))</script>",
        "scrollTo({ top: 324, behavior: 'smooth' }); setTimeout(() => scrollTo(0, 20), 100);"
        "setTimeout(() => scrollTo({ top: 120, behavior: 'smooth' }), 200)",
    )
    seen: list[float] = []
    for frame in range(16):
        await page.go(frame, FPS)
        await page.picture()
        seen.append(await value(page, "scrollY"))
    assert seen[4] == 0 < seen[5] and seen[6] == seen[7] == 20
    assert seen[8] == 20 < seen[9] < seen[10] < seen[12] == seen[15] == 120
    assert await value(page, "ends") == [20, 120]
    await page.close()


async def test_a_frame_keeps_the_pages_time_when_it_scrolls(either: Browser) -> None:
    scroll = "setTimeout(() => scrollTo({ top: 324, behavior: 'smooth' }), 200)"
    inner = f"<body style=height:1200px><script>{scroll}</script>"
    page = await opened(either, f'<iframe id=inside srcdoc="{inner}" style="width: 50px; height: 40px"></iframe>', "")
    for frame in (0, 4, 7, 12):
        await page.go(frame, FPS)
        assert await value(page, "inside.contentWindow.scrollY") == pytest.approx(expected(frame), abs=1.01), frame
    await page.close()


async def test_a_page_that_is_sought_is_there_at_once(either: Browser) -> None:
    seek = "(seconds) => window.scrollTo({ top: seconds * 500, behavior: 'smooth' })"
    contract = f"window.__koda = {{ version: 1, duration: 1, fps: 20, ready: Promise.resolve(), seek: {seek} }};"
    page = await opened(either, f"<script>{contract}</script>", "")
    for frame in (0, 10, 12):
        await page.go(frame, FPS)
        assert await value(page, "scrollY") == frame / FPS * 500
    await page.close()
