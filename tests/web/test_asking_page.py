"""What may be said of what is to be made beside the prompt: its style, its length, a budget, what agents may do."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from koda_ray.types import Budget, PermissionRule
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_style_length_budget_and_permissions_go_along(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.get_by_text("More: style, length").click()
        await page.get_by_label("Style").fill("hand-drawn")
        await page.get_by_label("Length, in seconds").fill("7.5")
        await expect(page.get_by_label("Length", exact=True)).to_have_value("7.5")
        await page.get_by_role("radio", name="Plan first").check()
        await page.get_by_text("Rules: none").click()
        await page.get_by_label("Which tool").fill("write_file")
        await page.get_by_label("In which files").fill("src/koda/*")
        await page.get_by_role("button", name="Add the rule").click()
        await expect(page.get_by_role("list", name="Rules").get_by_role("listitem")).to_have_count(1)
        await page.get_by_label("Tokens").fill("-5")
        await on_every_screen(page)
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("alert")).to_contain_text("greater than or equal to 0")
        await page.get_by_label("Tokens").fill("5000")
        session_id = await begin(page, "A ball")
        state = (await koda.store.get_session(session_id)).state
        assert (state.style, state.options.duration, state.permissions.mode) == ("hand-drawn", 7.5, "plan")
        assert state.budget == Budget(tokens=5000)
        assert state.permissions.rules == (PermissionRule(tool="write_file", path="src/koda/*", decision="deny"),)
        await page.get_by_role("link", name="koda").click()
        await expect(page.get_by_text("More: style, length")).to_be_visible()  # the next one begins anew
