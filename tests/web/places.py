"""All that there is to see on the page: a walk that leads a browser's page to one place after the other.

Whoever looks at everything goes with it: the pictures of all screens (`pictures`) and what axe-core is asked of
(`benchmarks.face`). Each part of the walk begins on the first page and stands alone.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

from playwright.async_api import Page, Route, ViewportSize, expect

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.events import NewEvent
from koda_ray.render.local import LocalExecutor
from koda_ray.types import Todo
from koda_ray.wire import PageOptions
from tests.serve.scripted import CODE
from tests.serve.test_assets import sound
from tests.serve.world import World
from tests.web.lives import live
from tests.web.looking import begin
from tests.web.test_assets_page import file, picture
from tests.web.test_canvas_page import begun, finished, node
from tests.web.test_page import asking
from tests.web.test_queue import MOVING

__all__ = ["PARTS", "places"]

BALL = "A red ball bounces through the rain and comes to rest"
_SMALL = PageOptions(width=640, height=360, fps=30, duration=2.0)
_WIDE = ViewportSize(width=1440, height=900)
_NARROW = ViewportSize(width=390, height=844)
_MADE_S = 60_000


async def _home(koda: World, page: Page) -> AsyncGenerator[str]:
    await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
    yield "home"
    await page.locator("summary").filter(has_text="More: style").click()
    await page.get_by_text("Rules: none").click()
    yield "home-more"
    await page.locator("h1").click()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    yield "keys"
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("a")
    await expect(page.get_by_role("option").first).to_be_visible()
    yield "finder"
    await page.keyboard.press("Escape")
    await page.set_viewport_size(_NARROW)
    await page.get_by_role("button", name="Find, keys and motion").click()
    await expect(page.get_by_role("dialog", name="Help")).to_be_visible()
    yield "help"
    await page.goto(f"{koda.url}/renders")
    await expect(page.get_by_role("heading", name="Renders")).to_be_visible()
    yield "queue-empty"
    await page.get_by_role("button", name="Render a page").click()
    dialog = page.get_by_role("dialog", name="Render a page of your own")
    for more in ("A video for each row of a file", "Other options"):
        await dialog.get_by_text(more).click()
    yield "own-page"


async def _studio(koda: World, page: Page) -> AsyncGenerator[str]:
    koda.directory.hold = {"analyze"}
    session_id = await begin(page, BALL)
    await koda.directory.move(session_id, commands.Think("Reading the prompt"))
    await expect(page.get_by_text("Reading the prompt").first).to_be_visible()
    yield "thinking"
    koda.directory.hold = set()
    await koda.directory.wake(session_id)
    await page.get_by_label("Playful").check()
    yield "question"
    await page.get_by_role("button", name="Answer").click()
    await expect(page.get_by_role("button", name="Make this")).to_be_visible()
    yield "plan"
    await page.get_by_role("button", name="Edit scenes").click()
    await expect(page.get_by_role("button", name="Leave it")).to_be_visible()
    yield "scenes"
    await page.get_by_role("button", name="Leave it").click()
    koda.directory.hold = {"execute"}
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    todos = (Todo(id="setup", label="Set up the project"), Todo(id="s1", label="Scene 1: Drop in"))
    steps = [commands.SetTodos(todos), commands.SetTodoStatus("setup", "done"), commands.SetTodoStatus("s1", "active")]
    written = NewEvent(type="code_chunk", data={"path": "src/scenes/S1.tsx", "offset": 0, "delta": CODE})
    await koda.directory.move(session_id, *steps, commands.Think("Writing src/scenes/S1.tsx"), events=(written,))
    await expect(page.get_by_text("Writing src/scenes/S1.tsx").first).to_be_visible()
    await expect(page.get_by_role("list", name="Steps")).to_be_visible()
    yield "making"
    koda.directory.hold = set()
    await koda.directory.wake(session_id)
    await expect(page.get_by_role("slider", name="Frame")).to_be_visible(timeout=_MADE_S)
    yield "preview"
    await page.get_by_role("button", name="Point at something", exact=True).click()
    await expect(page.get_by_role("application")).to_be_focused()
    for key in ("ArrowLeft", "Shift+ArrowRight", "Shift+ArrowDown", "Enter"):
        await page.keyboard.press(key)
    await page.keyboard.type("larger, and dark blue")
    yield "pointing"
    await page.get_by_role("button", name="Remove note 1").click()
    koda.directory.rendering = asyncio.Event()
    await page.get_by_role("button", name="Render 1080p at 60 fps").click()
    await expect(page.get_by_role("progressbar", name="Rendering")).to_be_visible()
    yield "rendering"
    koda.directory.rendering.set()
    await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=_MADE_S)
    koda.directory.rendering = None
    yield "complete"
    await page.get_by_role("button", name="Delete this video").click()
    await expect(page.get_by_role("group", name="Delete this video")).to_be_focused()
    yield "complete-deletion"
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="This session").click()
    dialog = page.get_by_role("dialog", name="This session")
    for more in ("Set limits", "Rules: none"):
        await dialog.get_by_text(more).click()
    yield "this-session"
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Put on a canvas").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    yield "put-on-canvas"
    await page.keyboard.press("Escape")
    async with aclosing(_shared(page)) as shown:
        async for name in shown:
            yield name
    await page.goto(f"{koda.url}/s/{session_id}")
    async with aclosing(_versions(koda, page)) as shown:
        async for name in shown:
            yield name


async def _shared(page: Page) -> AsyncGenerator[str]:
    """Share what a session shows, and look at it as somebody else."""
    await page.get_by_role("button", name="Share").first.click()
    dialog = page.get_by_role("dialog", name="Share this video")
    await dialog.get_by_label("Who is it for?").fill("for Bob")
    await dialog.get_by_label("They may comment").set_checked(True)
    await dialog.get_by_role("button", name="Make a link").click()
    address = await dialog.get_by_label("The link", exact=True).input_value()
    yield "share"
    await page.goto(address)
    await page.get_by_label("Your comment").fill("Slower here")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("list", name="What you said")).to_be_visible()
    yield "watch"
    await page.goto(f"{address}/embed")
    await expect(page.locator("video")).to_be_visible()
    yield "embed"
    await page.goto(address[:-3])
    await expect(page.get_by_role("alert")).to_be_visible()
    yield "watch-nothing"


async def _versions(koda: World, page: Page) -> AsyncGenerator[str]:
    """Have a change made, and look at both versions."""
    await page.get_by_label("What should be different").fill("red")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("button", name="Version 2, red, shown now")).to_be_visible(timeout=_MADE_S)
    yield "versions"
    await page.get_by_role("button", name="Version 1, ").click()
    await expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    yield "version"
    await page.get_by_role("button", name="Its files").click()
    await expect(page.get_by_role("tree", name="The project")).to_be_visible()
    await expect(page.get_by_label("src/scenes/S1.tsx")).to_be_visible()
    yield "files"
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Version 2, ").click()
    await page.get_by_text("What changed in the files").click()
    await page.locator("summary").filter(has_text="src/scenes/S1.tsx").last.click()
    await expect(page.get_by_label("Changes of src/scenes/S1.tsx")).to_be_visible()
    yield "version-diff"
    await page.goto(page.url.partition("?")[0])
    await page.get_by_role("link", name="Compare").click()
    await expect(page.get_by_role("slider", name="Frame")).to_be_visible()
    yield "compare"
    for mode in ("Wipe", "Flip", "Difference"):
        await page.get_by_role("button", name=mode).click()
        yield f"compare-{mode.lower()}"


async def _takes(koda: World, page: Page) -> AsyncGenerator[str]:
    koda.directory.asks, koda.directory.hold = False, {"execute"}
    await page.get_by_label("Takes").select_option("3 takes")
    await page.get_by_role("textbox", name="What should move").fill(BALL)
    await page.get_by_role("button", name="Make it").click()
    await page.get_by_role("button", name="Make all 3").click()
    await expect(page.get_by_text("Making it…")).to_have_count(3)
    writes, renders, fails = [row.id for row in reversed(await koda.store.list_sessions("local"))][-3:]
    todos = (Todo(id="setup", label="Set up the project"), Todo(id="s1", label="Scene 1: Drop in"))
    steps = [commands.SetTodos(todos), commands.SetTodoStatus("setup", "done"), commands.SetTodoStatus("s1", "active")]
    await koda.directory.move(writes, *steps, commands.Think("Writing src/scenes/S1.tsx"))
    koda.directory.hold, koda.directory.fails = set(), {"execute": "the animation does not build"}
    await koda.directory.wake(fails)
    await expect(page.get_by_role("alert")).to_be_visible()
    koda.directory.rendering = asyncio.Event()
    await koda.directory.wake(renders)
    await expect(page.get_by_role("progressbar")).to_be_visible()
    yield "takes-making"
    await page.get_by_role("button", name="Stop all 2").click()
    await expect(page.get_by_role("group", name="Stop all")).to_be_focused()
    yield "takes-stopping"
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Try again: Take 3").click()
    await koda.directory.wake(writes)
    koda.directory.rendering.set()
    shown = page.get_by_role("list", name="Takes").get_by_text("Preview to look at")
    await expect(shown).to_have_count(3, timeout=_MADE_S)
    koda.directory.rendering = None
    yield "takes"


async def _stopped(koda: World, page: Page) -> AsyncGenerator[str]:
    """Everything in the studio that did not go well, and what rests."""
    koda.directory.asks = False
    await asking(koda, page)
    yield "agreement"
    koda.directory.hold = set()
    await page.goto(koda.url)
    koda.directory.fails = {"execute": "the animation does not build"}
    await begin(page, "A ball that breaks")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_text("Kept: the plan.")).to_be_visible()
    yield "error"
    await page.get_by_role("button", name="Try again").click()
    koda.directory.fails = {"render_final": "the page was silent"}
    await page.get_by_role("button", name="Render 1080p at 60 fps").click()
    await expect(page.get_by_role("alert").filter(has_text="the page was silent").first).to_be_visible()
    yield "error-render"
    await page.goto(koda.url)
    koda.directory.hold = {"execute"}
    session_id = await begin(page, "A ball that cannot be made")
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Making it")).to_be_visible()
    await koda.directory.move(session_id, commands.Fail("it cannot be made", "NOT_POSSIBLE", can_retry=False))
    await expect(page.get_by_role("alert").filter(has_text="it cannot be made")).to_be_visible()
    yield "error-for-good"
    koda.directory.hold = set()
    await page.goto(koda.url)
    session_id = await begin(page, "A ball that sleeps")
    await expect(page.get_by_role("button", name="Make this")).to_be_visible()
    await koda.store.release(session_id, (await koda.store.get_session(session_id)).epoch)
    koda.directory.forget(session_id)
    await page.reload()
    await expect(page.get_by_text("Asleep, as you left it")).to_be_visible()
    yield "asleep"


async def _lists(koda: World, page: Page) -> AsyncGenerator[str]:
    """What lists all that there is; after the parts that make something."""
    koda.directory.asks = False
    for prompt in ("A ball", "A film title: The long night, in four acts", "A bar chart of 12, 30, 45, 70"):
        await begin(page, prompt)
        await page.get_by_role("button", name="Make this").click()
        await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=_MADE_S)
        if prompt.startswith("A bar chart"):
            await page.get_by_role("button", name="Render 1080p at 60 fps").click()
            await expect(page.get_by_role("heading", name="It is finished")).to_be_visible(timeout=_MADE_S)
        await page.goto(koda.url)
    await expect(page.get_by_role("link", name="A ball Preview to look at").first).to_be_visible()
    yield "gallery"
    await page.get_by_role("button", name="Rename A ball").first.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("textbox", name="Title", exact=True)).to_be_focused()
    yield "gallery-renaming"
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="A ball Preview to look at").first.focus()
    await page.keyboard.press("Delete")
    await expect(page.get_by_role("button", name="Undo")).to_be_focused()
    yield "gallery-deleted"
    await page.keyboard.press("Enter")
    await page.goto(f"{koda.url}/renders?show=done")
    await expect(page.get_by_role("list", name="Renders").get_by_role("listitem").first).to_be_visible()
    yield "queue"
    await page.get_by_role("button", name="Delete A bar chart").first.click()
    await expect(page.get_by_role("group", name="Delete A bar chart")).to_be_focused()
    yield "queue-deletion"
    await page.get_by_role("searchbox", name="Search").fill("no such thing")
    await expect(page.get_by_role("button", name="Clear the search")).to_be_visible()
    yield "queue-nothing"
    await page.goto(f"{koda.url}/usage")
    await expect(page.get_by_role("meter", name="Animations awake")).to_be_visible()
    yield "usage"
    await page.goto(f"{koda.url}/assets")
    await expect(page.get_by_text("Drop pictures, films and sounds here")).to_be_visible()
    yield "assets-empty"
    files = [
        file("logo.png", picture()),
        file("beat.wav", sound(), "audio/wav"),
        file("notes.txt", b"no", "text/plain"),
    ]
    await page.locator("input[type=file]").set_input_files(files)
    await expect(page.get_by_role("list", name="Assets").get_by_role("listitem")).to_have_count(2)
    await expect(page.get_by_role("alert")).to_be_visible()
    yield "assets"
    await page.get_by_role("button", name="Delete logo.png").click()
    await expect(page.get_by_role("group", name="Delete logo.png")).to_be_focused()
    yield "assets-deletion"


async def _render(koda: World, page: Page) -> AsyncGenerator[str]:
    """A page's own render: one that waits, and one that is there."""
    with tempfile.TemporaryDirectory(prefix="koda-page-") as place:
        folder = Path(place)
        (folder / "index.html").write_text(MOVING)
        async with KodaClient(koda.url) as client, LocalExecutor(workers=1) as executor:
            batch = await client.render_batch(folder, [{"name": "Ada"}, {"name": "Grace"}], _SMALL)
            await page.goto(f"{koda.url}/renders/{batch.render_ids[0]}")
            await expect(page.get_by_role("region", name="Row 1 of 2")).to_be_visible()
            yield "render-waiting"
            koda.directory.executor = executor
            made = await client.render_page(folder, _SMALL)
            await page.goto(f"{koda.url}/renders/{made.id}")
            await expect(page.get_by_role("slider", name="Frame")).to_be_visible(timeout=_MADE_S)
            await page.get_by_text("Contact sheet").click()
            yield "render"
            koda.directory.executor = None


