"""The page in a real browser against a real server: how large, how quick, how quiet, and whether everybody can use it.

``python -m benchmarks.face --json FILE``; ``--quick`` takes fewer samples and looks at one scheme and one width. The
agents follow the tests' script, so that what is measured is the server's HTTP, its store and the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.render.programs import find_browser
from tests.serve.scripted import VIDEO
from tests.serve.world import World, reached, world
from tests.web.lives import live, running_in

__all__ = ["figures"]

AXE_PLACES = tuple(
    REPO_ROOT / folder / "node_modules" / "axe-core" / "axe.min.js" for folder in ("web", ".koda/web-build")
)
IN_VIEW = 10
_LIVE_FPS = 60
_FILM_FPS, _FILM_S = 30, 8.0
_NODES = 30
ASLEEP = 5
PROMPT = "textarea[aria-label='What should move']"
_WHEN_USABLE = """(() => {
  const look = () => document.querySelector("textarea[aria-label='What should move']")
    ? requestAnimationFrame(() => { window.usableMs = performance.now(); }) : requestAnimationFrame(look);
  requestAnimationFrame(look);
})()"""
_USABLE = """new Promise((done) => {
  const look = () => window.usableMs === undefined ? requestAnimationFrame(look) : done(window.usableMs);
  look();
})"""
_WHEN_SHOWN = """(words) => new Promise((done) => {
  const look = () => document.body.innerText.includes(words)
    ? requestAnimationFrame(() => done(Date.now())) : requestAnimationFrame(look);
  look();
})"""


_WHEN_SOUGHT = """([frame, fps]) => new Promise((done) => {
  const slider = document.querySelector("input[aria-label='Frame']");
  const begun = performance.now();
  const heard = ({ data }) => {
    if (data?.type !== 'state' || data.id === undefined || Math.abs(data.time - frame / fps) > 1e-6) return;
    removeEventListener('message', heard);
    requestAnimationFrame(() => done(performance.now() - begun));
  };
  addEventListener('message', heard);
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(slider, String(frame));
  slider.dispatchEvent(new Event('input', { bubbles: true }));
})"""


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
    """Measure all; ``event_to_paint_ms`` is the 95th percentile from an event's commit to the frame that shows it.

    ``seek_to_paint_ms`` is the same from the slider of a live page, 640 x 360 pixels large, to its frame;
    ``compare_max_drift_frames`` is by how many frames two videos that play beside each other were ever apart.
    """
    samples = 5 if quick else 30
    program = str(find_browser(Settings().chromium_path).path)
    with tempfile.TemporaryDirectory(prefix="koda-face-") as folder:
        async with world(Path(folder), KODA_WEB_PATH=Settings().web_path) as koda, async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            try:
                return {
                    "first_page_kb": await _first_page_kb(browser, koda.url),
                    "ready_ms": await _ready_ms(browser, koda.url, samples),
                    "event_to_paint_ms": await _event_to_paint_ms(browser, koda, samples),
                    "seek_to_paint_ms": await _seek_to_paint_ms(browser, samples * 4),
                    "compare_max_drift_frames": await _compare_max_drift_frames(browser, koda, 2 if quick else 5),
                    "nodes_30_connections": await _nodes_connections(browser, koda),
                    "idle_night_processes": await _idle_night_processes(browser, koda, 3 if quick else 30),
                    "axe_violations": await _axe_violations(browser, koda, quick=quick),
                }
            finally:
                await browser.close()


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


async def _begun(page: Page, koda: World, prompt: str) -> str:
    await page.goto(koda.url)
    await page.locator(PROMPT).fill(prompt)
    await page.get_by_role("button", name="Make it").click()
    await page.wait_for_url("**/s/*")
    return page.url.rpartition("/")[2]


async def _event_to_paint_ms(browser: Browser, koda: World, samples: int) -> float:
    page = await browser.new_page()
    koda.directory.hold = {"analyze"}
    ids = [await _begun(page, koda, f"Ball {number}") for number in range(IN_VIEW)]
    shown = await browser.new_page()
    await shown.goto(f"{koda.url}/s/{ids[0]}")
    await page.goto(koda.url)  # and all of them in the list, on its own connection
    await shown.bring_to_front()
    await shown.get_by_role("button", name="Stop").wait_for()
    taken: list[float] = []
    for number in range(samples):
        words = f"Thinking of {number} things"
        seen = asyncio.create_task(shown.evaluate(_WHEN_SHOWN, words))
        await asyncio.sleep(0.3)  # apart, as agents' steps are
        committed = time.time()
        await koda.directory.move(ids[0], commands.Think(words))
        taken.append(float(await seen) - committed * 1000)
    koda.directory.hold = set()
    await shown.close()
    await page.close()
    taken.sort()
    return round(taken[math.ceil(0.95 * len(taken)) - 1])


async def _seek_to_paint_ms(browser: Browser, samples: int) -> float:
    """Go through the template's own film, all over it, and back and forth."""
    with tempfile.TemporaryDirectory(prefix="koda-face-") as folder:
        async with running_in(Path(folder)) as running:
            page = await browser.new_page()
            await page.goto(running.koda.url)
            await live(running.koda, page)
            await page.keyboard.press("k")
            await page.evaluate("document.querySelector('iframe').parentElement.style.width = '640px'")
            await page.evaluate(_WHEN_SOUGHT, [1, _LIVE_FPS])  # what is drawn for the first time is compiled
            taken = [
                float(await page.evaluate(_WHEN_SOUGHT, [7 + number * 89 % 290, _LIVE_FPS]))
                for number in range(samples)
            ]
            await page.close()
    taken.sort()
    return round(taken[math.ceil(0.95 * len(taken)) - 1])


