"""CSS animations that a style stops (`animation-play-state`): they stand, and go on from there, as in any browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from koda_ray.render.browser import Browser
from tests.render.clocked import FPS, STYLE, level, opened, value

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


# what is done to an animation of 1 s over a way of 100 px: its style, a script, and where it is after each 100 ms
_STOPPED: dict[str, tuple[str, str, list[int | None]]] = {
    "by a class": (
        "",
        "setTimeout(() => e.className = 'stop', 250); setTimeout(() => e.className = '', 550)",
        [0, 10, 20, 25, 25, 25, 30, 40, 50],
    ),
    "by its style": (
        "",
        "setTimeout(() => { e.style.animationPlayState = word }, 250)",
        [0, 10, 20, *[25] * 6],
    ),
    "by a rule that a script writes": (
        "",
        "setTimeout(() => { sheet.insertRule(`#${e.id} { animation-play-state: ${word} }`) }, 250);"
        "setTimeout(() => { sheet.deleteRule(0) }, 450)",
        [0, 10, 20, 25, 25, 30, 40, 50, 60],
    ),
    "by a property of what is around it": (
        "animation-play-state: var(--state)",
        "setTimeout(() => document.body.style.setProperty('--state', word), 250);"
        "setTimeout(() => document.body.style.setProperty('--state', ''), 450)",
        [0, 10, 20, 25, 25, 30, 40, 50, 60],
    ),
    "while a frame is made": (
        "",
        "requestAnimationFrame(function f(t) { e.className = t >= 300 && t < 600 ? 'stop' : '';"
        "requestAnimationFrame(f); })",
        [0, 10, 20, 30, 30, 30, 30, 40, 50],
    ),
    "before the first frame": ("", "addEventListener('load', () => e.className = 'stop')", [0] * 9),
    "from its beginning": (
        "",
        "e.className = 'stop'; setTimeout(() => e.className = '', 300)",
        [0, 0, 0, 0, 10, 20, 30, 40, 50],
    ),
    "from its beginning, and again": (
        "",
        "e.className = 'stop'; setTimeout(() => e.className = '', 300);setTimeout(() => e.className = 'stop', 550)",
        [0, 0, 0, 0, 10, 20, *[25] * 3],
    ),
    "sought meanwhile": (
        "",
        "setTimeout(() => e.className = 'stop', 250); setTimeout(() => { it().currentTime = 700 }, 350);"
        "setTimeout(() => e.className = '', 650)",
        [0, 10, 20, 25, 70, 70, 70, 75, 85],
    ),
    "at half its rate": (
        "",
        "it().playbackRate = 0.5;setTimeout(() => e.className = 'stop', 200); setTimeout(() => e.className = '', 400)",
        [0, 5, 10, 10, 10, 15, 20, 25, 30],
    ),
    "one of two": (
        "animation: none 2s, go 1s linear, other 1s; animation-play-state: running, running, paused",
        "setTimeout(() => { e.style.animationPlayState = 'running, paused, running' }, 250)",
        [0, 10, 20, *[25] * 6],
    ),
    "played by a script, and stopped no more": (
        "",
        "setTimeout(() => e.className = 'stop', 200); setTimeout(() => it().play(), 400);"
        "setTimeout(() => e.className = '', 500); setTimeout(() => e.className = 'stop', 600)",
        [0, 10, 20, 20, 20, 30, 40, 50, 60],
    ),
    "stopped by a script, and set going no more": (
        "",
        "setTimeout(() => it().pause(), 200); setTimeout(() => e.className = 'stop', 300);"
        "setTimeout(() => e.className = '', 400)",
        [0, 10, *[20] * 7],
    ),
    "stopped by both, and set going by its style no more": (
        "",
        "setTimeout(() => e.className = 'stop', 200); setTimeout(() => it().pause(), 300);"
        "setTimeout(() => e.className = '', 400)",
        [0, 10, *[20] * 7],
    ),
    "played by a script while it runs": (
        "",
        "setTimeout(() => it().play(), 200); setTimeout(() => e.className = 'stop', 400)",
        [0, 10, 20, 30, 40, 50, 60, 70, 80],
    ),
    "turned by a script while it runs": (
        "",
        "setTimeout(() => it().reverse(), 500); setTimeout(() => e.className = 'stop', 600)",
        [0, 10, 20, 30, 40, 50, *[40] * 3],
    ),
    "turned by a script while it stands": (
        "",
        "setTimeout(() => e.className = 'stop', 300); setTimeout(() => it().reverse(), 500);"
        "setTimeout(() => e.className = '', 600); setTimeout(() => e.className = 'stop', 700)",
        [0, 10, 20, 30, 30, 30, 20, 10, 0],
    ),
    "away for a while, and played by a script": (
        "",
        "setTimeout(() => e.className = 'stop', 200); let one; setTimeout(() => { one = it(); one.cancel() }, 300);"
        "setTimeout(() => one.play(), 400)",
        [0, 10, 20, 0, 0, 10, 20, 30, 40],
    ),
    "from its beginning, and stopped by a script too": (
        "",
        "e.className = 'stop'; setTimeout(() => it().pause(), 100); setTimeout(() => e.className = '', 300)",
        [0] * 9,
    ),
    "brought to its end while it stands": (
        "animation-fill-mode: both",
        "setTimeout(() => e.className = 'stop', 200); setTimeout(() => it().finish(), 400);"
        "setTimeout(() => e.className = '', 500)",
        [0, 10, 20, 20, *[100] * 5],
    ),
    "stopped where it is over, and made longer": (
        "animation-fill-mode: both; animation-duration: .2s",
        "setTimeout(() => e.className = 'stop', 300);"
        "setTimeout(() => it().effect.updateTiming({ duration: 1000 }), 500)",
        [0, 50, 100, 100, 100, *[20] * 4],
    ),
    "until it is over": (
        "animation-duration: .4s",
        "setTimeout(() => e.className = 'stop', 200); setTimeout(() => e.className = '', 500);"
        "e.onanimationend = () => over.push(performance.now())",
        [0, 25, 50, 50, 50, 50, 75, 0, 0],
    ),
}


async def test_what_a_style_stops_stands_and_goes_on_from_there(browser: Browser) -> None:
    made = "".join(
        f"{{ const e = add({json.dumps(style)}), it = () => e.getAnimations()[0]; {script} }}\n"
        for style, script, _ in _STOPPED.values()
    )
    html = f"""<!doctype html><style>i {{ position: absolute; left: 0; animation: go 1s linear }}
    .stop {{ animation-play-state: paused !important }}
    @keyframes go {{ from {{ left: 0 }} to {{ left: 100px }} }} @keyframes other {{ to {{ top: 9px }} }}</style><body>
    <script>
    const all = [], over = [], word = ["pau", "sed"].join(""), [sheet] = document.styleSheets;
    const add = (style) => {{
      const e = document.createElement("i");
      Object.assign(e, {{ id: `i${{all.length}}`, style }});
      all.push(document.body.appendChild(e));
      return e;
    }};
    {made}
    const place = (e) => Math.round(parseFloat(getComputedStyle(e).left));</script>"""
    page = await opened(browser, html)
    seen: list[list[int]] = []
    for frame in range(9):
        await page.go(frame, FPS)
        await page.picture()
        seen.append(await value(page, "all.map(place)"))
    for index, (name, (_, _, places)) in enumerate(_STOPPED.items()):
        assert [then[index] for then in seen] == places, name
    assert await value(page, "over") == [700]
    await page.close()


async def test_what_stops_may_lie_beside_an_element_and_in_a_frame_without_scripts(browser: Browser) -> None:
    """There by a rule of how wide something is, which is animated itself."""
    inner = """<!doctype html><style>body { margin: 0 }
    div { container-type: inline-size; animation: widen 1s linear both; height: 48px }
    @keyframes widen { from { width: 0 } to { width: 100px } }
    i { display: block; width: 64px; height: 48px; animation: grow 1s linear }
    @keyframes grow { from { background: #000 } to { background: #fff } }
    @container (min-width: 45px) { i { animation-play-state: paused } }</style><div><i></i></div>"""
    html = f"""{STYLE}<iframe sandbox src=inner.html></iframe><div id=host></div><script>
    const root = host.attachShadow({{ mode: "closed" }});
    root.innerHTML = `<style>i::before {{ content: ""; position: absolute; animation: go 1s linear }}
      .stop::before {{ animation-play-state: paused }} @keyframes go {{ to {{ text-indent: 100px }} }}</style><i></i>`;
    const [i] = root.querySelectorAll("i"), place = () => parseFloat(getComputedStyle(i, "::before").textIndent);
    setTimeout(() => i.className = "stop", 250);
    setTimeout(() => i.className = "", 450);</script>"""
    page = await opened(browser, html, **{"inner.html": inner})
    seen: list[tuple[float, float]] = []
    for frame in range(9):
        await page.go(frame, FPS)
        seen.append((await level(page), await value(page, "place()")))
    assert [grey for grey, _ in seen] == pytest.approx([255 * min(n, 5) / 10 for n in range(9)], abs=1.5)
    assert [place for _, place in seen] == pytest.approx([0, 10, 20, 25, 25, 30, 40, 50, 60], abs=0.1)
    await page.close()
