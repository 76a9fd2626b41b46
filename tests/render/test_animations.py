"""Animations of the browser's (CSS, `element.animate`): held at the frame's time, whatever a page does to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from koda_ray.render import page as page_module
from koda_ray.render.browser import Browser
from tests.render.clocked import FPS, STYLE, collect, opened, value

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


async def test_animations_in_shadow_trees_stand_at_the_frames_time(browser: Browser) -> None:
    keyframes = "@keyframes a { from { left: 0 } to { left: 100px } }"
    rule = f"<i>x</i><style>i {{ position: absolute; animation: a 1s linear }} {keyframes}</style>"
    html = f"""<!doctype html><div id=script></div><div id=markup><template shadowrootmode=open>{rule}</template></div>
    <script>script.attachShadow({{ mode: "open" }}).innerHTML = {json.dumps(rule)};
    const place = (host) => parseFloat(getComputedStyle(host.shadowRoot.querySelector("i")).left);
    window.look = () => [place(script), place(markup)];</script>"""
    page = await opened(browser, html)
    for frame in range(6):
        await page.go(frame, FPS)
        assert await value(page, "look()") == pytest.approx([10 * frame, 10 * frame], abs=0.1)


async def test_animations_that_were_sought_or_turned_while_the_page_loaded_stay_so(browser: Browser) -> None:
    html = """<!doctype html><i id=a></i><i id=b></i><i id=c></i><i id=d></i><i id=e></i><i id=f></i><script>
    const move = (element) => element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 1000, fill: "both" });
    move(a); move(b).currentTime = 400; move(c).reverse(); move(d).startTime = -300;
    const last = move(e); last.startTime = -300; last.reverse();
    move(f).currentTime = CSS.ms(200);
    window.look = () => [a, b, c, d, e, f].map((element) => Number(getComputedStyle(element).opacity));</script>"""
    page = await opened(browser, html)
    for frame in range(6):
        await page.go(frame, FPS)
        time = frame / FPS
        assert await value(page, "look()") == pytest.approx(
            [time, time + 0.4, 1 - time, time + 0.3, max(0, 0.3 - time), time + 0.2], abs=0.01
        )


async def test_animations_wait_for_the_beginning_however_long_the_page_takes_to_load(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser's own time goes on meanwhile; these are long over then, and of some nothing is left."""
    monkeypatch.setattr(page_module, "_POLL_S", 0.4)
    html = f"""{STYLE}<style>div {{ width: 0 }}
    .go {{ animation: go .2s linear }} .stays {{ animation: go .2s linear both }}
    .turns {{ transition: width .2s linear }} @keyframes go {{ to {{ width: 100px }} }}</style>
    <div id=a class=go></div><div id=b class=stays></div><div id=c></div><div id=d></div><div id=e></div>
    <div id=f class=turns></div><script>
    const to = [{{ width: "0px" }}, {{ width: "100px" }}], ended = e.animate(to, {{ duration: 200, fill: "both" }});
    c.animate(to, 200);
    const stopped = d.animate(to, {{ duration: 2000, fill: "both" }});
    getComputedStyle(f).width; f.style.width = "100px";
    fetch("later.txt").then(() => {{ stopped.pause(); ended.finish(); }});
    const px = (element) => Math.round(parseFloat(getComputedStyle(element).width));</script>"""
    page = await opened(browser, html, **{"later.txt": "x"})
    seen: list[list[int]] = []
    for frame in range(3):
        await page.go(frame, FPS)
        seen.append(await value(page, "[a, b, c, d, e, f].map(px)"))
    assert seen == [[0, 0, 0, 0, 100, 0], [50, 50, 50, 0, 100, 50], [0, 100, 0, 0, 100, 100]]


