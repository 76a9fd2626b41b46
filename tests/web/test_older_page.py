"""What is older than what a page reads at first: said and shown before, read when somebody wants it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, Route, expect

from koda_ray.client import KodaClient
from tests.serve.test_jobs import previewed
from tests.serve.test_sessions import until
from tests.serve.world import World
from tests.web.axes import examine
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def in_small_pages(page: Page, what: str, size: int) -> None:
    """Have a list come a few at a time, as a long one does."""

    async def fewer(route: Route) -> None:
        await route.continue_(url=re.sub(r"limit=\d+", f"limit={size}", route.request.url))

    await page.route(f"**/{what}?limit=*", fewer)


@pytest.mark.parametrize("width", [390, 1440])
async def test_what_was_said_and_shown_long_ago_is_read_when_it_is_wanted(
    koda: World, browser: Browser, width: int
) -> None:
    async with KodaClient(koda.url) as client:
        session_id = await previewed(koda, client)
        for number in range(1, 4):
            await client.changes(session_id, f"change number {number}")
            await until(client, session_id, "preview")
        async with looking(browser, koda.url) as page:
            await page.set_viewport_size({"width": width, "height": 900})
            await in_small_pages(page, "messages", 2)
            await in_small_pages(page, "versions", 2)
            await page.goto(f"{koda.url}/s/{session_id}")
            talk = page.get_by_role("listitem").filter(has_text=re.compile("^(You|koda)"))
            strip = page.get_by_role("region", name="versions").get_by_role("button", name=re.compile("^Version"))
            await expect(strip).to_have_count(2)
            await expect(page.get_by_role("heading", name="4 versions")).to_be_visible()
            await examine(page)
            await page.get_by_role("region", name="versions").get_by_role("button", name="Show older").press("Enter")
            await expect(strip).to_have_count(4)
            await expect(strip.nth(1)).to_be_focused()  # what there was no more of has gone
            more = page.get_by_role("button", name="Show older")
            while await more.count():
                before = await talk.count()
                await more.click()
                await expect(talk).not_to_have_count(before)
            said = [words for words in await talk.all_inner_texts() if "number" in words]
            assert len(said) >= 3
            order = [int(re.findall(r"number (\d)", words)[0]) for words in said]
            assert order == sorted(order, reverse=width == 1440)  # the newest is next to where one says more
            await page.goto(f"{koda.url}/s/{session_id}?v=1")  # which is none of those that are read at first
            await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
