"""The page in a real browser, against a real server whose agents follow a script."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from playwright.async_api import Browser, FilePayload, Locator, Page, Route, expect
from pydantic import JsonValue

from koda_ray import commands
from koda_ray.config import Settings
from koda_ray.serve.media import REDIRECTED_BYTES
from tests.buckets import bucket_server
from tests.serve.scripted import VIDEO
from tests.serve.world import World, free_port, reached, serving, world
from tests.web import axes
from tests.web.films import have_films
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.needs("web"), pytest.mark.browser]

KEY = "k" * 32
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
BUILT = Settings().web_path


async def test_the_whole_job_by_mouse(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A bouncing ball")
        await page.get_by_label("Playful").check()
        await page.get_by_role("button", name="Answer").click()
        await page.get_by_role("button", name="Make this").dblclick()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        await expect(page.get_by_label("The preview")).to_be_visible()
        await page.reload()
        await page.get_by_role("button", name="Render 1080p").click()
        link = page.get_by_role("link", name="Download the video")
        async with page.expect_download() as downloading:
            await link.click()
        saved = await (await downloading.value).path()
        assert saved.stat().st_size > 1000
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(page.get_by_role("link", name="A bouncing ball Finished")).to_be_visible()
    commands = [event.data for event in await koda.store.events(session_id) if event.type == "command_refused"]
    assert commands == []


@pytest.mark.full
@pytest.mark.needs("s3")
async def test_a_large_video_is_shown_and_saved_from_its_bucket(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIDEO, "final", bytes(REDIRECTED_BYTES + 1))
    with bucket_server("koda-test") as endpoint:
        settings = {"STORAGE_PROVIDER": "s3", "R2_BUCKET": "koda-test", "R2_ENDPOINT": endpoint}
        settings |= {"R2_ACCESS_KEY": "test", "R2_SECRET_KEY": "test", "STORAGE_REDIRECTS": "always"}
        async with world(tmp_path, KODA_WEB_PATH=BUILT, **settings) as koda, looking(browser, koda.url) as page:
            session_id = await begin(page, "A bouncing ball")
            await page.get_by_label("Playful").check()
            await page.get_by_role("button", name="Answer").click()
            await page.get_by_role("button", name="Make this").click()
            await expect(page.get_by_label("The preview")).to_be_visible(timeout=60_000)
            async with page.expect_response(lambda found: found.url.startswith(endpoint)) as loading:
                await page.get_by_role("button", name="Render 1080p").click()
            assert (await loading.value).status in (200, 206)
            link = page.get_by_role("link", name="Download the video")
            async with page.expect_download() as downloading:
                await link.click()
            saved = await downloading.value
            assert saved.suggested_filename == f"{session_id}-final.mp4"
            assert (await saved.path()).stat().st_size == len(VIDEO["final"])


async def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until something has the focus, as somebody without a mouse does."""
    await expect(wanted).to_be_visible(timeout=60_000)
    for _ in range(60):
        if await wanted.evaluate("shown => shown === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    pytest.fail(f"the keyboard does not come to {wanted}")


async def test_the_whole_job_by_keyboard(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await tab_to(page, page.get_by_role("textbox", name="What should move"))
        await page.keyboard.type("A heart that beats")
        await tab_to(page, page.get_by_role("button", name="Make it"))
        await page.keyboard.press("Enter")
        await tab_to(page, page.get_by_label("Or in your own words"))
        await page.keyboard.type("playful")
        await page.keyboard.press("Enter")
        for name in ("Make this", "Render 1080p at 60 fps"):
            await tab_to(page, page.get_by_role("button", name=name))
            await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        async with page.expect_download() as downloading:
            await page.keyboard.press("d")
        assert (await (await downloading.value).path()).stat().st_size > 1000


@pytest.mark.full
async def test_files_go_with_the_prompt_and_one_that_is_not_taken_is_answered_at_its_name(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, koda.url) as page:
        files: list[FilePayload] = [
            {"name": "logo.png", "mimeType": "image/png", "buffer": PNG},
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"not a picture"},
        ]
        await page.locator("input[type=file]").set_input_files(files)
        await expect(page.get_by_role("alert")).to_contain_text("notes.txt is no picture, film or sound")
        await expect(page.get_by_role("button", name="Send notes.txt again")).to_have_count(0)  # it never is one
        await page.get_by_role("button", name="Remove notes.txt").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.get_by_label("Frames per second").select_option("30 fps")
        session_id = await begin(page, "A ball with a logo")
    row = await koda.store.get_session(session_id, user_id="local")
    (asset,) = await koda.store.own_assets("local")
    assert row.state.asset_ids == (asset.id,) and asset.name == "logo.png" and row.state.options.fps == 30


@pytest.mark.full
async def test_what_the_agents_think_is_shown_before_there_is_a_plan(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball to think about")
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        await koda.directory.move(session_id, commands.Think("Reading about balls"))
        await expect(page.get_by_text("Reading about balls").first).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("Reading about balls").first).to_be_visible()


@pytest.mark.full
async def test_where_work_stopped_it_says_what_is_kept_and_goes_on(koda: World, browser: Browser) -> None:
    koda.directory.fails = {"execute": "the animation does not build"}
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball that breaks")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_text("Kept: the plan.")).to_be_visible()
        await axes.on_every_screen(page)
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_role("button", name="Copy: The code and the message").click()
        await expect(page.get_by_text("Copied", exact=True)).to_be_attached()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("RENDER_FAILED: the animation does not build")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        koda.directory.fails = {"render_final": "the page was silent"}
        await page.get_by_role("button", name="Render 1080p").click()
        await expect(page.get_by_role("alert").filter(has_text="the page was silent").first).to_be_visible()
        await axes.on_every_screen(page)


@pytest.mark.full
async def test_a_key_is_typed_once_and_a_wrong_one_is_answered_where_it_was(tmp_path: Path, browser: Browser) -> None:
    async with (
        world(tmp_path, KODA_WEB_PATH=BUILT, KODA_API_KEYS=f"ann={KEY}") as koda,
        looking(browser, koda.url) as page,
    ):
        await page.get_by_label("Key").fill("not the key that it is")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("this key is not known")
        await expect(page.get_by_label("Key")).to_have_value("not the key that it is")
        await page.get_by_label("Key").fill(KEY)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
        await page.reload()
        await begin(page, "A ball")
        await expect(page.get_by_role("button", name="Answer")).to_be_visible()
        readable = "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
        assert await page.evaluate(readable) == "{}{}"
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Key")).to_be_visible()


@pytest.mark.full
async def test_who_signs_in_next_sees_nothing_of_who_was_there(tmp_path: Path, browser: Browser) -> None:
    keys = {"ann": "a" * 32, "bob": "b" * 32}
    named = ",".join(f"{user}={key}" for user, key in keys.items())
    async with (
        world(tmp_path, KODA_WEB_PATH=BUILT, KODA_API_KEYS=named) as koda,
        looking(browser, koda.url) as page,
    ):
        await page.get_by_label("Key").fill(keys["ann"])
        await page.keyboard.press("Enter")
        session_id = await begin(page, "A ball of Ann's")
        await page.get_by_role("link", name="koda", exact=True).click()
        card = page.get_by_role("link", name="A ball of Ann's")
        await expect(card).to_be_visible()
        await page.context.clear_cookies()
        await page.evaluate("path => history.pushState(null, '', path)", f"/s/{session_id}")  # and it is noticed there
        await page.get_by_label("Key").fill(keys["bob"])
        held = asyncio.Event()

        async def later(route: Route) -> None:
            await held.wait()
            await route.continue_()

        await page.route("**/v1/sessions?*", later)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("not there any more")).to_be_visible()
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
        await expect(card).to_have_count(0)
        held.set()
        await expect(page.get_by_role("heading", name="Your animations")).to_be_hidden()
        await expect(card).to_have_count(0)