async def test_what_a_page_does_to_its_animations_is_heeded_also_where_they_are_over(browser: Browser) -> None:
    """Each as a browser has it: where it is after 0, 100, 200 ms and so on, of a way of 100 px."""
    ways: dict[str, tuple[str, str, list[int | None]]] = {
        "played again": ("300", "setTimeout(() => it.play(), 500)", [0, 33, 67, 100, 100, 0, 33, 67, 100]),
        "turned": ("300", "setTimeout(() => it.reverse(), 500)", [0, 33, 67, 100, 100, 100, 67, 33, 0]),
        "sought": ("300", "setTimeout(() => { it.currentTime = 100 }, 500)", [0, 33, 67, 100, 100, 33, 67, 100, 100]),
        "sought, then played": (
            "300",
            "setTimeout(() => { it.currentTime = 200 }, 100); setTimeout(() => it.play(), 500)",
            [0, 67, 100, 100, 100, 0, 33, 67, 100],
        ),
        "made longer": (
            "300",
            "setTimeout(() => it.effect.updateTiming({ duration: 1000 }), 500)",
            [0, 33, 67, 100, 100, 50, 60, 70, 80],
        ),
        "stopped for a while": (
            "1000",
            "setTimeout(() => it.pause(), 250); setTimeout(() => it.play(), 550)",
            [0, 10, 20, 25, 25, 25, 30, 40, 50],
        ),
        "stopped at once": ("1000", "requestAnimationFrame(() => it.pause())", [0] * 9),
        "brought to its end": ("1000", "setTimeout(() => it.finish(), 250)", [0, 10, 20, *[100] * 6]),
        "made slower": (
            "1000",
            "setTimeout(() => { it.playbackRate = 0.5 }, 400)",
            [0, 10, 20, 30, 40, 45, 50, 55, 60],
        ),
        "made to stand": ("1000", "setTimeout(() => it.updatePlaybackRate(0), 400)", [0, 10, 20, 30, *[40] * 5]),
        "begun at another time": (
            "1000",
            "setTimeout(() => { it.startTime = 100 }, 500)",
            [0, 10, 20, 30, 40, 40, 50, 60, 70],
        ),
        "begun anew": (
            "300",
            "setTimeout(() => { it.startTime = document.timeline.currentTime }, 500)",
            [0, 33, 67, 100, 100, 0, 33, 67, 100],
        ),
        "begun so long ago that it is over": (
            "1000",
            "setTimeout(() => { it.startTime = -900 }, 250)",
            [0, 10, 20, *[100] * 6],
        ),
        "begun never, then again": (
            "1000",
            "setTimeout(() => { it.startTime = null }, 250); setTimeout(() => { it.startTime = CSS.ms(400) }, 550)",
            [0, 10, 20, 25, 25, 25, 20, 30, 40],
        ),
        "begun at another time, then turned": (
            "1000",
            "setTimeout(() => { it.startTime = -100; it.playbackRate = -1 }, 250)",
            [0, 10, 20, 30, 20, 10, 0, 0, 0],
        ),
        "begun as one that was put elsewhere": (
            "1000",
            "const other = document.body.animate([{ opacity: 1 }, { opacity: 1 }], 1000);"
            "setTimeout(() => { other.currentTime = 500; it.startTime = other.startTime }, 300)",
            [0, 10, 20, 50, 60, 70, 80, 90, 100],
        ),
        "begun at another time, then a slow script": (
            "1000",
            "const long = () => { let sum = 0; for (let i = 0; i < 3e8; i++) sum += i; window.sum = sum };"
            "setTimeout(() => { it.startTime = -500; long() }, 200)",
            [0, 10, 70, 80, 90, 100, 100, 100, 100],
        ),
        "over, and made longer": (
            "300",
            "setTimeout(() => { it.startTime = -100 }, 400);"
            "setTimeout(() => it.effect.updateTiming({ duration: 1000 }), 600)",
            [0, 33, 67, 100, 100, 100, 70, 80, 90],
        ),
        "begun with another": (
            "1000",
            "const other = document.body.animate([{ opacity: 1 }, { opacity: 1 }], 1000);"
            "setTimeout(() => { other.startTime = -100 }, 50);"
            "setTimeout(() => { it.startTime = other.startTime }, 250)",
            [0, 10, 20, 40, 50, 60, 70, 80, 90],
        ),
        "away for a while": (
            "1000",
            "setTimeout(() => e.remove(), 250); setTimeout(() => document.body.append(e), 450)",
            [0, 10, 20, None, None, 50, 60, 70, 80],
        ),
    }
    made = "".join(
        "{ const e = document.body.appendChild(document.createElement('i'));"
        f"const it = e.animate(to, {{ fill: 'both', duration: {duration} }}); {script};"
        f"all.push(e); it.onfinish = () => over.push([{json.dumps(name)}, performance.now()]); }}\n"
        for name, (duration, script, _) in ways.items()
    )
    html = f"""<!doctype html><style>i {{ position: absolute }}</style><body><script>
    const all = [], over = [], to = [{{ left: "0px" }}, {{ left: "100px" }}];
    {made}
    const place = (e) => e.isConnected ? Math.round(parseFloat(getComputedStyle(e).left)) : null;</script>"""
    page = await opened(browser, html)
    seen: list[list[int | None]] = []
    for frame in range(9):
        await page.go(frame, FPS)
        await page.picture()
        seen.append(await value(page, "all.map(place)"))
    for index, (name, (_, _, places)) in enumerate(ways.items()):
        assert [then[index] for then in seen] == places, name
    ends = dict[str, list[int]]()
    for name, at in await value(page, "over"):
        ends.setdefault(name, []).append(at)
    assert ends["played again"] == [300, 800] and ends["turned"] == [300, 800] and ends["brought to its end"] == [300]


