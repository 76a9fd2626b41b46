"""A canvas of connected nodes: words, styles, files and animations, by pointer and by keys."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from tests.serve.scripted import VIDEO
from tests.serve.test_assets import film as film_of
from tests.serve.world import World, world
from tests.web.axes import SCHEMES, examine, on_every_screen
from tests.web.looking import looking
from tests.web.test_assets_page import GIVEN, file, given, picture
from tests.web.test_queue import tabbed_to

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]

DROPPED = GIVEN.replace("document.body.dispatchEvent(new DragEvent", "at.dispatchEvent(new DragEvent").replace(
    "([what, name, type, data]) =>", "(at, [what, name, type, data]) =>"
)


async def wide(page: Page) -> None:
    """Give a page room for a plane on which nothing is on its way."""
    await page.emulate_media(reduced_motion="reduce")
    await page.set_viewport_size({"width": 1440, "height": 900})


def node(page: Page, name: str) -> Locator:
    """Find a node of the plane by what it is called."""
    return page.locator(".react-flow__node").and_(page.get_by_role("group", name=name, exact=True))


def edges(page: Page) -> Locator:
    return page.locator(".react-flow__edge")


async def drawn(page: Page, source: Locator, out: str, target: Locator, into: str) -> None:
    """Draw an edge by mouse, from one node's socket to another's."""
    ends: list[tuple[float, float]] = []
    for end, side, name in ((source, "Gives", out), (target, "Takes", into)):
        socket = end.get_by_role("list", name=side).get_by_role("listitem").filter(has_text=name)
        box = await socket.locator(".koda-socket").bounding_box()
        assert box is not None
        ends.append((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
    (x, y), (to_x, to_y) = ends
    await page.mouse.move(x, y)
    await page.mouse.down()
    await page.mouse.move((x + to_x) / 2, (y + to_y) / 2, steps=4)
    await page.mouse.move(to_x, to_y, steps=4)
    await page.mouse.up()


async def finished(begun: Locator, film: Locator) -> None:
    """Have an animation made to its video, in its node, which is called otherwise once it is begun."""
    await begun.get_by_role("button", name="Make it").press("Enter")  # wherever on the plane it is
    await film.get_by_role("button", name="Make this").press("Enter")
    await film.get_by_role("button", name="Render 1080p at 60 fps").press("Enter")
    await expect(film.get_by_label("The finished video")).to_be_visible()


async def alone(page: Page) -> None:
    """Have the server answer nothing about canvases: there is what the browser has."""

    async def away(route: Route) -> None:
        await route.abort()

    await page.route("**/v1/canvases**", away)


async def kept(page: Page) -> dict[str, str]:
    """Return what the browser keeps of canvases, once it is written."""
    found = await page.evaluate("Object.entries(localStorage).filter(([key]) => key.startsWith('koda.canvas/'))")
    return dict(found)


async def begun(page: Page, words: str = "A ball that bounces") -> None:
    """Put words and a style on an empty canvas, connected to an animation."""
    await page.get_by_role("button", name="Begin with words and a style").click()
    await expect(edges(page)).to_have_count(2)
    await page.get_by_role("textbox", name="What should move").fill(words)
    await page.get_by_role("radio", name="Playful").check()


async def test_what_is_wrong_in_a_node_is_said_where_it_was_typed(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/c/") as page:
        await wide(page)
        await page.get_by_role("button", name="Add: Animation").click()
        film = node(page, "Animation Generator")
        prompt, length = film.get_by_role("textbox", name="What should move"), film.get_by_label("Length, s")
        await prompt.fill("A ball")
        await film.get_by_text("Length, shape, size").click()
        await length.fill("301")
        await film.get_by_text("301 s").click()
        await expect(length).to_be_hidden()
        await film.get_by_role("button", name="Make it").click()
        await expect(length).to_be_focused()
        await expect(length).to_have_accessible_description("at most 300, not 301")
        await expect(film.locator("[aria-invalid=true]")).to_have_count(1)
        await expect(prompt).to_have_value("A ball")
        await length.fill("5")
        await expect(film.get_by_role("alert")).to_have_count(0)
        await film.get_by_role("button", name="Make it").click()
        await expect(node(page, "A ball")).to_be_visible()
    (row,) = await koda.store.list_sessions("local")
    assert row.state.options.duration == 5


async def test_words_and_a_style_become_a_video_and_a_reload_keeps_everything(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await wide(page)
        await page.get_by_role("navigation", name="Places").get_by_role("link", name="Canvas").click()
        await page.wait_for_url("**/c/*")
        for kind in ("Prompt", "Style", "Animation"):
            await page.get_by_role("button", name=f"Add: {kind}").click()
            await page.mouse.click(20, 500)  # nothing is chosen, so nothing is connected by itself
            await page.get_by_role("button", name="See all of it").click()
        await expect(edges(page)).to_have_count(0)
        film = node(page, "Animation Generator")
        await drawn(page, node(page, "Prompt"), "Words", film, "Prompt")
        await drawn(page, node(page, "Style"), "Style", film, "Style")
        await expect(edges(page)).to_have_count(2)
        await drawn(page, node(page, "Style"), "Style", film, "Assets")  # which takes no words
        await expect(edges(page)).to_have_count(2)
        await expect(film.get_by_role("button", name="Make it")).to_be_disabled()
        await node(page, "Prompt").get_by_role("textbox").fill("A ball\nthat bounces")
        await page.get_by_role("radio", name="Playful").check()
        await expect(film).to_contain_text("Style: playful")
        await finished(film, node(page, "A ball"))
        (row,) = (await koda.store.list_sessions("local"))[:1]
        assert (row.state.prompt, row.state.style) == ("A ball\nthat bounces", "playful")
        await node(page, "A ball").get_by_text("Finished", exact=True).click()
        before = await page.locator(".react-flow__node").evaluate_all("all => all.map(each => each.style.transform)")
        where, seen = page.url, await page.locator(".react-flow__viewport").get_attribute("style")
        await page.reload()
        assert page.url == where
        await expect(node(page, "A ball").get_by_label("The finished video")).to_be_visible()
        await expect(edges(page)).to_have_count(2)
        await expect(node(page, "Prompt: A ball that bounces").get_by_role("textbox")).to_have_value(
            "A ball\nthat bounces"
        )
        await expect(page.get_by_role("radio", name="Playful")).to_be_checked()
        after = await page.locator(".react-flow__node").evaluate_all("all => all.map(each => each.style.transform)")
        assert after == before
        assert await page.locator(".react-flow__viewport").get_attribute("style") == seen
        await page.goto(f"{koda.url}/c")
        await page.wait_for_url(where)


async def test_what_is_finished_goes_into_the_next_one(
    koda: World, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await asyncio.to_thread(film_of, "mp4", tmp_path)
    for kind in ("preview", "final"):
        monkeypatch.setitem(VIDEO, kind, made)
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await begun(page, "A ball")
        await finished(node(page, "Animation Generator"), node(page, "A ball"))
        await node(page, "A ball").get_by_text("Finished", exact=True).click()
        await page.get_by_role("button", name="Go on with it: A ball").click()
        after = node(page, "Animation Generator")
        await expect(after).to_be_focused()
        await expect(after.get_by_role("list", name="What goes along")).to_contain_text("The film itself goes along")
        await after.get_by_role("textbox", name="What should move").fill("The same ball, at night")
        await after.get_by_role("button", name="Make it").click()
        await expect(node(page, "The same ball, at night").get_by_role("button", name="Answer")).to_be_visible()
    rows = {row.state.prompt: row for row in await koda.store.list_sessions("local")}
    second = (await koda.store.get_session(rows["The same ball, at night"].id, user_id="local")).state
    (asset,) = await koda.store.own_assets("local")
    assert second.asset_ids == (asset.id,) and asset.media_type == "video/mp4"
    first = rows["A ball"]
    assert asset.name == f"{first.id}.mp4" and asset.session_id == rows["The same ball, at night"].id


async def test_the_keyboard_alone_adds_moves_connects_removes_and_undoes(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        press = page.keyboard.press
        await tabbed_to(page, page.get_by_role("button", name="Add: Animation"))
        await press("Enter")
        film, words = node(page, "Animation Generator"), node(page, "Prompt")
        await expect(film).to_be_focused()
        await page.get_by_role("button", name="Add: Prompt").focus()
        await press("Enter")
        await expect(words).to_be_focused()  # beside what was chosen, and connected to it
        await expect(edges(page)).to_have_count(1)
        box = await words.bounding_box()
        for _ in range(4):
            await press("ArrowUp")
        await expect(page.get_by_text("Moved selected node up")).to_be_attached()
        moved = await words.bounding_box()
        assert box is not None and moved is not None and (moved["x"], moved["y"]) == (box["x"], box["y"] - 20)
        await press("Control+z")
        await expect(page.get_by_role("status").filter(has_text="Undone")).to_be_attached()
        assert await words.bounding_box() == box
        await press("c")
        dialog = page.get_by_role("dialog", name="Connect Prompt")
        choice = dialog.get_by_role("checkbox", name="Prompt of Animation Generator")
        await expect(choice).to_be_checked()
        await tabbed_to(page, choice)
        await press("Space")
        await expect(edges(page)).to_have_count(0)
        await expect(choice).to_be_focused()
        await press("Space")
        await expect(edges(page)).to_have_count(1)
        await press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(words).to_be_focused()
        await tabbed_to(page, words.get_by_role("textbox"))
        await page.keyboard.type("A heart")
        await press("Delete")  # of what is typed
        await press("Backspace")
        await expect(node(page, "Prompt: A hear")).to_have_count(1)
        await press("Escape")
        await expect(node(page, "Prompt: A hear")).to_be_focused()
        await press("Delete")
        await expect(page.get_by_role("status").filter(has_text="Removed: Prompt: A hear")).to_be_attached()
        await expect(edges(page)).to_have_count(0)
        await expect(film).to_be_focused()
        await press("Control+z")
        await expect(edges(page)).to_have_count(1)
        await expect(node(page, "Prompt: A hear").get_by_role("textbox")).to_have_value("A hear")
        await press("Control+Shift+z")
        await expect(edges(page)).to_have_count(0)
        await press("Control+z")
        await tabbed_to(page, film)
        await press("Enter")
        await tabbed_to(page, film.get_by_role("button", name="Make it"))
        await press("Enter")
        await expect(page.get_by_role("button", name="Answer")).to_be_visible()


async def test_the_keyboard_alone_draws_an_edge_from_socket_to_socket_and_makes_a_node_wider(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        press = page.keyboard.press
        for kind in ("Prompt", "Animation"):
            await page.get_by_role("button", name=f"Add: {kind}").click()
            await page.mouse.click(20, 500)  # nothing is chosen, so nothing is connected by itself
        await page.get_by_role("button", name="See all of it").click()
        film, words = node(page, "Animation Generator"), node(page, "Prompt")
        await expect(page.get_by_role("button", name="Connect Words")).to_have_count(0)  # no way through for Tab
        await words.focus()
        await press("Enter")
        await tabbed_to(page, words.get_by_role("button", name="Connect Words"))
        await press("Enter")
        await expect(page.get_by_text("Words: go to another node's socket")).to_be_attached()
        await tabbed_to(page, film.get_by_role("button", name="Connect to Assets"))
        await press("Enter")
        await expect(page.get_by_text("These two do not go together")).to_be_attached()
        await expect(edges(page)).to_have_count(0)
        await words.get_by_role("button", name="Connect Words").focus()
        await press("Enter")
        await press("Escape")
        await expect(film.get_by_role("button", name="Connect to Prompt")).to_have_count(0)
        await press("Enter")
        await tabbed_to(page, film.get_by_role("button", name="Connect to Prompt"))
        await press("Enter")
        await expect(edges(page)).to_have_count(1)
        await expect(page.get_by_text("Connected", exact=True)).to_be_attached()
        await film.focus()
        await press("Enter")
        width = film.get_by_role("separator", name="Width of Animation Generator")
        await tabbed_to(page, width)
        place = "each => each.style.transform"
        before, stood = int(str(await width.get_attribute("aria-valuenow"))), await film.evaluate(place)
        await press("ArrowRight")
        await press("Shift+ArrowRight")
        await expect(width).to_have_attribute("aria-valuenow", str(before + 120))
        assert await film.evaluate(place) == stood
        await examine(page)
        await kept(page)
        await page.reload()
        await film.focus()
        await press("Enter")
        await expect(width).to_have_attribute("aria-valuenow", str(before + 120))


async def test_removing_a_node_removes_no_session_and_an_edge_goes_alone(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await begun(page, "A ball")
        await node(page, "Animation Generator").get_by_role("button", name="Make it").click()
        film = node(page, "A ball")
        await expect(film.get_by_role("button", name="Make this")).to_be_visible()
        await page.get_by_role("group", name="Words of Prompt: A ball, into Prompt of A ball").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Delete")
        await expect(edges(page)).to_have_count(1)
        await expect(page.get_by_role("status").filter(has_text="Removed: a connection")).to_be_attached()
        await page.get_by_role("button", name="Undo").click()
        await expect(edges(page)).to_have_count(2)
        await film.get_by_text("Plan to look at", exact=True).click()
        await page.get_by_role("button", name="Remove A ball").click()
        await expect(film).to_have_count(0)
        (row,) = await koda.store.list_sessions("local")
        await page.get_by_role("button", name="Undo").click()
        await expect(film.get_by_role("button", name="Make this")).to_be_visible()
        await film.get_by_role("link", name="Open A ball in the studio").click()
        await page.wait_for_url(f"**/s/{row.id}")
        await page.go_back()
        await expect(film.get_by_role("button", name="Make this")).to_be_visible()
        async with KodaClient(koda.url) as client:
            await client.delete(row.id)
        await expect(node(page, "A ball")).to_contain_text("This animation is not there any more.")


async def test_files_come_by_button_drop_and_paste_and_one_that_no_session_has_goes_as_it_is(
    koda: World, browser: Browser
) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await page.get_by_role("button", name="Add: File").click()
        chosen = page.locator(".react-flow__node input[type=file]")
        await chosen.set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"not a picture"})
        await expect(page.get_by_role("alert")).to_contain_text("notes.txt is no picture, film or sound")
        await page.get_by_role("button", name="Forget notes.txt").click()
        await chosen.set_input_files(file("logo.png", picture()))
        logo = node(page, "logo.png").locator("img")
        assert await logo.evaluate("each => each.decode().then(() => each.naturalWidth)") == 64
        await page.mouse.click(20, 500)
        await page.get_by_role("button", name="Add: Animation").click()
        film = node(page, "Animation Generator")
        data = ["drop", "dropped.png", "image/png", base64.b64encode(picture("gold")).decode()]
        await film.evaluate(DROPPED, data)
        await expect(node(page, "dropped.png").locator("img")).to_be_visible()
        await expect(edges(page)).to_have_count(1)
        await page.mouse.click(20, 500)
        await given(page, "paste", "pasted.png", picture("teal"))
        await expect(node(page, "pasted.png").locator("img")).to_be_visible()
        await expect(edges(page)).to_have_count(1)
        await film.get_by_role("textbox", name="What should move").fill("A gold ball")
        await film.get_by_role("button", name="Make it").click()
        await expect(node(page, "A gold ball").get_by_role("button", name="Answer")).to_be_visible()
        assets = {asset.name: asset for asset in await koda.store.own_assets("local")}
        (row,) = await koda.store.list_sessions("local")
        assert len(assets) == 3 and assets["dropped.png"].session_id == row.id
        await page.reload()
        await expect(page.locator(".react-flow__node img")).to_have_count(3)
        async with KodaClient(koda.url) as client:
            await client.delete(row.id)
        async with asyncio.timeout(60):
            while len(await koda.store.own_assets("local")) == 3:
                await asyncio.sleep(0.01)
        await page.reload()
        await expect(page.get_by_text("dropped.png is not there any more.")).to_be_visible()


async def test_on_a_narrow_screen_it_is_a_list_in_the_order_of_its_edges(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        cards = page.get_by_role("list", name="Nodes of the canvas").locator("> li")
        await page.get_by_role("button", name="Begin with words and a style").click()
        await expect(cards).to_have_count(3)
        await page.get_by_role("button", name="Undo").click()
        await expect(cards).to_have_count(0)
        await page.get_by_role("button", name="Redo").click()
        await expect(cards).to_have_count(3)
        await cards.nth(0).get_by_role("textbox", name="What should move").fill("A ball")
        await cards.nth(1).get_by_role("radio", name="Smooth").check()
        await expect(cards.nth(2)).to_contain_text("Made with Prompt: A ball · Style: smooth")
        await finished(cards.nth(2), cards.nth(2))
        await cards.nth(2).get_by_role("button", name="Go on with it: A ball").click()
        await expect(cards.nth(3)).to_be_focused()
        await expect(cards.nth(3)).to_contain_text("The film itself goes along")
        await page.get_by_role("button", name="Add: Prompt").click()
        added = page.get_by_role("listitem", name="Prompt", exact=True)
        await expect(added).to_be_focused()
        await added.get_by_role("button", name="Connect to…: Prompt").click()
        choice = page.get_by_role("checkbox", name="Prompt of Animation Generator")
        await expect(choice).not_to_be_checked()
        await choice.check()
        await page.keyboard.press("Escape")
        await added.get_by_role("textbox").fill("At night")
        await expect(cards.last).to_contain_text("At night")
        await cards.last.get_by_role("button", name="Remove Animation Generator").click()
        await expect(cards).to_have_count(4)
        await page.get_by_role("button", name="Undo").click()
        await expect(cards).to_have_count(5)
        await wide(page)
        await expect(page.locator(".react-flow__node")).to_have_count(5)
        await expect(edges(page)).to_have_count(4)
        places = await page.locator(".react-flow__node").evaluate_all("all => all.map(each => each.style.transform)")
        assert len(set(places)) == 5


async def test_what_cannot_be_read_is_an_empty_canvas_and_a_word(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        await alone(page)
        await page.goto(f"{koda.url}/c")
        await begun(page)
        await expect(page.get_by_role("radio", name="Playful")).to_be_checked()
        where = page.url
        await page.goto(f"{koda.url}/renders")
        (whole,) = (await kept(page)).items()
        key, text = whole
        for broken in ("{", '{"version": 0, "nodes": []}', json.dumps({"version": 1, "nodes": [{"id": 5}]})):
            await page.evaluate("([key, text]) => localStorage.setItem(key, text)", [key, broken])
            await page.goto(where)
            await expect(page.get_by_role("alert")).to_contain_text("could not be read, so it is empty")
            await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
        layout = json.loads(text)
        layout["nodes"][0]["position"] = {"x": "far"}
        layout["nodes"].append({"id": "n", "position": {"x": 0, "y": 600}, "data": {"plugin": "storyboard", "of": 3}})
        await page.evaluate("([key, text]) => localStorage.setItem(key, text)", [key, json.dumps(layout)])
        await page.goto(where)
        await expect(page.get_by_role("alert")).to_contain_text("Part of what was kept")
        await page.get_by_role("alert").get_by_role("button", name="Close").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(edges(page)).to_have_count(1)
        await expect(page.get_by_text("This page knows no such node.")).to_be_visible()
        await page.goto(f"{koda.url}/c/elsewhere")
        await expect(page.get_by_role("alert")).to_contain_text("was never open in this browser")
        await page.unroute("**/v1/canvases**")
        await expect(page.get_by_role("heading", name="There is no such canvas here.")).to_be_visible()
        await page.get_by_role("link", name="To your canvas").click()
        await page.wait_for_url(where)


async def test_canvases_are_begun_named_and_deleted(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await begun(page)
        first = page.url
        listed = page.get_by_role("dialog", name="Canvases")
        await page.get_by_role("button", name="Canvas", exact=True).click()
        await listed.get_by_role("button", name="Rename Canvas").click()
        await listed.get_by_role("textbox", name="Name").fill("Spring")
        await page.keyboard.press("Enter")
        await expect(listed.get_by_role("link", name="Spring")).to_have_attribute("aria-current", "page")
        await expect(listed.get_by_role("button", name="Rename Spring")).to_be_focused()
        await listed.get_by_role("button", name="New canvas").click()
        await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
        second = page.url
        assert second != first
        await page.get_by_role("button", name="Add: Prompt").click()
        await page.get_by_role("button", name="Canvas", exact=True).click()
        await listed.get_by_role("button", name="Delete Canvas").click()
        await listed.get_by_role("button", name="Keep it").click()
        await expect(listed.get_by_role("button", name="Delete Canvas")).to_be_focused()
        await listed.get_by_role("button", name="Delete Canvas").click()
        await listed.get_by_role("button", name="Delete it").click()
        await page.wait_for_url(first)
        await expect(edges(page)).to_have_count(2)
        await expect(page.get_by_role("button", name="Spring")).to_be_visible()
        await page.goto(second)
        await expect(page.get_by_role("heading", name="There is no such canvas here.")).to_be_visible()
        assert len(await kept(page)) == 1


async def test_two_windows_show_the_same_canvas(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/c") as page:
        await begun(page, "A ball")
        other = await page.context.new_page()
        await other.goto(page.url)
        await expect(other.get_by_role("textbox", name="What should move")).to_have_value("A ball")
        await page.get_by_role("textbox", name="What should move").fill("A cube")
        await expect(other.get_by_role("textbox", name="What should move")).to_have_value("A cube")
        await other.get_by_role("button", name="Add: File").click()
        await expect(page.locator(".react-flow__node")).to_have_count(4)
        await expect(page.get_by_role("textbox", name="What should move")).to_have_value("A cube")


async def test_who_signs_in_next_sees_no_canvas_of_who_was_there(tmp_path: Path, browser: Browser) -> None:
    keys = {"ann": "a" * 32, "bob": "b" * 32}
    named = ",".join(f"{user}={key}" for user, key in keys.items())
    async with (
        world(tmp_path, KODA_WEB_PATH=Settings().web_path, KODA_API_KEYS=named) as koda,
        looking(browser, f"{koda.url}/c") as page,
    ):
        await page.get_by_label("Key").fill(keys["ann"])
        await page.keyboard.press("Enter")
        await begun(page, "A ball of Ann's")
        where = page.url
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Key").fill(keys["bob"])
        await page.keyboard.press("Enter")
        await page.goto(f"{koda.url}/c")
        await page.wait_for_url("**/c/*")
        assert page.url != where
        await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
        await page.goto(where)
        await expect(page.get_by_role("heading", name="There is no such canvas here.")).to_be_visible()


async def test_the_code_of_the_plane_comes_where_it_is_shown(koda: World, browser: Browser) -> None:
    async with looking(browser, f"{koda.url}/s/none") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(koda.url)
        await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
        await page.hover("h1")
        await page.wait_for_load_state("networkidle")
        assert not [url for url in asked if "/page/canvas" in url]
        await page.get_by_role("link", name="Canvas").click()
        await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
        assert [url for url in asked if "/page/canvas" in url]


async def test_everybody_can_use_it(koda: World, browser: Browser) -> None:
    koda.directory.asks = False
    async with looking(browser, f"{koda.url}/c") as page:
        await wide(page)
        await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
        await on_every_screen(page)
        await wide(page)
        await begun(page, "A ball")
        await finished(node(page, "Animation Generator"), node(page, "A ball"))
        await node(page, "A ball").get_by_text("Finished", exact=True).click()
        await page.get_by_role("button", name="Go on with it: A ball").click()
        await page.get_by_role("button", name="Add: File").click()
        await page.locator(".react-flow__node input[type=file]").set_input_files(file("logo.png", picture()))
        await expect(node(page, "logo.png").locator("img")).to_be_visible()
        await page.get_by_role("button", name="See all of it").click()
        await on_every_screen(page)
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            await page.get_by_role("button", name="Canvas", exact=True).click()
            await examine(page)
            await page.get_by_role("button", name="Delete Canvas").click()
            await examine(page)
            await page.get_by_role("button", name="Keep it").click()
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="Connect to…: logo.png").click()
            await examine(page)
            await page.keyboard.press("Escape")
        (key,) = await kept(page)
        await page.goto(f"{koda.url}/renders")
        await alone(page)
        await page.evaluate("key => localStorage.setItem(key, '{')", key)
        await page.goto(f"{koda.url}/c")
        await expect(page.get_by_role("alert")).to_be_visible()
        await on_every_screen(page)
