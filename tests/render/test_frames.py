"""Frames that the page around them may not look into, and those without scripts: they keep the page's time too."""

from __future__ import annotations

import html
import io
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from koda_ray.errors import PageError
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FPS = 10
# red goes by CSS, green by SVG, blue by the page's script: 25 px a second each, from the left
INNER = """<!doctype html><style>
body { margin: 0; background: #111 }
div, svg { position: absolute; left: 0; width: 8px; height: 8px }
svg { top: 10px; width: 100px }
#red { background: red; animation: go 4s linear }
#blue { top: 20px; background: blue }
@keyframes go { to { left: 100px } }</style>
<div id=red></div>
<svg><rect width=8 height=8 fill=lime><animate attributeName=x from=0 to=100 dur=4s /></rect></svg>
<div id=blue></div>
<script>requestAnimationFrame(function on(at) { blue.style.left = `${at / 40}px`; requestAnimationFrame(on); })</script>
"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg"><rect y="10" width="8" height="8" fill="lime">
<animate attributeName="x" from="0" to="100" dur="4s"/></rect></svg>"""
STYLE = "<!doctype html><style>* { margin: 0 } iframe { width: 110px; height: 30px; border: 0; display: block }</style>"
TEXT = html.escape(INNER)
FILES = {
    "inner.html": INNER.encode(),
    "middle.html": f"{STYLE}<iframe sandbox=allow-scripts srcdoc='{TEXT}'></iframe>".encode(),
    "moving.svg": SVG.encode(),
}
ALL, UNSCRIPTED, DRAWN = (True, True, True), (True, True, False), (False, True, False)
KINDS = {
    "its own": ("<iframe srcdoc='{TEXT}'></iframe>", ALL),
    "sandboxed": ("<iframe sandbox=allow-scripts srcdoc='{TEXT}'></iframe>", ALL),
    "sandboxed, of a file": ("<iframe sandbox=allow-scripts src=inner.html></iframe>", ALL),
    "data": ("<iframe src='data:text/html,{DATA}'></iframe>", ALL),
    "without scripts": ("<iframe sandbox srcdoc='{TEXT}'></iframe>", UNSCRIPTED),
    "without scripts, its own": ("<iframe sandbox=allow-same-origin src=inner.html></iframe>", UNSCRIPTED),
    "a drawing": ("<iframe src=moving.svg></iframe>", DRAWN),
    "a drawing without scripts": ("<iframe sandbox src=moving.svg></iframe>", DRAWN),
}


async def opened(either: Browser, body: str) -> LoadedPage:
    text = STYLE + body.replace("{TEXT}", TEXT).replace("{DATA}", quote(INNER))
    page = await LoadedPage.open(
        either, Bundle({"index.html": text.encode(), **FILES}), PageSetup(width=110, height=40)
    )
    await page.wait_ready(20)
    return page


def lefts(data: bytes) -> tuple[int | None, ...]:
    """Where the red, the green and the blue square are, from the left; None where there is none."""
    rows = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[[4, 14, 24]].astype(int)
    found: list[int | None] = []
    for colour, row in enumerate(rows):
        its = np.flatnonzero(row[:, colour] * 2 - row.sum(axis=1) > 100)
        found.append(int(its[0]) if its.size else None)
    return tuple(found)


