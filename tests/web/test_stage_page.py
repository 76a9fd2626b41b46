"""The stage of a session: its storyboard, its seconds, its keys, and where everything is on a phone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from koda_ray import commands
from koda_ray.config import Settings
from koda_ray.events import NewEvent
from koda_ray.types import Todo
from tests.serve.scripted import VIDEO
from tests.serve.world import World, reached, world
from tests.web import axes
from tests.web.looking import begin, looking
from tests.web.test_film_page import counting

pytestmark = [pytest.mark.full, pytest.mark.needs("web", "ffmpeg"), pytest.mark.browser]

PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1440, "height": 900}
STEPS = ("setup", "scene-1", "scene-2", "scene-3", "preview")
AWAY = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => %s });"


async def box(shown: Locator) -> dict[str, float]:
    """Return where something is in the window."""
    found = await shown.bounding_box()
    assert found is not None
    return {"top": found["y"], "bottom": found["y"] + found["height"], "width": found["width"]}


async def works(koda: World, page: Page) -> str:
    """Bring a session to where its second scene is being made."""
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    session_id = await begin(page, "A ball")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    todos = tuple(Todo(id=each, label=f"The step {each}") for each in STEPS)
    done = [commands.SetTodoStatus(each, "done") for each in STEPS[:2]]
    await koda.directory.move(session_id, commands.SetTodos(todos), *done, commands.SetTodoStatus("scene-2", "active"))
    return session_id


@pytest.fixture
async def shown(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[World, Page]]:
    """A session's page with its preview, whose video has five seconds."""
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(counting, tmp_path / "counting.webm"))
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(DESK)
        await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("slider", name="Frame")).to_have_attribute("max", "299")
        await page.get_by_role("heading", name="Here is a preview").click()  # keys are the page's
        yield koda, page


async def test_a_plan_is_a_storyboard_whose_scenes_light_up_as_they_are_made(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(DESK)
        session_id = await works(koda, page)
        panels = page.get_by_role("list", name="Scenes", exact=True).get_by_role("listitem")
        await expect(panels).to_contain_text(["Drop in", "Bounce", "Rest"])
        await expect(panels.nth(0)).to_contain_text("made")
        await expect(panels.nth(1)).to_contain_text("being made")
        await expect(panels.nth(2)).not_to_contain_text("made")
        widths = [(await box(panels.nth(at)))["width"] for at in range(3)]
        assert widths[1] > widths[0] and abs(widths[0] - widths[2]) < 2
        told = page.get_by_role("status").filter(has_text="The step scene-1: done, 2 of 5")
        await expect(told).to_be_attached()
        await koda.directory.move(session_id, commands.SetTodoStatus("scene-2", "done"))
        told = page.get_by_role("status").filter(has_text="The step scene-2: done, 3 of 5")
        await expect(told).to_be_attached()
        await axes.on_every_screen(page)


async def test_the_title_and_all_that_moves_the_picture_are_above_the_fold(shown: tuple[World, Page]) -> None:
    _, page = shown
    assert (await box(page.get_by_role("heading", name="A ball", exact=True)))["bottom"] < 120
    assert (await box(page.get_by_role("button", name="Full screen")))["bottom"] < DESK["height"]
    assert (await box(page.get_by_role("button", name="See it live")))["bottom"] < DESK["height"]
    await page.set_viewport_size({"width": 1024, "height": 768})
    assert (await box(page.locator("video")))["width"] >= 600
    assert (await box(page.get_by_role("button", name="Full screen")))["bottom"] < 768


async def test_one_version_is_a_mark_beside_the_title_that_opens_it(shown: tuple[World, Page]) -> None:
    _, page = shown
    await expect(page.get_by_role("region", name="One version")).to_have_count(0)
    mark = page.get_by_role("button", name="Version 1")
    await mark.click()
    await page.get_by_role("button", name="Add a note").click()
    await page.keyboard.type("the first")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Version 1, the first")).to_be_visible()
    await expect(page.get_by_role("button", name="Go another way from here")).to_be_visible()
    await mark.click()
    await expect(page.get_by_role("button", name="Go another way from here")).to_have_count(0)


async def at_the_picture(page: Page) -> None:
    """Press on the picture, which plays it, and once more."""
    for name in ("Pause", "Play"):
        await page.locator("video").click(force=True)  # what it is pressed through lies over it
        await expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()


async def test_where_the_timeline_has_the_focus_letters_and_space_are_keys_all_the_same(
    shown: tuple[World, Page],
) -> None:
    _, page = shown
    slider = page.get_by_role("slider", name="Frame")
    await slider.focus()
    await page.keyboard.press("ArrowRight")
    await expect(slider).to_have_value("1")
    await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await page.keyboard.press("k")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await page.keyboard.press("o")
    await expect(page.get_by_title("Play all of it (X)")).to_be_visible()
    await expect(slider).to_be_focused()


async def test_what_is_typed_of_a_time_stays_where_playing_ends_and_enter_goes_back_to_where_it_began(
    shown: tuple[World, Page],
) -> None:
    _, page = shown
    slider = page.get_by_role("slider", name="Frame")
    await at_the_picture(page)
    await page.get_by_label("Speed").select_option("0.5×")
    await page.get_by_role("button", name="Again and again").click()
    await slider.fill("240")
    await page.keyboard.press("k")
    await page.keyboard.press("g")
    field = page.get_by_label("Time, or frame as f141")
    await field.fill("1.5")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await expect(field).to_be_focused()
    await expect(field).to_have_value("1.5")
    await page.keyboard.press("Escape")
    await page.get_by_role("heading", name="Here is a preview").click()
    await expect(slider).to_have_value("299")
    await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(slider).to_have_value("0")


async def test_keys_go_to_the_ends_and_from_scene_to_scene_and_enter_goes_back(shown: tuple[World, Page]) -> None:
    _, page = shown
    slider = page.get_by_role("slider", name="Frame")
    await page.keyboard.press("End")
    await expect(slider).to_have_value("0")  # nobody is at the picture: the page is moved, as any page is
    await at_the_picture(page)
    for key, frame in (
        ("Home", 0),
        ("ArrowDown", 90),
        ("ArrowDown", 210),
        ("ArrowDown", 210),
        ("ArrowRight", 211),
        ("ArrowUp", 210),
        ("ArrowUp", 90),
        ("End", 299),
        ("Home", 0),
    ):
        await page.keyboard.press(key)
        await expect(slider).to_have_value(str(frame))
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("k")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await expect(slider).not_to_have_value("90")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await expect(slider).to_have_value("90")
    place = await slider.bounding_box()
    assert place is not None
    await page.mouse.move(place["x"] + place["width"] / 2, place["y"] + 4)
    await expect(page.get_by_text("00:02.5")).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("heading", name="On the stage")).to_be_visible()