async def test_an_animation_that_is_begun_anew_at_its_end_goes_on_in_time(browser: Browser) -> None:
    html = """<!doctype html><i id=e></i><script>
    const it = e.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 300, fill: "both" });
    it.onfinish = () => { it.startTime = document.timeline.currentTime };
    window.look = () => Number(getComputedStyle(e).opacity);</script>"""
    page = await opened(browser, html)
    seen: list[object] = []
    for frame in range(10):
        await page.go(frame, 10)
        await page.picture()
        seen.append(await value(page, "look()"))
    assert seen == pytest.approx([0, 1 / 3, 2 / 3] * 3 + [0], abs=0.01)


async def test_how_a_styles_animation_stands_is_heeded_when_it_was_begun_at_another_time(browser: Browser) -> None:
    html = """<!doctype html>
    <style>@keyframes go { from { opacity: 0 } to { opacity: 1 } } i { animation: go 1s linear }</style>
    <i id=a></i><i id=b></i><script>
    const [first, second] = document.getAnimations();
    setTimeout(() => { first.startTime = 0 }, 100);
    setTimeout(() => { a.style.animationPlayState = b.style.animationPlayState = "paused" }, 300);
    setTimeout(() => { second.startTime = second.startTime }, 400); // it has none: it stands
    setTimeout(() => { b.style.animationPlayState = "running" }, 500);
    window.look = () => [a, b].map((element) => Number(getComputedStyle(element).opacity));</script>"""
    page = await opened(browser, html)
    seen: list[list[float]] = []
    for frame in range(9):
        await page.go(frame, 10)
        seen.append(await value(page, "look()"))
    firsts, seconds = zip(*seen, strict=True)
    assert firsts == pytest.approx([0, 0.1, 0.2, *[0.3] * 6], abs=0.01)
    assert seconds == pytest.approx([0, 0.1, 0.2, 0.3, 0.3, 0.3, 0.4, 0.5, 0.6], abs=0.01)


async def test_when_an_animation_began_is_told_in_the_films_time(browser: Browser) -> None:
    html = """<!doctype html><i id=e></i><script>
    window.told = [];
    const tell = () => told.push(it.startTime === null ? null : Math.round(it.startTime));
    const it = e.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 1000, fill: "both" });
    const after = (ms, change) => setTimeout(() => { change(); tell() }, ms);
    after(100, () => {});
    after(200, () => { it.currentTime = 600 });
    after(300, () => { it.playbackRate = 0.5 });
    after(400, () => { it.pause() });
    after(500, () => { it.startTime = 450 });
    after(600, () => { it.finish() });
    after(700, () => { it.cancel() });
    after(800, () => { try { it.startTime = NaN } catch (error) { told.push(error.name) } });</script>"""
    page = await opened(browser, html)
    for frame in range(10):
        await page.go(frame, 10)
    assert await value(page, "told") == [0, -400, -1100, None, 450, -1400, None, "TypeError", None]


async def test_animations_that_are_over_are_held_no_longer(browser: Browser) -> None:
    """A page of particles makes thousands; where they are over nothing of ours keeps them, nor their elements."""
    html = f"""{STYLE}<i id=m style="position: absolute"></i><script>
    const refs = [], to = [{{ left: "0px" }}, {{ left: "100px" }}];
    const add = (fill) => {{
      const e = document.body.appendChild(document.createElement("b")), it = e.animate(to, {{ duration: 50, fill }});
      refs.push(new WeakRef(e));
      it.onfinish = () => it.effect.target.remove();
    }};
    requestAnimationFrame(function more() {{
      for (let i = 0; i < 200 && refs.length < 2000; i++) add(i % 2 ? "both" : "none");
      requestAnimationFrame(more);
    }});
    m.animate(to, {{ duration: 2000, fill: "both" }});
    const there = () => refs.filter((one) => one.deref()).length;</script>"""
    page = await opened(browser, html)
    for frame in range(14):
        await page.go(frame, FPS)
        await page.picture()
        assert await value(page, "parseFloat(getComputedStyle(m).left)") == pytest.approx(5 * frame, abs=0.1)
    assert await value(page, "[refs.length, document.querySelectorAll('b').length]") == [2000, 0]
    await collect(page)
    assert await value(page, "there()") < 100
