"""Workers keep the page's time, and what they draw on its canvases is in the frame that they drew it for."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from koda_ray.errors import BrowserCrashed, PageError
from koda_ray.render.browser import Browser
from koda_ray.render.page import LoadedPage
from tests.render.clocked import FPS, STYLE, level, opened, value

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


WORKER = """
let ticks = 0;
setInterval(() => { ticks += 1; }, 50);
requestAnimationFrame(function frame(t) { self.last = t; requestAnimationFrame(frame); });
const random = Math.random();
onmessage = ({ data }) => {
  const date = Date.now() - 1735689600000;
  postMessage({ data, ticks, at: performance.now(), date, raf: self.last, random });
};
"""


@pytest.mark.parametrize("kind", ["classic", "module", "blob"])
async def test_a_workers_clock_is_the_pages(browser: Browser, kind: str) -> None:
    begin = {
        "classic": 'new Worker("w.js")',
        "module": 'new Worker("w.js", { type: "module" })',
        "blob": "new Worker(URL.createObjectURL(new Blob([text])))",
    }[kind]
    html = f"""<!doctype html><script>
    const text = {json.dumps(WORKER)}, said = window.said = [];
    const w = {begin};
    w.onmessage = ({{ data }}) => said.push(data);
    requestAnimationFrame(function frame(t) {{ w.postMessage(t); requestAnimationFrame(frame); }});
    </script>"""
    runs: list[Any] = []
    for _ in range(2):
        page = await opened(browser, html, **{"w.js": WORKER})
        for frame in range(4):
            await page.go(frame, FPS)
        runs.append(await value(page, "said"))
    assert [(one["data"], one["at"], one["date"], one["raf"], one["ticks"]) for one in runs[0]] == [
        (0, 0, 0, 0, 0), (100, 100, 100, 100, 2), (200, 200, 200, 200, 4), (300, 300, 300, 300, 6),
    ]  # fmt: skip
    assert runs[0] == runs[1]


async def test_workers_of_workers_and_what_they_fetch(browser: Browser) -> None:
    outer = """const inner = new Worker("inner.js"); inner.onmessage = (e) => postMessage(e.data);
    onmessage = (e) => inner.postMessage(e.data);"""
    inner = """onmessage = async (e) => {
      const text = await (await fetch("data.txt")).text();
      setTimeout(() => postMessage([e.data, text, performance.now()]), 30);
    };"""
    html = """<!doctype html><script>const said = window.said = [];
    const w = new Worker("outer.js"); w.onmessage = ({ data }) => said.push(data);
    setTimeout(() => w.postMessage("go"), 100);</script>"""
    page = await opened(browser, html, **{"outer.js": outer, "inner.js": inner, "data.txt": "text"})
    for frame in range(4):
        await page.go(frame, FPS)
    assert await value(page, "said") == [["go", "text", 130]]


async def drawn_by(browser: Browser, worker: str) -> LoadedPage:
    """Open a page whose one canvas a worker gets in its first message."""
    html = f"""{STYLE}<canvas id=c width=64 height=48></canvas><script>
    const o = c.transferControlToOffscreen(), w = new Worker("w.js"); w.postMessage(o, [o]);</script>"""
    return await opened(browser, html, **{"w.js": worker})


async def test_a_worker_draws_on_a_canvas_of_the_page(browser: Browser) -> None:
    worker = """onmessage = ({ data }) => {
      const g = data.getContext("2d");
      requestAnimationFrame(function frame(t) {
        g.fillStyle = `rgb(${t / 10} ${t / 10} ${t / 10})`; g.fillRect(0, 0, 64, 48); requestAnimationFrame(frame);
      });
    };"""
    page = await drawn_by(browser, worker)
    seen: list[float] = []
    for frame in range(8):
        await page.go(frame, FPS)
        seen.append(await level(page))
    assert seen == pytest.approx([10 * frame for frame in range(8)], abs=1)


_DRAWN = """
const context = (canvas, kind) => canvas.getContext(kind);
const draw = {
  kept: (c) => { const g = context(c, "2d"); let at = 0; return () => { g.fillRect(4 * at++, 0, 4, 16); }; },
  gl: (c) => { const gl = context(c, "webgl"); gl.enable(gl.SCISSOR_TEST); let at = 0; return () => {
    gl.scissor(4 * at++, 0, 4, 16); gl.clearColor(1, 1, 1, 1); gl.clear(gl.COLOR_BUFFER_BIT); }; },
  still: (c) => { context(c, "2d").fillRect(0, 0, 8, 16); return () => {}; },
  grown: (c) => { const g = context(c, "2d"); return () => { c.width += 4; g.fillRect(0, 0, c.width, 16); }; },
  bitmaps: (c) => {
    const r = context(c, "bitmaprenderer"), o = new OffscreenCanvas(16, 16), g = o.getContext("2d"); let at = 0;
    return () => { g.fillRect(4 * at++, 0, 4, 16); r.transferFromImageBitmap(o.transferToImageBitmap()); };
  },
};
const run = ({ name, canvas }) => {
  const next = draw[name](canvas);
  requestAnimationFrame(function frame() { next(); requestAnimationFrame(frame); });
};
"""


_COLUMNS = """
const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const columns = (canvas) => {
  copy.clearRect(0, 0, 64, 64); copy.drawImage(canvas, 0, 0);
  const found = [];
  for (let x = 0; x < canvas.width; x += 4) found.push(copy.getImageData(x + 1, 8, 1, 1).data[3] ? 1 : 0);
  return found.join("");
};
"""


async def test_whatever_draws_on_a_canvas_of_the_page_from_elsewhere_is_in_its_frame(browser: Browser) -> None:
    worker = f"""{_DRAWN} const inner = new Worker("inner.js");
    onmessage = ({{ data }}) => {{
      if (data.port) {{ data.port.onmessage = (e) => run(e.data); return; }}
      if (data.name === "kept") inner.postMessage(data, [data.canvas]); else run(data);
    }};"""
    html = f"""{STYLE}<style>canvas {{ float: left }}</style><body><script>{_DRAWN}{_COLUMNS}
    const w = new Worker("w.js"), {{ port1, port2 }} = new MessageChannel(), seen = {{}};
    w.postMessage({{ port: port2 }}, [port2]);
    for (const name of ["kept", "gl", "still", "grown", "bitmaps", "here"]) {{
      const element = seen[name] = document.body.appendChild(document.createElement("canvas"));
      Object.assign(element, {{ width: name === "grown" ? 4 : 16, height: 16 }});
      const canvas = element.transferControlToOffscreen();
      if (name === "here") run({{ name: "kept", canvas }});
      else (name === "still" ? port1 : w).postMessage({{ name, canvas }}, [canvas]);
    }}
    const refused = (run) => {{ try {{ run(); return ""; }} catch (error) {{ return error.name; }} }};
    </script>"""
    page = await opened(browser, html, **{"w.js": worker, "inner.js": f"{_DRAWN} onmessage = (e) => run(e.data);"})
    said: list[dict[str, str]] = []
    for frame in range(3):
        await page.go(frame, FPS)
        await page.picture()
        said.append(await value(page, "Object.fromEntries(Object.entries(seen).map(([n, c]) => [n, columns(c)]))"))
    assert said == [
        {"kept": "1000", "gl": "1000", "still": "1100", "grown": "11", "bitmaps": "1000", "here": "1000"},
        {"kept": "1100", "gl": "0100", "still": "1100", "grown": "111", "bitmaps": "0100", "here": "1100"},
        {"kept": "1110", "gl": "0010", "still": "1100", "grown": "1111", "bitmaps": "0010", "here": "1110"},
    ]
    refused = "[() => c.getContext('2d'), () => { c.width = 5; }, () => c.transferControlToOffscreen()].map(refused)"
    assert await value(page, f"((c) => {refused})(seen.kept)") == ["InvalidStateError"] * 3


async def test_what_a_worker_drew_before_it_ended_stays(browser: Browser) -> None:
    worker = f"""{_DRAWN} const ends = {{
      "close at once": (draw) => {{ draw(); close(); }},
      "terminate at once": (draw) => {{ draw(); postMessage("done"); }},
      "close in a task": (draw) => setTimeout(() => {{ draw(); close(); postMessage("last"); }}, 150),
      "close in a frame": (draw) => requestAnimationFrame(() => {{ draw(); close(); draw(); close(); }}),
      "close later": (draw) => setTimeout(() => {{ draw(); setTimeout(close, 20); }}, 120),
      terminate: (draw) => setTimeout(() => {{ draw(); postMessage("done"); postMessage("never"); }}, 150),
      outer: (draw) => requestAnimationFrame(() => {{ draw(); postMessage("inner"); }}),
    }};
    onmessage = ({{ data }}) => {{
      if (data.inner) {{
        const inner = new Worker("w.js");
        inner.postMessage({{ ...data, inner: null, end: "outer" }}, [data.canvas]);
        inner.onmessage = () => {{ if (data.inner === "close") close(); else postMessage("done"); }};
      }} else ends[data.end](draw[data.name](data.canvas));
    }};"""
    html = f"""{STYLE}<style>canvas {{ float: left }}</style><body><script>{_COLUMNS}
    const seen = {{}}, said = [];
    const begin = (name, end, inner) => {{
      const canvas = seen[`${{name}} ${{end}}`] = document.body.appendChild(document.createElement("canvas"));
      Object.assign(canvas, {{ width: 16, height: 16 }});
      const handed = canvas.transferControlToOffscreen(), w = new Worker("w.js");
      w.postMessage({{ name, end, inner, canvas: handed }}, [handed]);
      w.onmessage = ({{ data }}) => {{ said.push(data); if (data === "done") {{ w.terminate(); w.terminate(); }} }};
    }};
    for (const name of ["kept", "gl", "bitmaps"]) for (const end of ["close in a task", "terminate"]) begin(name, end);
    for (const end of ["close at once", "terminate at once", "close in a frame", "close later"]) begin("kept", end);
    begin("kept", "outer close", "close");
    begin("kept", "outer terminate", "terminate");
    </script>"""
    page = await opened(browser, html, **{"w.js": worker})
    said: list[dict[str, str]] = []
    for frame in range(4):
        await page.go(frame, FPS)
        await page.picture()
        said.append(await value(page, "Object.fromEntries(Object.entries(seen).map(([n, c]) => [n, columns(c)]))"))
    assert said[2] == said[3] == dict.fromkeys(said[0], "1000") | {"kept close in a frame": "1100"}
    assert Counter(await value(page, "said")) == {"last": 3, "done": 5}  # one that was ended says nothing more


@pytest.mark.full
async def test_one_that_never_lets_go_may_be_ended_and_what_it_drew_before_stays(browser: Browser) -> None:
    worker = """onmessage = ({ data }) => {
      if (data === "loop") for (;;);
      data.getContext("2d").fillStyle = "#fff"; data.getContext("2d").fillRect(0, 0, 64, 48);
    };"""
    html = f"""{STYLE}<canvas id=c width=64 height=48></canvas><script>
    const o = c.transferControlToOffscreen(), w = new Worker("w.js"); w.postMessage(o, [o]);
    setTimeout(() => {{ w.postMessage("loop"); fetch("data.txt").then(() => w.terminate()); }}, 100);</script>"""
    page = await opened(browser, html, **{"w.js": worker, "data.txt": "text"})
    for frame in range(3):
        await page.go(frame, FPS)
        assert await level(page) == 255


async def test_a_canvas_of_the_page_may_be_drawn_in_a_frame_of_it(browser: Browser) -> None:
    inner = f"""{STYLE}<style>canvas {{ float: left; width: 16px; height: 16px }}</style>
    <canvas id=c width=16 height=16></canvas><script>{_DRAWN}
    run({{ name: "still", canvas: c.transferControlToOffscreen() }});
    onmessage = ({{ data }}) => {{
      if (data.name === "kept") {{ run(data); return; }}
      const w = new Worker(URL.createObjectURL(new Blob([data.text])));
      w.postMessage(data, [data.canvas]);
    }};</script>"""
    worker = f"{_DRAWN} onmessage = (e) => run(e.data);"
    middle = """<!doctype html><iframe src=inner.html></iframe><script>
    onmessage = ({ data }) => frames[0].postMessage(data, "*", [data.canvas]);</script>"""
    html = f"""{STYLE}<body><script>{_COLUMNS}
    const seen = {{}}, text = {json.dumps(worker)};
    const begin = (frame, name) => {{
      const canvas = seen[`${{name}} ${{frame.id}}`] = document.body.appendChild(document.createElement("canvas"));
      Object.assign(canvas, {{ width: 16, height: 16 }});
      const handed = canvas.transferControlToOffscreen();
      frame.contentWindow.postMessage({{ name, text, canvas: handed }}, "*", [handed]);
    }};
    </script>
    <iframe id=ours src=inner.html onload="begin(this, 'kept'); begin(this, 'gl')"></iframe>
    <iframe id=strange sandbox="allow-scripts" src=inner.html onload="begin(this, 'kept'); begin(this, 'gl')"></iframe>
    <iframe id=within src=middle.html onload="begin(this, 'kept')"></iframe>"""
    page = await opened(browser, html, **{"inner.html": inner, "middle.html": middle})
    said: list[dict[str, str]] = []
    for frame in range(3):
        await page.go(frame, FPS)
        await page.picture()
        said.append(await value(page, "Object.fromEntries(Object.entries(seen).map(([n, c]) => [n, columns(c)]))"))
    names = {"kept ours", "gl ours", "kept strange", "gl strange", "kept within"}
    kept, gl = ["1000", "1100", "1110"], ["1000", "0100", "0010"]
    assert said == [{name: (kept if "kept" in name else gl)[frame] for name in names} for frame in range(3)]


async def test_a_canvas_that_a_worker_leaves_alone_is_no_change(browser: Browser) -> None:
    worker = 'onmessage = ({ data }) => { data.getContext("2d").fillRect(0, 0, 64, 48); };'
    page = await drawn_by(browser, worker)
    pictures: list[bytes] = []
    for frame in range(4):
        await page.go(frame, FPS)
        pictures.append(await page.picture())
    assert all(picture is pictures[0] for picture in pictures)


async def test_a_worker_that_fails_is_told(browser: Browser) -> None:
    html = '<!doctype html><script>const w = new Worker("w.js"); setTimeout(() => w.postMessage(1), 100);</script>'
    page = await opened(browser, html, **{"w.js": "onmessage = () => { undefinedFunction(); };"})
    for frame in range(3):
        await page.go(frame, FPS)
    assert page.problems.fatal is not None and page.problems.fatal.file == "w.js"
    missing = await opened(browser, '<!doctype html><script>new Worker("gone.js");</script>')
    await missing.go(0, FPS)
    assert any("gone.js is not in the bundle" in problem.message for problem in missing.problems.all)


async def test_a_worker_that_is_ended_by_what_another_says_is_not_waited_for(browser: Browser) -> None:
    html = """<!doctype html><script>const said = [], [a, b] = [new Worker("w.js"), new Worker("w.js")];
    a.onmessage = ({ data }) => { said.push(data); b.terminate(); };</script>"""
    page = await opened(browser, html, **{"w.js": "setTimeout(() => postMessage(performance.now()), 50);"})
    for frame in range(3):
        await page.go(frame, FPS)
    assert await value(page, "said") == [50]


async def test_a_worker_that_never_lets_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    html = '<!doctype html><script>const w = new Worker("w.js"); setTimeout(() => w.postMessage(1), 100);</script>'
    async with await Browser.launch() as spoilt:
        page = await opened(spoilt, html, **{"w.js": "onmessage = () => { for (;;); };"})
        await page.go(0, FPS)
        monkeypatch.setattr("koda_ray.render.page.FRAME_TIMEOUT_S", 1.0)
        with pytest.raises(PageError, match=r"frame 1 .*endless loop"):
            await page.go(1, FPS)


async def test_a_browser_keeps_nothing_of_pages_and_workers_that_are_gone(browser: Browser) -> None:
    html = """<!doctype html><script>
    const first = new Worker("w.js"), second = new Worker("w.js");
    first.onmessage = () => first.terminate();
    first.postMessage(0);
    </script>"""
    connection, kept, heard = browser.connection, len(browser._contexts), set(browser.connection._listeners)
    for _ in range(3):
        page = await opened(browser, html, **{"w.js": WORKER})
        assert len(browser._contexts) == kept + 1
        async with asyncio.timeout(60):
            while len(page._target._inner) != 1:  # the one that goes on
                await page.go(page._frame + 1, FPS)
        assert connection._over == {} and set(connection._listeners) > heard
        await page.close()
        assert (connection._over, connection._calls, len(browser._contexts)) == ({}, {}, kept)
        assert set(connection._listeners) == heard
        with pytest.raises(BrowserCrashed):  # by the browser's own answer
            await page.evaluate("1")


@pytest.mark.parametrize("dry", [True, False])
async def test_a_browsers_frames_are_counted_whether_they_are_painted_or_not(browser: Browser, dry: bool) -> None:
    before, page = browser.frames_run, await opened(browser, "<!doctype html><b>still</b>")
    for frame in range(3):
        await page.go(frame, FPS)
        await (page.unpainted() if dry else page.picture())
    await page.go(9, FPS)  # it has no contract, so it goes through all in between
    await page.picture()
    assert browser.frames_run == before + 10
    await page.close()
