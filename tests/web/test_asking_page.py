"""What may be said of what is to be made beside the prompt: its style, its length, a budget, what agents may do."""

from __future__ import annotations

import re

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
        await expect(page.get_by_role("alert")).to_contain_text("at least 0")
        await on_every_screen(page)
        await page.get_by_label("Tokens").fill("5000")
        session_id = await begin(page, "A ball")
        state = (await koda.store.get_session(session_id)).state
        assert (state.style, state.options.duration, state.permissions.mode) == ("hand-drawn", 7.5, "plan")
        assert state.budget == Budget(tokens=5000)
        assert state.permissions.rules == (PermissionRule(tool="write_file", path="src/koda/*", decision="deny"),)
        await page.get_by_role("link", name="koda").click()
        await expect(page.get_by_text("More: style, length")).to_be_visible()  # the next one begins anew


@pytest.mark.quick
async def test_a_limit_below_nothing_is_said_beneath_it_and_gone_to(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        prompt, tokens = page.get_by_role("textbox", name="What should move"), page.get_by_label("Tokens")
        await page.get_by_text("More: style, length").click()
        await page.get_by_label("Style").fill("hand-drawn")
        await tokens.fill("-5")
        await page.get_by_text("More: hand-drawn").click()
        await expect(tokens).to_be_hidden()
        await prompt.fill("A ball")
        await page.keyboard.press("Control+Enter")
        await expect(tokens).to_be_focused()
        await expect(tokens).to_have_attribute("aria-invalid", "true")
        said = "at least 0, not -5"
        await expect(tokens).to_have_accessible_description(said)
        await expect(page.get_by_role("alert")).to_have_text(said)
        await expect(page.locator("[aria-invalid=true]")).to_have_count(1)
        for field, typed in ((prompt, "A ball"), (page.get_by_label("Style"), "hand-drawn"), (tokens, "-5")):
            await expect(field).to_have_value(typed)
        await prompt.fill("A red ball")  # of which nothing was said
        await expect(page.get_by_role("alert")).to_have_text(said)
        await tokens.fill("5")
        await expect(page.get_by_role("alert")).to_have_count(0)
    assert await koda.store.list_sessions("local") == []


async def test_all_that_is_wrong_is_said_where_it_was_typed(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.get_by_text("More: style, length").click()
        await page.get_by_label("Style").fill("x" * 201)
        await page.get_by_label("Length, in seconds").fill("long")
        await page.get_by_text("Rules: none").click()
        await page.get_by_label("Which tool").fill("y" * 201)
        await page.get_by_role("button", name="Add the rule").click()
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_label("Style")).to_be_focused()
        await expect(page.get_by_role("alert")).to_have_count(3)
        for field, said in (
            (page.get_by_label("Style"), "at most 200 characters, not 201"),
            (page.get_by_label("Length, in seconds"), "a number, not 'long'"),
            (page.get_by_role("button", name="Remove the rule"), "tool: at most 200 characters"),
        ):
            await expect(field).to_have_accessible_description(re.compile(re.escape(said)))
        await expect(page.get_by_label("Length, in seconds")).to_have_value("long")
        await page.get_by_label("Length, in seconds").fill("5")
        await expect(page.get_by_label("Length, in seconds")).not_to_have_attribute("aria-invalid", "true")
        await page.get_by_role("button", name="Remove the rule").click()
        await page.get_by_label("Style").fill("playful")
        await expect(page.get_by_role("alert")).to_have_count(0)
        session_id = await begin(page, "A ball")
    state = (await koda.store.get_session(session_id)).state
    assert (state.style, state.options.duration, state.permissions.rules) == ("playful", 5, ())
