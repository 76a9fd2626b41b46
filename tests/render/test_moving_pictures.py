"""Pictures that move by themselves show what the frame's time says, in the headless shell and in the full browser."""

from __future__ import annotations

import io
import json
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.render.clocked import documents, value

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FPS = 10
PICTURES = 10
SIDE = 16


def moving(kind: str, *, loop: int = 0, duration_ms: int = 100) -> bytes:
    """Ten pictures, each 20 brighter than the one before."""
    first, *others = [Image.new("L", (SIDE, SIDE), 20 * n).convert("RGB") for n in range(PICTURES)]
    data = io.BytesIO()
    options: dict[str, object] = {"lossless": True} if kind == "WEBP" else {}
    first.save(data, kind, save_all=True, append_images=others, duration=duration_ms, loop=loop, **options)
    return data.getvalue()


# grey by an animation, and by a style, of which a quarter is over when it begins
BY_TAGS = """<animate attributeName="fill" from="#000000" to="#c8c8c8" begin="0:00:00" dur="1000ms"
repeatCount="indefinite" calcMode="discrete" values="{}"/>"""
BY_STYLE = """<style>rect { animation: go 1s -250ms infinite steps(10, end) }
@keyframes go { from { fill: #000 } to { fill: #c8c8c8 } }</style>"""


def drawing(inside: str) -> bytes:
    greys = ";".join(f"#{20 * n:02x}{20 * n:02x}{20 * n:02x}" for n in range(PICTURES))
    size = f'width="{SIDE}" height="{SIDE}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><rect {size}>{inside.format(greys)}</rect></svg>'.encode()


FILES = {
    "a.gif": moving("GIF"),
    "b.webp": moving("WEBP"),
    "c.png": moving("PNG"),
    "d.gif": moving("GIF", loop=1),  # played twice
    "e.gif": moving("GIF", duration_ms=10),  # which browsers take for 100
    "f.svg": drawing(BY_TAGS),
    "g.svg": drawing(BY_STYLE.replace("{", "{{").replace("}", "}}")),
    "frame.html": b"<!doctype html><style>* { margin: 0 } img { display: block }</style><img src=b.webp>",
}
SHOWN = """<img src=a.gif><img src=b.webp><img src=c.png><img src=d.gif><img src=e.gif>
<div style="background: url(a.gif)"></div><div class=of-a-style></div>
<iframe sandbox src=frame.html></iframe>
<img src=f.svg><img src=g.svg><div style="background: url(f.svg)"></div>"""
PAGE = f"""<!doctype html><style>* {{ margin: 0 }} body {{ display: flex }}
img, div, iframe {{ width: {SIDE}px; height: {SIDE}px; border: 0; flex: none }}
.of-a-style {{ background: url(b.webp) }}</style>{SHOWN}"""
CONTRACT = "<script>window.__koda = { ready: Promise.resolve(), seek() {} }</script>"
COUNT = 11
LOOPED_TWICE, LATER = 3, 9


async def opened(browser: Browser, html: str) -> LoadedPage:
    page = await LoadedPage.open(
        browser, Bundle({"index.html": html.encode(), **FILES}), PageSetup(width=SIDE * COUNT, height=SIDE)
    )
    await page.wait_ready(20)
    return page


async def levels(page: LoadedPage) -> list[float]:
    """How bright each is, in units of 20."""
    pixels = np.asarray(Image.open(io.BytesIO(await page.picture())).convert("L"))
    return [pixels[2:-2, at * SIDE + 2 : (at + 1) * SIDE - 2].mean() / 20 for at in range(COUNT)]


def expected(frame: int) -> list[int]:
    every = [frame % PICTURES] * COUNT
    every[LOOPED_TWICE] = frame % PICTURES if frame < 2 * PICTURES else PICTURES - 1
    every[LATER] = (frame + 2) % PICTURES
    return every


@pytest.mark.full
async def test_each_goes_by_the_clock(either: Browser) -> None:
    page = await opened(either, PAGE)
    for frame in range(24):
        await page.go(frame, FPS)
        assert await levels(page) == pytest.approx(expected(frame), abs=0.2), frame
    await page.close()