async def test_on_a_phone_the_decision_comes_right_after_the_picture_and_the_composer_is_in_reach(
    shown: tuple[World, Page],
) -> None:
    koda, page = shown
    await page.set_viewport_size(PHONE)
    controls = [page.get_by_role("button", name=name) for name in ("Play", "A frame back", "More", "Full screen")]
    rows = [await box(each) for each in controls]
    rows.append(total := await box(page.get_by_text("f 0/300", exact=True)))
    assert max(each["top"] for each in rows) < min(each["bottom"] for each in rows)  # one row
    assert total["width"] > 30  # of how many it is one is seen, and not only told
    render = page.get_by_role("button", name="Render 1080p at 60 fps")
    assert (await box(render))["bottom"] < PHONE["height"]
    await page.get_by_role("button", name="Full screen").focus()
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("Size")).to_be_focused()  # the order of the keyboard is that of the eye
    await expect(page.get_by_role("button", name="Save this frame")).to_be_hidden()
    await page.get_by_role("button", name="More", exact=True).click()
    await expect(page.get_by_role("button", name="Save this frame")).to_be_visible()
    await axes.examine(page)
    await page.get_by_role("button", name="More", exact=True).click()
    composer = page.get_by_label("What should be different")
    assert (await box(composer))["bottom"] <= PHONE["height"]
    for number in range(12):
        await koda.directory.move(page.url.rpartition("/")[2], commands.Think(f"Thought {number}"))
    await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    assert (await box(page.locator("video")))["top"] >= 0
    assert (await box(composer))["bottom"] <= PHONE["height"]


async def test_on_a_phone_the_steps_stay_in_view_while_it_works(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(PHONE)
        await works(koda, page)
        await expect(page.get_by_text("2 of 5", exact=True)).to_be_visible()
        await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        pinned = await box(page.get_by_text("2 of 5", exact=True))
        assert pinned["top"] >= 0 and pinned["bottom"] <= PHONE["height"]
        await axes.examine(page)


async def test_a_picture_that_is_to_be_another_one_says_which_it_is(shown: tuple[World, Page]) -> None:
    koda, page = shown
    koda.directory.hold = {"execute"}
    await page.get_by_label("What should be different").fill("red")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_text("v1 — v2 is being made")).to_be_visible()


