"""What moves by itself in a browser, and stands at the frame's time in a render: film, workers, frames, pictures."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.errors import PageError
from koda_ray.render.browser import Browser
from tests.render.clocked import FPS, STYLE, collect, level, opened, value

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two seconds at 10 pictures a second, each 12 brighter than the one before."""
    path = tmp_path_factory.mktemp("film") / "film.webm"
    source = "color=black:s=64x48:r=10:d=2,format=gray,geq=lum='10+12*N'"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libvpx", "-b:v", "2M", "-g", "50"]
    subprocess.run([*command, str(path)], check=True)
    return path.read_bytes()


def filmed(grey: float) -> int:
    """Which picture of the film that is."""
    return round((grey - 10) / 12)


@pytest.mark.parametrize("how", ["autoplay muted", "muted data-script"])
async def test_a_film_shows_the_picture_of_the_frames_time(browser: Browser, film: bytes, how: str) -> None:
    begin = "if (v.matches('[data-script]')) v.play();"
    html = f"{STYLE}<video id=v src=film.webm {how}></video><script>{begin}</script>"
    page = await opened(browser, html, **{"film.webm": film})
    seen: list[int] = []
    for frame in range(12):
        await page.go(frame, FPS)
        seen.append(filmed(await level(page)))
    assert seen == list(range(12))
    facts = await value(page, "[v.currentTime, v.paused, v.ended]")
    assert facts == [pytest.approx(1.1), False, False]


async def test_a_film_ends_loops_is_paused_and_sought(browser: Browser, film: bytes) -> None:
    html = f"""{STYLE}<video id=a src=film.webm muted></video><script>
    const log = window.log = [];
    for (const type of ["play", "playing", "pause", "ended"])
      a.addEventListener(type, () => log.push([type, performance.now()]));
    a.play();
    setTimeout(() => a.pause(), 500);
    setTimeout(() => {{ a.currentTime = 1.5; a.playbackRate = 0.5; a.play(); }}, 1000);
    </script>"""
    page = await opened(browser, html, **{"film.webm": film})
    seen: list[int] = []
    for frame in range(24):
        await page.go(frame, FPS)
        seen.append(filmed(await level(page)))
    assert seen == [0, 1, 2, 3, 4, *[5] * 5, 15, 15, 16, 16, 17, 17, 18, 18, 19, 19, 19, 19, 19, 19]
    log = await value(page, "log")
    assert [entry for entry in log if entry[0] != "playing"] == [
        ["play", 0], ["pause", 500], ["play", 1000], ["ended", 2000],
    ]  # fmt: skip
    looped = await opened(browser, html.replace("muted", "muted loop autoplay"), **{"film.webm": film})
    await looped.go(23, FPS)
    assert await value(looped, "a.currentTime < 2 && !a.paused")


async def test_each_picture_of_a_film_is_told_to_whoever_asks(browser: Browser, film: bytes) -> None:
    html = f"""{STYLE}<canvas id=c width=64 height=48></canvas><script>
    const v = document.createElement("video"); v.src = "film.webm"; v.muted = true; v.play();
    const told = window.told = [];
    v.requestVideoFrameCallback(function draw(now, facts) {{
      told.push(Math.round(facts.mediaTime * 10));
      c.getContext("2d").drawImage(v, 0, 0);
      v.requestVideoFrameCallback(draw);
    }});
    </script>"""
    page = await opened(browser, html, **{"film.webm": film})
    seen: list[int] = []
    for frame in range(6):
        await page.go(frame, FPS)
        seen.append(filmed(await level(page)))
    assert seen == list(range(6))
    assert (await value(page, "told"))[-5:] == [1, 2, 3, 4, 5]


async def test_a_contract_page_may_wait_for_its_film(browser: Browser, film: bytes) -> None:
    html = f"""{STYLE}<video id=v src=film.webm muted preload=auto></video><script>
    window.__koda = {{ ready: new Promise((done) => v.oncanplay = done), seek: (t) => new Promise((done) => {{
      if (v.currentTime === t) return done();
      v.addEventListener("seeked", done, {{ once: true }}); v.currentTime = t;
    }}) }};</script>"""
    page = await opened(browser, html, **{"film.webm": film})
    for frame in (0, 7, 12):
        await page.go(frame, FPS)
        assert filmed(await level(page)) == frame