async def _canvas(koda: World, page: Page) -> AsyncGenerator[str]:
    koda.directory.asks = False
    await page.goto(f"{koda.url}/c")
    await expect(page.get_by_role("button", name="Begin with words and a style")).to_be_visible()
    yield "canvas-empty"
    await begun(page, BALL)
    yield "canvas-begun"
    await finished(node(page, "Animation Generator"), node(page, BALL))
    await page.get_by_role("button", name="See all of it").click()
    yield "canvas"
    await page.get_by_role("button", name="Add: One of yours").click()
    await expect(page.get_by_role("dialog").get_by_role("listitem").first).to_be_visible()
    yield "canvas-picker"
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Canvas", exact=True).click()
    await page.get_by_role("button", name="Delete Canvas").click()
    await expect(page.get_by_role("group", name="Delete Canvas")).to_be_focused()
    yield "canvases-deletion"


async def _gone(koda: World, page: Page) -> AsyncGenerator[str]:
    """What is seen where there is nothing, nobody or no server."""

    async def unsigned(route: Route) -> None:
        problem = {"code": "UNAUTHENTICATED", "detail": "this server asks for a key"}
        await route.fulfill(status=401, json=problem)

    await page.goto(f"{koda.url}/s/ses_none")
    await expect(page.get_by_text("not there any more")).to_be_visible()
    yield "missing"
    await page.route("**/page/usage-*.js", lambda route: route.abort())
    await page.goto(f"{koda.url}/usage")
    await expect(page.get_by_role("heading", name="This part of the page did not come")).to_be_visible()
    yield "missed"

    async def another(route: Route) -> None:
        if route.request.resource_type == "document":
            await route.continue_()
        else:
            await route.fulfill(body="another build", content_type="text/html")

    await page.route(f"{koda.url}/", another)
    await page.goto(f"{koda.url}/usage")
    await expect(page.get_by_role("heading", name="A newer version of this page is here")).to_be_visible()
    yield "missed-newer"
    await page.goto(koda.url)
    await expect(page.get_by_role("heading", name="What should move?")).to_be_visible()
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.get_by_role("status").filter(has_text="A newer version of this page is here")).to_be_visible()
    yield "newer"
    await page.unroute_all()
    broken = "export const Usage = () => { throw new Error('it broke'); };"
    await page.route("**/page/usage-*.js", lambda route: route.fulfill(body=broken, content_type="text/javascript"))
    await page.goto(f"{koda.url}/usage")
    await expect(page.get_by_role("heading", name="This page broke")).to_be_visible()
    yield "broken"
    await page.unroute_all()
    await page.route("**/v1/events?*", lambda route: route.abort())
    koda.directory.hold = {"analyze"}
    await page.goto(koda.url)
    await begin(page, "A ball")
    await expect(page.get_by_text("The server does not answer just now")).to_be_visible(timeout=_MADE_S)
    await expect(page.get_by_role("heading", level=1)).to_be_visible()  # what is shown was read, not only asked for
    yield "away"
    await page.unroute_all()
    await page.route("**/v1/login", unsigned)
    await page.goto(koda.url)
    await expect(page.get_by_label("Key")).to_be_visible()
    yield "sign-in"
    await page.unroute_all()