@pytest.mark.parametrize("frames", [(0, 7, 23), (3,), (21,)])
@pytest.mark.full
async def test_each_is_there_at_once_where_a_page_is_sought(either: Browser, frames: tuple[int, ...]) -> None:
    page = await opened(either, PAGE + CONTRACT)
    for frame in frames:
        await page.go(frame, FPS)
        assert await levels(page) == pytest.approx(expected(frame), abs=0.2), frame
    await page.close()


@pytest.mark.full
async def test_one_that_the_page_changes_is_the_one_that_it_wants(either: Browser) -> None:
    change = """setTimeout(() => { document.images[0].src = "still.png"; document.images[1].src = "a.gif"; }, 300);
    setTimeout(() => { document.querySelector(".of-a-style").className = ""; }, 500);"""
    still = io.BytesIO()
    Image.new("L", (SIDE, SIDE), 240).save(still, "PNG")
    files = {"index.html": f"{PAGE}<script>{change}</script>".encode(), "still.png": still.getvalue(), **FILES}
    page = await LoadedPage.open(either, Bundle(files), PageSetup(width=SIDE * COUNT, height=SIDE))
    await page.wait_ready(20)
    for frame in range(8):
        await page.go(frame, FPS)
        wanted = [float(level) for level in expected(frame)]
        wanted[0] = 12 if frame >= 3 else frame
        wanted[6] = 12.75 if frame >= 5 else frame  # the page itself, which is white
        assert await levels(page) == pytest.approx(wanted, abs=0.2), frame
    await page.close()


@pytest.mark.full
async def test_drawings_that_a_script_makes_anew_at_each_frame_are_not_all_kept(either: Browser) -> None:
    """Each of 50 KB, and moves: what is shown, comes back, or may be drawn by a script is as its time says."""
    names = ("always", "back", "gone", "kept")
    urls = {name: f"data:image/svg+xml,{quote(drawing(f'{BY_TAGS}<desc>{name}</desc>'))}" for name in names}
    script = f"""const {{ always, back, gone, kept }} = {json.dumps(urls)};
    const add = (kind) => document.body.appendChild(document.createElement(kind));
    const [shown, place, lost] = [add("img"), add("div"), add("img")], image = new Image();
    shown.src = always; lost.src = gone; image.src = kept;
    const show = () => {{ place.style.background = `url("${{back}}")`; }};
    show();
    setTimeout(() => {{ lost.remove(); place.style.background = ""; }}, 250);
    setTimeout(show, 1650);
    const holes = Array.from({{ length: 10 }}, () => add("b"));
    let made = 0;
    requestAnimationFrame(function anew() {{
      for (const hole of holes) {{
        const words = `<svg xmlns="http://www.w3.org/2000/svg"><rect><animate attributeName="x" to="9" dur="1s"/></rect>
          <desc>${{made++}} ${{"x".repeat(50_000)}}</desc></svg>`;
        hole.style.backgroundImage = `url('data:image/svg+xml,${{encodeURIComponent(words)}}')`;
      }}
      requestAnimationFrame(anew);
    }});
    const pen = document.createElement("canvas").getContext("2d");
    const grey = (one) => {{ pen.drawImage(one, 0, 0); return pen.getImageData(4, 4, 1, 1).data[0] / 20; }};"""
    style = PAGE.removesuffix(SHOWN) + "<style>b { position: absolute; width: 1px; height: 1px; left: -9px }</style>"
    page = await opened(either, f"{style}<body><script>{script}</script>")
    for frame in range(26):
        await page.go(frame, FPS)
        level = float(frame % PICTURES)
        there = level if frame < 3 or frame >= 17 else 12.75  # the page itself, which is white
        assert (await levels(page))[:2] == pytest.approx([level, there], abs=0.2), frame
        assert await value(page, "[grey(lost), grey(image)]") == pytest.approx([level] * 2, abs=0.2), frame
    assert await value(page, "made") == 260
    assert await documents(page) < 260
    await page.close()
