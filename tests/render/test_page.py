"""The virtual clock and the serving of a bundle, seen from inside real pages."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.errors import InvalidInput, PageError, PageNotReady
from koda_ray.render import page as page_module
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.built import read_folder
from tests.render.conftest import PAGES, loaded, until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def spoilt() -> AsyncIterator[Browser]:
    """A browser for pages that hang it."""
    async with await Browser.launch() as running:
        yield running


async def opened(browser: Browser, html: str, **files: str) -> LoadedPage:
    """Open a page of tests/render/pages by name, or HTML text with files beside it."""
    bundle = Bundle({"index.html": html.encode(), **{name: text.encode() for name, text in files.items()}})
    if not html.startswith("<"):
        bundle = read_folder(PAGES / html)
    return await LoadedPage.open(browser, bundle, PageSetup(width=160, height=90))


async def value(page: LoadedPage, expression: str) -> Any:
    return json.loads(str(await page.evaluate(f"JSON.stringify({expression})")))


async def test_every_clock_of_the_page_shows_the_frames_time(browser: Browser) -> None:
    page = await opened(browser, "clocks")
    facts = await page.wait_ready(60)
    assert not facts.contract
    for frame in range(4):
        await page.go(frame, 10)
    assert await value(page, "log") == [
        ["microtask", 0],
        ["raf", 0],
        ["interval", 80],
        ["raf", 100],
        ["timeout", 150],
        ["interval", 160],
        ["raf", 200],
        ["interval", 240],
        ["raf", 300],
    ]
    assert await value(page, "[Date.now() - start[0], performance.now() - start[1]]") == [300, 300]
    assert await value(page, "new Date().toISOString()") == "2025-01-01T00:00:00.300Z"
    dates = "[new Date(0) instanceof Date, new Date(2020, 1, 2).getDate(), typeof Date()]"
    assert await value(page, dates) == [True, 2, "string"]


async def test_css_web_and_svg_animations_stand_at_the_frames_time(browser: Browser) -> None:
    page = await opened(browser, "animations")
    await page.wait_ready(60)
    seen: dict[int, list[float]] = {}
    for frame in range(32):
        await page.go(frame, 10)
        await page.picture()
        seen[frame] = await value(page, "look()")
    assert seen[0][0] == 0
    assert seen[15][0] == pytest.approx(50, abs=0.1)
    assert seen[31][0] == pytest.approx(100)
    assert seen[4][1] == pytest.approx(0, abs=0.01)
    assert seen[9][1] == pytest.approx(0.5, abs=0.01)
    assert seen[15][1] == 1
    assert seen[10][2] == pytest.approx(100, abs=0.1)
    assert seen[10][3] == pytest.approx(50, abs=0.1)
    assert await value(page, "log") == ["transitionend", "finished", "animationend"]


async def test_random_numbers_do_not_depend_on_the_way_to_a_frame(browser: Browser) -> None:
    seen: list[Any] = []
    for frames in (range(8), (7,), (3, 7)):
        page = await opened(browser, "random")
        facts = await page.wait_ready(60)
        assert facts.contract
        assert (facts.duration_s, facts.fps, facts.width, facts.height) == (2, 10, 160, 90)
        for frame in frames:
            await page.go(frame, 10)
        seen.append(await value(page, "[first, ...seen]"))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1] == 0.7
    assert 0 <= seen[0][2] < 1


async def test_many_timers_fire_in_order_and_cleared_ones_never(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>
        const fired = [], all = [];
        for (let i = 0; i < 3000; i++) all.push(setTimeout(() => fired.push(i), 1 + (i * 7919) % 500));
        for (let i = 0; i < 3000; i += 3) clearTimeout(all[i]);
        for (let i = 0; i < 9000; i++) clearTimeout(setTimeout(() => fired.push(-1), 400));
        </script>""",
    )
    await page.wait_ready(60)
    await page.go(10, 10)
    expected = sorted((i for i in range(3000) if i % 3), key=lambda i: (1 + (i * 7919) % 500, i))
    assert await value(page, "fired") == expected


READY = {
    "at once": "0",
    "by a promise of others": "Promise.all([Promise.resolve().then(() => 1), (async () => { await 0; await 0 })()])",
    "by a task": "new Promise((done) => { const { port1, port2 } = new MessageChannel(); "
    "port1.onmessage = done; port2.postMessage(0) })",
}


@pytest.mark.parametrize("there", [True, False], ids=["all there", "loading"])
@pytest.mark.parametrize("ready", READY)
async def test_no_time_passes_before_a_page_that_is_ready_is_shown(browser: Browser, ready: str, there: bool) -> None:
    """Its timers run from the video's beginning, whatever of it was there when it was looked at first."""
    page = await opened(
        browser,
        f"""<!doctype html><script>
        window.shown = [];
        setInterval(() => shown.push(performance.now()), 70);
        window.__koda = {{ ready: {READY[ready]}, seek: async () => {{}} }};
        </script>""",
    )
    if there:
        await loaded(page)
    await page.wait_ready(60)
    await page.go(2, 10)
    assert await value(page, "shown") == [70, 140]