async def test_what_cannot_be_tried_again_says_so_and_the_next_words_go_on(koda: World, browser: Browser) -> None:
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
        await koda.directory.move(session_id, commands.Fail("it cannot be made", "NOT_POSSIBLE", can_retry=False))
        await expect(page.get_by_role("alert").filter(has_text="it cannot be made")).to_be_visible()
        await expect(page.get_by_label("What should be different")).to_be_focused()
        await axes.on_every_screen(page)


async def test_a_reload_finds_the_frame_the_part_and_the_live_page_that_one_was_at(shown: tuple[World, Page]) -> None:
    koda, page = shown
    slider = page.get_by_role("slider", name="Frame")
    for frame, key in ((60, "i"), (149, "o"), (100, "")):
        await slider.fill(str(frame))
        await page.get_by_role("heading", name="Here is a preview").click()
        if key:
            await page.keyboard.press(key)
    await page.wait_for_url("**/s/*?t=1.667&in=1&out=2.5")
    await page.reload()
    await expect(slider).to_have_value("100")
    await expect(page.get_by_role("button", name="not only frames 60–149")).to_be_visible()
    await page.get_by_role("heading", name="Here is a preview").click()
    await page.keyboard.press("n")
    await page.keyboard.type("slower")
    await expect(page.get_by_role("button", name="show the frame of note 1")).to_contain_text("00:01.000 – 00:02.500")
    await page.get_by_role("button", name="Send the note").click()
    await expect(page.get_by_role("button", name="show the moment of note 1")).to_contain_text("00:01.000 – 00:02.500")
    state = (await koda.store.get_session(page.url.partition("/s/")[2].partition("?")[0])).state
    assert "At 1.00 s to 2.50 s, frame 100, scene 1 Drop in" in state.feedback[-1]


async def test_nothing_that_was_typed_is_lost_by_a_reload_or_by_editing_the_plan(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.get_by_role("textbox", name="What should move").fill("A ball")
        await page.get_by_label("Length", exact=True).select_option("5 s")
        await page.reload()
        await expect(page.get_by_role("textbox", name="What should move")).to_have_value("A ball")
        await expect(page.get_by_label("Length", exact=True)).to_have_value("5")
        await page.get_by_role("button", name="Make it").click()
        await page.get_by_label("Playful").check()
        await page.get_by_label("Or in your own words").fill("and red")
        await page.reload()
        await expect(page.get_by_label("Playful")).to_be_checked()
        await expect(page.get_by_label("Or in your own words")).to_have_value("and red")
        await page.get_by_role("button", name="Answer").click()
        await page.get_by_role("button", name="Say something of scene 2").click()
        await page.keyboard.type("higher")
        await page.get_by_label("What should be different", exact=True).fill("darker")
        await page.get_by_role("button", name="Edit scenes").click()
        await page.get_by_label("Title of scene 1").fill("Fall")
        await page.reload()
        await expect(page.get_by_label("Title of scene 1")).to_have_value("Fall")
        await page.get_by_role("button", name="Leave it").click()
        await expect(page.get_by_label("What should be different in scene 2")).to_have_value("higher")
        await expect(page.get_by_label("What should be different", exact=True)).to_have_value("darker")
        await page.get_by_role("button", name="Ask for this change").click()
        await expect(page.get_by_label("What should be different in scene 2")).to_have_count(0)
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_label("What should be different", exact=True)).to_have_value("")
        assert await page.evaluate("Object.keys(sessionStorage)") == []


async def test_a_sign_in_loses_nothing_and_a_sign_out_leaves_nothing(tmp_path: Path, browser: Browser) -> None:
    key = "k" * 32
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=f"ann={key}") as koda,
        looking(browser, koda.url) as page,
    ):
        koda.directory.asks = False
        await page.get_by_label("Key").fill(key)
        await page.keyboard.press("Enter")
        await begin(page, "A ball")
        words = page.get_by_label("What should be different", exact=True)
        await words.fill("darker")
        await page.context.clear_cookies()
        await page.get_by_role("button", name="Make this").click()
        await page.get_by_label("Key").fill(key)
        await page.keyboard.press("Enter")
        await expect(words).to_have_value("darker")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Key")).to_be_visible()
        assert await page.evaluate("Object.keys(sessionStorage)") == []


