"""The plan on the page: scenes are renamed, retimed, moved and left out there, and spoken of one by one."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from koda_ray.types import SceneEdit
from tests.serve.world import World
from tests.web import axes
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def planned(koda: World, page: Page) -> str:
    """Begin a session and see its plan."""
    koda.directory.asks = False
    session_id = await begin(page, "A ball")
    await expect(page.get_by_role("button", name="Make this")).to_be_visible()
    return session_id


async def descriptions_of(koda: World, session_id: str) -> list[str]:
    plan = (await koda.store.get_session(session_id)).state.plan
    assert plan is not None
    return [scene.description for scene in plan.scenes]


async def scenes_of(koda: World, session_id: str) -> list[tuple[str, float]]:
    plan = (await koda.store.get_session(session_id)).state.plan
    assert plan is not None
    return [(scene.title, scene.duration) for scene in plan.scenes]


async def test_scenes_are_edited_and_made_as_they_are_then(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        await page.get_by_role("button", name="Edit scenes").click()
        await page.get_by_label("Title of scene 1").fill("Fall")
        await page.get_by_label("Seconds of scene 1").fill("2,5")
        await page.get_by_role("button", name="Later: Fall").click()
        await expect(page.get_by_label("Title of scene 2")).to_have_value("Fall")
        await expect(page.get_by_text("6 s together, 1 s longer than before")).to_be_visible()
        await page.get_by_label("Seconds of scene 3").fill("soon")
        await expect(page.get_by_text("Each scene has a title and a length in seconds")).to_be_visible()
        await expect(page.get_by_role("button", name="Save the scenes")).to_be_disabled()
        await page.get_by_label("Seconds of scene 3").fill("0.4")
        await page.keyboard.press("Enter")  # what the server says of it stands beside it, and what was typed stays
        await expect(page.get_by_role("alert")).to_contain_text("scene 3 lasts 0.4 s; a scene needs at least 1.5 s")
        await expect(page.get_by_label("Seconds of scene 3")).to_be_focused()
        await expect(page.get_by_label("Seconds of scene 3")).to_have_attribute("aria-invalid", "true")
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Earlier: Rest").click()  # what was said goes with its scene
        await expect(page.get_by_label("Seconds of scene 2")).to_have_attribute("aria-invalid", "true")
        await page.get_by_role("button", name="Later: Rest").click()
        await page.get_by_label("Title of scene 1").fill("x" * 201)
        await page.get_by_label("Seconds of scene 3").fill("1.5")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Title of scene 1")).to_be_focused()
        await expect(page.get_by_role("alert")).to_have_text("at most 200 characters, not 201")
        await page.get_by_label("Title of scene 1").fill("Bounce")
        await expect(page.get_by_label("Title of scene 2")).to_have_value("Fall")
        await page.get_by_label("Seconds of scene 3").fill("1.5")
        await page.get_by_role("button", name="Save the scenes").dblclick()
        await expect(page.get_by_text("as you changed it")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.get_by_role("list", name="Scenes", exact=True)).to_contain_text("Fall")
        assert await scenes_of(koda, session_id) == [("Bounce", 2.0), ("Fall", 2.5), ("Rest", 1.5)]
        await page.reload()
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)


async def test_scenes_are_drawn_as_they_are_edited_and_escape_loses_none_of_it(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        drawn = page.get_by_role("list", name="Scenes", exact=True).get_by_role("listitem")
        await page.get_by_role("button", name="Edit scenes").click()
        await page.keyboard.press("Escape")  # nothing was typed, and nothing is kept
        await expect(page.get_by_role("button", name="Edit scenes")).to_be_focused()
        await expect(page.get_by_text("What you edited is not in this plan yet")).to_have_count(0)
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Later: Drop in").click()
        await page.get_by_label("Title of scene 2").fill("Fall")
        await page.get_by_label("Seconds of scene 2").fill("2,5")
        await expect(drawn).to_contain_text(["Bounce", "Fall", "Rest"])
        await expect(drawn.nth(1)).to_contain_text("2.5 s")
        await axes.on_every_screen(page)
        await page.keyboard.press("Escape")
        await expect(page.get_by_text("What you edited is not in this plan yet")).to_be_visible()
        await expect(drawn).to_contain_text(["Drop in", "Bounce", "Rest"])
        await page.set_viewport_size({"width": 1280, "height": 800})
        await axes.examine(page)
        await page.get_by_role("button", name="Edit scenes").click()
        await expect(page.get_by_label("Title of scene 2")).to_have_value("Fall")
        await page.get_by_label("Title of scene 2").press("Control+Enter")
        await expect(page.get_by_text("as you changed it")).to_be_visible()
        assert await scenes_of(koda, session_id) == [("Bounce", 2.0), ("Fall", 2.5), ("Rest", 1.5)]


async def test_what_a_scene_shows_is_said_anew_there(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        before = await descriptions_of(koda, session_id)
        await page.get_by_role("button", name="Edit scenes").click()
        field = page.get_by_label("Description of scene 1")
        await expect(field).to_have_value(before[0])
        await field.fill("A red ball falls into the rain,\nand is gone")
        drawn = page.get_by_role("list", name="Scenes", exact=True).get_by_role("listitem")
        await expect(drawn.first).to_contain_text("A red ball falls into the rain")
        await axes.on_every_screen(page)
        await page.reload()  # what is typed outlives it
        await expect(field).to_have_value("A red ball falls into the rain,\nand is gone")
        await page.get_by_role("button", name="Later: Drop in").click()
        await field.press("Control+End")
        await field.press("Enter")  # a line of its own, at the end of what is said of the scene that is first now
        await expect(field).to_have_value(f"{before[1]}\n")
        await field.press("Control+Enter")
        await expect(page.get_by_text("as you changed it")).to_be_visible()
        said = [before[1], "A red ball falls into the rain,\nand is gone", before[2]]
        assert await descriptions_of(koda, session_id) == said
        await expect(page.get_by_role("list", name="Scenes of the plan")).to_contain_text("falls into the rain")


async def test_a_plan_that_another_changes_meanwhile_is_not_overwritten(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        await page.get_by_role("button", name="Edit scenes").click()
        await page.get_by_role("button", name="Leave out: Rest").click()
        edits = [SceneEdit(scene=number) for number in (3, 1, 2)]
        sent = [each.model_dump(mode="json", exclude_none=True) for each in edits]
        await koda.directory.submit(
            session_id=session_id, user_id="local", name="plan", body={"scenes": sent}, key="elsewhere"
        )
        await expect(page.get_by_role("alert")).to_contain_text("The plan was changed meanwhile")
        await expect(page.get_by_role("button", name="Save the scenes")).to_be_disabled()
        await page.get_by_role("button", name="Leave it").click()
        await expect(page.get_by_role("list", name="Scenes of the plan").get_by_role("listitem").first).to_contain_text(
            "Rest"
        )
    assert [title for title, _ in await scenes_of(koda, session_id)] == ["Rest", "Drop in", "Bounce"]


async def test_what_is_said_of_scenes_is_asked_for_together(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await planned(koda, page)
        for number, words in ((1, "from the left"), (3, "a shadow")):
            await page.get_by_role("button", name=f"Say something of scene {number}").click()
            await page.keyboard.type(words)
        await expect(page.get_by_role("button", name="Ask for these 2 changes")).to_be_visible()
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_role("listitem").get_by_text("Scene 1 (Drop in): from the left")).to_be_visible()
        await expect(page.get_by_role("button", name="Ask for")).to_have_count(0)
    row = await koda.store.get_session(session_id)
    assert row.state.feedback == ("Scene 1 (Drop in): from the left\nScene 3 (Rest): a shadow",)
