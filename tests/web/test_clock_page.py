"""A browser whose own clock is minutes off: what is told of the server's times is told by the server's clock."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from tests.serve.world import World
from tests.web.looking import begin

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

OFF = """(() => {
    const Right = Date;
    window.Date = class extends Right {
        constructor(...given) { given.length ? super(...given) : super(Right.now() + 600_000); }
        static now() { return Right.now() + 600_000; }
    };
})()"""
"""Put the clock of a page ten minutes forward."""


async def test_times_are_the_servers_where_the_browsers_clock_is_wrong(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    context = await browser.new_context()
    try:
        await context.add_init_script(OFF)
        page = await context.new_page()
        page.set_default_timeout(60_000)
        await page.goto(koda.url)
        await begin(page, "A ball")
        await expect(page.get_by_role("heading", name="Reading what you wrote")).to_be_visible()
        await expect(page.get_by_text(re.compile(r"^[0-4]:\d\d$"))).to_be_visible()
        await page.get_by_role("link", name="koda", exact=True).click()
        card = page.get_by_role("listitem").filter(has_text="A ball")
        await expect(card.get_by_text(re.compile("^(just now|[1-4] min ago)$"))).to_be_visible()
    finally:
        await context.close()