LONG = "/* what is long is read beside the page */ "
SCRIPT = "document.head.append(Object.assign(document.createElement('script'), {{ src: {} }}))"
COMES = {
    "a script": SCRIPT.format("'late.js'"),
    "a module": SCRIPT.format("'late.js', type: 'module'"),
    "a script behind another": SCRIPT.format("'first.js', onload() { " + SCRIPT.format("'late.js'") + " }"),
    "a sheet": "document.head.append(Object.assign(document.createElement('link'), "
    "{ rel: 'stylesheet', href: 'late.css' }))",
    "another sheet": "sheet.href = 'late.css'",
}


@pytest.mark.parametrize("what", COMES)
async def test_what_a_frame_asks_for_has_run_before_its_picture(browser: Browser, what: str) -> None:
    page = await opened(
        browser,
        f"""<!doctype html><link id=sheet rel=stylesheet href=first.css><body><script>
        window.__koda = {{ ready: 0, seek: async (t) => {{ if (t === 0.2) {COMES[what]} }} }};
        </script>""",
        **{
            "late.js": f"{(LONG + 'window.unused = () => 0;') * 40_000} document.body.style.background = 'blue'; "
            "document.currentScript?.remove()",
            "first.js": "1",
            "first.css": "p { color: red }",
            "late.css": f"{LONG * 40_000} body {{ background: blue }}",
        },
    )
    await page.wait_ready(60)
    shown: list[object] = []
    for frame in range(3):
        await page.go(frame, 10)
        shown.append(Image.open(BytesIO(await page.picture())).convert("RGB").getpixel((80, 45)))
    assert shown == [(255, 255, 255), (255, 255, 255), (0, 0, 255)]


async def test_a_script_that_is_never_run_is_not_waited_for_without_end(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><div id=box></div><script>
        window.__koda = { ready: 0, seek: async (t) => {
            if (t === 0.1) { box.innerHTML = "<script src=late.js></" + "script>"; await fetch("words.txt"); }
        } };
        </script>""",
        **{"late.js": "throw 1", "words.txt": "words"},
    )
    await page.wait_ready(60)
    for frame in range(3):
        await page.go(frame, 10)
    assert not page.problems.all


async def test_react_like_work_in_tasks_is_done_before_the_picture(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>
        const channel = new MessageChannel(); let n = 0;
        channel.port1.onmessage = () => { n++; if (n % 3) channel.port2.postMessage(0); };
        window.count = () => n;
        requestAnimationFrame(function frame() { channel.port2.postMessage(0); requestAnimationFrame(frame); });
        </script>""",
    )
    await page.wait_ready(60)
    counts: list[int] = []
    for frame in range(4):
        await page.go(frame, 10)
        counts.append(await value(page, "count()"))
    assert counts == [3, 6, 9, 12]


async def test_older_names_of_the_contract_work(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>
        window.__exportReady = false; window.__exportSeekTo = (t) => { window.at = t; };
        setTimeout(() => { window.__exportReady = true; }, 300);
        </script>""",
    )
    assert (await page.wait_ready(60)).contract
    await page.go(12, 10)
    assert await value(page, "at") == 1.2
    assert await value(page, "location.search") == "?export=1"


async def test_only_the_bundle_is_reachable(browser: Browser) -> None:
    page = await opened(browser, "reach")
    await page.wait_ready(60)
    await page.go(0, 10)
    assert await value(page, "results") == {
        "own": 200,
        "missing": 404,
        "loopback": "refused",
        "other": "refused",
        "rtc": "undefined",
        "secure": True,
    }
    assert await page.evaluate("Promise.all([socket, worker, module]).then(String)") == "refused,off,loaded"
    refused = {problem.message.split()[0] for problem in page.problems.all if problem.kind == "resource"}
    assert {"gone.json", "https://example.com/"} <= refused


@pytest.mark.full
async def test_a_page_that_never_gets_ready_says_what_it_waits_for(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>
        window.__koda = { ready: new Promise(() => {}), seek: async () => {}, pending: () => ['model knot.glb'] };
        </script>""",
    )
    await loaded(page)
    with pytest.raises(PageNotReady, match=r"after 5 s.*window\.__koda\.ready \(model knot\.glb\)") as caught:
        await page.wait_ready(5)
    assert caught.value.code == "PAGE_NOT_READY"
    assert [problem.kind for problem in page.problems.all] == ["not_ready"]


@pytest.mark.full
async def test_a_script_that_never_lets_go_is_named(spoilt: Browser) -> None:
    page = await opened(spoilt, "<!doctype html><script>console.error('it begins'); for (;;);</script>")
    await until(lambda: len(page.problems.all) == 1)
    with pytest.raises(PageNotReady, match="endless loop"):
        await page.wait_ready(4)