@pytest.mark.parametrize("lost", ["the connection", "a gateway's"])
@pytest.mark.full
async def test_a_request_whose_answer_was_lost_is_the_same_request(koda: World, browser: Browser, lost: str) -> None:
    prompts: list[str] = []

    async def lose(route: Route) -> None:
        assert (await route.fetch()).status == 202
        await (route.abort() if lost == "the connection" else route.fulfill(status=502))
        prompts.append(json.loads(route.request.post_data or "")["prompt"])

    async with looking(browser, koda.url) as page:
        await page.route("**/v1/sessions", lose)
        for sent, prompt in enumerate(("A ball", "A red ball", "A red ball"), start=1):  # new words are a new request
            await page.get_by_role("textbox", name="What should move").fill(prompt)
            await page.get_by_role("button", name="Make it").click()
            await reached(lambda sent=sent: len(prompts) == sent)
            await expect(page.get_by_role("alert")).to_be_visible()
        await page.unroute("**/v1/sessions")
        session_id = await begin(page, "A red ball")
    rows = await koda.store.list_sessions("local", limit=10)
    assert [row.state.prompt for row in rows] == ["A red ball", "A ball"] and rows[0].id == session_id


@pytest.mark.full
async def test_what_was_typed_is_kept_while_the_server_is_away(tmp_path: Path, browser: Browser) -> None:
    async with world(tmp_path, serve=False, KODA_WEB_PATH=BUILT) as koda:
        port = free_port()
        async with serving(koda.app, port) as url:
            koda.directory.asks = False
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto(url)
            session_id = await begin(page, "A ball")
            await expect(page.get_by_role("button", name="Make this")).to_be_visible()
            await page.get_by_label("What should be different").fill("make it blue")
        await expect(page.get_by_text("The server does not answer just now")).to_be_visible(timeout=60_000)
        koda.deps.draining.clear()
        async with serving(koda.app, port):
            await expect(page.get_by_text("The server does not answer just now")).to_be_hidden(timeout=60_000)
            await page.get_by_role("button", name="Send").click()
            await expect(page.get_by_label("What should be different")).to_have_value("")
            await expect(page.get_by_role("listitem").get_by_text("make it blue")).to_be_visible()
            await context.close()
        assert [
            event.data["content"] for event in await koda.store.said(session_id) if event.data["role"] == "user"
        ] == ["make it blue"]


