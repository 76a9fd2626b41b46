"""The page's header on every width: one line, nothing over anything else, nothing too close to it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TypedDict

import pytest
from playwright.async_api import Browser, Page, expect

from koda_ray.config import Settings
from tests.serve.world import world
from tests.web.axes import SCHEMES, examine
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

KEY = "k" * 32
WIDTHS = (320, 360, 390, 430, 640, 768, 1024, 1279, 1280, 1440)
LEAST_PX = 8
"""Between what is seen of two things beside each other."""

_SEEN = """() => [...document.querySelectorAll('header a, header button, header > span')].flatMap(each => {
    const box = each.getBoundingClientRect();
    if (!box.width) return [];
    const seen = [...each.querySelectorAll('img, svg')].map(sign => sign.getBoundingClientRect());
    const texts = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
    const lines = [];
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        if (text.parentElement.closest('.sr-only') || text.parentElement.getBoundingClientRect().width <= 1) continue;
        const range = document.createRange();
        range.selectNodeContents(text);
        for (const line of range.getClientRects()) {
            if (line.width < 1) continue;
            lines.push(line.top + line.height / 2);
            seen.push(line);
        }
    }
    const shown = seen.filter(({ width }) => width > 1);
    if (!shown.length) return [];
    const { left, right } = box;
    return [{
        words: each.textContent.trim() || each.getAttribute('aria-label'),
        left: Math.max(left, Math.min(...shown.map(one => one.left))),
        right: Math.min(right, Math.max(...shown.map(one => one.right))),
        middle: box.top + box.height / 2,
        spread: lines.length ? Math.max(...lines) - Math.min(...lines) : 0,
    }];
})"""


class Seen(TypedDict):
    words: str
    left: float
    right: float
    middle: float
    spread: float


async def check(page: Page, width: int) -> None:
    """Fail where something of the header is in two lines, out of line, out of the screen, or too close to another."""
    header = await page.locator("header").bounding_box()
    assert header is not None
    seen: list[Seen] = sorted(await page.evaluate(_SEEN), key=lambda one: one["left"])
    assert len(seen) > 5
    for one in seen:
        assert one["spread"] < 6 and abs(one["middle"] - header["y"] - header["height"] / 2) < 2, (width, one)
        assert one["left"] >= 8 and one["right"] <= width - 8, (width, one)
    for one, following in pairwise(seen):
        assert following["left"] - one["right"] >= LEAST_PX, (width, one, following)


@pytest.mark.parametrize("user", ["", "ann", "somebody-with-quite-a-long-name-at-work"])
async def test_the_header_is_one_line_with_room_on_every_width(tmp_path: Path, browser: Browser, user: str) -> None:
    keys = f"{user}={KEY}" if user else None
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=keys) as koda,
        looking(browser, koda.url) as page,
    ):
        if user:
            await page.get_by_label("Key").fill(KEY)
            await page.keyboard.press("Enter")
        await expect(page.get_by_role("textbox", name="What should move")).to_be_visible()
        await page.evaluate("document.fonts.ready")
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 800})
            await check(page, width)
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await page.set_viewport_size({"width": 768, "height": 800})
            await examine(page)


async def test_who_is_signed_in_signs_out_on_every_width(tmp_path: Path, browser: Browser) -> None:
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=f"ann={KEY}") as koda,
        looking(browser, koda.url) as page,
    ):
        for width in (390, 768, 1280):
            await page.set_viewport_size({"width": width, "height": 800})
            await page.get_by_label("Key").fill(KEY)
            await page.keyboard.press("Enter")
            more, out = (
                page.get_by_role("button", name="Find, keys and motion"),
                page.get_by_role("button", name="Sign out"),
            )
            if width < 1280:
                await more.click()
                await expect(out).to_contain_text("ann")
                await examine(page)
            await out.click()
            await expect(page.get_by_label("Key")).to_be_visible()
