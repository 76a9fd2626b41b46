"""What holds for all of a session, and its past, in a dialog of its studio."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from koda_ray.budgets import Amounts
from koda_ray.state.charges import Bound, Settle
from koda_ray.state.records import Batch
from koda_ray.types import Budget
from tests.serve.world import World
from tests.state.records import message
from tests.web.axes import on_every_screen
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def opened(page: Page) -> None:
    await page.get_by_role("button", name="This session").click()
    await expect(page.get_by_role("dialog", name="This session")).to_be_visible()


async def planned(koda: World, page: Page) -> str:
    """Make a session with a plan that waits, and nothing shown yet."""
    koda.directory.asks = False
    session_id = await begin(page, "A ball")
    await expect(page.get_by_role("button", name="Make this")).to_be_visible()
    return session_id


async def test_what_was_used_is_seen_and_limits_are_set(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        row = await koda.store.get_session(session_id)
        spent = Settle(id="msg_1", spent=Amounts(tokens=300, cost_microusd=20_000), bounds=(Bound(account=session_id),))
        await koda.store.commit(row.id, row.epoch, Batch(charges=[spent]))
        await opened(page)
        dialog = page.get_by_role("dialog", name="This session")
        await expect(dialog.get_by_role("listitem").filter(has_text="Tokens")).to_contain_text("300 · no limit")
        await dialog.get_by_text("Set limits").click()
        await dialog.get_by_label("Tokens").fill("-1")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("alert")).to_contain_text("at least 0")
        await dialog.get_by_label("Warn from").fill("soon")
        await dialog.get_by_role("button", name="Set them").click()
        tokens, warn = dialog.get_by_label("Tokens"), dialog.get_by_label("Warn from")
        await expect(tokens).to_be_focused()
        await expect(tokens).to_have_accessible_description("at least 0, not -1")
        await expect(warn).to_have_accessible_description("a number, not 'soon'")
        await expect(warn).to_have_value("soon")
        await on_every_screen(page)
        await warn.fill("150")
        await dialog.get_by_role("button", name="Set them").click()
        await expect(warn).to_have_accessible_description("at most 100%, not 150%")
        await dialog.get_by_label("Tokens").fill("1000")
        await dialog.get_by_label("Warn from").fill("20")
        await dialog.get_by_role("button", name="Set them").click()
        await expect(dialog.get_by_text("The limits hold from now on.")).to_be_visible()
        await expect(dialog.get_by_role("meter", name="Tokens")).to_have_attribute("aria-valuetext", "300 of 1,000")
        await expect(dialog.get_by_role("alert")).to_have_count(0)
        await dialog.get_by_role("button", name="Set them").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("the budget is empty")
        await on_every_screen(page)
        assert (await koda.store.get_session(session_id)).state.budget == Budget(tokens=1000, warn_at=0.2)
        await dialog.get_by_role("textbox", name="Tokens").fill("")
        await dialog.get_by_role("button", name="Set them").click()
        await expect(dialog.get_by_role("listitem").filter(has_text="Tokens")).to_contain_text("300 · no limit")
    assert (await koda.store.get_session(session_id)).state.budget == Budget(warn_at=0.2)


async def test_what_agents_may_do_is_said_by_keyboard(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        await page.keyboard.press("Control+k")
        await page.keyboard.type("this sess")
        await expect(page.get_by_role("option", name="This session")).to_be_visible()
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="This session")
        await expect(dialog.get_by_role("radio", name="Everything")).to_be_checked()
        await dialog.get_by_role("radio", name="Everything").focus()
        await page.keyboard.press("ArrowDown")
        await expect(dialog.get_by_role("radio", name="Ask me first")).to_be_checked()
        await dialog.get_by_text("Rules: none").click()
        await dialog.get_by_label("In which files").fill("src/koda/*")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_text("Never: any tool in src/koda/*")).to_be_visible()
        await dialog.get_by_label("What the rule says").select_option("Always")
        await dialog.get_by_label("Which tool").fill("x" * 201)
        await dialog.get_by_role("button", name="Add the rule").click()
        await dialog.get_by_role("button", name="Set it").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("at most 200 characters")
        await expect(dialog.get_by_role("button", name="Remove the rule Always")).to_be_focused()
        await dialog.get_by_role("button", name="Remove the rule Always").click()
        await expect(dialog.get_by_text("One rule")).to_be_focused()
        await dialog.get_by_role("button", name="Set it").click()
        await expect(dialog.get_by_text("Holds from their next step on.")).to_be_visible()
        await on_every_screen(page)
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await page.reload()
        await opened(page)
        await expect(dialog.get_by_role("radio", name="Ask me first")).to_be_checked()
    held = (await koda.store.get_session(session_id)).state.permissions
    assert held.mode == "ask" and [(rule.decision, rule.path) for rule in held.rules] == [("deny", "src/koda/*")]


async def test_a_session_goes_back_before_its_first_preview_and_another_begins_there(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        await koda.directory.checkpoint(session_id, {"src/App.tsx": b"before"})
        koda.directory.hold = {"execute"}
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
        row = await koda.store.get_session(session_id)
        await koda.store.commit(row.id, row.epoch, Batch(messages=[message(row, 1)]))
        await page.keyboard.press("Control+k")
        await page.keyboard.type("go back")
        await expect(page.get_by_role("option", name="Go back to an earlier point")).to_be_visible()
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="This session")
        points = dialog.get_by_role("list", name="Points").get_by_role("listitem")
        await expect(dialog.get_by_role("heading", name="Go back, or another way")).to_be_focused()
        await expect(points).to_have_count(2)
        saved = points.filter(has_text="Files saved")
        await saved.get_by_role("button", name="Go back to").click()
        await expect(dialog.get_by_text("What is being made now is stopped.")).to_be_visible()
        await on_every_screen(page)
        await page.keyboard.press("Escape")
        await expect(saved.get_by_role("button", name="Go back to")).to_be_focused()
        await page.keyboard.press("Enter")
        await dialog.get_by_role("group", name="Go back to").get_by_role("button", name="Go back").click()
        await expect(dialog.get_by_text("It is again as it was at")).to_be_visible()
        await expect(points.filter(has_text="Left by going back")).to_have_count(1)
        assert (await koda.store.get_session(session_id)).state.phase == "plan"
        await dialog.get_by_role("button", name="Undo").click()
        await expect(dialog.get_by_text("It is again as it was before.")).to_be_attached()
        await expect(points.filter(has_text="gone back to since")).to_have_count(1)
        await points.filter(has_text="Files saved").get_by_role("button", name="Another session from").click()
        await expect(dialog).to_have_count(0)
        await page.wait_for_url(lambda url: session_id not in url)
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
    assert len(await koda.store.list_sessions("local")) == 2