async def _compare_max_drift_frames(browser: Browser, koda: World, seconds: float) -> float:
    """Have two versions play beside each other, from their first frame on."""
    before = dict(VIDEO)
    page = await browser.new_page()
    try:
        VIDEO["preview"] = await asyncio.to_thread(_film)
        session_id = await _begun(page, koda, "A ball to compare")
        for name in ("Answer", "Make this"):
            await page.get_by_role("button", name=name).wait_for()
            if name == "Answer":
                await page.get_by_role("radio").first.check()
            await page.get_by_role("button", name=name).click()
        await page.get_by_role("heading", name="Here is a preview").wait_for()
        await page.get_by_label("What should be different").fill("red")
        await page.get_by_role("button", name="Send", exact=True).click()
        await page.get_by_role("link", name="Compare").wait_for()
        for version in await koda.store.versions(session_id, limit=2):
            job = await koda.store.get_job(version.job_id, user_id="local")
            await koda.directory.tell(replace(job, video_s=_FILM_S))  # so long that they do not begin anew meanwhile
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
    koda.directory.hold = {"analyze"}
    async with KodaClient(koda.url) as client:
        ids = [(await client.create(f"Ball {number}")).session_id for number in range(_NODES)]
    layout = {
        "version": 1,
        "name": "Thirty",
        "nodes": [
            {
                "id": f"n{number}",
                "position": {"x": 450 * (number % 6), "y": 500 * (number // 6)},
                "data": {"plugin": "animation-generator", "sessionId": session_id},
            }
            for number, session_id in enumerate(ids)
        ],
        "edges": [],
        "view": {"x": 40, "y": 120, "zoom": 0.3},
    }
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    under_way = set[object]()
    page.on("request", lambda request: under_way.add(request))
    page.on("requestfinished", lambda request: under_way.discard(request))
    page.on("requestfailed", lambda request: under_way.discard(request))
    await page.goto(koda.url)
    await page.evaluate("text => localStorage.setItem('koda.canvas/local/thirty', text)", json.dumps(layout))
    await page.goto(f"{koda.url}/c/thirty")
    await page.wait_for_function("count => document.querySelectorAll('.react-flow__node').length === count", arg=_NODES)
    await koda.directory.move(ids[-1], commands.Think("Thirty are followed"))
    open_streams = koda.app.state.streams.count
    await reached(lambda: 0 < len(under_way) <= open_streams("local"))  # what was only read has come to its end
    koda.directory.hold = set()
    found = len(under_way)
    await page.close()
    return float(found)


async def _idle_night_processes(browser: Browser, koda: World, seconds: float) -> float:
    """How many sessions a page that is left open wakes or keeps awake."""
    pages = [await browser.new_page() for _ in range(ASLEEP)]
    ids = [await _begun(page, koda, "A ball that sleeps") for page in pages]
    for page in pages:
        await page.get_by_role("button", name="Answer").wait_for()
    before = koda.directory.activations
    for session_id in ids:
        koda.directory.forget(session_id)
    await asyncio.sleep(seconds)
    watched = sum(koda.directory.watchers.get(session_id, 0) > 0 for session_id in ids)
    for page in pages:
        await page.close()
    return float(koda.directory.activations - before + watched)


async def _axe_violations(browser: Browser, koda: World, *, quick: bool) -> float:
    axe = next((path.read_text() for path in AXE_PLACES if path.is_file()), None)
    if axe is None:
        raise SystemExit("axe-core is not there: ./koda setup brings it")
    found = 0
    for scheme in ("dark",) if quick else ("light", "dark"):
        for width in (390,) if quick else (1440, 1024, 390):
            page = await browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 844})
            await page.goto(koda.url)
            await page.locator(PROMPT).wait_for()
            found += await _examined(page, axe)
            await _begun(page, koda, "A ball")
            for name in ("Answer", "Make this", "Render 1080p at 60 fps"):
                button = page.get_by_role("button", name=name)
                await button.wait_for()
                found += await _examined(page, axe)
                if name == "Answer":
                    await page.get_by_role("radio").first.check()
                await button.click()
            await page.get_by_role("heading", name="It is finished").wait_for()
            found += await _examined(page, axe)
            await page.close()
    return float(found)


async def _examined(page: Page, axe: str) -> int:
    return int(await page.evaluate(f"{axe}; axe.run().then((result) => result.violations.length)"))


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