async def test_a_frame_in_the_page_has_its_time_too(browser: Browser) -> None:
    inner = """<!doctype html><style>
    body { margin: 0; animation: grow 2s linear }
    @keyframes grow { from { background: #000 } to { background: #fff } }</style>
    <script>const log = window.log = []; setInterval(() => log.push(performance.now()), 100);</script>"""
    html = f"{STYLE}<iframe src=inner.html></iframe>"
    page = await opened(browser, html, **{"inner.html": inner})
    seen: list[float] = []
    for frame in range(8):
        await page.go(frame, FPS)
        seen.append(await level(page))
    assert seen == pytest.approx([255 * frame / 20 for frame in range(8)], abs=1.5)
    assert await value(page, "frames[0].log") == [100 * (n + 1) for n in range(7)]


_GROWING = """<!doctype html><style>
body { margin: 0; animation: grow 2s linear }
@keyframes grow { from { background: #000 } to { background: #fff } }</style>
<script>document.fonts.add(new FontFace("none", "url(none.woff)"))</script>"""
_SOUGHT = """<!doctype html><style>body { margin: 0; height: 48px }</style><body><script>
const paint = (grey) => { document.body.style.background = `rgb(${grey},${grey},${grey})`; };
const seek = async (s) => paint(255 * s / 2);
window.__koda = { ready: Promise.resolve(), seek };</script>"""
_LATE = {
    "plain": {"late.html": _GROWING},
    "sought": {"late.html": _SOUGHT},
    "nested": {"late.html": f"{STYLE}<body><iframe src=inner.html></iframe>", "inner.html": _GROWING},
    "sandboxed": {
        "late.html": f"{STYLE}<body><iframe sandbox=allow-scripts src=inner.html></iframe>",
        "inner.html": _GROWING,
    },
}


@pytest.mark.parametrize(
    "meddled", [pytest.param(False, marks=pytest.mark.full, id="alone"), pytest.param(True, id="meddled")]
)
@pytest.mark.parametrize(
    "kind", [kind if kind in ("plain", "sandboxed") else pytest.param(kind, marks=pytest.mark.full) for kind in _LATE]
)
async def test_a_frame_that_comes_late_begins_when_it_came(browser: Browser, kind: str, meddled: bool) -> None:
    html = f"""{STYLE}<script>setTimeout(() => {{
      const frame = document.createElement("iframe");
      frame.src = "late.html";
      document.body.append(frame);
      if ({json.dumps(meddled)}) frame.contentWindow.name = "late"; // and so has its empty page's window made
    }}, 300);</script><body>"""
    for _ in range(4):
        page = await opened(browser, html, **_LATE[kind])
        for frame in range(9):
            await page.go(frame, FPS)
        assert await level(page) == pytest.approx(255 * 5 / 20, abs=1.5)
        await page.close()


async def test_an_animated_picture_goes_by_the_clock(browser: Browser) -> None:
    pictures = [Image.new("L", (64, 48), 20 * n) for n in range(10)]
    data = io.BytesIO()
    pictures[0].save(data, "GIF", save_all=True, append_images=pictures[1:], duration=100, loop=0)
    html = f"{STYLE}<img src=a.gif>"
    stepped = await opened(browser, html, **{"a.gif": data.getvalue()})
    seen: list[float] = []
    for frame in range(12):
        await stepped.go(frame, FPS)
        seen.append(await level(stepped))
    assert seen == pytest.approx([20 * (frame % 10) for frame in range(12)], abs=2)
    contract = "<script>window.__koda = { ready: Promise.resolve(), seek: async () => {} };</script>"
    sought = await opened(browser, html + contract, **{"a.gif": data.getvalue()})
    for frame in (0, 7, 11):
        await sought.go(frame, FPS)
        assert await level(sought) == pytest.approx(20 * (frame % 10), abs=2)


