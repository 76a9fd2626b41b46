"""A session's page outlives a reload, a second tab, its session's sleep and its server's end."""

from __future__ import annotations

import asyncio
import re
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from koda_ray import commands
from koda_ray.config import Settings
from koda_ray.state.keys import video_key
from koda_ray.state.records import Batch
from koda_ray.types import NodeState, RenderOptions, now
from tests.serve.world import World, free_port, serving, world
from tests.web import axes
from tests.web.looking import begin, looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_a_reload_in_the_middle_finds_what_is_done_and_since_when(koda: World, browser: Browser) -> None:
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
        row = await koda.store.get_session(session_id)
        assert row.state.owed_since is not None
        earlier = row.state.owed_since - timedelta(minutes=12)
        await koda.store.commit(row.id, row.epoch, Batch(state=row.state.model_copy(update={"owed_since": earlier})))
        koda.directory.forget(session_id)
        await koda.directory.move(session_id, commands.Think("Writing src/Ball.tsx"))
        await page.reload()
        await expect(page.get_by_text("Writing src/Ball.tsx").first).to_be_visible()
        await expect(page.get_by_text(re.compile(r"^1[2-4]:\d\d$"))).to_be_visible()
        await expect(page.get_by_text("Still at it")).to_have_count(0)  # that was thought just now
        await page.clock.set_fixed_time(now() + timedelta(seconds=30))
        await expect(page.get_by_text("Writing src/Ball.tsx. Still at it.")).to_be_visible()
        await koda.directory.move(session_id, commands.Think("Writing src/Shadow.tsx"))
        await expect(page.get_by_text("Writing src/Shadow.tsx").first).to_be_visible()
        await expect(page.get_by_text("Still at it")).to_have_count(0)


