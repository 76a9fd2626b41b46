"""Units of a changed page that look as before: taken over where all is the same that they are drawn from."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.errors import PageError, PageNotReady
from koda_ray.render import capture
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageFacts, PageSetup
from koda_ray.render.protocol import JobContext, RenderResult, UnitResult
from koda_ray.roles.offline import generate_files, make_plan, parse_brief
from koda_ray.state.keys import unit_key
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small
from tests.template.building import TemplateBuilds, write_project

# a triangle that grows, under a line of text that moves; what changes is in film.js, which says both of each moment
PAGE = """<!doctype html><style>body{margin:0;background:#fff}canvas,p{position:absolute;left:0;top:0;margin:0}</style>
<canvas id=c width=160 height=90></canvas><p id=p>Koda</p><script type=module>
import { film } from "./film.js";
const gl = c.getContext("webgl2");
const program = gl.createProgram();
for (const [type, text] of [
  [gl.VERTEX_SHADER, "attribute vec2 p; uniform float size; void main() { gl_Position = vec4(p * size, 0., 1.); }"],
  [gl.FRAGMENT_SHADER, `precision mediump float; uniform vec3 colour;
    void main() { gl_FragColor = vec4(colour, 1.); }`]]) {
  const shader = gl.createShader(type);
  gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
}
gl.linkProgram(program); gl.useProgram(program);
gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, 1, -1, -1, 1, -1]), gl.STATIC_DRAW);
gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
const size = gl.getUniformLocation(program, "size"), colour = gl.getUniformLocation(program, "colour");
window.__koda = { version: 1, mode: "export", duration: 6, fps: 10, size: { width: 160, height: 90 },
  ready: Promise.resolve(), seek: async (seconds) => {
    const now = film(seconds, Math.random());
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform1f(size, now.size); gl.uniform3fv(colour, now.colour);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    p.style.transform = `translateX(${now.x}px)`;
    p.textContent = now.text;
  } };
</script>"""
FILM = """export const film = (t, noise) => {
  const now = { size: 0.5 + t / 20, colour: [0, 0, noise / 4], x: 100 + t / 3, text: "Koda" };
  CHANGE
  return now;
};
"""


def film(change: str) -> dict[str, bytes]:
    return {"index.html": PAGE.encode(), "film.js": FILM.replace("CHANGE", change).encode()}


@pytest.fixture(autouse=True)
def _always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such small pages are quickly captured: no look at them would be worth it."""
    monkeypatch.setattr(capture, "is_worth_a_look", bool)


async def made(storage: Storage, files: Mapping[str, bytes], job_id: str, **fields: Any) -> RenderResult:
    spec = small(await put_page(storage, Bundle(dict(files))), **{"duration_s": 6.0, **fields})
    async with LocalExecutor(workers=1) as executor:
        return await RenderJob(spec, JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER)).run()


def elsewhere(storage: Storage) -> Storage:
    return Storage(str(storage.local_path("x") or "").removesuffix("/x") + "-fresh")


def taken(result: RenderResult) -> tuple[object, object]:
    return result.report["unitsTakenOver"], result.report["unitsReused"]


def keys(result: RenderResult) -> list[str]:
    return [unit["key"] for unit in cast("list[dict[str, str]]", result.report["units"])]


@pytest.mark.browser
@pytest.mark.needs("ffmpeg")
async def test_what_looks_as_before_is_not_captured_again(storage: Storage) -> None:
    first = await made(storage, film(""), "job_1")
    assert taken(first) == (0, 0)
    second = await made(storage, film("if (t >= 4) now.colour = [1, 0, 0];"), "job_2")
    assert taken(second) == (3, 3)
    for ours, theirs in zip(keys(second)[:3], keys(first)[:3], strict=True):
        assert ours != theirs
        assert await storage.get(unit_key(USER, ours)) == await storage.get(unit_key(USER, theirs))
        await storage.delete(unit_key(USER, theirs))  # they are its own now
    again = await made(storage, film("if (t >= 4) now.colour = [1, 0, 0];"), "job_3", duration_s=5.0)
    assert taken(again) == (0, 5)


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("// said in other words", 6),
        ("if (t >= 3) now.text = 'Ray';", 3),
        ("if (t < 1) now.text = 'Ray';", 3),
        ("if (t > 3.95 && t < 4.05) now.x += 1e-7;", 3),  # a style says the same of both
        ("if (t > 4.45 && t < 4.55) now.size += 1e-7;", 3),
        ("if (t > 4.45 && t < 4.55) now.colour[1] = 1 / 255;", 3),
        ("now.colour[0] = 1;", 0),
    ],
)
async def test_every_frame_is_as_if_all_had_been_captured(storage: Storage, change: str, count: int) -> None:
    await made(storage, film(""), "job_1")
    changed = await made(storage, film(change), "job_2")
    assert taken(changed) == (count, count)
    fresh = await made(elsewhere(storage), film(change), "job_3")
    assert taken(fresh) == (0, 0)
    assert (changed.frame_hash, changed.report["sha256"]) == (fresh.frame_hash, fresh.report["sha256"])


