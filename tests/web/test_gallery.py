"""All that somebody has made, on one page: looked for, watched in passing, named, pinned, deleted and had back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from koda_ray.client import KodaClient
from koda_ray.errors import NotFound
from koda_ray.state.records import SessionLabel
from tests.serve.scripted import VIDEO
from tests.serve.world import World, reached
from tests.web import axes
from tests.web.looking import looking
from tests.web.test_film_page import counting

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

PLAYS = """() => [...document.querySelectorAll('video')].filter(
    (each) => each.muted && !each.paused && each.currentTime > 0
).map((each) => each.closest('li').dataset.session)"""
NEVER_SEEN = "window.IntersectionObserver = class { observe() {} disconnect() {} };"


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    koda.directory.asks = False
    async with KodaClient(koda.url) as found:
        yield found


async def waiting(koda: World, client: KodaClient, *prompts: str) -> list[str]:
    """Make sessions whose agents have not begun; return their ids."""
    koda.directory.hold = {"analyze"}
    return [(await client.create(prompt)).session_id for prompt in prompts]


async def seen(koda: World, client: KodaClient, *prompts: str) -> list[str]:
    """Make sessions that show a preview; return their ids."""
    koda.directory.hold = set()
    made = [(await client.create(prompt)).session_id for prompt in prompts]
    for session_id in made:
        await _reaches(client, session_id, "plan")
        await client.accept(session_id)
        await _reaches(client, session_id, "preview")
    return made


async def _reaches(client: KodaClient, session_id: str, phase: str) -> None:
    async with asyncio.timeout(60):
        while (await client.session(session_id)).state.phase != phase:
            await asyncio.sleep(0.02)


def card(page: Page, name: str) -> Locator:
    """The link of a card."""
    return page.get_by_role("link", name=re.compile(rf"^{re.escape(name)} "))


async def plays(page: Page, *session_ids: str) -> None:
    """Wait until the videos of these sessions play, and no others."""
    async with asyncio.timeout(60):
        while await page.evaluate(PLAYS) != [*session_ids]:
            await asyncio.sleep(0.02)


@pytest.fixture
async def videos(koda: World, client: KodaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two sessions with a preview that plays."""
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(counting, tmp_path / "counting.webm"))
    ball, cube = await seen(koda, client, "A ball", "A cube")
    return ball, cube


@pytest.mark.needs("ffmpeg")
async def test_a_video_plays_while_one_stays_at_it_and_only_one_does(
    koda: World, browser: Browser, videos: tuple[str, str]
) -> None:
    ball, cube = videos
    awake = koda.directory.activations
    async with looking(browser, koda.url) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/video" in request.url else None)
        await expect(card(page, "A ball")).to_be_visible()
        await card(page, "A ball").hover()
        await plays(page, ball)
        await card(page, "A cube").hover()
        await plays(page, cube)
        await page.get_by_role("button", name="Pause A cube").click()
        await plays(page)
        await page.get_by_role("button", name="Play A cube").click()
        await plays(page, cube)
        await page.get_by_role("heading", name="Your animations").hover()
        await plays(page)
        await page.get_by_role("button", name="Choose among them").focus()
        await page.keyboard.press("Tab")
        await expect(card(page, "A cube")).to_be_focused()
        await plays(page, cube)
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Pause A cube")).to_be_focused()
        await page.keyboard.press("Enter")
        await plays(page)
        await card(page, "A ball").focus()
        await plays(page, ball)
        await page.keyboard.press("Escape")
        await plays(page)
        assert all(ball in url or cube in url for url in asked)
    assert koda.directory.activations == awake


@pytest.mark.needs("ffmpeg")
async def test_where_motion_is_not_wanted_a_video_plays_by_hand_alone(
    koda: World, browser: Browser, videos: tuple[str, str]
) -> None:
    ball, _ = videos
    async with looking(browser, koda.url) as page:
        await page.emulate_media(reduced_motion="reduce")
        await page.clock.install()
        await expect(card(page, "A ball")).to_be_visible()
        await card(page, "A ball").hover()
        await page.clock.run_for(10_000)
        await expect(page.locator("video")).to_have_count(0)
        await page.get_by_role("button", name="Play A ball").click()
        await plays(page, ball)


