"""The page in a real browser against a real server: how large, how quick, how quiet, and whether everybody can use it.

``python -m benchmarks.face --json FILE``; ``--quick`` takes fewer samples and looks at one scheme and one width. The
agents follow the tests' script, so that what is measured is the server's HTTP, its store and the page; only what goes
on in a night is counted on a whole server, with Ray and processes of sessions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from playwright.async_api import Browser, Page, async_playwright

from benchmarks.server import Server
from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.render.programs import find_browser
from tests.serve.scripted import VIDEO
from tests.serve.world import World, reached, world
from tests.web import axes
from tests.web.films import have_films
from tests.web.lives import live, running_in
from tests.web.places import places

__all__ = ["FIGURES", "figures"]

FIGURES = {
    "first_page_kb": "what crosses the network, compressed, until the first page is there, in kilobytes",
    "ready_ms": "median from an address to a prompt that takes words, with nothing kept from before",
    "event_to_paint_ms": (
        "95th percentile from an event's commit to the frame after the one that paints it, by the clock of both: words "
        "of an agent in one of 10 nodes on a canvas, all of them in view, readable, and at work"
    ),
    "seek_to_paint_ms": (
        "95th percentile from an input on the slider of a live page, 640 x 360 pixels large, to when the page in its "
        "frame, whose animation is the template's, has painted that time: the end of the animation frame in which its "
        "seek is over, by its own word. The screen's share, after the page's, is not in it"
    ),
    "compare_max_drift_frames": "by how many frames two videos that play beside each other were ever apart",
    "nodes_30_connections": "how many requests a canvas of 30 animations keeps open, each of them followed",
    "idle_night_processes": (
        "most processes of sessions that a server with Ray has while pages stay open, after its sessions had time to "
        "fall asleep: one on a plan, one on a preview whose live page was out of sight for longer than it is kept, a "
        "comparison, a canvas, the gallery and the queue"
    ),
    "axe_violations": "what axe-core finds, by the tests' rules, in all places, schemes and widths together",
}
"""What is measured, and how."""

IN_VIEW = 10
_LIVE_FPS = 60
_FILM_FPS, _FILM_S = 30, 8.0
_NODES = 30
_IDLE_S = 3
_FALLS_ASLEEP_S = 60
_LOOKS_PER_S = 4
_BEGUN_MS = 60_000
_MADE_MS = 180_000
_UNSEEN_MS = 61_000
"""Longer than a live page that nobody sees is kept."""
WIDTHS = (1440, 1024, 390)
PROMPT = "textarea[aria-label='What should move']"
_HIDE = """() => {
  for (const [name, value] of [['hidden', true], ['visibilityState', 'hidden']])
    Object.defineProperty(document, name, { get: () => value, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
_WHEN_USABLE = """(() => {
  const look = () => document.querySelector("textarea[aria-label='What should move']")
    ? requestAnimationFrame(() => { window.usableMs = performance.now(); }) : requestAnimationFrame(look);
  requestAnimationFrame(look);
})()"""
_USABLE = """new Promise((done) => {
  const look = () => window.usableMs === undefined ? requestAnimationFrame(look) : done(window.usableMs);
  look();
})"""
_ALL_IN_VIEW = """(count) => [...document.querySelectorAll('.react-flow__node .koda-thought')].filter((each) => {
  const { top, left, bottom, right } = each.getBoundingClientRect();
  return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth;
}).length === count"""
_WHEN_SHOWN = """([node, words]) => new Promise((done) => {
  const place = `.react-flow__node[data-id="${node}"] .koda-thought`;
  const look = () => document.querySelector(place)?.textContent === words
    ? requestAnimationFrame(() => done(Date.now())) : requestAnimationFrame(look);
  look();
})"""
_SEEK = """(frame) => {
  const slider = document.querySelector("input[aria-label='Frame']");
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(slider, String(frame));
  const begun = Date.now();
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  return begun;
}"""
_TELL_PAINTS = """() => {
  const { seek } = window.__koda;
  window.__koda.seek = async (seconds) => {
    await seek(seconds);
    requestAnimationFrame(() => {
      const painted = new MessageChannel(); // whose message comes after what this frame paints
      painted.port1.onmessage = () => window.painted?.(seconds, Date.now());
      painted.port2.postMessage(0);
    });
  };
}"""
_AWAIT_PAINT = """(wanted) => {
  window.paint = new Promise((done) => {
    window.painted = (seconds, at) => Math.abs(seconds - wanted) < 1e-6 && done(at);
  });
}"""
_DRIFT = """([fps, seconds]) => new Promise((done) => {
  const videos = ['A', 'B'].map((name) => document.querySelector(`video[aria-label^="${name}:"]`));
  const drawn = [];
  const hear = (which) => videos[which].requestVideoFrameCallback((_, { mediaTime }) => {
    drawn[which] = Math.round(mediaTime * fps); // a container's times are whole milliseconds
    hear(which);
  });
  [0, 1].forEach(hear);
  let begun, worst = 0;
  const look = (now) => {
    if (drawn[0] !== undefined && drawn[1] !== undefined && videos.every(({ paused }) => !paused)) {
      begun ??= now;
      worst = Math.max(worst, Math.abs(drawn[0] - drawn[1]));
      if (now - begun > seconds * 1000) return done(worst);
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


async def figures(*, quick: bool) -> dict[str, float]:
    """Measure all that `FIGURES` names.

    Args:
        quick: Take few samples, look at one scheme and one width, and let a night be three seconds.
    """
    if not axes.AXE:
        raise SystemExit("axe-core is not there: ./koda setup brings it")
    found: dict[str, float] = {}

    def note(name: str, value: float) -> None:
        found[name] = value
        sys.stderr.write(f"{name} {value:g}\n")  # whoever waits sees how far it is

    samples = 5 if quick else 30
    program = str(find_browser(Settings().chromium_path).path)
    with tempfile.TemporaryDirectory(prefix="koda-face-") as folder:
        scripted, alive, night = (Path(folder) / name for name in ("scripted", "alive", "night"))
        for each in (scripted, alive, night):
            each.mkdir()
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            try:
                async with world(scripted, KODA_WEB_PATH=Settings().web_path) as koda:
                    note("first_page_kb", await _first_page_kb(browser, koda.url))
                    note("ready_ms", await _ready_ms(browser, koda.url, samples))
                    note("event_to_paint_ms", await _event_to_paint_ms(browser, koda, samples))
                    note("compare_max_drift_frames", await _compare_max_drift_frames(browser, koda, 2 if quick else 5))
                    note("nodes_30_connections", await _nodes_connections(browser, koda))
                async with running_in(alive) as running:
                    note("seek_to_paint_ms", await _seek_to_paint_ms(browser, running.koda, samples * 4))
                    note("axe_violations", await _axe_violations(browser, running.koda, quick=quick))
                note("idle_night_processes", await _idle_night_processes(browser, night, quick=quick))
            finally:
                await browser.close()
    return {name: found[name] for name in FIGURES}


async def _first_page_kb(browser: Browser, url: str) -> float:
    """What crosses the network, compressed, until the prompt can be used and nothing more comes."""
    page = await browser.new_page()
    await page.goto(url, wait_until="networkidle")
    moved = await page.evaluate(
        "performance.getEntries().reduce((sum, one) => sum + (one.encodedBodySize || 0), 0)"
    )  # of the same origin, all of it
    await page.close()
    return round(float(moved) / 1000, 1)


async def _ready_ms(browser: Browser, url: str, samples: int) -> float:
    taken: list[float] = []
    for _ in range(samples):
        context = await browser.new_context()  # nothing kept from the time before
        page = await context.new_page()
        await page.add_init_script(_WHEN_USABLE)
        await page.goto(url)
        taken.append(float(await page.evaluate(_USABLE)))
        await context.close()
    return round(statistics.median(taken))


async def _begun(page: Page, url: str, prompt: str) -> str:
    await page.goto(url)
    await page.locator(PROMPT).fill(prompt)
    await page.get_by_role("button", name="Make it").click()
    await page.wait_for_url("**/s/*")
    return page.url.rpartition("/")[2]


async def _on_canvas(page: Page, koda: World, count: int, *, columns: int, row_px: int, zoom: float) -> list[str]:
    """Show so many animations on a canvas, in rows, with agents that only do what they are told; return their ids."""
    koda.directory.hold = {"analyze"}
    async with KodaClient(koda.url) as client:
        ids = [(await client.create(f"Ball {number}")).session_id for number in range(count)]
    await _laid_out(page, koda.url, ids, columns=columns, row_px=row_px, zoom=zoom)
    return ids


async def _laid_out(page: Page, url: str, ids: Sequence[str], *, columns: int, row_px: int, zoom: float) -> None:
    """Open a canvas that has sessions, in rows."""
    layout = {
        "version": 1,
        "name": "All of them",
        "nodes": [
            {
                "id": f"n{number}",
                "position": {"x": 450 * (number % columns), "y": row_px * (number // columns)},
                "data": {"plugin": "animation-generator", "sessionId": session_id},
            }
            for number, session_id in enumerate(ids)
        ],
        "edges": [],
        "view": {"x": 40, "y": 40, "zoom": zoom},
    }
    await page.goto(url)
    await page.evaluate("text => localStorage.setItem('koda.canvas/local/all', text)", json.dumps(layout))
    await page.goto(f"{url}/c/all")
    shown = "count => document.querySelectorAll('.react-flow__node').length === count"
    await page.wait_for_function(shown, arg=len(ids))


def _p95(taken: Sequence[float]) -> float:
    return round(sorted(taken)[math.ceil(0.95 * len(taken)) - 1])


async def _event_to_paint_ms(browser: Browser, koda: World, samples: int) -> float:
    """Have agents of one node after the other say something, all over the canvas."""
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    ids = await _on_canvas(page, koda, IN_VIEW, columns=5, row_px=700, zoom=0.55)
    await page.wait_for_function(_ALL_IN_VIEW, arg=IN_VIEW)
    taken: list[float] = []
    for number in range(samples):
        node, words = number * 3 % IN_VIEW, f"Thinking of {number} things"
        seen = asyncio.create_task(page.evaluate(_WHEN_SHOWN, [f"n{node}", words]))
        await asyncio.sleep(0.3)  # apart, as agents' steps are
        committed = time.time()
        await koda.directory.move(ids[node], commands.Think(words))
        taken.append(float(await seen) - committed * 1000)
    koda.directory.hold = set()
    await page.close()
    return _p95(taken)


async def _seek_to_paint_ms(browser: Browser, koda: World, samples: int) -> float:
    """Go through the template's own film, all over it, and back and forth."""
    page = await browser.new_page()
    await page.goto(koda.url)
    _, inside = await live(koda, page)
    await page.keyboard.press("k")
    await page.evaluate("document.querySelector('iframe').parentElement.style.width = '640px'")
    await inside.evaluate(_TELL_PAINTS)

    async def sought(frame: int) -> float:
        await inside.evaluate(_AWAIT_PAINT, frame / _LIVE_FPS)
        begun = float(await page.evaluate(_SEEK, frame))
        return float(await inside.evaluate("window.paint")) - begun

    await sought(1)  # what is drawn for the first time is compiled
    taken = [await sought(7 + number * 89 % 290) for number in range(samples)]
    await page.close()
    return _p95(taken)


async def _compare_max_drift_frames(browser: Browser, koda: World, seconds: float) -> float:
    """Have two versions play beside each other, from their first frame on."""
    before = dict(VIDEO)
    page = await browser.new_page()
    try:
        VIDEO["preview"] = await asyncio.to_thread(_film)
        koda.directory.shown_s = _FILM_S  # so long that they do not begin anew meanwhile
        await _begun(page, koda.url, "A ball to compare")
        for name in ("Answer", "Make this"):
            await page.get_by_role("button", name=name).wait_for()
            if name == "Answer":
                await page.get_by_role("radio").first.check()
            await page.get_by_role("button", name=name).click()
        await page.get_by_role("heading", name="Here is a preview").wait_for()
        await page.get_by_label("What should be different").fill("red")
        await page.get_by_role("button", name="Send", exact=True).click()
        await page.get_by_role("link", name="Compare").wait_for()
        await page.get_by_role("link", name="Compare").click()
        await page.get_by_role("slider", name="Frame").wait_for()
        async with asyncio.timeout(60), asyncio.TaskGroup() as together:
            measured = together.create_task(page.evaluate(_DRIFT, [_FILM_FPS, seconds]))
            await page.get_by_role("button", name="Play", exact=True).click()
        return float(measured.result())
    finally:
        VIDEO.update(before)
        await page.close()


def _film() -> bytes:
    """Make a film of which each frame is another."""
    with tempfile.TemporaryDirectory(prefix="koda-face-") as folder:
        path = Path(folder) / "film.webm"
        drawn = f"testsrc2=s=640x360:r={_FILM_FPS}:d={_FILM_S}"
        codec = ["-c:v", "libvpx", "-deadline", "realtime", "-b:v", "1M", "-g", "30"]
        subprocess.run(
            ["ffmpeg", "-y", "-loglevel", "error", "-f", "lavfi", "-i", drawn, *codec, str(path)], check=True
        )
        return path.read_bytes()


async def _nodes_connections(browser: Browser, koda: World) -> float:
    """How many requests of a canvas with 30 animations stay open, each of them followed."""
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    under_way = set[object]()
    page.on("request", lambda request: under_way.add(request))
    page.on("requestfinished", lambda request: under_way.discard(request))
    page.on("requestfailed", lambda request: under_way.discard(request))
    ids = await _on_canvas(page, koda, _NODES, columns=6, row_px=500, zoom=0.3)
    await koda.directory.move(ids[-1], commands.Think("Thirty are followed"))
    open_streams = koda.app.state.streams.count
    await reached(lambda: 0 < len(under_way) <= open_streams("local"))  # what was only read has come to its end
    koda.directory.hold = set()
    found = len(under_way)
    await page.close()
    return float(found)


async def _idle_night_processes(browser: Browser, folder: Path, *, quick: bool) -> float:
    """Leave pages open in front of a whole server, and count whom it keeps awake or wakes for them."""
    settings = {"KODA_DIRECTOR": "offline", "KODA_WEB_PATH": str(Settings().web_path)}
    async with Server(folder, **settings, KODA_IDLE_TIMEOUT_S=str(_IDLE_S)) as server:
        context = await browser.new_context()
        ids: list[str] = []
        planned = [await context.new_page() for _ in range(2)]
        for page in planned:
            page.set_default_timeout(_BEGUN_MS)
            ids.append(await _begun(page, server.url, "a bouncing ball, 2 seconds, playful"))
            await page.get_by_role("button", name="Make this").wait_for()
            if not _session_processes(server):
                raise RuntimeError("a session that has just made its plan has no process that can be counted")
        if not quick:
            await _seen_live(planned[-1])
            await _compared(await context.new_page(), server.url, ids[-1])
            await _laid_out(await context.new_page(), server.url, ids, columns=2, row_px=500, zoom=0.5)
        for path in ("/", "/renders"):
            page = await context.new_page()
            await page.goto(server.url + path)
        for _ in range(_FALLS_ASLEEP_S * _LOOKS_PER_S):
            if not _session_processes(server):
                break
            await asyncio.sleep(1 / _LOOKS_PER_S)
        most = 0
        for _ in range((3 if quick else 30) * _LOOKS_PER_S):
            most = max(most, _session_processes(server))
            await asyncio.sleep(1 / _LOOKS_PER_S)
        await context.close()
    return float(most)


async def _seen_live(page: Page) -> None:
    """Have a session on its plan make its preview, and its live page looked at, then out of sight until it is left."""
    page.set_default_timeout(_MADE_MS)
    await page.get_by_role("button", name="Make this").click()
    await page.get_by_role("heading", name="Here is a preview").wait_for()
    await page.clock.install()
    await page.get_by_role("button", name="See it live").click()
    await page.locator("iframe").wait_for()
    await page.get_by_role("slider", name="Frame").wait_for()
    await page.evaluate(_HIDE)
    await page.clock.fast_forward(_UNSEEN_MS)
    await page.locator("iframe").wait_for(state="detached")


async def _compared(page: Page, url: str, session_id: str) -> None:
    """Open the comparison of what a session shows with itself: one more version would take as long as the night."""
    async with KodaClient(url) as client:
        version = (await client.versions(session_id)).versions[0].id
    await page.goto(f"{url}/s/{session_id}/compare?a={version}&b={version}")
    await page.get_by_role("slider", name="Frame").wait_for()


def _session_processes(server: Server) -> int:
    """How many processes of sessions Ray has below a server: each is named for what it is."""
    found = 0
    for each in psutil.Process(server.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            found += any(word.startswith("ray::") and "SessionHost" in word for word in each.cmdline()[:1])
    return found


async def _axe_violations(browser: Browser, koda: World, *, quick: bool) -> float:
    """Go to all places there are, and say on the way what was found where."""
    page = await browser.new_page()
    page.set_default_timeout(_BEGUN_MS)
    found = 0
    await asyncio.to_thread(have_films)
    async for place in places(koda, page):
        for scheme in ("dark",) if quick else axes.SCHEMES:
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # a colour on its way is nobody's
            for width in (390,) if quick else WIDTHS:
                await page.set_viewport_size({"width": width, "height": 844})
                rules = [str(rule["id"]) for rule in await axes.violations(page)]
                if rules:
                    sys.stderr.write(f"{place}, {scheme}, {width} px: {', '.join(rules)}\n")
                found += len(rules)
        await page.emulate_media(reduced_motion="no-preference")  # what comes next moves by itself
    await page.close()
    return float(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(arguments)
    found = asyncio.run(figures(quick=asked.quick))
    text = json.dumps(found, indent=2) + "\n"
    if asked.json:
        asked.json.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