async def test_a_picture_that_a_style_asks_for_is_there_before_the_frame(browser: Browser) -> None:
    noise = np.random.default_rng(1).integers(200, 255, (1500, 2000, 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(noise).save(data, "PNG")
    html = f"""{STYLE}<style>div {{ height: 48px; background: #000 }} .on {{ background: url(a.png) }}</style>
    <div></div>
    <script>setTimeout(() => document.querySelector("div").className = "on", 100)</script>"""
    page = await opened(browser, html, **{"a.png": data.getvalue()})
    levels: list[float] = []
    for frame in range(3):
        await page.go(frame, FPS)
        levels.append(await level(page))
    assert levels[0] == 0 and min(levels[1:]) > 190


async def test_every_other_clock_of_a_page_stands_at_the_frames_time(browser: Browser) -> None:
    html = """<!doctype html><div id=host></div><script>
    const root = host.attachShadow({ mode: "open" });
    const animate = '<animate attributeName="x" from="0" to="100" dur="1s" fill="freeze"/>';
    root.innerHTML = `<svg><rect id="r" width="1" height="1">${animate}</rect></svg>`;
    const log = window.log = [];
    AbortSignal.timeout(250).onabort = () => log.push(["abort", performance.now()]);
    scheduler.postTask(() => log.push(["task", performance.now()]), { delay: 150 });
    addEventListener("custom", (event) => log.push(["event", event.timeStamp]));
    setTimeout(() => dispatchEvent(new Event("custom")), 350);
    const context = new AudioContext(); context.currentTime;
    window.look = () => [context.currentTime, root.getElementById("r").x.animVal.value, typeof SharedWorker,
      document.createElement("canvas").getContext("webgl2").getExtension("KHR_parallel_shader_compile"),
      new Intl.DateTimeFormat("en", { second: "numeric", fractionalSecondDigits: 1 }).format(),
      globalThis.Temporal ? Temporal.Now.instant().toString() : "2025-01-01T00:00:00.4Z"];
    </script>"""
    page = await opened(browser, html)
    for frame in range(5):
        await page.go(frame, FPS)
    assert await value(page, "log") == [["task", 150], ["abort", 250], ["event", 350]]
    assert await value(page, "look()") == [0.4, 40, "undefined", None, "0.4", "2025-01-01T00:00:00.4Z"]


async def test_what_timers_and_callbacks_see_and_begin_is_the_same_at_every_frame_rate(browser: Browser) -> None:
    html = f"""{STYLE}<style>#a {{ animation: go 2s linear }} @keyframes go {{ to {{ margin-left: 200px }} }}
    #b {{ width: 0; transition: width .2s linear }}</style><div id=a></div><div id=b></div><div id=c></div><script>
    const px = (element, name) => Math.round(parseFloat(getComputedStyle(element)[name]));
    const seen = window.seen = [], turned = window.turned = [];
    requestAnimationFrame(function on(at) {{ seen.push([at, px(a, "marginLeft")]); requestAnimationFrame(on); }});
    setInterval(() => {{ b.style.width = turned.length % 2 ? "0" : "100px"; turned.push(px(b, "width")); }}, 100);
    setTimeout(() => c.animate([{{ width: "0px" }}, {{ width: "100px" }}], 1000), 150);
    </script>"""
    for fps in (5, 10, 30):
        page = await opened(browser, html)
        await page.go(fps, fps)
        assert all(at == pytest.approx(10 * left, abs=6) for at, left in await value(page, "seen")), fps
        assert await value(page, "turned") == [0, 50] * 5, fps
        assert await value(page, "[px(b, 'width'), px(c, 'width')]") == [50, 85], fps
        await page.close()


async def test_scrolling_animations_stay_the_pages_own(browser: Browser) -> None:
    html = f"""{STYLE}<style>
    html {{ height: 480px; overflow: auto }}
    body {{ height: 480px; animation: a linear; animation-timeline: scroll() }}
    @keyframes a {{ from {{ background: #000 }} to {{ background: #fff }} }}</style><body>
    <script>requestAnimationFrame(function f(t) {{ scrollTo(0, t); requestAnimationFrame(f); }})</script>"""
    page = await opened(browser, html)
    levels: list[float] = []
    for frame in range(4):
        await page.go(frame, FPS)
        levels.append(await level(page))
    assert levels == sorted(levels) and levels[0] < 10 and levels[-1] > 120


async def test_a_film_that_is_drawn_by_the_page_is_at_the_frames_time(browser: Browser, film: bytes) -> None:
    html = f"""{STYLE}<canvas id=c width=64 height=48></canvas><script>
    const v = document.createElement("video"); v.src = "film.webm"; v.muted = true; v.play();
    requestAnimationFrame(function draw() {{ c.getContext("2d").drawImage(v, 0, 0); requestAnimationFrame(draw); }});
    </script>"""
    page = await opened(browser, html, **{"film.webm": film})
    seen: list[int] = []
    for frame in range(6):
        await page.go(frame, FPS)
        seen.append(filmed(await level(page)))
    assert seen == list(range(6))


async def test_what_waits_for_its_size_to_stand_still_is_there_at_the_first_frame(browser: Browser) -> None:
    """As canvases of React Three Fiber do; once time runs, such a wait takes its time again."""
    page = await opened(
        browser,
        STYLE
        + """<div id="box" style="width: 64px; height: 48px"></div><script>
        window.seen = [];
        let wait;
        new ResizeObserver(([entry], observer) => {
          seen.push([observer instanceof ResizeObserver, entry.contentRect.width]);
          clearTimeout(wait);
          wait = setTimeout(() => { box.style.background = `rgb(${entry.contentRect.width * 3}, 0, 0)`; }, 150);
        }).observe(box);
        setTimeout(() => { box.style.width = "32px"; }, 250);
        setTimeout(() => { window.late = true; }, 50);
        </script>""",
    )
    colours: list[str] = []
    for frame in range(6):
        await page.go(frame, FPS)
        await page.picture()
        colours.append(await value(page, "box.style.background"))
    assert colours == ["rgb(192, 0, 0)"] * 5 + ["rgb(96, 0, 0)"]
    assert await value(page, "seen") == [[True, 64], [True, 32]]
    with pytest.raises(PageError, match="ResizeObserver"):
        await page.evaluate("new ResizeObserver(3)")
    await page.close()


async def test_frames_that_come_later_begin_at_that_moment_however_long_they_take(browser: Browser) -> None:
    """The browser loads and shows them in its own time; a document's time leaps when it is shown at last."""
    inner = "<style>div { animation: go 1s linear } @keyframes go { to { margin-left: 100px } }</style><div></div>"
    page = await opened(
        browser,
        STYLE
        + """<script>setTimeout(() => { for (let i = 0; i < 30; i++) {
          const frame = document.createElement("iframe");
          frame.src = "inner.html";
          document.body.append(frame);
        } }, 400);</script>""",
        **{"inner.html": inner},
    )
    await page.go(9, FPS)
    await page.picture()
    style = "one.getComputedStyle(one.document.querySelector('div'))"
    shown = await value(page, f"Array.from(frames).map((one) => parseFloat({style}.marginLeft))")
    assert shown == pytest.approx([50] * 30)
    await page.close()


async def test_what_a_frame_shows_first_is_not_over_when_it_is_loaded_at_last(browser: Browser) -> None:
    """Its page takes over the window that another one had, and the browser's own time passes while it loads."""
    inner = (
        "<style>div { animation: go 20ms linear } @keyframes go { to { margin-left: 100px } }</style><div></div>"
        '<script type="module" src="0.js"></script>'
    )
    chain = {f"{number}.js": f'import "./{number + 1}.js"' for number in range(10)}
    page = await opened(
        browser,
        STYLE
        + """<script>setTimeout(() => {
          const frame = document.createElement("iframe");
          frame.src = "inner.html";
          document.body.append(frame);
          frame.contentWindow.name = "looked into";
        }, 40);</script>""",
        **{"inner.html": inner, **chain, "10.js": ""},
    )
    await page.go(5, 100)
    await page.picture()
    style = "frames[0].getComputedStyle(frames[0].document.querySelector('div'))"
    assert await value(page, f"parseFloat({style}.marginLeft)") == pytest.approx(50)
    await page.close()


async def test_sounds_and_films_that_nobody_has_any_more_are_held_no_longer(browser: Browser, film: bytes) -> None:
    """One that plays goes on to its end without anybody who has it; one that is kept plays again."""
    html = f"""{STYLE}<script>
    const refs = [], over = [];
    const play = (name) => {{
      const v = document.createElement("video");
      Object.assign(v, {{ src: "film.webm", muted: true, playbackRate: 8 }});
      v.onended = () => over.push([name, performance.now()]);
      v.play();
      refs.push(new WeakRef(v));
      return v;
    }};
    const kept = play("kept");
    let n = 0;
    requestAnimationFrame(function more() {{
      for (let i = 0; i < 5 && n < 15; i++) play(n++);
      requestAnimationFrame(more);
    }});
    setTimeout(() => kept.play(), 600);
    const there = () => refs.filter((one) => one.deref()).length;</script>"""
    page = await opened(browser, html, **{"film.webm": film})
    for frame in range(10):
        await page.go(frame, FPS)
        await page.picture()
        await collect(page)
    over = await value(page, "over")
    assert [at for name, at in over if name == "kept"] == [300, 900]
    assert sorted(name for name, _ in over if name != "kept") == list(range(15))
    assert await value(page, "there()") <= 3