@pytest.mark.full
async def test_a_page_that_throws_while_it_loads_fails_before_its_time(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>window.__koda = { ready: new Promise(() => {}), seek: async () => {} };</script>
        <script src=app.js></script>""",
        **{"app.js": "// one\n\nconst kept = 1;\n  undefinedFunction();\n"},
    )
    async with asyncio.timeout(60):
        with pytest.raises(PageError, match=r"undefinedFunction is not defined.*app\.js:4:3"):
            await page.wait_ready(60)
    assert page.problems.fatal is not None
    assert (page.problems.fatal.file, page.problems.fatal.line) == ("app.js", 4)


async def test_a_rejected_contract_says_why(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>
        window.__koda = { ready: Promise.reject(new Error('the font is broken')), seek: async () => {} };</script>""",
    )
    with pytest.raises(PageError, match="the font is broken"):
        await page.wait_ready(60)


async def test_a_frame_that_throws_is_named(browser: Browser) -> None:
    page = await opened(
        browser,
        """<!doctype html><script>
        const seek = async (t) => { if (t > 0.25) throw new Error('no frame here'); };
        window.__koda = { ready: Promise.resolve(), seek };</script>""",
    )
    await page.wait_ready(60)
    await page.go(2, 10)
    with pytest.raises(PageError, match=r"frame 3: .*no frame here") as caught:
        await page.go(3, 10)
    assert caught.value.context["frame"] == 3


async def test_a_frame_that_never_ends_is_named(spoilt: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", 1.0)
    page = await opened(
        spoilt,
        "<!doctype html><script>requestAnimationFrame(function f() { for (;;); })</script>",
    )
    await page.wait_ready(60)
    with pytest.raises(PageError, match=r"frame 0 .*endless loop") as caught:
        await page.go(0, 10)
    assert caught.value.code == "SEEK_FAILED"


@pytest.mark.parametrize("how", ["painted", "passed"])
async def test_a_frame_that_never_ends_while_it_is_laid_out_is_named(
    spoilt: Browser, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Such a loop runs when the browser paints, after the page's callbacks: it is the page's fault all the same."""
    monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", 1.0)
    page = await opened(
        spoilt,
        """<!doctype html><p id=p><script>window.__koda = { ready: Promise.resolve(), seek: async (t) => {
          if (t) new ResizeObserver(() => { for (;;); }).observe(p); } };</script>""",
    )
    await page.wait_ready(60)
    await page.go(0, 10)
    await page.picture()
    with pytest.raises(PageError, match=r"frame 1 \(0\.100 s\) .*endless loop") as caught:
        await page.go(1, 10)
        await (page.picture() if how == "painted" else page.unpainted())
    assert caught.value.code == "SEEK_FAILED" and not caught.value.retryable and spoilt.spoilt


async def test_a_page_that_leaves_is_brought_to_an_end(browser: Browser) -> None:
    page = await opened(
        browser,
        "<!doctype html><script>setTimeout(() => { location.href = '/other.html'; }, 50)</script>",
        **{"other.html": "<p>other"},
    )
    await page.wait_ready(60)
    with pytest.raises(PageError, match="navigated"):
        for frame in range(50):
            await page.go(frame, 10)


async def test_a_dialog_does_not_stop_the_page(browser: Browser) -> None:
    page = await opened(browser, "<!doctype html><script>alert('stop'); window.after = confirm('?');</script>")
    await page.wait_ready(60)
    assert await value(page, "after") is False


async def test_images_are_there_before_the_page_is_ready(browser: Browser) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="160" height="90"><circle r="40"/></svg>'
    page = await opened(browser, "<!doctype html><style>body{margin:0}</style><img src=a.svg>", **{"a.svg": svg})
    await page.wait_ready(60)
    await page.go(0, 10)
    assert await value(page, "[document.images[0].complete, document.images[0].naturalWidth]") == [True, 160]


async def test_a_missing_entry_is_refused(browser: Browser) -> None:
    with pytest.raises(InvalidInput, match=r"other\.html"):
        await LoadedPage.open(browser, Bundle({"index.html": b""}), PageSetup(width=160, height=90, entry="other.html"))


async def test_the_viewport_is_the_pictures_size(browser: Browser) -> None:
    page = await opened(browser, "<!doctype html>")
    await page.wait_ready(60)
    await page.go(0, 10)
    assert await value(page, "[innerWidth, innerHeight, devicePixelRatio]") == [160, 90, 1]
    for image in ("png", "jpeg"):
        assert Image.open(BytesIO(await page.picture(image=image))).size == (160, 90)  # type: ignore[arg-type]


async def test_the_same_page_gives_the_same_picture_with_webgl(browser: Browser) -> None:
    runs: list[list[str]] = []
    for _ in range(2):
        page = await opened(browser, "webgl")
        await page.wait_ready(60)
        hashes: list[str] = []
        for frame in range(6):
            await page.go(frame, 10)
            hashes.append(hashlib.sha256(await page.picture()).hexdigest())
        runs.append(hashes)
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 6
