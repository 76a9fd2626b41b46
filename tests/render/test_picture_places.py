"""Wherever a page shows a picture that moves by itself, it shows what the frame's time says, in both browsers."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping

import numpy as np
import pytest
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.render.test_moving_pictures import CONTRACT, FILES, FPS, SIDE, drawing

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FADING = (
    '<animate attributeName="fill-opacity" dur="1s" repeatCount="indefinite" calcMode="discrete" '
    f'values="{";".join(f"{1 - 20 * n / 255:.4f}" for n in range(10))}"/>'
)
HALF = SIDE // 2
STYLES = f"""<!doctype html><style>
* {{ margin: 0; padding: 0; transition: all 5s }}
body {{ display: flex; line-height: 0 }}
body > * {{ display: block; width: {SIDE}px; height: {SIDE}px; border: 0; flex: none; overflow: hidden }}
body > * {{ box-sizing: border-box }}
#of::before {{ content: ""; display: block; width: {SIDE}px; height: {SIDE}px; background: url(PICTURE) !important }}
#is::after {{ content: url(PICTURE); display: block }}
#letter {{ font: 40px/1 monospace; color: #0000 }} #letter::first-letter {{ background: url(PICTURE) }}
#marked {{ display: list-item; list-style: inside none }} #marked::marker {{ content: url(PICTURE) }}
</style>"""
PLACES = {
    "a background that has a transition": "<div style='background: url(PICTURE)'></div>",
    "a background before": "<div id=of></div>",
    "what is after": "<div id=is></div>",
    "a first letter": "<div id=letter>MM</div>",
    "a marker": "<div id=marked></div>",
    "content": "<div style='content: url(PICTURE)'></div>",
    "a border": f"<div style='border: {HALF}px solid; border-image: url(PICTURE) {HALF} fill'></div>",
    "a mask": "<div style='background: #000; mask-image: url(PICTURE); mask-mode: luminance'></div>",
    "a list": "<ul><li style='list-style: inside url(PICTURE)'></li></ul>",
    "an input": "<input type=image src=PICTURE>",
    "a poster": "<video poster=PICTURE></video>",
    "an image of a drawing": f"<svg><image href=PICTURE width={SIDE} height={SIDE} /></svg>",
    "a filter": "<svg><filter id=f x=0 y=0 width=1 height=1 color-interpolation-filters=sRGB>"
    f"<feImage href=PICTURE x=0 y=0 width={SIDE} height={SIDE} /></filter>"
    f"<rect width={SIDE} height={SIDE} filter='url(#f)' /></svg>",
    "an object": "<object data=PICTURE></object>",
    "a shadow root": f"<div><template shadowrootmode=open><style>i {{ display: block; width: {SIDE}px; "
    f"height: {SIDE}px; background: url(PICTURE) }}</style><i></i></template></div>",
    "a set of images": "<div style='background-image: image-set(url(PICTURE) 1x)'></div>",
}
DRAWN = {
    "a canvas": "pen.drawImage(image, 0, 0);",
    "a pattern": "pen.fillStyle = pen.createPattern(image, 'repeat'); pen.fillRect(0, 0, 99, 99);",
    "a bitmap": "createImageBitmap(image).then((bitmap) => pen.drawImage(bitmap, 0, 0));",
}


async def opened(browser: Browser, html: str, picture: str, count: int) -> LoadedPage:
    files = {"index.html": html.replace("PICTURE", picture).encode(), "h.svg": drawing(FADING), **FILES}
    page = await LoadedPage.open(browser, Bundle(files), PageSetup(width=SIDE * count, height=SIDE))
    await page.wait_ready(30)
    return page


async def levels(page: LoadedPage, names: Mapping[str, str]) -> dict[str, float]:
    """How bright each is, in units of 20."""
    pixels = np.asarray(Image.open(io.BytesIO(await page.picture())).convert("L"))
    middles = [pixels[4:-4, at * SIDE + 4 : (at + 1) * SIDE - 4] for at in range(len(names))]
    return {name: middle.mean() / 20 for name, middle in zip(names, middles, strict=True)}


@pytest.mark.parametrize("contract", ["", CONTRACT], ids=["stepped", "sought"])
@pytest.mark.parametrize("picture", ["f.svg", "b.webp"])
@pytest.mark.full
async def test_each_place_goes_by_the_clock(either: Browser, picture: str, contract: str) -> None:
    page = await opened(either, STYLES + "".join(PLACES.values()) + contract, picture, len(PLACES))
    for frame in (0, 1, 2, 7, 13):
        await page.go(frame, FPS)
        expected = {**dict.fromkeys(PLACES, frame % 10), "a mask": 12.75 - frame % 10}  # black where it is white
        assert await levels(page, PLACES) == pytest.approx(expected, abs=0.2), frame
        await asyncio.sleep(0.1)  # which nothing goes by
    assert not page.problems.all
    await page.close()


@pytest.mark.full
async def test_masks_let_through_what_the_clock_says(either: Browser) -> None:
    masks = {
        name: f"<div style='background: #000; {style}: url(h.svg) {rest}'></div>"
        for name, style, rest in (("whole", "mask-image", ""), ("framed", "-webkit-mask-box-image", f"{HALF} fill"))
    }
    page = await opened(either, STYLES + "".join(masks.values()), "", len(masks))
    for frame in (0, 3, 9):
        await page.go(frame, FPS)
        assert await levels(page, masks) == pytest.approx(dict.fromkeys(masks, frame), abs=0.2), frame
        await asyncio.sleep(0.1)
    await page.close()


@pytest.mark.parametrize("made", ["hidden", "scripted"])
@pytest.mark.full
async def test_a_drawing_is_drawn_into_canvases_as_the_clock_says(either: Browser, made: str) -> None:
    canvases = "".join(f"<canvas width={SIDE} height={SIDE}></canvas>" for _ in DRAWN)
    image = "document.images[0]" if made == "hidden" else 'Object.assign(new Image(), { src: "f.svg" })'
    each = "".join(f"((pen) => {{ {draw} }})(pens[{at}]);" for at, draw in enumerate(DRAWN.values()))
    script = f"""<script>const image = {image};
    const pens = [...document.querySelectorAll("canvas")].map((canvas) => canvas.getContext("2d"));
    const gl = new OffscreenCanvas(1, 1).getContext("webgl");
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
    const seen = () => {{
      const pixel = new Uint8Array(4);
      gl.readPixels(8, 8, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
      return pixel[0] / 20;
    }};
    requestAnimationFrame(function each() {{
      requestAnimationFrame(each);
      {each}
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, image);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
    }});</script>"""
    page = await opened(either, f"{STYLES}{canvases}<img src=f.svg hidden>{script}", "", len(DRAWN))
    for frame in (0, 1, 2, 7, 13):
        await page.go(frame, FPS)
        assert await levels(page, DRAWN) == pytest.approx(dict.fromkeys(DRAWN, frame % 10), abs=0.2), frame
        assert await page.evaluate("seen()") == frame % 10
        await asyncio.sleep(0.1)
    await page.close()


@pytest.mark.full
async def test_what_the_page_changes_is_what_it_wants_and_it_hears_of_nothing_else(either: Browser) -> None:
    names = {
        "an input": PLACES["an input"],
        "an image of a drawing": PLACES["an image of a drawing"],
        "before": "<div id=of></div>",
    }
    change = """<script>window.heard = [];
    const hear = ({ type }) => heard.push(type);
    for (const kind of ["load", "transitionrun", "error"]) document.addEventListener(kind, hear, true);
    setTimeout(() => { document.querySelector("input").src = "still.svg"; }, 200);
    setTimeout(() => { document.querySelector("image").setAttribute("href", "still.svg"); }, 300);
    setTimeout(() => { of.id = ""; }, 400);</script>"""
    html = STYLES + "".join(names.values()) + change
    page = await LoadedPage.open(
        either,
        Bundle(
            {
                "index.html": html.replace("PICTURE", "f.svg").encode(),
                "still.svg": drawing("").replace(b"<rect", b'<rect fill="#c8c8c8"'),
                **FILES,
            }
        ),
        PageSetup(width=SIDE * len(names), height=SIDE),
    )
    await page.wait_ready(30)
    await page.evaluate("heard.length = 0")
    for frame in range(6):
        await page.go(frame, FPS)
        wanted = [10 if frame >= 2 else frame, 10 if frame >= 3 else frame, 12.75 if frame >= 4 else frame]
        assert list((await levels(page, names)).values()) == pytest.approx(wanted, abs=0.2), frame
    heard = await page.evaluate("heard.join()")
    assert heard == "load"  # of the one that says so
    await page.close()


async def test_what_cannot_be_moved_is_said(either: Browser) -> None:
    policy = """<meta http-equiv=Content-Security-Policy content="connect-src 'none'">"""
    page = await opened(either, f"<!doctype html>{policy}<img src=f.svg>", "", 1)
    await page.go(0, FPS)
    told = [problem.message for problem in page.problems.all]
    assert any("f.svg moves by the browser's time" in message for message in told), told
    await page.close()
