"""A page looks the same whenever its fonts come: what they decide is laid out with them before a frame is taken."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping

import numpy as np
import pytest
from PIL import Image

from koda_ray.render import serving
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.render.reference.scenes import template_file

pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("node"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("late_s", [0.0, 0.3]),
]

FPS = 10
FONT = "jetbrains-mono.woff2"
LETTER_PX, LETTERS = 14.4, 14  # of that font at 24 px
FACE = f"""<!doctype html><meta charset=utf-8><style>
@font-face {{ font-family: Mono; src: url({FONT}); font-weight: 100 800 }}
body {{ margin: 0 }} div {{ font: 700 24px/1 Mono; white-space: nowrap; overflow: hidden }}
@keyframes typed {{ from {{ width: 0 }} }} @keyframes fade {{ from {{ opacity: 0.5 }} }}
</style>"""


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, late_s: float) -> None:
    """Fonts take their time to come."""
    answer = serving._fulfill  # pyright: ignore[reportPrivateUsage]

    def fulfill(
        session: serving.ProtocolSession,
        request: object,
        body: bytes,
        headers: Mapping[str, str],
        wanted: str = "",
        *,
        status: int = 200,
    ) -> None:
        wait_s = late_s if headers.get("content-type") == "font/woff2" else 0.0
        asyncio.get_running_loop().call_later(
            wait_s, lambda: answer(session, request, body, headers, wanted, status=status)
        )

    monkeypatch.setattr(serving, "_fulfill", fulfill)


async def opened(browser: Browser, html: str) -> LoadedPage:
    files = {"index.html": html.encode(), FONT: await asyncio.to_thread(template_file, FONT)}
    page = await LoadedPage.open(browser, Bundle(files), PageSetup(width=320, height=100))
    await page.wait_ready(30)
    return page


async def inked(page: LoadedPage) -> np.ndarray:
    """Which columns and rows of the picture are not white."""
    picture = Image.open(io.BytesIO(await page.picture())).convert("L")
    return np.asarray(picture) < 200


@pytest.mark.usefixtures("late")
@pytest.mark.full
async def test_lengths_that_a_font_decides_are_that_fonts(either: Browser) -> None:
    measured = {
        "plain": f"width: {LETTERS}ch",
        "of-an-animation": f"width: {LETTERS}ch; animation: fade 2s both",
        "animated": f"width: {LETTERS}ch; animation: typed 1s steps({LETTERS}, end) both",
        "of-a-variable": f"--wide: {LETTERS}ch; width: var(--wide); animation: fade 2s both",
    }
    boxes = "".join(f'<div id="{name}" style="{style}">a</div>' for name, style in measured.items())
    before = "<style>#before::before { content: ''; display: block; width: 14ch; animation: fade 2s both }</style>"
    inside = f"<div id=host></div><script>host.attachShadow({{ mode: 'open' }}).innerHTML = `{boxes}`</script>"
    asked = """JSON.stringify([...document.querySelectorAll("div[style]"), ...host.shadowRoot.children]
      .map((each) => getComputedStyle(each).width).concat(getComputedStyle(before, "::before").width))"""
    page = await opened(either, f"{FACE}{before}{boxes}<div id=before></div>{inside}")
    await page.go(15, FPS)
    widths = str(await page.evaluate(asked))
    await page.close()
    seen = [float(width.strip('"px')) for width in widths.strip("[]").split(",")]
    assert seen == pytest.approx([LETTER_PX * LETTERS] * 9, abs=0.1)


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize(
    "shown",
    [
        "setTimeout(() => { text.hidden = false }, 300);",
        "requestAnimationFrame(function each(ms) { if (ms >= 300) text.hidden = false; requestAnimationFrame(each) });",
        """setTimeout(async () => {
          const face = await new FontFace("Mono", "url(jetbrains-mono.woff2?again)").load();
          document.fonts.clear(); document.fonts.add(face); text.hidden = false }, 300);""",
    ],
    ids=["timer", "frame", "face"],
)
@pytest.mark.full
async def test_a_font_that_is_needed_later_is_there_in_that_frame(either: Browser, shown: str) -> None:
    text = f'<div id=text hidden style="width: {LETTERS}ch; animation: fade 2s both">||||||||||||||||||||</div>'
    page = await opened(either, f"{FACE}{text}<script>{shown}</script>")
    await page.go(2, FPS)
    assert not (await inked(page)).any()
    for frame in (3, 4, 9):
        await page.go(frame, FPS)
        columns = np.flatnonzero((await inked(page)).any(axis=0))
        bars = 1 + np.count_nonzero(np.diff(columns) > 1)
        assert bars == LETTERS, frame  # as many as are as wide as the box
        assert columns[-1] == pytest.approx(LETTER_PX * (LETTERS - 0.5), abs=3), frame
    await page.close()


@pytest.mark.usefixtures("late")
@pytest.mark.full
async def test_a_canvas_of_a_page_that_is_sought_is_drawn_with_the_font(either: Browser) -> None:
    drawn = """<canvas id=c width=320 height=60></canvas><script>const pen = c.getContext("2d");
    window.__koda = { ready: Promise.resolve(), seek(s) {
      pen.clearRect(0, 0, 320, 60);
      pen.font = "700 24px Mono";
      if (s >= 0.3) pen.fillText("||||||||||", 0, 30);
    } };</script>"""
    page = await opened(either, FACE + drawn)
    for frame in (3, 5):
        await page.go(frame, FPS)
        columns = np.flatnonzero((await inked(page)).any(axis=0))
        assert columns[-1] == pytest.approx(LETTER_PX * 9.5, abs=3), frame
    await page.close()