ASKED: dict[str, JsonValue] = {
    "agent": "orchestrator",
    "name": "edit_file",
    "reason": "a rule says to ask before src/ is changed",
    "proposed": {"path": "src/Ball.tsx", "old": "red", "new": "blue \u202e", "times": 2},
    "shown": "--- src/Ball.tsx\n+++ src/Ball.tsx\n@@ -1,2 +1,2 @@\n-<Ball colour=red />\n+<Ball colour=blue />\n",
}


async def asking(koda: World, page: Page) -> str:
    """Begin a session that comes to wait for agreement; return its id."""
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    session_id = await begin(page, "A ball that asks")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    await koda.directory.ask_agreement(session_id, ASKED)
    await expect(page.get_by_role("heading", name="May koda run edit_file?")).to_be_visible()
    return session_id


@pytest.mark.full
async def test_a_call_that_waits_is_shown_and_agreed_to_by_keyboard(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await asking(koda, page)
        await expect(page.get_by_text("a rule says to ask")).to_be_visible()
        await expect(page.get_by_role("group", name="path")).to_have_text("src/Ball.tsx")
        await expect(page.get_by_role("group", name="new")).to_have_text("blue \\u{202e}")
        await expect(page.get_by_role("group", name="What it would change")).to_contain_text("+<Ball colour=blue />")
        await page.get_by_label("Say something").fill("not too dark")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_label("Say something")).to_have_value("")
        await page.get_by_role("link", name="koda", exact=True).click()
        await page.get_by_text("Waiting for you", exact=True).click()
        await page.get_by_role("link", name="A ball that asks Asks for your agreement").focus()
        await page.keyboard.press("Enter")
        koda.directory.hold.clear()
        await page.get_by_role("button", name="Approve").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
    assert [each.status for each in await koda.store.approvals(session_id)] == ["approved"]


@pytest.mark.full
async def test_a_call_that_waits_is_agreed_to_with_other_arguments(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await asking(koda, page)
        await page.get_by_role("button", name="Change it").click()
        await expect(page.get_by_role("group", name="new")).to_have_text("blue \\u{202e}")  # what hides stays as it was
        await page.get_by_label("times").fill("three")
        await expect(page.get_by_role("alert")).to_have_text("This is no JSON.")
        await axes.on_every_screen(page)
        approve = page.get_by_role("button", name="Approve as changed")
        await expect(approve).to_be_disabled()
        await page.get_by_label("times").fill("3")
        await expect(page.get_by_role("group", name="What it would have changed")).to_be_visible()
        await page.get_by_role("button", name="As it was proposed").click()
        await page.get_by_role("button", name="Change it").click()
        await page.get_by_label("path").fill("src/Cube.tsx")
        koda.directory.hold.clear()
        await approve.click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
    proposed = cast("dict[str, JsonValue]", ASKED["proposed"])
    answers = [each.answer for each in await koda.store.approvals(session_id) if each.kind == "tool_call"]
    assert answers == [{"approved": {**proposed, "path": "src/Cube.tsx"}, "edited": True}]


@pytest.mark.full
async def test_a_call_that_waits_is_refused_and_the_agents_read_why(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await asking(koda, page)
        await koda.directory.ask_agreement(session_id, {**ASKED, "name": "sandbox_exec"})
        await expect(page.get_by_text("1 more waits behind this")).to_be_visible()
        await page.get_by_label("Why not?").fill("red is right")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="May koda run sandbox_exec?")).to_be_visible()
        await expect(page.get_by_label("Why not?")).to_have_value("")
        await page.get_by_role("button", name="Refuse").dblclick()
        await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    answers = [(each.payload["name"], each.answer) for each in await koda.store.approvals(session_id)]
    assert answers == [("edit_file", {"reason": "red is right"}), ("sandbox_exec", {"reason": ""})]