async def test_two_tabs_show_the_same_and_what_both_say_is_said_once(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        other = await page.context.new_page()
        await other.goto(page.url)
        await expect(other.get_by_role("button", name="Make this")).to_be_visible()
        koda.directory.slow_s = 0.5  # so that both are on the way at once
        await asyncio.gather(*(each.get_by_role("button", name="Make this").dblclick() for each in (page, other)))
        for each in (page, other):
            await expect(each.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
            assert await each.get_by_role("alert").all_text_contents() == []
    told = await koda.store.events(session_id)
    began = [each for each in told if each.type == "state_change" and each.data["owes"] == "execute"]
    assert len(began) == 1 and not [each for each in told if each.type == "command_refused"]


async def test_a_session_that_sleeps_says_so_and_wakes_when_it_is_told_something(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        row = await koda.store.get_session(session_id)
        await koda.store.release(session_id, row.epoch)
        koda.directory.forget(session_id)
        await page.reload()
        await expect(page.get_by_text("Asleep, as you left it")).to_be_visible()
        await axes.on_every_screen(page)
        awake = koda.directory.activations
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
        await expect(page.get_by_text("Asleep, as you left it")).to_have_count(0)
        assert koda.directory.activations == awake + 1


async def test_a_server_that_is_cut_off_and_comes_back_has_lost_nothing(tmp_path: Path, browser: Browser) -> None:
    async with world(tmp_path, serve=False, KODA_WEB_PATH=Settings().web_path) as koda:
        port = free_port()
        koda.directory.asks, koda.directory.hold = False, {"execute"}
        async with serving(koda.app, port, graceful_s=0) as url:
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto(url)
            session_id = await begin(page, "A ball")
            await page.get_by_role("button", name="Make this").click()
            await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
        await expect(page.get_by_text("The server does not answer just now")).to_be_visible(timeout=60_000)
        await koda.directory.move(session_id, commands.Think("Meanwhile, a shadow"))
        koda.deps.draining.clear()
        async with serving(koda.app, port):
            await expect(page.get_by_text("Meanwhile, a shadow").first).to_be_visible(timeout=60_000)
            await expect(page.get_by_text("The server does not answer just now")).to_be_hidden()
            koda.directory.hold = set()
            await koda.directory.wake(session_id)
            await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
            await context.close()


async def test_a_title_and_a_pin_are_kept_and_stand_first_in_the_list(koda: World, browser: Browser) -> None:
    koda.directory.hold = {"analyze"}
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball that comes first")
        await page.get_by_role("button", name="Change the title").click()
        await page.keyboard.type("Our ball")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Our ball")).to_be_visible()
        await expect(page.get_by_role("button", name="Change the title")).to_be_focused()
        await page.get_by_role("button", name="Pin it").click()
        await page.get_by_role("link", name="koda", exact=True).click()
        await begin(page, "A ball that comes later")
        await page.get_by_role("link", name="koda", exact=True).click()
        cards = page.get_by_role("link").filter(has_text="Reading the prompt")
        await expect(cards).to_have_text([re.compile("^Our ball"), re.compile("^A ball that comes later")])
        await page.get_by_role("button", name="Pin Our ball").click()
        await expect(cards).to_have_text([re.compile("^A ball that comes later"), re.compile("^Our ball")])
        await cards.last.click()
        await page.get_by_role("button", name="Change the title").click()
        await page.get_by_label("Title").fill("")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="A ball that comes first")).to_be_visible()
    row = await koda.store.get_session(session_id)
    assert (row.title, row.pinned) == (None, False)


async def test_single_keys_do_what_is_listed_until_they_are_switched_off(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await begin(page, "A ball")
        await expect(page.get_by_label("Playful")).to_be_visible()
        await page.keyboard.press("?")
        await page.get_by_label("Single letters and digits are keys").uncheck()
        await page.keyboard.press("Escape")
        await page.keyboard.press("1")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await expect(page.get_by_label("Playful")).not_to_be_checked()
        await page.get_by_role("button", name="Keys").click()
        await page.get_by_label("Single letters and digits are keys").check()
        await page.get_by_role("button", name="Close").click()
        await page.keyboard.press("1")
        await expect(page.get_by_label("Playful")).to_be_checked()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Render 1080p").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        await page.get_by_label("What should be different").press("d")  # here it is a letter
        await expect(page.get_by_label("What should be different")).to_have_value("d")
        await page.get_by_role("heading", name="It is finished").click()
        async with page.expect_download() as downloading:
            await page.keyboard.press("d")
        assert (await downloading.value).suggested_filename.endswith("final.mp4")


async def test_who_the_agents_are_is_said_where_no_model_answers(tmp_path: Path, browser: Browser) -> None:
    said = "No model is connected"
    async with world(tmp_path / "a", KODA_WEB_PATH=Settings().web_path) as koda, looking(browser, koda.url) as page:
        await expect(page.get_by_text(said)).to_be_visible()
        await begin(page, "A ball")
        await expect(page.get_by_text("By the built-in director")).to_be_visible()
    settings = {"KODA_DIRECTOR": "anthropic", "ANTHROPIC_API_KEY": "sk-ant-test"}
    async with (
        world(tmp_path / "b", KODA_WEB_PATH=Settings().web_path, **settings) as koda,
        looking(browser, koda.url) as page,
    ):
        async with page.expect_response("**/v1/capabilities"):
            await page.reload()
        await begin(page, "A ball")
        await expect(page.get_by_label("Playful")).to_be_visible()
        await expect(page.get_by_text("By the built-in director")).to_have_count(0)


async def test_a_video_is_rendered_as_it_is_wanted_again_in_another_size_and_taken_away_with_its_source(
    koda: World, browser: Browser
) -> None:
    koda.directory.asks = False
    async with looking(browser, koda.url) as page:
        session_id = await begin(page, "A ball")
        await page.get_by_role("button", name="Make this").click()
        await page.get_by_label("Size").select_option("720p")
        await page.get_by_label("Frames per second").select_option("30 fps")
        await page.get_by_role("button", name="Render 720p at 30 fps").dblclick()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        await page.get_by_role("button", name="Files", exact=True).click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="All of it as a zip").click()
        await page.keyboard.press("Escape")
        with zipfile.ZipFile(await (await downloading.value).path()) as source:
            assert sorted(source.namelist()) == ["src/scenes/S1.tsx", "src/scenes/Setup.tsx"]
        first = (await koda.store.get_session(session_id)).state.output
        await page.get_by_text("Another size or format").click()
        await page.get_by_label("Format").select_option("webm")
        await page.get_by_role("button", name="Render 720p at 30 fps").click()
        await expect(page.get_by_text("Another size or format")).to_be_visible(timeout=60_000)
        await reached_state(koda, session_id, lambda state: state.output not in (None, first) and state.owes is None)
        state = (await koda.store.get_session(session_id)).state
        assert state.render == RenderOptions(resolution="720p", fps=30, format="webm") and state.output is not None
        await koda.storage.delete(video_key("local", state.output.job_id, "webm"))
        await page.reload()
        await expect(page.get_by_text("This video is not there any more")).to_be_visible()
        await expect(page.get_by_role("heading", name="Its video is not there any more")).to_be_visible()
        await expect(page.get_by_role("link", name="Download the video")).to_have_count(0)
        await axes.on_every_screen(page)
        await page.get_by_role("button", name="Render 720p at 30 fps as webm").click()
        await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=60_000)
        await expect(page.get_by_role("link", name="Download the video")).to_be_visible()


async def reached_state(koda: World, session_id: str, holds: Callable[[NodeState], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds((await koda.store.get_session(session_id)).state):
            await asyncio.sleep(0.02)