async def _sandboxes(koda: World, page: Page) -> AsyncGenerator[str]:
    """A person's own sandboxes, where there are some."""
    await page.goto(f"{koda.url}/sandboxes")
    await expect(page.get_by_text("You have no sandbox")).to_be_visible()
    await expect(page.get_by_text("It takes work.")).to_be_visible()
    yield "sandboxes-empty"
    await page.get_by_role("button", name="New image").click()
    yield "image-making"
    await page.keyboard.press("Escape")
    if koda.directory.sandbox is None:
        return
    async with KodaClient(koda.url) as client:
        with tempfile.TemporaryDirectory(prefix="koda-image-") as place:
            (Path(place) / "notes.txt").write_text("mine\n")
            image = await client.create_image(Path(place), name="notes")
        boxes = [await client.create_sandbox(each) for each in ("notes", None)]
        try:
            await client.launch_process(boxes[1].id, "test", "npm test; exit 2")
            await client.launch_process(boxes[1].id, "clock", "while true; do date; sleep 1; done")
            await page.reload()
            await expect(page.get_by_role("link", name="Animation template")).to_be_visible()
            yield "sandboxes"
            await page.get_by_role("button", name="End Animation template").click()
            yield "sandboxes-ending"
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="New sandbox").click()
            yield "sandbox-making"
            await page.goto(f"{koda.url}/sandboxes/{boxes[1].id}")
            await page.get_by_text("What it wrote: clock").click()
            await expect(page.get_by_role("log")).to_contain_text("20")
            await page.get_by_role("treeitem", name="App.tsx").click()
            await expect(page.get_by_label("src/App.tsx", exact=True)).to_be_visible()
            yield "sandbox"
            await page.get_by_role("button", name="Have it live on").click()
            await client.write_sandbox_file(boxes[1].id, "src/App.tsx", b"export default ;;(\n")
            await page.get_by_role("button", name="Build").click()
            await expect(page.get_by_role("list", name="What is wrong")).to_be_visible(timeout=_MADE_S)
            for more in ("Take a picture", "Where, and for how long", "See what a process serves"):
                await page.get_by_text(more).click()
            await page.get_by_label("Command").fill("ls -la")
            await page.get_by_role("button", name="Run it").click()
            await expect(page.get_by_text("Ended with 0")).to_be_visible()
            yield "sandbox-problems"
            await page.get_by_role("button", name="Terminal", exact=True).click()
            await expect(page.locator(".xterm-rows")).to_contain_text("$")
            await page.keyboard.type("ls -la --color=always && git log")
            await page.keyboard.press("Enter")
            await expect(page.locator(".xterm-rows")).to_contain_text("package.json")
            yield "sandbox-terminal"
            await page.goto(f"{koda.url}/sandboxes/{boxes[0].id}")
            await page.get_by_role("button", name="Edit notes.txt").click()
            await page.get_by_role("button", name="Build").click()
            await expect(page.get_by_text("It does not build")).to_be_visible()
            yield "sandbox-plain"
        finally:
            for each in boxes:
                await client.terminate_sandbox(each.id)
            await client.remove_image(image.id)