@pytest.mark.needs("ffmpeg")
async def test_on_a_screen_that_is_touched_it_plays_where_its_button_is_touched(
    koda: World, browser: Browser, videos: tuple[str, str]
) -> None:
    ball, cube = videos
    context = await browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page = await context.new_page()
    page.set_default_timeout(60_000)
    await page.goto(koda.url)
    play = page.get_by_role("button", name="Play A ball")
    await expect(play).to_have_css("opacity", "1")
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    await play.tap()
    await plays(page, ball)
    await page.get_by_role("button", name="Play A cube").tap()
    await plays(page, cube)
    await page.get_by_role("button", name="Pause A cube").tap()
    await plays(page)
    await context.close()


async def test_what_is_looked_for_stands_in_the_address_and_a_reload_keeps_it(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    await seen(koda, client, "A red ball", "A blue ball")
    await waiting(koda, client, "A red cube")
    async with looking(browser, koda.url) as page:
        cards = page.get_by_role("list", name="Your animations").get_by_role("listitem")
        await expect(cards).to_have_count(3)
        await page.get_by_role("searchbox", name="Search").press_sequentially("red ")
        await expect(cards).to_have_count(2)
        await expect(page).to_have_url(re.compile(r"\?q=red$"))
        await expect(page.get_by_role("searchbox", name="Search")).to_have_value("red ")  # what is typed stays so
        await page.get_by_role("radio", name="All").focus()
        await page.keyboard.press("ArrowRight")
        await expect(cards).to_have_count(1)
        await expect(page).to_have_url(re.compile(r"\?q=red&show=waiting$"))
        await expect(page.get_by_text("One animation", exact=True)).to_be_attached()
        await page.reload()
        await expect(cards).to_have_count(1)
        await expect(page.get_by_role("searchbox", name="Search")).to_have_value("red")
        await expect(page.get_by_role("radio", name="Waiting for you")).to_be_checked()
        await page.get_by_role("searchbox", name="Search").fill("no such thing")
        said = page.get_by_text(
            "Nothing has “no such thing” in its title, prompt or scenes among what is waiting for you."
        )
        await expect(said).to_be_visible()
        await page.get_by_role("button", name="Clear the search").click()
        await expect(cards).to_have_count(2)
        await page.get_by_text("Stopped", exact=True).click()
        await expect(page.get_by_text("Nothing is stopped just now.")).to_be_visible()
        await page.get_by_role("button", name="Show all").click()
        await expect(cards).to_have_count(3)
        await expect(page).to_have_url(re.compile(r"/\??$"))
        await page.go_back()
        await expect(page.get_by_text("Nothing is stopped just now.")).to_be_visible()
        await page.get_by_role("link", name="koda", exact=True).click()
        await expect(cards).to_have_count(3)


async def test_pinned_ones_are_first_and_then_what_changed_last(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    first, second, _ = await waiting(koda, client, "First", "Second", "Third")
    await client.cancel(first)
    async with looking(browser, koda.url) as page:
        cards = page.get_by_role("list", name="Your animations").get_by_role("link")
        await expect(cards).to_have_text([re.compile(f"^{name}") for name in ("First", "Third", "Second")])
        await page.get_by_role("button", name="Pin Second").focus()
        await page.keyboard.press("Enter")
        await expect(cards).to_have_text([re.compile(f"^{name}") for name in ("Second", "First", "Third")])
        await expect(page.get_by_role("button", name="Pin Second", pressed=True)).to_be_focused()
    assert (await client.session(second)).pinned


async def test_more_comes_as_one_comes_to_the_end_or_asks_for_it(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    await waiting(koda, client, *(f"Ball {number}" for number in range(30)))
    async with looking(browser, koda.url) as page:
        cards = page.get_by_role("list", name="Your animations").get_by_role("listitem")
        await page.set_viewport_size({"width": 390, "height": 500})
        await page.reload()
        await expect(cards).to_have_count(24)
        await card(page, "Ball 6").focus()
        await expect(cards).to_have_count(30)
        await expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    async with looking(browser, koda.url) as page:
        await page.add_init_script(NEVER_SEEN)
        await page.reload()
        await page.get_by_role("button", name="Show more").focus()
        await page.keyboard.press("Enter")
        await expect(cards_of(page)).to_have_count(30)


def cards_of(page: Page) -> Locator:
    """All cards that are shown."""
    return page.get_by_role("list", name="Your animations").get_by_role("listitem")


async def test_a_title_is_changed_in_place_and_a_refusal_is_answered_there(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    (session_id,) = await waiting(koda, client, "A ball")
    async with looking(browser, koda.url) as page:
        await card(page, "A ball").focus()
        await page.keyboard.press("F2")
        await page.keyboard.type("Our ball")

        async def refuse(route: Route) -> None:
            problem = {"status": 422, "code": "INVALID_INPUT", "detail": "balls have no names"}
            await route.fulfill(status=422, content_type="application/problem+json", body=json.dumps(problem))

        await page.route(f"**/v1/sessions/{session_id}", refuse)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("balls have no names")
        await expect(page.get_by_label("Title")).to_have_value("Our ball")
        await page.unroute(f"**/v1/sessions/{session_id}")
        await page.get_by_label("Title").press("Enter")
        await expect(card(page, "Our ball")).to_be_visible()
        await expect(page.get_by_role("button", name="Rename Our ball")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.type("never")
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Rename Our ball").click()
        await page.get_by_label("Title").fill("")
        await page.get_by_role("button", name="Save").click()
        await expect(card(page, "A ball")).to_be_visible()
    assert (await client.session(session_id)).title is None


async def test_what_is_deleted_is_gone_at_once_and_comes_back_by_mouse(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    ball, _ = await waiting(koda, client, "A ball", "A cube")
    async with looking(browser, koda.url) as page:
        arrived, held = asyncio.Event(), asyncio.Event()

        async def late(route: Route) -> None:
            arrived.set()
            await held.wait()
            await route.continue_()

        await page.route(f"**/v1/sessions/{ball}?*", late)
        await card(page, "A ball").hover()
        await page.get_by_role("button", name="Delete A ball").click()
        await arrived.wait()
        await expect(card(page, "A ball")).to_have_count(0)
        await expect(card(page, "A cube")).to_be_focused()
        await page.get_by_role("button", name="Undo").click()  # before the server has heard of it
        held.set()
        await expect(card(page, "A ball")).to_be_visible()
        await expect(page.get_by_text("It is back: A ball")).to_be_attached()
        assert (await koda.store.get_session(ball)).delete_at is None
        await page.get_by_role("button", name="Delete A ball").dispatch_event("click", {"detail": 1})
        await reached(lambda: not koda.directory.works_on(ball))
        await page.goto(f"{koda.url}/s/{ball}")
        await expect(page.get_by_text("not there any more")).to_be_visible()
        with pytest.raises(NotFound):
            await client.session(ball)
        await page.reload()  # with which the page knows of no deletion: the server does
        await page.get_by_role("link", name="To all sessions").click()
        await expect(card(page, "A cube")).to_be_visible()
        await expect(card(page, "A ball")).to_have_count(0)
    assert (await koda.store.get_session(ball)).delete_at is not None
    await client.restore(ball)


async def test_by_keyboard_one_deletes_and_has_it_back_and_is_where_one_was(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    ball, cube, _ = await waiting(koda, client, "A ball", "A cube", "A cone")
    async with looking(browser, koda.url) as page:
        await card(page, "A cube").focus()
        await page.keyboard.press("Delete")
        await expect(card(page, "A cube")).to_have_count(0)
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await expect(page.get_by_text("Deleted: A cube. To undo it")).to_be_attached()
        await page.keyboard.press("Enter")
        await expect(card(page, "A cube")).to_be_focused()
        await expect(page.get_by_role("button", name="Undo")).to_have_count(0)
        await page.keyboard.press("Delete")
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(card(page, "A ball")).to_be_focused()
        await expect(page.get_by_role("region", name="Deleted")).to_be_hidden()
        await page.get_by_role("button", name="Delete A ball").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await card(page, "A cone").focus()
        await page.keyboard.press("Control+z")
        await expect(card(page, "A ball")).to_be_visible()
    assert (await koda.store.get_session(ball)).delete_at is None
    assert (await koda.store.get_session(cube)).delete_at is not None


async def test_the_way_back_stays_while_one_is_at_it(koda: World, client: KodaClient, browser: Browser) -> None:
    await waiting(koda, client, "A ball", "A cube", "A cone")
    async with looking(browser, koda.url) as page:
        undo = page.get_by_role("button", name="Undo")
        await page.clock.install()
        await card(page, "A cube").focus()
        await page.keyboard.press("Delete")
        await expect(undo).to_be_focused()
        await page.clock.run_for(120_000)
        await expect(undo).to_be_visible()
        await card(page, "A ball").focus()
        await page.clock.run_for(20_000)
        await expect(undo).to_have_count(0)
        await page.get_by_role("button", name="Delete A ball").click()
        await expect(undo).to_be_visible()
        await page.clock.run_for(10_000)
        await expect(undo).to_be_visible()
        await undo.hover()
        await page.clock.run_for(120_000)
        await expect(undo).to_be_visible()
        await page.get_by_role("heading", name="Your animations").hover()
        await page.clock.run_for(20_000)
        await expect(undo).to_have_count(0)


async def test_what_the_server_does_not_delete_is_there_again_with_its_words(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    (ball,) = await waiting(koda, client, "A ball")

    async def refuse(route: Route) -> None:
        problem = {"status": 503, "code": "UNAVAILABLE", "detail": "come back later"}
        await route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))

    async with looking(browser, koda.url) as page:
        await page.route(f"**/v1/sessions/{ball}?*", refuse)
        await card(page, "A ball").focus()
        await page.keyboard.press("Delete")
        await expect(page.get_by_role("alert")).to_have_text("“A ball” was not deleted. come back later")
        await expect(card(page, "A ball")).to_be_visible()
        await page.get_by_role("button", name="Leave it: A ball").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
    assert (await koda.store.get_session(ball)).delete_at is None


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_in_the_gallery(
    koda: World, client: KodaClient, browser: Browser, videos: tuple[str, str], scheme: str
) -> None:
    await koda.store.label_session(videos[0], user_id="local", label=SessionLabel(pinned=True))
    (cone,) = await waiting(koda, client, "A cone")
    for width in axes.WIDTHS:
        async with looking(browser, koda.url) as page:
            await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            await page.set_viewport_size({"width": width, "height": 800})
            await card(page, "A ball").hover()
            await plays(page, videos[0])
            await axes.examine(page)
            await page.get_by_role("button", name="Rename A cube").focus()
            await page.keyboard.press("Enter")
            await expect(page.get_by_label("Title")).to_be_focused()
            await axes.examine(page)
            await page.keyboard.press("Escape")
            await card(page, "A cone").focus()
            await page.keyboard.press("Delete")
            await expect(page.get_by_role("button", name="Undo")).to_be_focused()
            await axes.examine(page)
            await page.keyboard.press("Enter")
            await expect(card(page, "A cone")).to_be_focused()
            await page.get_by_text("Stopped", exact=True).click()
            await expect(page.get_by_text("Nothing is stopped just now.")).to_be_visible()
            await axes.examine(page)
    assert (await koda.store.get_session(cone)).delete_at is None