async def test_a_tab_that_was_not_looked_at_yet_starts_no_live_page(shown: tuple[World, Page]) -> None:
    _, page = shown
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/preview") else None)
    await page.add_init_script(AWAY % "true")
    await page.goto(page.url.partition("?")[0] + "?panel=live")
    await expect(page.get_by_text("Starting the page…")).to_be_visible()
    await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
    assert asked == []
    async with page.expect_request("**/preview"):
        await page.evaluate((AWAY % "false") + "document.dispatchEvent(new Event('visibilitychange'))")


async def test_a_tab_that_is_not_looked_at_says_that_something_is_done(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.context.grant_permissions(["notifications"])
        await page.evaluate(
            "window.told = []; window.Notification = class { static permission = 'granted';"
            " static requestPermission = async () => 'granted';"
            " constructor(title, { body }) { window.told.push(`${title}: ${body}`); } }; 0"
        )
        session_id = await works(koda, page)
        await page.keyboard.press("?")
        await page.get_by_label("Tell me on the desktop").check()
        await page.keyboard.press("Escape")
        await page.evaluate(AWAY % "true")
        koda.directory.hold = set()
        await koda.directory.wake(session_id)
        await expect(page).to_have_title("● A ball · koda")
        assert await page.evaluate("window.told") == ["A ball: Preview to look at"]
        await page.evaluate((AWAY % "false") + "document.dispatchEvent(new Event('visibilitychange'))")
        await expect(page).to_have_title("A ball · koda")


async def test_axe_finds_nothing_while_a_video_is_rendered(shown: tuple[World, Page]) -> None:
    koda, page = shown
    koda.directory.rendering = asyncio.Event()
    await page.get_by_role("button", name="Render 1080p at 60 fps").click()
    await expect(page.get_by_role("progressbar", name="Rendering")).to_be_visible()
    await axes.on_every_screen(page)
    koda.directory.rendering.set()
    await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)


async def test_axe_finds_nothing_where_one_signs_in(tmp_path: Path, browser: Browser) -> None:
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=f"ann={'k' * 32}") as koda,
        looking(browser, koda.url) as page,
    ):
        await page.get_by_label("Key").fill("not the key that it is")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_be_visible()
        await axes.on_every_screen(page)


async def test_what_is_written_is_read_in_its_place_once_it_is_saved(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(DESK)
        session_id = await works(koda, page)
        await koda.directory.move(session_id, commands.Wrote((("src/scenes/S1.tsx", 10),)))
        await page.get_by_text("1 file written").click()
        await page.get_by_text("src/scenes/S1.tsx", exact=True).click()
        await expect(page.get_by_text("Not saved yet")).to_be_visible()
        await koda.directory.checkpoint(session_id, {"src/scenes/S1.tsx": b"export const S1 = () => null;\n"})
        await expect(page.get_by_label("src/scenes/S1.tsx")).to_contain_text("export const S1")
        await expect(page.get_by_role("link", name="Open it in another tab")).to_be_visible()
        await axes.on_every_screen(page)


async def test_code_is_seen_as_it_is_written_by_who_wants_to_and_wakes_nobody(koda: World, browser: Browser) -> None:
    def piece(offset: int, delta: str, path: str = "src/scenes/S1.tsx") -> NewEvent:
        return NewEvent(type="code_chunk", data={"path": path, "offset": offset, "delta": delta})

    async with looking(browser, koda.url) as page:
        await page.set_viewport_size(DESK)
        session_id = await works(koda, page)
        await koda.directory.move(session_id, events=(piece(0, "export const"),))
        fold = page.get_by_text("The code as it is written")
        await fold.click()
        code = page.get_by_label("src/scenes/S1.tsx", exact=True)
        await expect(code).to_have_text("export const")  # what was written before one looked
        await koda.directory.move(session_id, events=(piece(12, " S1 = () => null;"),))
        await expect(code).to_have_text("export const S1 = () => null;")
        await axes.on_every_screen(page)
        await koda.directory.move(session_id, events=(piece(0, "export const S2", "src/scenes/S2.tsx"),))
        await expect(page.get_by_label("src/scenes/S2.tsx", exact=True)).to_have_text("export const S2")
        assert koda.directory.watchers.get(session_id) is None
        await fold.click()
        await reached(lambda: koda.app.state.streams.count("local") == 1)
