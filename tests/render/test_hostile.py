"""Pages that mean ill: they may spoil their own picture or end their own render with clear words, and nothing else."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.errors import BrowserCrashed, KodaError, PageError, PageNotReady, QualityRejected
from koda_ray.render import cdp
from koda_ray.render import page as page_module
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageFacts, PageSetup
from koda_ray.render.problems import MAX_PROBLEMS
from koda_ray.render.protocol import JobContext, ProbeTask
from koda_ray.render.serving import ORIGIN
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, loaded, put_page, small, until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FPS = 10
FRAMES = 3
# each frame is 20 redder than the one before
LIVE = """<!doctype html><body><script>
requestAnimationFrame(function live(at) {
  if (document.body) document.body.style.background = `rgb(${at / 5}, 0, 0)`;
  requestAnimationFrame(live);
});
const once = (act) => requestAnimationFrame(act);
const each = (act) => requestAnimationFrame(function again(at) { act(at); requestAnimationFrame(again); });
</script>"""
REDS = [0, 20, 40]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def spoilt() -> AsyncIterator[Browser]:
    """A browser for pages that hang it."""
    async with await Browser.launch() as running:
        yield running


@asynccontextmanager
async def opened(
    browser: Browser, html: str, *, ready_s: float | None = None
) -> AsyncIterator[tuple[LoadedPage, PageFacts]]:
    """A ready page of this text, with another beside it; one that hangs is given ``ready_s``, once it is loaded."""
    bundle = Bundle({"index.html": html.encode(), "other.html": b"<p>other"})
    page = await LoadedPage.open(browser, bundle, PageSetup(width=160, height=90))
    try:
        if ready_s is not None:
            await loaded(page)
        yield page, await page.wait_ready(ready_s or 60.0)
    finally:
        await page.close()


async def reds(page: LoadedPage, frames: int = FRAMES) -> list[int]:
    """How red the middle of each frame's picture is, which has the viewport's size."""
    found: list[int] = []
    for frame in range(frames):
        await page.go(frame, FPS)
        image = Image.open(io.BytesIO(await page.picture())).convert("RGB")
        assert image.size == (160, 90)
        found.append(image.getpixel((80, 45))[0])  # type: ignore[index]
    return found


async def value(page: LoadedPage, expression: str) -> Any:
    return json.loads(str(await page.evaluate(f"JSON.stringify({expression})")))


async def render(browser: Browser, html: str, *, frames: int = FRAMES) -> None:
    async with opened(browser, html) as (page, _):
        await reds(page, frames)


async def fine(browser: Browser) -> bool:
    """Whether a browser that a page abused may still be used, and then renders others as ever."""
    if browser.spoilt:
        return False
    async with opened(browser, LIVE) as (page, _):
        return await reds(page) == REDS


GO_AWAY = "each(() => {{ location.href = {} }})"
HARMLESS = {
    # goes nowhere
    "pushes states": "each((at) => { history.pushState({}, '', '/at' + at); location.hash = at; })",
    "goes elsewhere": GO_AWAY.format("'https://example.com/'"),
    "goes to loopback": GO_AWAY.format("'http://127.0.0.1:8265/'"),
    "opens a file": GO_AWAY.format("'file:///etc/passwd'"),
    "opens the browser's pages": "each(() => { location = 'chrome://version'; location = 'chrome://crash'; })",
    "views its source": GO_AWAY.format("'view-source:https://bundle.koda/'"),
    "opens data": GO_AWAY.format("'data:text/html,gone'"),
    "opens a program": GO_AWAY.format("'mailto:somebody@example.com'"),
    "runs script as a place": GO_AWAY.format("'javascript:void(0)'"),
    "submits a form elsewhere": """const form = document.body.appendChild(document.createElement("form"));
      form.method = "post"; form.action = "https://example.com/steal"; each(() => form.submit());""",
    "downloads": """const link = document.createElement("a"); link.download = "x";
      each(() => { for (const it of ["/other.html", "data:,x", URL.createObjectURL(new Blob(["x"]))]) {
        link.href = it; link.click(); } });""",
    "closes itself": "each(() => window.close())",
    "goes full screen": "each(() => document.body.requestFullscreen().catch(() => {}))",
    "locks the pointer": "each(() => document.body.requestPointerLock().catch(() => {}))",
    "has another size": """resizeTo(50, 50); moveTo(9, 9);
      const meta = document.head.appendChild(document.createElement("meta"));
      meta.name = "viewport"; meta.content = "width=3000, initial-scale=0.1"; each(() => resizeBy(9, 9));""",
    "zooms": "document.documentElement.style.zoom = 3; each(() => scrollBy(10, 10))",
    # wants an answer
    "opens dialogs": "each(() => { alert('a'); confirm('b'); prompt('c'); print(); })",
    "asks before it is left": "onbeforeunload = (event) => { event.preventDefault(); return 'stay'; }",
    "stops for a debugger": "debugger; each(() => { debugger; })",
    # talks without end
    "floods the console": """each(() => { for (let i = 0; i < 40000; i++) console.log("line", i, { deep: [i] }); });
      for (let i = 0; i < 1000; i++) { console.error(`error ${i}`); console.warn(i); console.assert(false, i); }""",
    "posts messages without end": "onmessage = () => postMessage(0); postMessage(0);",
    "posts to itself through a channel": """const channel = new MessageChannel();
      channel.port1.onmessage = () => channel.port2.postMessage(0); channel.port2.postMessage(0);""",
    "asks for frames in frames": "each(() => { for (let i = 0; i < 500; i++) requestAnimationFrame(() => {}); })",
    "sets 10,000 timers": "let n = 0; for (let i = 0; i < 10000; i++) setTimeout(() => { n += 1; }, 0);",
    "sets a timer in a timer": "(function on() { setTimeout(on, 0); })(); setInterval(() => {}, 0);",
    "talks to a worker without end": """const worker = new Worker(URL.createObjectURL(new Blob(
      ["onmessage = () => postMessage(0)"])));
      worker.onmessage = () => worker.postMessage(0); worker.postMessage(0);""",
    "fetches what there is not": """each(() => { for (let i = 0; i < 100; i++) fetch(`/gone${i}`); });
      for (let i = 0; i < 100; i++) fetch(`http://10.0.0.${i}/`).catch(() => {});""",
    # has workers that end, or do not listen
    "has a worker that closes": "new Worker(URL.createObjectURL(new Blob(['close()'])))",
    "has a deaf worker": """new Worker(URL.createObjectURL(new Blob(
      ["addEventListener('message', (event) => event.stopImmediatePropagation(), true)"])))""",
    "has a worker without promises": "new Worker(URL.createObjectURL(new Blob(['Promise = postMessage = null'])))",
    # tampers with what the clock is made of
    "deletes the hook": """delete window.__kodaRender; window.__kodaRender = null;
      try { Object.defineProperty(window, "__kodaRender", { value: 1 }) } catch {}""",
    "has its own globals": """for (const name of ["Promise", "Map", "Set", "Object", "String", "Number", "Reflect",
      "Math", "JSON", "Event", "Date", "MessageChannel", "performance", "WeakMap", "URL", "length"])
        window[name] = null;""",
    "has a length": "window.length = 1e9",
    "breaks dates": "Date.prototype.getTime = Date.prototype.toString = () => { throw new Error('no'); }",
    "breaks events": """EventTarget.prototype.addEventListener = () => { throw new Error("no"); };
      EventTarget.prototype.dispatchEvent = null;""",
    "breaks animations": "document.getAnimations = Document.prototype.getAnimations = () => { throw new Error('no'); }",
    "freezes": """for (const frozen of [Object, Array, Function, Map, Promise]) Object.freeze(frozen.prototype);""",
    "takes a frame's clock": """const frame = document.body.appendChild(document.createElement("iframe"));
      for (const name of ["setTimeout", "requestAnimationFrame", "performance", "Date", "MessageChannel"])
        window[name] = frame.contentWindow[name];
      (function on() { setTimeout(on, 0); })();""",
    "throws its frames away": """const frame = document.createElement("iframe"); frame.srcdoc = "<p>x";
      each(() => { frame.remove(); document.body.append(frame); });""",
}


@pytest.mark.parametrize("how", HARMLESS)
@pytest.mark.full
async def test_what_a_page_tries_changes_nothing(browser: Browser, how: str) -> None:
    async with opened(browser, f"{LIVE}<script>{HARMLESS[how]}</script>") as (page, _):
        assert await reds(page) == REDS
        assert await page.evaluate("location.origin") == ORIGIN
        assert len(page.problems.all) <= MAX_PROBLEMS
        assert page.problems.fatal is None
    assert not browser.spoilt
    assert not browser.connection._calls
    assert not browser.connection._parts


async def test_windows_that_a_page_opens_are_closed(browser: Browser) -> None:
    before = len((await browser.connection.send("Target.getTargets"))["targetInfos"])
    left: list[Any] = []

    async def look() -> None:
        targets = (await browser.connection.send("Target.getTargets"))["targetInfos"]
        left[:] = [target for target in targets if target["type"] == "page"]

    script = """each(() => {
        for (let i = 0; i < 100; i++) if (window.open("/other.html") !== null) throw new Error("it opened");
        for (const rel of ["opener", "noopener"]) for (const href of ["about:blank", "/other.html", "https://example.com/"])
          Object.assign(document.createElement("a"), { href, rel, target: "_blank" }).click();
      });"""
    async with opened(browser, f"{LIVE}<script>{script}</script>") as (page, _):
        assert await reds(page) == REDS
        async with asyncio.timeout(60):
            while not left or len(left) > before + 1:
                await look()


async def test_a_page_that_writes_itself_anew_shows_what_it_writes(browser: Browser) -> None:
    green = "<body style='background: rgb(0, 90, 7)'>"
    for when in ("onload = () => {}", "setTimeout(write, 50)", "addEventListener('load', write)"):
        html = f"<!doctype html><p>old<script>const write = () => document.write(`{green}`); {when}</script>"
        async with opened(browser, html) as (page, _):
            await reds(page)
            image = Image.open(io.BytesIO(await page.picture())).convert("RGB")
            expected = (255, 255, 255) if when.endswith("{}") else (0, 90, 7)
            assert image.getpixel((80, 45)) == expected


async def test_a_page_without_anything_is_white(browser: Browser) -> None:
    async with opened(browser, "<script>document.documentElement.remove()</script>") as (page, _):
        assert await reds(page) == [255] * FRAMES


async def test_a_blank_page_is_no_video(local: LocalExecutor, storage: Storage) -> None:
    spec = small(await put_page(storage, "<!doctype html><body>"), duration_s=2.0)
    with pytest.raises(QualityRejected, match="every frame is the same picture"):
        await RenderJob(spec, JobContext(storage=storage, executor=local, job_id="job_1", user_id=USER)).run()


ASKS = {
    "camera": "navigator.mediaDevices.getUserMedia({ video: true })",
    "microphone": "navigator.mediaDevices.getUserMedia({ audio: true })",
    "screen": "navigator.mediaDevices.getDisplayMedia({ video: true })",
    "place": "new Promise((yes, no) => navigator.geolocation.getCurrentPosition(yes, no))",
    "clipboard": "navigator.clipboard.readText()",
    "paste": "navigator.clipboard.writeText('x')",
    "usb": "navigator.usb.requestDevice({ filters: [] })",
    "hid": "navigator.hid.requestDevice({ filters: [] })",
    "serial": "navigator.serial.requestPort()",
    "midi": "navigator.requestMIDIAccess({ sysex: true })",
    "files": "showOpenFilePicker()",
    "folders": "showDirectoryPicker()",
    "password": "navigator.credentials.get({ password: true })",
    "key": "navigator.credentials.create({ publicKey: { challenge: new Uint8Array(8), rp: { name: 'x' }, "
    "user: { id: new Uint8Array(8), name: 'x', displayName: 'x' }, pubKeyCredParams: [] } })",
    "wake": "navigator.wakeLock.request()",
    "worker": "navigator.serviceWorker.register('/other.html')",
    "notify": "Notification.requestPermission().then((said) => { if (said !== 'granted') throw said; })",
    "persist": "navigator.storage.persist().then((kept) => { if (!kept) throw kept; })",
    "film": "document.createElement('video').requestPictureInPicture()",
}


async def test_whatever_a_page_asks_of_a_person_is_refused_at_once(browser: Browser) -> None:
    asks = ", ".join(f"{name}: () => {ask}" for name, ask in ASKS.items())
    script = f"""const said = {{}};
      for (const [name, ask] of Object.entries({{ {asks} }}))
        (async () => ask())().then(() => {{ said[name] = "granted"; }}, () => {{ said[name] = "refused"; }});
      window.__koda = {{ ready: new Promise((yes) => (function look() {{
        if (Object.keys(said).length === {len(ASKS)}) yes(); else setTimeout(look, 10);
      }})()), seek() {{}}, pending: () => Object.keys(said) }};"""
    async with opened(browser, f"<!doctype html><body><script>{script}</script>") as (page, _):
        assert await value(page, "said") == dict.fromkeys(ASKS, "refused")


PLACES = (
    "http://127.0.0.1:8265/",
    "http://localhost:6379/",
    "http://[::1]/",
    "http://0/",
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "file:///etc/passwd",
    "chrome://version/",
    "devtools://devtools/bundled/inspector.html",
    "view-source:https://bundle.koda/",
    "ftp://bundle.koda/",
    "http://bundle.koda/",
    "https://bundle.koda:444/",
    "https://user@bundle.koda/",
    "https://bundle.koda.example.com/",
)


async def test_nothing_outside_the_bundle_is_reached_by_any_way(browser: Browser) -> None:
    script = f"""const said = {{}};
      const places = {json.dumps(PLACES)};
      const note = (name, asked) => asked.then((got) => {{ said[name] = got; }}, () => {{ said[name] = "refused"; }});
      const loads = (name, place) => new Promise((yes, no) => {{
        const element = document.createElement(name);
        element.onload = () => yes("loaded"); element.onerror = no; element.src = place; document.body.append(element);
      }});
      const opens = (line) => new Promise((yes, no) => {{ line.onopen = () => yes("open"); line.onerror = no; }});
      for (const place of places) note(place, fetch(place, {{ mode: "no-cors" }}).then(() => "reached"));
      for (const name of ["img", "script"]) note(name, loads(name, "http://127.0.0.1:8265/"));
      note("file", loads("img", "file:///etc/passwd"));
      note("socket", opens(new WebSocket("ws://127.0.0.1:8265/")));
      note("events", opens(new EventSource("http://127.0.0.1:8265/")));
      note("above", fetch("/../../etc/passwd").then((answer) => answer.status));
      note("above, hidden", fetch("/%2e%2e/%2e%2e/etc/passwd").then((answer) => answer.status));
      note("frame", loads("iframe", "/other.html").then(() => typeof document.querySelector("iframe")
        .contentWindow.RTCPeerConnection));
      note("sandboxed", new Promise((yes) => {{
        const frame = document.createElement("iframe"); frame.sandbox = "allow-scripts";
        frame.srcdoc = "<script>parent.postMessage(typeof RTCPeerConnection, '*')<\\/script>";
        onmessage = (event) => yes(event.data); document.body.append(frame);
      }}));
      for (const src of places) document.body.append(Object.assign(document.createElement("iframe"), {{ src }}));
      navigator.sendBeacon("http://127.0.0.1:8265/", "x");"""
    async with opened(browser, f"{LIVE}<script>{script}</script>") as (page, _):
        await page.go(0, FPS)
        expected: dict[str, object] = dict.fromkeys((*PLACES, "img", "script", "file", "socket", "events"), "refused")
        expected |= {"above": 404, "above, hidden": 404, "frame": "undefined", "sandboxed": "undefined"}
        assert await value(page, "said") == expected
        frames = await value(
            page, "[...document.querySelectorAll('iframe')].map((f) => f.contentDocument?.body.innerText)"
        )
        assert {text for text in frames if text} == {"other"}
        refused = " ".join(problem.message for problem in page.problems.all)
        assert "http://127.0.0.1:8265/ was refused" in refused and "169.254.169.254" in refused


ENDS: dict[str, tuple[str, type[KodaError], str]] = {
    "reloads as it loads": ("<script>location.reload()</script>", PageError, "again and again|navigated"),
    "refreshes": ("<meta http-equiv=refresh content=0>", PageError, "again and again|navigated"),
    "goes elsewhere at once": (
        "<script>location.href = 'https://example.com/'</script><p>x",
        PageError,
        "before it had a body .*https://example.com/ was refused",
    ),
    "stops itself": ("<script>stop()</script><p>x", PageError, "before it had a body"),
    "reloads": (f"{LIVE}<script>once(() => location.reload())</script>", PageError, "frame .* navigated to .*index"),
    "goes to another page": (
        f"{LIVE}<script>once(() => {{ location = '/other.html' }})</script>",
        PageError,
        "navigated to .*other",
    ),
    "goes back": (
        f"{LIVE}<script>history.pushState(1, '', '/there'); once(() => history.go(0))</script>",
        PageError,
        "navigated to .*there",
    ),
    "becomes blank": (f"{LIVE}<script>once(() => {{ location = 'about:blank' }})</script>", PageError, "about:blank"),
    "becomes a blob": (
        f"{LIVE}<script>once(() => {{ location = URL.createObjectURL(new Blob(['x'], {{ type: 'text/html' }})) }})"
        "</script>",
        PageError,
        "navigated to blob:",
    ),
    "asks before it is left": (
        f"{LIVE}<script>onbeforeunload = () => 'stay'; once(() => {{ location = '/other.html' }})</script>",
        PageError,
        "navigated to .*other",
    ),
    "breaks arrays": (
        f"{LIVE}<script>Array.prototype[Symbol.iterator] = () => {{ throw new Error('no arrays') }}</script>",
        PageError,
        "no arrays",
    ),
    "breaks maps": (f"{LIVE}<script>Map.prototype.values = Map.prototype.get = null</script>", PageError, "values"),
    "is everybody's then": (
        f"{LIVE}<script>Object.prototype.then = () => {{ throw new Error('no then') }}</script>",
        PageError,
        "no then",
    ),
    "has a contract that throws": (
        "<script>window.__koda = { get seek() { throw new Error('no seek') } }</script>",
        PageError,
        "no seek",
    ),
    "says too much": (
        "<script>window.__koda = { ready: Promise.reject(new Error('x'.repeat(1 << 22))), seek() {} }</script>",
        PageError,
        "rejected: x{3000}",
    ),
    "nests too deep": (
        "<script>let at = document.documentElement; for (let i = 0; i < 20000; i++) "
        "at = at.appendChild(document.createElement('div'))</script>",
        BrowserCrashed,
        "the page's process ended",
    ),
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.full
async def test_a_page_that_goes_too_far_ends_its_own_render(browser: Browser, how: str) -> None:
    html, kind, words = ENDS[how]
    with pytest.raises(kind, match=words) as caught:
        await render(browser, f"<!doctype html>{html}", frames=500)
    assert len(caught.value.message) < 5000
    assert await fine(browser)


READY_S, FRAME_S, PICTURE_S = 4.0, 1.0, 60.0
LOOP = r"frame \d .*endless loop"
HANGS: dict[str, tuple[str, str]] = {
    "loops in tasks of promises": ("setTimeout(function on() { queueMicrotask(on); }, 50)", LOOP),
    "waits without end": ("each(async () => { for (;;) await 0; })", LOOP),
    "multiplies its timers": ("(function on() { setTimeout(on, 0); setTimeout(on, 0); })()", LOOP),
    "matches without end": ("each(() => /^(a+)+$/.test('a'.repeat(40) + 'b'))", LOOP),
    "shows nothing": (
        "window.__koda = { ready: Promise.resolve(), seek: () => new Promise(() => {}) }",
        LOOP,
    ),
    "has promises that never are": ("Promise.prototype.then = () => new Promise(() => {})", LOOP),
    "stops what carries tasks": ("MessagePort.prototype.postMessage = () => {}", "does not let go"),
    "loops when asked": (
        "window.__koda = { ready: Promise.resolve(), seek() {}, get duration() { for (;;); } }",
        "does not let go",
    ),
    "has a worker that loops": (
        "new Worker(URL.createObjectURL(new Blob(['for (;;);'])))",
        "waiting for request blob:",
    ),
    "has a worker that loops later": (
        "new Worker(URL.createObjectURL(new Blob(['onmessage = () => { for (;;); }']))).postMessage(0)",
        "worker's, which does not let go",
    ),
}


@pytest.mark.parametrize("how", HANGS)
@pytest.mark.full
async def test_a_page_that_hangs_is_ended(spoilt: Browser, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    script, words = HANGS[how]
    ready_s = None if words == LOOP else READY_S
    with pytest.raises((PageError, PageNotReady), match=words):
        async with opened(spoilt, f"{LIVE}<script>{script}</script>", ready_s=ready_s) as (page, _):
            for frame in range(FRAMES):
                monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", FRAME_S)
                await page.go(frame, FPS)
                monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", PICTURE_S)
                await page.picture()
    monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", PICTURE_S)
    assert spoilt.spoilt or (words != LOOP and await fine(spoilt))


async def test_an_error_after_many_others_still_ends_a_render(browser: Browser) -> None:
    script = """for (let i = 0; i < 99; i++) console.error(`number ${i}`);
      setTimeout(() => { throw new Error("at last"); }, 50);"""
    async with opened(browser, f"{LIVE}<script>{script}</script>") as (page, _):
        await reds(page)
        await until(lambda: page.problems.fatal is not None)
        assert page.problems.fatal is not None and "at last" in page.problems.fatal.message
        assert len(page.problems.all) == MAX_PROBLEMS


async def test_what_a_page_says_can_be_stored_and_shown(browser: Browser) -> None:
    reason = r"\ud800 \x00 \x1b[31mred\x9b2J kept"
    html = f"<script>window.__koda = {{ ready: Promise.reject('{reason}'), seek() {{}} }}</script>"
    with pytest.raises(PageError) as caught:
        await render(browser, html)
    text = caught.value.message
    assert text.encode() and "kept" in text and "red" in text
    assert not {"\x00", "\x1b", "\x9b"} & set(text)


async def test_a_place_that_an_error_makes_up_is_none(browser: Browser) -> None:
    place = f"${{location.origin}}/a.js:{'9' * 5000}:1"
    throw = f"const e = new Error('made up'); e.stack = `Error: made up\\n    at f ({place})`; throw e;"
    html = f"<script>window.__koda = {{ ready: Promise.resolve(), seek() {{ {throw} }} }}</script>"
    with pytest.raises(PageError) as caught:
        await render(browser, html)
    assert "made up" in caught.value.message and len(caught.value.message) < 1000


async def test_what_is_too_long_to_be_heard_is_not_kept(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdp, "_MAX_MESSAGE_BYTES", 1 << 20)
    script = "setTimeout(() => { throw new Error('x'.repeat(1 << 22)); }, 50)"
    async with opened(browser, f"{LIVE}<script>{script}</script>") as (page, _):
        assert await reds(page) == REDS
        await until(lambda: page.problems.fatal is not None)
        assert page.problems.fatal is not None and "MiB at once, as an error" in page.problems.fatal.message
        with pytest.raises(PageError, match="the page said 4 MiB at once"):
            await page.evaluate("'x'.repeat(1 << 22)")
        # pictures are as large as they are
        monkeypatch.setattr(cdp, "_MAX_MESSAGE_BYTES", 64)
        await page.evaluate("document.body.style.background = 'rgb(77, 0, 0)'")
        assert Image.open(io.BytesIO(await page.picture())).size == (160, 90)


async def test_a_page_that_claims_to_be_endless_is_looked_at(local: LocalExecutor, storage: Storage) -> None:
    claims = "ready: Promise.resolve(), seek() {}, duration: 1e308, fps: 1e-300, size: { width: 1e300, height: NaN }"
    bundle = await put_page(storage, f"<!doctype html><body><script>window.__koda = {{ {claims} }}</script>")
    report = await local.probe(ProbeTask(storage=storage, user_id=USER, bundle=bundle))
    assert report.ready and report.duration_s == 1e308
