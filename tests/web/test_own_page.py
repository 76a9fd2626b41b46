"""A page of one's own is rendered from the list of renders, and what is over is deleted there."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from koda_ray.client import KodaClient
from koda_ray.errors import NotFound
from koda_ray.types import RenderOptions
from tests.serve.test_jobs import previewed
from tests.serve.test_sessions import until
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import looking
from tests.web.test_queue import MOVING, SMALL, row, rows

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def test_a_page_alone_is_rendered_and_what_is_wrong_is_said_there(
    koda: World, browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "moving.html").write_text(MOVING)
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/renders") as page:
        await page.get_by_role("button", name="Render a page").click()
        dialog = page.get_by_role("dialog", name="Render a page of your own")
        await expect(dialog.get_by_role("button", name="Render", exact=True)).to_be_disabled()
        await dialog.locator("input[type=file]").first.set_input_files(tmp_path / "moving.html")
        await expect(dialog.get_by_text("moving.html")).to_be_visible()
        await dialog.get_by_label("Width").fill("160")
        await dialog.get_by_label("Frames each second").fill("10")
        await dialog.get_by_label("Length").fill("1")
        await dialog.get_by_role("button", name="Render", exact=True).click()
        height, other = dialog.get_by_label("Height"), dialog.get_by_label("As JSON")
        await expect(height).to_be_focused()
        await expect(height).to_have_accessible_description(
            "width is given alone: give both width and height, or neither"
        )
        await expect(dialog.locator("[aria-invalid=true]")).to_have_count(1)
        await expect(dialog.get_by_label("Width")).to_have_value("160")
        await on_every_screen(page)
        await height.fill("91")
        await dialog.get_by_role("button", name="Render", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("height 91 px is odd")
        await expect(height).to_be_focused()
        await height.fill("90")
        await dialog.get_by_text("Other options").click()
        await other.fill('{"colour": "red"}')
        await dialog.get_by_text("Other options").click()
        await expect(other).to_be_hidden()
        await dialog.get_by_role("button", name="Render", exact=True).click()
        await expect(other).to_be_focused()
        await expect(other).to_have_accessible_description(re.compile("colour: there is no such field"))
        await expect(other).to_have_value('{"colour": "red"}')
        await other.fill("{")
        await dialog.get_by_role("button", name="Render", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
        await dialog.get_by_label("As JSON").fill('{"props": {"name": "Ada"}}')
        await dialog.get_by_label("Format").select_option("webm")
        await page.keyboard.press("Tab")
        await dialog.get_by_role("button", name="Render", exact=True).press("Enter")
        await expect(dialog).to_have_count(0)
        await expect(rows(page)).to_have_count(1)
        (found,) = (await client.page_renders()).renders
        asked = (await koda.store.get_job(found.id)).spec
        assert all(each in json.dumps(asked) for each in ("webm", "160", "Ada"))


async def test_a_zip_is_rendered_for_each_row_of_a_file(koda: World, browser: Browser, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "page.zip", "w") as page_zip:
        page_zip.writestr("index.html", MOVING)
    (tmp_path / "rows.csv").write_text('name,says\nAda,"Hello, you"\nBob,Bye\n')
    (tmp_path / "rows.json").write_text(json.dumps(["Ada"]))
    async with looking(browser, f"{koda.url}/renders") as page:
        await expect(page.get_by_role("button", name="Render a page")).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("render a")
        await expect(page.get_by_role("option", name="Render a page of your own")).to_be_visible()
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Render a page of your own")
        await dialog.locator("input[type=file]").first.set_input_files(tmp_path / "page.zip")
        await dialog.get_by_text("A video for each row").click()
        await dialog.get_by_label("Length").fill("1")
        await dialog.locator("input[type=file]").last.set_input_files(tmp_path / "rows.json")
        await dialog.get_by_role("button", name="Render", exact=True).click()
        rows_file = dialog.get_by_role("button", name="Choose JSON or CSV")
        await expect(rows_file).to_be_focused()
        await expect(rows_file).to_have_accessible_description("0: an object, not 'Ada'")
        await dialog.locator("input[type=file]").last.set_input_files(tmp_path / "rows.csv")
        await dialog.get_by_role("button", name="Render", exact=True).click()
        await expect(dialog).to_have_count(0)
        await expect(row(page, "row 1")).to_have_count(1)
        await expect(rows(page)).to_have_count(2)


async def test_what_is_over_is_deleted_by_who_says_so_twice(koda: World, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(MOVING)
    async with KodaClient(koda.url) as client, looking(browser, f"{koda.url}/renders") as page:
        made = await client.render_page(tmp_path, SMALL)
        name = f"Page {made.bundle[:8]}"
        await page.get_by_role("button", name=f"Cancel {name}").click()
        session_id = await previewed(koda, client)
        await client.render(session_id, RenderOptions())
        await until(client, session_id, "complete")
        await expect(rows(page)).to_have_count(3)
        await expect(page.get_by_role("button", name="Delete A ball")).to_have_count(1)  # no preview is
        await page.get_by_role("button", name=f"Delete {name}").click()
        await on_every_screen(page)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name=f"Delete {name}")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Delete it").click()
        await expect(rows(page)).to_have_count(2)
        await expect(page.locator("li:focus")).to_have_count(1)
        with pytest.raises(NotFound):
            await client.page_render(made.id)
        await page.get_by_role("button", name="Delete A ball").click()
        await expect(page.get_by_text("Its animation stays")).to_be_visible()
        await page.get_by_role("button", name="Delete it").click()
        await expect(rows(page)).to_have_count(1)
        assert (await client.session(session_id)).state.phase == "complete"