@pytest.mark.full
async def test_what_waits_for_agreement_can_be_stopped(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await asking(koda, page)
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        koda.directory.hold = {"analyze"}
        await page.get_by_role("link", name="koda", exact=True).click()
        await begin(page, "A ball that is stopped at once")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_text("Waiting to begin").first).to_be_attached()
        koda.directory.hold.clear()
        await page.get_by_label("Say something").fill("A cube")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()


@pytest.mark.full
async def test_reading_keeps_nobody_awake(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await expect(page.get_by_role("button", name="Answer")).to_be_visible()
        awake = koda.directory.activations
        await page.reload()
        await expect(page.get_by_role("button", name="Answer")).to_be_visible()
        async with looking(browser, koda.url) as other:
            await expect(other.get_by_role("link", name="A ball")).to_be_visible()
        assert koda.directory.activations == awake
        assert not koda.directory.watchers.get(session_id)


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(koda: World, browser: Browser, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, video in VIDEO.items():
        monkeypatch.setitem(VIDEO, name, video)
    await asyncio.to_thread(have_films)
    for width in axes.WIDTHS:
        async with looking(browser, koda.url) as page:
            await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            await page.set_viewport_size({"width": width, "height": 800})
            await axes.examine(page)
            await begin(page, "A ball")
            await page.get_by_label("Playful").check()
            await axes.examine(page)
            await page.get_by_role("button", name="Answer").click()
            await expect(page.get_by_role("button", name="Make this")).to_be_visible()
            await axes.examine(page)
            await page.get_by_role("button", name="Edit scenes").click()
            await axes.examine(page)
            await page.get_by_role("button", name="Leave it").click()
            await page.get_by_role("heading", name="The plan").click()
            await page.keyboard.press("?")
            await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
            await axes.examine(page)
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="Change the title").click()
            await axes.examine(page)
            await page.get_by_role("button", name="Make this").click()
            point = page.get_by_role("button", name="Point at something", exact=True)
            await expect(page.get_by_role("slider", name="Frame")).to_be_visible(timeout=60_000)
            if not await point.is_visible():
                await page.get_by_role("button", name="More", exact=True).click()
            await point.click()
            await expect(page.get_by_role("application")).to_be_focused()
            await page.keyboard.press("ArrowLeft")
            await page.keyboard.press("Shift+ArrowRight")
            await page.keyboard.press("Shift+ArrowDown")
            await axes.examine(page)
            await page.keyboard.press("Enter")
            await page.keyboard.type("red")
            await page.get_by_role("button", name="Begin here").click()
            await axes.examine(page)
            await page.get_by_role("button", name="Remove note 1").click()
            await page.get_by_role("button", name="Render 1080p").click()
            await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
            await axes.examine(page)
            koda.directory.asks = False
            await page.goto(koda.url)
            await page.get_by_label("Takes").select_option("2 takes")
            await page.get_by_role("textbox", name="What should move").fill("A ball")
            await page.get_by_role("button", name="Make it").click()
            await page.get_by_role("button", name="Make all 2").click()
            await expect(page.get_by_role("button", name="Play all")).to_be_visible()
            await axes.examine(page)
            await page.goto(koda.url)
            await asking(koda, page)
            await expect(page.get_by_role("group", name="What it would change")).to_be_visible()
            await axes.examine(page)
            koda.directory.asks, koda.directory.hold = True, set()
            await page.goto(f"{koda.url}/s/ses_none")
            await expect(page.get_by_text("not there any more")).to_be_visible()
            await axes.examine(page)


@pytest.mark.full
async def test_many_sessions_take_one_connection(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page:
        for number in range(6):
            await begin(page, f"Ball {number}")
            await page.goto(koda.url)
        await expect(page.get_by_role("link", name="Ball 0")).to_be_visible()
        await reached(lambda: koda.app.state.streams.count("local") == 1)