@pytest.mark.full
@pytest.mark.browser
async def test_what_changes_in_the_middle_leaves_what_comes_before_and_after(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task has all runs; a look from each end finds the one that differs."""
    looked: list[int] = []

    def noted(run: Sequence[UnitResult]) -> bool:
        looked.extend(unit.unit.index for unit in run[:1])
        return bool(run)

    monkeypatch.setattr(capture, "is_worth_a_look", noted)
    change = "if (t > 4 && t < 5) now.colour = [1, 0, 0];"
    await made(storage, film(""), "job_1", duration_s=12.0)
    changed = await made(storage, film(change), "job_2", duration_s=12.0)
    assert (taken(changed), looked) == ((9, 9), [0, 3, 6])
    fresh = await made(elsewhere(storage), film(change), "job_3", duration_s=12.0)
    assert (changed.frame_hash, changed.report["sha256"]) == (fresh.frame_hash, fresh.report["sha256"])
    looked.clear()
    assert taken(await made(storage, film("now.colour[0] = 1;"), "job_4", duration_s=12.0)) == (0, 0)
    assert looked == [0, 6]  # no further


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.needs("node")
async def test_a_films_change_of_its_last_scene_leaves_what_comes_before(storage: Storage, tmp_path: Path) -> None:
    """The template's own film, changed in one colour of what is counted last, which is not there before 4 s."""
    prompt, scene = "count down from 5", "src/scenes/CountdownScene.tsx"
    plan = make_plan(parse_brief(prompt)).model_dump(mode="json", by_alias=True)
    files = generate_files({"task": "create_component", "prompt": prompt, "plan": plan})
    blue = re.sub(r"(name: 'Number 1'.*ground: )'#\w+'", r"\1'#0000FF'", files[scene])
    assert blue != files[scene]
    folders = [write_project(tmp_path / "film", files), write_project(tmp_path / "blue", {**files, scene: blue})]
    builds = TemplateBuilds(folders)
    try:
        bundles = builds.bundles()
    finally:
        builds.end()
    size = {"duration_s": 6.0, "width": 320, "height": 180}
    first = await made(storage, bundles["film"].files, "job_1", **size)
    changed = await made(storage, bundles["blue"].files, "job_2", **size)
    assert (taken(first), taken(changed)) == ((0, 0), (3, 3))
    fresh = await made(elsewhere(storage), bundles["blue"].files, "job_3", **size)
    assert changed.frame_hash != first.frame_hash
    assert (changed.frame_hash, changed.report["sha256"]) == (fresh.frame_hash, fresh.report["sha256"])


@pytest.mark.full
@pytest.mark.browser
async def test_a_page_that_fails_fails_as_ever(storage: Storage) -> None:
    await made(storage, film(""), "job_1")
    with pytest.raises(PageError, match=r"frame 12: .*it broke"):
        await made(storage, film("if (t > 1.15) throw new Error('it broke');"), "job_2")
    assert taken(await made(storage, film("// mended"), "job_3")) == (6, 6)


@pytest.mark.full
@pytest.mark.browser
async def test_a_page_that_is_never_ready_is_waited_for_once(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is ready only where it is drawn is captured as ever."""
    waited, wait_ready = list[float](), LoadedPage.wait_ready

    async def noted(page: LoadedPage, timeout_s: float) -> PageFacts:
        waited.append(timeout_s)
        return await wait_ready(page, timeout_s)

    def waits_for(ready: str) -> dict[str, bytes]:
        return film("") | {"index.html": PAGE.replace("ready: Promise.resolve()", f"ready: {ready}").encode()}

    def a_second(_before: Sequence[UnitResult], _ready_timeout_s: float) -> float:
        return 1.0

    await made(storage, film(""), "job_1")
    monkeypatch.setattr(LoadedPage, "wait_ready", noted)
    monkeypatch.setattr(capture, "look_ready_s", a_second)
    with pytest.raises(PageNotReady):
        await made(storage, waits_for("new Promise(() => {})"), "job_2", ready_timeout_s=5.0)
    assert waited == [1.0, 5.0]
    drawn = """new Promise((done) => {
      const pixel = new Uint8Array(4);
      gl.clearColor(1, 0, 0, 1); gl.clear(gl.COLOR_BUFFER_BIT);
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
      if (pixel[0] === 255) done();
    })"""
    assert taken(await made(storage, waits_for(drawn), "job_3")) == (0, 0)


@pytest.mark.full
@pytest.mark.browser
async def test_what_is_gone_meanwhile_is_captured(storage: Storage) -> None:
    first = await made(storage, film(""), "job_1")
    await storage.delete(unit_key(USER, keys(first)[1]))
    second = await made(storage, film("// said in other words"), "job_2")
    assert taken(second) == (3, 3)


@pytest.mark.full
@pytest.mark.browser
async def test_what_would_be_taken_over_wrongly_is_found_by_the_frame_that_is_drawn(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(storage, film(""), "job_1")

    def always(_before: UnitResult, _seen: str | None) -> bool:
        return True

    monkeypatch.setattr(capture, "are_alike", always)  # as if a list lacked all that counts
    changed = await made(storage, film("now.colour = [1, 0, 0];"), "job_2")
    assert taken(changed) == (0, 0)
    fresh = await made(elsewhere(storage), film("now.colour = [1, 0, 0];"), "job_3")
    assert changed.frame_hash == fresh.frame_hash


@pytest.mark.full
@pytest.mark.browser
async def test_who_notes_changes_no_picture() -> None:
    async with await Browser.launch() as browser:
        seen: list[list[bytes]] = []
        for witness in (None, "drawn"):
            setup = PageSetup(width=160, height=90, witness=cast("Any", witness))
            page = await LoadedPage.open(browser, Bundle(film("")), setup)
            await page.wait_ready(30)
            pictures: list[bytes] = []
            for frame in range(10):
                await page.go(frame, 10)
                pictures.append(await page.picture())
            seen.append(pictures)
            await page.close()
    assert seen[0] == seen[1] and len(set(seen[0])) == 10


# --- what is not followed -------------------------------------------------------------------------------------------

MARKUP = (
    "<!doctype html><style>@keyframes k { to { left: 9px } }</style><body><p id=p>Koda</p>BODY"
    "<script src=film.js></script>"
)
FILES_BESIDE = {
    "a.svg": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="9"/></svg>',
    "a.css": b"@font-face { font-family: f; src: local('DejaVu Sans') }",
}
CONTEXT = "const gl = document.createElement('canvas').getContext('webgl2');"
SNAPPED = (
    "<div id=d style='overflow: auto; height: 9px'>{}<p style='height: 50px'>x</p>"
    "<p style='height: 50px; scroll-snap-align: start'>y</p></div>"
)
REFUSED = {
    "a text of a canvas in the page": ("<canvas id=c></canvas>", "c.getContext('2d').fillText('x', 0, 9)"),
    "a colour by a style": ("<canvas id=c></canvas>", "c.getContext('2d').fillStyle = 'currentcolor'"),
    "a filter by a style": ("<canvas id=c></canvas>", "c.getContext('2d').filter = 'blur(1em)'"),
    "a canvas of bitmaps": ("<canvas id=c></canvas>", "c.getContext('bitmaprenderer')"),
    "a canvas that is drawn elsewhere": (
        "<canvas id=c></canvas>",
        "c.transferControlToOffscreen().getContext('2d').fillRect(0, 0, 9, 9)",
    ),
    "film": ("<video></video>", ""),
    "a frame": ("<iframe srcdoc='<p>x'></iframe>", ""),
    "a field": ("<input value=x>", ""),
    "an animation": ("<i style='position: absolute; animation: k 1s'>x</i>", ""),
    "an animation of a script": ("", "p.animate({ left: ['1px', '9px'] }, 1000)"),
    "a drawing's animation": ("<svg><rect width=9 height=9><animate attributeName=x to=9 dur=1s /></rect></svg>", ""),
    "a drawing's number": ("<svg><rect id=r width=9 height=9 /></svg>", "r.width.baseVal.value = 1.23456789"),
    "a shadow root": ("<div id=d></div>", "d.attachShadow({ mode: 'closed' }).innerHTML = 'x'"),
    "a closed one that is written": ("<div><template shadowrootmode=closed>x</template></div>", ""),
    "a pattern's place": (
        "",
        "const brush = document.createElement('canvas').getContext('2d'), other = document.createElement('canvas');"
        "other.getContext('2d'); brush.createPattern(other, 'repeat').setTransform(new DOMMatrix([2, 0, 0, 1, 0, 0]))",
    ),
    "a filter of a canvas": ("", "document.createElement('canvas').getContext('2d').filter = 'url(#p)'"),
    "a changed font": (
        "<style>@font-face { font-family: f; src: url(a.woff2) }</style>",
        "for (const face of document.fonts) face.weight = '700'",
    ),
    "rules with a blob": ("<style id=s></style>", "s.textContent = 'p { background: url(blob:x) }'"),
    "an element of its own": ("<my-own>x</my-own>", ""),
    "a worker": ("", "new Worker(URL.createObjectURL(new Blob(['0'])))"),
    "pixels read": ("", f"{CONTEXT} gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4))"),
    "errors read": ("", f"{CONTEXT} gl.getError()"),
    "pixels copied": ("", f"{CONTEXT} gl.copyTexImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 0, 0, 8, 8, 0)"),
    "a picture of a canvas": ("", "document.createElement('canvas').toDataURL()"),
    "pixels of a 2D canvas": ("", "document.createElement('canvas').getContext('2d').getImageData(0, 0, 1, 1)"),
    "a texture of another canvas": (
        "",
        f"{CONTEXT} const other = document.createElement('canvas'); other.getContext('webgl');"
        "gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());"
        "gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, other)",
    ),
    "rules of a script": ("", "document.styleSheets[0].insertRule('p { color: red }')"),
    "a rule's style": ("", "document.styleSheets[0].cssRules[0].cssText"),
    "a style sheet of a script": ("", "document.adoptedStyleSheets = [new CSSStyleSheet()]"),
    "a style's numbers": ("", "p.attributeStyleMap.set('left', CSS.px(1.23456789))"),
    "scrolling": ("<div style='height: 9999px'></div>", "scrollTo(0, 5)"),
    "the focus": ("<a href=x id=a>x</a>", "a.focus()"),
    "a picture of no file": ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", ""),
    "a property of its own": ("", "CSS.registerProperty({ name: '--x', inherits: false })"),
    "much data": ("", f"{CONTEXT} gl.bufferData(gl.ARRAY_BUFFER, new Uint8Array(40 << 20), gl.STATIC_DRAW)"),
    "a place in the page": ("", "location.hash = 'p'"),
    "too many elements": (
        "",
        "document.body.append(...Array.from({ length: 6000 }, () => document.createElement('i')))",
    ),
    "a place in the page that is left again": ("", "location.hash = 'p'; location.hash = ''"),
    "words that are found": ("", "find('Koda'); getSelection().removeAllRanges()"),
    "what the browser scrolls": (SNAPPED.format("<style>#d { scroll-snap-type: y mandatory }</style>"), ""),
    "what a style scrolls": (SNAPPED.format(""), "d.style.scrollSnapType = 'y mandatory'"),
    "styles of an animation": (
        "<i id=i style='animation: k 1s'>x</i>",
        "i.getAnimations()[0].commitStyles(); i.remove()",
    ),
    "a canvas's size by its attribute": (
        "<canvas id=c width=9></canvas>",
        "c.getContext('2d'); c.getAttributeNode('width').value = 7",
    ),
    "a canvas's size by their map": (
        "<canvas id=c width=9></canvas>",
        "c.getContext('2d'); c.attributes.removeNamedItem('width')",
    ),
    "a canvas's size by any element's method": (
        "<canvas id=c></canvas>",
        "c.getContext('2d'); Element.prototype.setAttribute.call(c, 'WIDTH', 7)",
    ),
    "what may have closed shadow roots": ("<div id=d></div>", "d.setHTMLUnsafe('x')"),
    "a document that may": ("", "Document.parseHTMLUnsafe('x')"),
    "when it was painted": ("", "new PerformanceObserver(() => {}).observe({ type: 'paint', buffered: true })"),
    "when it was painted before": ("", "performance.getEntriesByType('paint')"),
    "methods of a frame that is gone": (
        "",
        "const frame = document.body.appendChild(document.createElement('iframe'));"
        "window[0].CanvasRenderingContext2D; frame.remove()",
    ),
    "of one that was in something": (
        "<div id=d></div>",
        "const span = document.createElement('span'); span.innerHTML = '<iframe></iframe>'; d.append(span);"
        "window[0].CanvasRenderingContext2D; span.firstChild.remove()",
    ),
    "what addresses began with": (
        "",
        "const base = document.createElement('base'); base.href = '/x/'; document.head.append(base);"
        "p.style.background = 'url(a.svg)'; base.remove()",
    ),
    "what a page was forbidden": (
        "",
        "const meta = document.createElement('meta'); meta.httpEquiv = 'Content-Security-Policy';"
        "meta.content = \"style-src 'none'\"; document.head.append(meta); meta.remove();"
        "p.setAttribute('style', 'color: red')",
    ),
    "which of several sheets was meant": ("<style title=other>p { color: red }</style>", ""),
    "which of several was meant for a moment": (
        "",
        "const style = document.createElement('style'); style.title = 'x'; document.head.append(style); style.remove()",
    ),
    "what is written where there is no doctype": (
        "",
        "p.append(new DOMParser().parseFromString('<i style=\"width: 5\">', 'text/html').body.firstChild)",
    ),
    "what moves in what is used": (
        "<svg style='display: none'><rect id=r width=9 height=9 style='animation: k 1s' /></svg>"
        "<svg><use href=#r /></svg>",
        "",
    ),
    "what moves there by a rule": (
        "<style>#r { transition: transform 1s }</style>"
        "<svg style='display: none'><rect id=r width=9 height=9 /></svg><svg><use href=#r /></svg>",
        "",
    ),
    "a style that recalls, and another": (
        "",
        "seen = () => { seen = () => {}; p.setAttribute('style', 'contain-intrinsic-width: auto 9px');"
        " p.style.color = 'red' }",
    ),
    "a property that recalls": ("", "seen = () => { seen = () => {}; p.style.containIntrinsicWidth = 'auto 9px' }"),
    "what is as large as it was": (
        "<style>.hidden { content-visibility: hidden; contain-intrinsic-size: auto 9px }</style>",
        "",
    ),
    "what is where it was": ("", "p.style.positionTryFallbacks = 'flip-inline'"),
    "a text of a canvas that was in the page": (
        "<canvas id=c></canvas>",
        "const canvas = c, pen = canvas.getContext('2d'); pen.font = '2em serif'; canvas.remove();"
        "pen.fillText('x', 0, 9)",
    ),
    "letters of an adopted sheet": (
        "",
        "__koda.ready = import('./a.css', { with: { type: 'css' } }).then(({ default: sheet }) => {"
        "document.adoptedStyleSheets.push(sheet);"
        "document.createElement('canvas').getContext('2d').fillText('x', 0, 9);"
        "document.adoptedStyleSheets.pop() })",
    ),
    "a change of its own after the frame": ("", "seen = () => new ResizeObserver(() => { p.title += 'x' }).observe(p)"),
}
OFTEN = {
    "a text of a canvas in the page",
    "an animation",
    "pixels read",
    "a closed one that is written",
    "a change of its own after the frame",
}
CONTRACT = """let seen = () => {};
window.__koda = { version: 1, mode: "export", duration: 1, fps: 10, size: { width: 160, height: 90 },
  ready: Promise.resolve(), seek: async (seconds) => { seen(); p.style.left = seconds + "px" } };"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


async def noted(
    browser: Browser, body: str, script: str, *, dry: bool = False, called: str = "film.js"
) -> tuple[str | None, str]:
    """Show two frames of a page; return what it noted, and why it noted nothing."""
    markup = MARKUP.replace("BODY", body).replace("film.js", called)
    page_files = {"index.html": markup.encode(), called: (CONTRACT + script).encode()}
    setup = PageSetup(width=160, height=90, witness="dry" if dry else "drawn")
    page = await LoadedPage.open(browser, Bundle(FILES_BESIDE | page_files), setup)
    try:
        await page.wait_ready(30)
        for frame in range(2):
            await page.go(frame, 10)
            await page.unpainted() if dry else await page.picture()
        found = await page.witnessed()
        return found.digest, found.why
    finally:
        await page.close()


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("dry", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.full) for name in REFUSED]
)
async def test_what_is_not_followed_is_refused(browser: Browser, name: str, dry: bool) -> None:
    digest, why = await noted(browser, *REFUSED[name], dry=dry)
    assert digest is None and why, name


