"""Sandboxes of one's own, what they begin as, and what the server does: on pages of their own."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from koda_ray.client import KodaClient
from tests.sandbox.conftest import write_packages, write_template
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.boxes import making_boxes
from tests.web.looking import looking

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs("web", "tmux", "node"),
    pytest.mark.browser,
    pytest.mark.sandbox,
]

_NAME = re.compile(r"^Animation template \w{6}$")
_SERVES = (
    'require("http").createServer((_, out) => out.end("it is served")).listen(3000, "127.0.0.1", '
    '() => console.log("it listens"))'
)
_SMALL = "import App from './App'; document.body.append(String(App));\n"


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    """A server whose sandboxes begin as the real template."""
    async with making_boxes(tmp_path) as found:
        yield found


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[World]:
    """A server whose sandboxes begin as little."""
    template, packages = write_template(tmp_path / "template"), write_packages(tmp_path / "node_modules")
    async with making_boxes(tmp_path, KODA_TEMPLATE_PATH=template, KODA_NODE_MODULES_PATH=packages) as found:
        yield found


async def made(koda: World, page: Page) -> str:
    """Make a sandbox and go to it; return its id."""
    async with KodaClient(koda.url) as client:
        box = await client.create_sandbox()
    await page.goto(f"{koda.url}/sandboxes/{box.id}")
    await expect(page.get_by_role("heading", name=_NAME)).to_be_visible()
    return box.id


def zipped(files: dict[str, str]) -> FilePayload:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return FilePayload(name="notes.zip", mimeType="application/zip", buffer=data.getvalue())


async def test_a_sandbox_is_made_and_ended_by_keyboard(plain: World, browser: Browser) -> None:
    async with looking(browser, plain.url) as page:
        await page.get_by_role("link", name="Sandboxes").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Sandboxes", exact=True)).to_be_focused()
        await expect(page.get_by_text("You have no sandbox")).to_be_visible()
        await on_every_screen(page)
        await page.get_by_role("button", name="New sandbox").focus()
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="New sandbox")
        await dialog.get_by_label("Ends after").select_option("4 hours")
        await on_every_screen(page)
        await dialog.get_by_role("button", name="Make it").focus()
        await page.keyboard.press("Enter")
        heading = page.get_by_role("heading", name=_NAME)
        await expect(heading).to_be_focused()
        await expect(page.get_by_text("ends in 4 hours")).to_be_visible()
        await page.get_by_role("button", name="Have it live on").focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Extend it").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("ends in 24 hours")).to_be_visible()
        await expect(page.get_by_role("button", name="Have it live on")).to_be_focused()
        name = await heading.inner_text()
        await page.get_by_role("link", name="Sandboxes").last.click()
        row = page.get_by_role("list", name="Sandboxes").get_by_role("listitem")
        await expect(row).to_contain_text("Running")
        await on_every_screen(page)
        await row.get_by_role("button", name=f"End {name}").focus()
        await page.keyboard.press("Enter")
        sure = page.get_by_role("group", name=f"End {name}")
        await expect(sure).to_be_focused()
        await on_every_screen(page)
        await page.keyboard.press("Escape")
        await expect(row.get_by_role("button", name=f"End {name}")).to_be_focused()
        await page.keyboard.press("Enter")
        await sure.get_by_role("button", name="End it").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("You have no sandbox")).to_be_visible()
        await expect(page.get_by_role("heading", name="Sandboxes", exact=True)).to_be_focused()
        await page.get_by_label("Those that are over, too").check()
        await expect(row).to_contain_text("Ended")
        await row.get_by_role("link").click()
        await expect(page.get_by_text("It is over, with its files and processes.")).to_be_visible()
        async with KodaClient(plain.url) as client:
            assert (await client.sandboxes()).sandboxes == ()


async def test_files_are_seen_changed_brought_and_removed(plain: World, browser: Browser) -> None:
    async with looking(browser, plain.url) as page, KodaClient(plain.url) as client:
        box = await made(plain, page)
        await client.write_sandbox_file(box, "src/App.tsx", b"export const said = 'one';\n")
        files = page.get_by_role("region", name="Files")
        item = files.get_by_role("treeitem", name="App.tsx")
        await expect(item).to_be_visible()  # it came since the page was opened
        await item.click()
        await expect(files.get_by_label("src/App.tsx", exact=True)).to_contain_text("'one'")
        await files.get_by_role("button", name="Edit src/App.tsx").click()
        text = files.get_by_label("Text of src/App.tsx")
        await expect(text).to_be_focused()
        await on_every_screen(page)
        await text.fill("export const said = 'two';\n")
        await files.get_by_role("button", name="Save").click()
        await expect(files.get_by_label("src/App.tsx", exact=True)).to_contain_text("'two'")
        await expect(files.get_by_role("button", name="Edit src/App.tsx")).to_be_focused()
        assert await client.read_sandbox_file(box, "src/App.tsx") == b"export const said = 'two';\n"
        await files.get_by_label("Bring files into the folder").fill("src/more")
        given = FilePayload(name="ä b.txt", mimeType="text/plain", buffer=b"brought")
        await files.get_by_label("Files to bring").set_input_files(given)
        await files.get_by_role("treeitem", name="more").click()
        await files.get_by_role("treeitem", name="ä b.txt").click()
        await expect(files.get_by_label("src/more/ä b.txt", exact=True)).to_have_text("brought")
        async with page.expect_download() as taken:
            await files.get_by_role("link", name="Download src/more/ä b.txt").click()
        assert (await (await taken.value).path()).read_bytes() == b"brought"
        await files.get_by_label("Bring files into the folder").fill("../outside")
        await files.get_by_label("Files to bring").set_input_files(given)
        folder = files.get_by_label("Bring files into the folder")
        await expect(folder).to_have_accessible_description(re.compile("leads to"))
        await on_every_screen(page)
        await files.get_by_role("button", name="Remove src/more/ä b.txt").click()
        await files.get_by_role("button", name="Remove it").click()
        await expect(files.get_by_role("treeitem", name="ä b.txt")).to_have_count(0)
        await files.get_by_label("A zip of all files").set_input_files(zipped({"only.txt": "all there is"}))
        await files.get_by_role("button", name="Replace them").click()
        await expect(files.get_by_role("treeitem")).to_have_count(1)
        await expect(files.get_by_label("only.txt", exact=True)).to_have_text("all there is")
        async with page.expect_download() as taken:
            await files.get_by_role("link", name="All of it as a zip").click()
        with zipfile.ZipFile(await (await taken.value).path()) as archive:
            assert archive.namelist() == ["only.txt"]


async def test_what_runs_is_followed_and_ended(plain: World, browser: Browser) -> None:
    async with looking(browser, plain.url) as page, KodaClient(plain.url) as client:
        box = await made(plain, page)
        part = page.get_by_role("region", name="Processes")
        command, name = part.get_by_label("Command"), part.get_by_label("Name, to have it go on")
        await command.fill("echo out; echo wrong >&2; exit 3")
        await page.keyboard.press("Enter")
        await expect(part.get_by_text("Ended with 3")).to_be_visible()
        await expect(part.get_by_label("What it wrote", exact=True)).to_have_text("out")
        await expect(part.get_by_label("What it wrote of errors")).to_have_text("wrong")
        await name.fill("No Name")
        await page.keyboard.press("Enter")
        await expect(name).to_be_focused()
        await expect(name).to_have_attribute("aria-invalid", "true")
        await on_every_screen(page)
        await name.fill("main")
        await command.fill(
            "printf '\\033[32mfirst\\033[0m\\n'; cat go && exit 4; while ! cat go; do sleep 0.1; done; exit 4"
        )
        await page.keyboard.press("Enter")
        row = part.get_by_role("list", name="Processes").get_by_role("listitem").filter(has_text="main")
        await expect(row).to_contain_text("Running")
        await expect(row.get_by_role("log")).to_contain_text("first")
        await client.write_sandbox_file(box, "go", b"on it goes\n")
        await expect(row.get_by_role("log")).to_contain_text("on it goes")
        await expect(row).to_contain_text("Ended with 4")
        await on_every_screen(page)
        await name.fill("web")
        await command.fill(f"node -e '{_SERVES}'")
        await page.keyboard.press("Enter")
        web = part.get_by_role("listitem").filter(has_text="web")
        await expect(web.get_by_role("log")).to_contain_text("it listens")
        await part.get_by_text("See what a process serves").click()
        await part.get_by_label("Port").fill("none")
        await part.get_by_role("button", name="See it", exact=True).click()
        await expect(part.get_by_label("Port")).to_be_focused()
        await part.get_by_role("button", name="See its desktop").click()
        await expect(part.get_by_role("alert")).to_be_visible()
        await part.get_by_label("Port").fill("3000")
        await part.get_by_role("button", name="See it", exact=True).click()
        async with page.context.expect_page() as opened:
            await part.get_by_role("link", name="Open it in another tab").click()
        tab = await opened.value
        await expect(tab.frame_locator("iframe").get_by_text("it is served")).to_be_visible()
        await tab.close()
        await name.fill("long")
        await command.fill("sleep 600")
        await page.keyboard.press("Enter")
        await part.get_by_role("button", name="End long").focus()
        await page.keyboard.press("Enter")
        await expect(part.get_by_role("group", name="End long")).to_be_focused()
        await part.get_by_role("button", name="End it").focus()
        await page.keyboard.press("Enter")
        await expect(part.get_by_role("button", name="End long")).to_have_count(0)
        await expect(command).to_be_focused()
        assert [each.name for each in (await client.processes(box, everything=True)).processes] == ["main", "web"]


async def test_a_project_is_built_pictured_and_seen_running(koda: World, browser: Browser) -> None:
    async with looking(browser, koda.url) as page, KodaClient(koda.url) as client:
        box = await made(koda, page)
        part = page.get_by_role("region", name="The page")
        for path, text in (("src/main.tsx", _SMALL), ("src/App.tsx", "export default 'a small page';\n")):
            await client.write_sandbox_file(box, path, text.encode())
        await part.get_by_role("button", name="Build").click()
        await expect(part.get_by_text("Built in")).to_be_visible()
        async with page.expect_download() as taken:
            await part.get_by_role("link", name="What was built, as a zip").click()
        with zipfile.ZipFile(await (await taken.value).path()) as archive:
            assert "index.html" in archive.namelist()
        await part.get_by_role("button", name="Render it").click()
        await expect(part.get_by_role("link", name="See how far it is")).to_be_visible()
        assert len((await client.page_renders()).renders) == 1
        await on_every_screen(page)
        await client.write_sandbox_file(box, "src/App.tsx", b"export default ;;(\n")
        await part.get_by_role("button", name="Build").click()
        await expect(part.get_by_role("list", name="What is wrong").get_by_role("listitem").first).to_contain_text(
            "src/App.tsx"
        )
        await expect(part.get_by_text("It does not build")).to_be_visible()
        await on_every_screen(page)
        await client.write_sandbox_file(box, "src/App.tsx", b"export default 'a small page';\n")
        await part.get_by_role("button", name="See it run").click()
        await expect(part.frame_locator("iframe").frame_locator("iframe").get_by_text("a small page")).to_be_visible()
        await expect(part.get_by_role("link", name="Open it in another tab")).to_be_visible()
        await part.get_by_text("Take a picture").click()
        await part.get_by_label("Width, in pixels").fill("none")
        await part.get_by_role("button", name="Take it").click()
        await expect(part.get_by_label("Width, in pixels")).to_be_focused()
        await part.get_by_label("Width, in pixels").fill("320")
        await part.get_by_label("Height, in pixels").fill("180")
        await part.get_by_role("button", name="Take it").click()
        picture = part.get_by_role("img", name=re.compile(" at 0 s$"))
        await expect(picture).to_have_js_property("naturalWidth", 320)
        await on_every_screen(page)


async def test_an_image_is_made_used_and_removed(plain: World, browser: Browser) -> None:
    async with looking(browser, f"{plain.url}/sandboxes") as page:
        part = page.get_by_role("region", name="Images")
        await expect(part).to_contain_text("None yet")
        await part.get_by_role("button", name="New image").click()
        dialog = page.get_by_role("dialog", name="New image")
        await expect(dialog.get_by_role("button", name="Make it")).to_be_disabled()
        await dialog.locator("input[type=file]").set_input_files(zipped({"notes.txt": "mine\n"}))
        await expect(dialog.get_by_label("Name")).to_have_value("notes")
        await dialog.get_by_label("Name").fill("")
        await dialog.get_by_role("button", name="Make it").click()
        await expect(dialog.get_by_label("Name")).to_be_focused()
        await expect(dialog.get_by_label("Name")).to_have_accessible_description(re.compile("at least 1 character"))
        await on_every_screen(page)
        await dialog.get_by_label("Name").fill("notes")
        await dialog.get_by_role("button", name="Make it").click()
        await expect(dialog).to_have_count(0)
        await expect(part.get_by_role("heading", name="notes")).to_be_visible()
        await page.get_by_role("button", name="New sandbox").click()
        await page.get_by_label("Begins as").select_option("notes (local)")
        await page.get_by_role("button", name="Make it").click()
        await expect(page.get_by_role("heading", name=re.compile(r"^notes \w{6}$"))).to_be_visible()
        await expect(page.get_by_role("region", name="Files").get_by_label("notes.txt", exact=True)).to_have_text(
            "mine\n"
        )
        await page.get_by_role("link", name="Sandboxes").last.click()
        await part.get_by_role("button", name="Remove notes").click()
        await expect(part.get_by_role("group", name="Remove notes")).to_be_focused()
        await on_every_screen(page)
        await part.get_by_role("button", name="Remove it").click()
        await expect(part).to_contain_text("None yet")
        await expect(part.get_by_role("heading", name="Images")).to_be_focused()


async def test_what_the_server_does_is_told_to_who_runs_it(tmp_path: Path, browser: Browser) -> None:
    for operators in ("local", "ada"):
        folder = tmp_path / operators
        folder.mkdir()
        async with making_boxes(folder, KODA_OPERATORS=operators) as koda, looking(browser, koda.url) as page:
            await page.goto(f"{koda.url}/sandboxes")
            part = page.get_by_role("region", name="This server")
            await expect(part.get_by_role("status")).to_have_text("It takes work.")
            await expect(part).to_contain_text("The built-in director")
            if operators == "local":
                await expect(part).to_contain_text("this server is in no Ray cluster")
                await expect(part).to_contain_text("0 under way, 0 not begun")
            else:
                await expect(part).not_to_contain_text("Renders")
            await expect(part.get_by_role("alert")).to_have_count(0)
            await part.get_by_role("button", name="Look at the server again").click()
            await on_every_screen(page)


async def test_a_narrow_phone_comes_to_it_from_usage(plain: World, browser: Browser) -> None:
    async with looking(browser, f"{plain.url}/usage") as page:
        await page.set_viewport_size({"width": 360, "height": 740})
        await expect(page.get_by_role("navigation").get_by_role("link", name="Sandboxes")).to_be_hidden()
        await page.get_by_role("main").get_by_role("link", name="Sandboxes").click()
        await expect(page.get_by_role("heading", name="Sandboxes", exact=True)).to_be_visible()