def expected(frame: int, moves: tuple[bool, ...], start: int = 0) -> tuple[int | None, ...]:
    at = round((frame - start) * 2.5)
    there = (True, True, True) if moves != DRAWN else DRAWN
    return tuple((at if one else 0) if seen else None for one, seen in zip(moves, there, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full
async def test_every_frame_keeps_the_pages_time_however_it_is_gone_to(either: Browser, kind: str) -> None:
    body, moves = KINDS[kind]
    played: dict[int, bytes] = {}
    page = await opened(either, body)
    for frame in range(14):
        await page.go(frame, FPS)
        played[frame] = await page.picture()
    await page.close()
    for frame in (2, 13):
        assert lefts(played[frame]) == pytest.approx(expected(frame, moves), abs=1)
    page = await opened(either, body)
    for frame in (6, 13):
        await page.go(frame, FPS)
        assert await page.picture() == played[frame], frame
    await page.close()


@pytest.mark.full
async def test_frames_inside_such_frames_and_those_that_come_later_begin_then(either: Browser) -> None:
    script = "document.body.innerHTML = '<iframe sandbox=allow-scripts src=middle.html></iframe>'"
    page = await opened(either, f"<body><script>setTimeout(() => {{ {script} }}, 300);</script>")
    for frame in range(12):
        await page.go(frame, FPS)
        seen = lefts(await page.picture())
        assert seen == ((None,) * 3 if frame < 3 else pytest.approx(expected(frame, ALL, 3), abs=1)), frame
    await page.close()


@pytest.mark.full
async def test_what_such_a_frame_and_the_page_say_to_each_other_is_in_the_same_picture(either: Browser) -> None:
    inner = "onmessage = (event) => parent.postMessage({ back: event.data }, '*')"
    page = await opened(
        either,
        f"""<iframe sandbox=allow-scripts srcdoc="<script>{inner}</script>" style="height: 0"></iframe>
        <div id=red style="position: absolute; top: 0; width: 8px; height: 8px; background: red"></div><script>
        onmessage = ({{ data }}) => {{ red.style.left = `${{data.back}}px`; }};
        requestAnimationFrame(function on(at) {{ frames[0].postMessage(at / 40, "*"); requestAnimationFrame(on); }});
        </script>""",
    )
    for frame in range(6):
        await page.go(frame, FPS)
        red = lefts(await page.picture())[0]
        assert red == pytest.approx(frame * 2.5, abs=1), frame
    await page.close()


@pytest.mark.full
async def test_such_a_frame_may_go_elsewhere_and_go_away(either: Browser) -> None:
    start = html.escape("<script>setTimeout(() => { location = 'https://bundle.koda/inner.html' }, 200)</script>")
    page = await opened(
        either,
        f"""<body><iframe sandbox=allow-scripts srcdoc="{start}"></iframe><script>
        setTimeout(() => document.querySelector("iframe").remove(), 900)</script>""",
    )
    seen: list[tuple[int | None, ...]] = []
    for frame in range(12):
        await page.go(frame, FPS)
        seen.append(lefts(await page.picture()))
    assert seen[8] == pytest.approx(expected(8, ALL, 2), abs=3)
    assert seen[:2] == [(None,) * 3] * 2
    assert seen[9:] == [(None,) * 3] * 3
    await page.close()


@pytest.mark.parametrize("sandbox", ["allow-scripts", "allow-scripts allow-same-origin"])
@pytest.mark.full
async def test_a_frame_may_have_itself_removed_at_any_moment(either: Browser, sandbox: str) -> None:
    inner = html.escape("<script>requestAnimationFrame(() => parent.postMessage('done', '*'))</script>")
    page = await opened(
        either,
        f"""<body><script>
        const add = () => document.body.insertAdjacentHTML(
          "beforeend", `<iframe sandbox="{sandbox}" srcdoc="{inner}"></iframe>`);
        let gone = 0;
        onmessage = () => {{
          document.querySelector("iframe").remove();
          gone += 1;
          if (gone == 6) document.body.style.background = "red";
        }};
        setInterval(add, 100); add();</script>""",
    )
    for frame in range(6):
        await page.go(frame, FPS)
    assert Image.open(io.BytesIO(await page.picture())).convert("RGB").getpixel((50, 20)) == (255, 0, 0)
    await page.close()


async def test_what_goes_wrong_in_such_a_frame_ends_the_render_with_its_words(either: Browser) -> None:
    fails = "window.__koda = { ready: Promise.resolve(), seek(s) { if (s > 0.1) throw new Error('not any further') } }"
    page = await opened(either, f'<iframe sandbox=allow-scripts srcdoc="<script>{fails}</script>"></iframe>')
    await page.go(1, FPS)
    with pytest.raises(PageError, match=r"frame 2: .*not any further"):
        await page.go(2, FPS)
    await page.close()