FLAT = "const pen = document.body.appendChild(document.createElement('canvas')).getContext('2d');"
DRAWN = (
    f"{CONTEXT} gl.bindTexture(gl.TEXTURE_2D, gl.createTexture()); const image = new Image(8, 8); image.src = 'a.svg';"
    "__koda.ready = image.decode(); seen = () =>"
    " gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, image)"
)
SHADED = (
    DRAWN.replace("seen = () =>", "document.body.append(image); const upload = () =>")
    + "; const on = () => document.body.setAttribute('style', 'color-scheme: dark'),"
    " off = () => document.body.removeAttribute('style'); seen = () => {{ {} }}"
)
LETTERS = (
    "const style = document.createElement('style'), pen = document.createElement('canvas').getContext('2d');"
    "style.textContent = \"@font-face { font-family: f; src: local('FAMILY') }\"; pen.font = '9px f';"
    "document.head.append(style); pen.fillText('x', 0, 9); style.remove()"
)
FOLLOWED = {
    "a text": "p.textContent = 'Ray'",
    "a 2D canvas in the page": f"{FLAT} pen.fillStyle = '#f00'; pen.fillRect(0, 0, 9, 9)",
    "its other colour": f"{FLAT} pen.fillStyle = 'rgb(0 255 0 / 50%)'; pen.fillRect(0, 0, 9, 9)",
    "its gradient": f"{FLAT} pen.fillStyle = pen.createLinearGradient(0, 0, 9, 9); pen.fillRect(0, 0, 9, 9)",
    "a drawing in the page": "p.innerHTML = '<svg><rect width=9 height=9 /></svg>'",
    "a text of a canvas in a font of a moment": LETTERS.replace("FAMILY", "DejaVu Sans"),
    "in another font of a moment": LETTERS.replace("FAMILY", "DejaVu Serif"),
    "a drawing that was dark": SHADED.format("on(); off(); upload()"),
    "a drawing that is dark for a moment": SHADED.format("on(); upload(); off()"),
    "a text of a canvas": "document.createElement('canvas').getContext('2d').fillText('x', 0, 0)",
    "a style": "p.style.color = '#f00'",
    "a style that looks the same": "p.style.top = '1000.1234px'; p.style.top = '1000.1233px'",
    "its other order": "p.style.top = '1000.1233px'; p.style.top = '1000.1234px'",
    "a style that is refused": "p.style.top = '1000.1234px'; p.style.top = 'nonsense'",
    "a style by its name": "p.style.setProperty('top', '1000.1234px')",
    "an important one": "p.style.setProperty('top', '1000.1234px', 'important')",
    "a style as a text": "p.style.cssText = 'top: 1000.1234px'",
    "an attribute": "p.setAttribute('style', 'top: 1000.1234px')",
    "an attribute before a style": "p.setAttribute('style', 'top: 1000.1234px'); p.style.right = '1px'",
    "its other value": "p.setAttribute('style', 'top: 1000.1233px'); p.style.right = '1px'",
    "an attribute as it says itself": "p.style.top = '1000.1234px'; p.setAttribute('style', p.getAttribute('style'))",
    "one that is away for a moment": "p.style.top = '1000.1234px'; const said = p.getAttribute('style');"
    "p.removeAttribute('style'); p.setAttribute('style', said)",
    "its node": "p.style.top = '1000.1234px'; p.getAttributeNode('style').value = p.getAttribute('style')",
    "its node's text": "p.style.top = '1000.1234px'; p.getAttributeNode('style').textContent = p.getAttribute('style')",
    "another node": "p.style.top = '1000.1234px'; const node = document.createAttribute('style');"
    "node.value = p.getAttribute('style'); p.setAttributeNode(node)",
    "another node in their map": "p.style.top = '1000.1234px'; const node = document.createAttribute('style');"
    "node.value = p.getAttribute('style'); p.attributes.setNamedItem(node)",
    "a copy": "const q = p.cloneNode(true); q.style.top = '1000.1234px'; p.replaceWith(q.cloneNode(true))",
    "a copy of another": "const q = p.cloneNode(true); q.style.top = '1000.1233px'; p.replaceWith(q.cloneNode(true))",
    "another element": "const q = p.cloneNode(true); seen = () => p.replaceWith(q)",
    "a context": CONTEXT,
    "a call": f"{CONTEXT} gl.clearColor(0, 0, 0, 1)",
    "another call": f"{CONTEXT} gl.clearColor(0, 0, 1e-9, 1)",
    "its zero": f"{CONTEXT} gl.clearColor(-0, 0, 0, 1)",
    "data": f"{CONTEXT} gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([1, 2]), gl.STATIC_DRAW)",
    "data of another kind": f"{CONTEXT} gl.bufferData(gl.ARRAY_BUFFER, new Uint32Array(2), gl.STATIC_DRAW)",
    "data of a third": f"{CONTEXT} gl.bufferData(gl.ARRAY_BUFFER, new Int32Array(2), gl.STATIC_DRAW)",
    "much data": f"{CONTEXT} gl.bufferData(gl.ARRAY_BUFFER, new Uint8Array(99_999), gl.STATIC_DRAW)",
    "its last byte": f"{CONTEXT} const data = new Uint8Array(99_999); data[99_998] = 1;"
    "gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW)",
    "a drawing": DRAWN,
    "a larger one": DRAWN.replace("8, 8", "64, 64"),
    "one that is turned": DRAWN.replace("(8, 8);", "(8, 8); image.style.imageOrientation = 'none';"),
    "a style of another space": "p.setAttributeNS('urn:x', 'style', 'top: 1000.1234px')",
    "a link": "p.setAttribute('xlink:href', '#p')",
    "a link of its space": "p.setAttributeNS('http://www.w3.org/1999/xlink', 'xlink:href', '#p')",
    "a size": "document.createElement('canvas').getContext('webgl2').canvas.width = 7",
    "random numbers": "p.textContent = Math.random()",
}


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_followed_counts_and_is_the_same_where_nothing_is_drawn(browser: Browser) -> None:
    found = {"nothing": await noted(browser, "", "")}
    for name, script in FOLLOWED.items():
        found[name] = await noted(browser, "", script)
        assert found[name] == await noted(browser, "", script, dry=True), name
    assert all(digest is not None for digest, _ in found.values()), found
    assert len({digest for digest, _ in found.values()}) == len(found)


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("rule", "sees"),
    [("p ~ script", False), ("[src*=film]", True), ("[*|src*=film]", True), ('[|src="film.js"]', True)],
)
async def test_what_a_script_is_called_counts_where_a_rule_may_see_it(browser: Browser, rule: str, sees: bool) -> None:
    style = f"<style>p:has(~ {rule.removeprefix('p ~ ')}) {{ color: red }}</style>"
    one, other = [await noted(browser, style, "", called=called) for called in ("film.js", "other.js")]
    assert one[0] is not None and other[0] is not None and (one != other) is sees


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_what_a_file_is_asked_for_as_decides_whether_it_is_a_script(browser: Browser) -> None:
    """A picture is one whatever it is called; and where a script reads a script's text, nobody knows what for."""
    images = [io.BytesIO(), io.BytesIO()]
    for data, colour in zip(images, ("red", "blue"), strict=True):
        Image.new("RGB", (8, 8), colour).save(data, "PNG")
    script = CONTRACT + "fetch('read.js').then((answer) => answer.text())"
    files = {
        "index.html": MARKUP.replace("BODY", "<img src=picture.js>").encode(),
        "film.js": script.encode(), "read.js": b"1", "picture.js": images[0].getvalue(),
    }  # fmt: skip
    changes = {"film.js": script.encode() + b"// as before", "read.js": b"2", "picture.js": images[1].getvalue()}
    seen: list[str | None] = []
    for name in ("", *changes):
        bundle = Bundle(files | {one: data for one, data in changes.items() if one == name})
        page = await LoadedPage.open(browser, bundle, PageSetup(width=160, height=90, witness="drawn"))
        await page.wait_ready(30)
        await page.go(0, 10)
        await page.picture()
        seen.append(page.evidence(await page.witnessed()))
        await page.close()
    assert seen[0] is not None and seen[0] == seen[1] and len(set(seen)) == 3 and None not in seen