async def _live(koda: World, page: Page) -> AsyncGenerator[str]:
    """The live page, where there is a sandbox."""
    if koda.directory.sandbox is None:
        return
    await live(koda, page, "A ball that is seen live")
    moves, stands = (page.get_by_role("button", name=name, exact=True) for name in ("Pause", "Play"))
    await expect(moves.or_(stands)).to_be_visible()
    if await moves.is_visible():  # it stands by itself where motion is switched off
        await moves.click()
    yield "live"


PARTS: dict[str, Callable[[World, Page], AsyncGenerator[str]]] = {
    "home": _home,
    "studio": _studio,
    "takes": _takes,
    "stopped": _stopped,
    "lists": _lists,
    "render": _render,
    "canvas": _canvas,
    "sandboxes": _sandboxes,
    "gone": _gone,
    "live": _live,
}
"""The parts of the walk, in their order."""


async def places(koda: World, page: Page, *parts: str) -> AsyncIterator[str]:
    """Lead a page from place to place, 1440 pixels wide, and say what each is called.

    Args:
        koda: A server whose sessions follow the script. With a sandbox, its live page is one of the places.
        page: May be looked at in any size and scheme at each place.
        parts: Those to go through; all where none is named.
    """
    expect.set_options(timeout=_MADE_S)
    for part in parts or PARTS:
        koda.directory.asks, koda.directory.hold, koda.directory.fails = True, set(), {}
        await page.set_viewport_size(_WIDE)
        await page.goto(koda.url)
        async with aclosing(PARTS[part](koda, page)) as shown:
            async for name in shown:
                yield name
                await page.set_viewport_size(_WIDE)
