"""Small pages out of a grammar, and changes of them: some are seen, some are not, some only from a frame on.

A page is a few acts, each of which does one thing to the document, once (while the page loads, or at a frame) or at
each frame from one on. What acts there are stands in a text beside this. Whatever an act needs is in the page's markup.
A change fills in other values, moves, drops, adds or swaps acts, does something beside one that nobody sees, or does
one while the page is in some other state for a moment.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st
from PIL import Image

from koda_ray.render.bundle import Bundle

__all__ = ["FRAMES", "Act", "bundle_of", "changes", "first_difference", "pages"]

FRAMES = 3
_LOADING = -1


def _png(colour: str) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(data, "PNG")
    return data.getvalue()


_DRAWING = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>@media (prefers-color-scheme: dark) '
    b'{ circle { fill: blue } }</style><circle r="9"/></svg>'
)
_FILES = {
    "a.png": _png("red"), "b.png": _png("blue"), "x/a.png": _png("lime"), "a.svg": _DRAWING,
    "a.css": b"p { color: red }", "b.css": b"p { color: red } #d { width: 30px }",
}  # fmt: skip
_STYLE = """body { margin: 0; font: 10px sans-serif; display: flex; flex-wrap: wrap; gap: 2px } p, ul { margin: 0 }
#d { width: 20px; height: 20px; background: var(--x, #080) } #d.wide { width: 40px }
#w { width: 30px; height: 20px; overflow: auto } .large { font-size: 20px } .dark { color-scheme: dark }
li::before { content: attr(data-x) } li.told::before { color: red }"""
_MARKUP = {
    "p": "<p id=p>Koda</p>",
    "d": "<div id=d></div>",
    "s": "<svg id=s width=40 height=20><defs><linearGradient id=q><stop id=e offset=0 stop-color=red />"
    "<stop offset=1 /></linearGradient></defs><rect id=r width=12 height=12 fill='url(#q)' />"
    "<use id=u href=#r x=20 /></svg>",
    "c": "<canvas id=c width=30 height=20></canvas>",
    "g": "<canvas id=g width=30 height=20></canvas>",
    "i": "<img id=i src=a.png>",
    "l": "<ul id=l><li id=m data-x=a>one</ul>",
    "h": "<div id=h></div>",
    "w": "<div id=w><p id=t>some words that need much more place than that</p></div>",
    "z": "<style id=z></style>",
    "k": "<style>@keyframes k { to { transform: translateX(40px) } } #d.moving { transition: width 1s }</style>",
}
_SETUP = {
    "c": "const pen = c.getContext('2d'), aside = document.createElement('canvas'), other = aside.getContext('2d');"
    "aside.width = 30; other.fillStyle = 'red'; other.fillRect(0, 0, 9, 9); const data = new ImageData(4, 4);",
    "g": """const gl = g.getContext('webgl'), program = gl.createProgram();
for (const [type, text] of [[gl.VERTEX_SHADER, "attribute vec2 p; varying vec2 v; uniform mat4 turn;" +
  "void main() { v = p; gl_Position = turn * vec4(p, 0., 1.); }"],
  [gl.FRAGMENT_SHADER, "precision mediump float; varying vec2 v; uniform vec3 colour; uniform sampler2D tex;" +
  "void main() { gl_FragColor = vec4(colour, 1.) + texture2D(tex, v); }"]]) {
  const shader = gl.createShader(type);
  gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
}
gl.linkProgram(program); gl.useProgram(program);
gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
const corners = new Float32Array([0, 1, -1, -1, 1, -1]), colour = new Float32Array([0, 0.5, 1]);
const turn = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]), texels = new Uint8Array(16).fill(9);
gl.bufferData(gl.ARRAY_BUFFER, corners, gl.STATIC_DRAW);
gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 2, 2, 0, gl.RGBA, gl.UNSIGNED_BYTE, texels);
gl.uniformMatrix4fv(gl.getUniformLocation(program, "turn"), false, turn);
const flat = document.createElement('canvas'), brush = flat.getContext('2d'); flat.width = flat.height = 2;
const draw = () => { gl.clear(gl.COLOR_BUFFER_BIT); gl.drawArrays(gl.TRIANGLES, 0, 3); };""",
    "h": "const root = () => h.shadowRoot ?? h.attachShadow({ mode: 'open' });",
}

_HOLES: dict[str, tuple[str, ...]] = {
    "colour": ("red", "#f00", "rgb(254 0 0)", "blue", "#0000fe", "white", "transparent"),
    "plain": ("#f00", "rgb(255 0 0)", "#fe0000", "#00f", "white", "#0008"),
    "length": ("0px", "5px", "5.0001px", "5.3px", "1em", "12px", "10%"),
    "number": ("0", "0.5", "0.5000001", "1", "2", "-0", "3.7", "9"),
    "word": ("Koda", "Ray", "Koda ", "x", "", "a longer one"),
    "file": ("a.png", "b.png", "a.svg", "none.png", "a.png?1"),
    "family": ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono", "nobody"),
    "property": ("left", "marginLeft", "width", "borderRadius", "letterSpacing", "fontSize", "translate"),
    "rule": (
        "p {{ color: red }}", "p {{ color: blue }}", "#d {{ width: 9px }}", "i {{ color: red }}", ".none {{ top: 0 }}",
        "li::before {{ content: \\'b\\' }}", "p:has(b) {{ color: red }}", "@media print {{ p {{ color: red }} }}",
    ),
    "frame": ("f", "f % 2", "2 - f", "0"),
}  # fmt: skip

_FOLLOWED, _REFUSED = (
    [(code, tuple(needs.split())) for needs, _, code in (line.partition(": ") for line in part.strip().splitlines())]
    for part in Path(__file__).with_suffix(".txt").read_text().split("---")
)
"""What acts are like, and what they need: those that are noted, and those that leave a page without evidence."""

_ASIDE = (
    "/* {word} */", "void document.title;", "document.body.getBoundingClientRect();", "void performance.now();",
    "void getComputedStyle(document.body).color;", "document.createElement('b').append('{word}');", "Math.random();",
    "void document.body.offsetWidth;", "new Image();", "void document.documentElement.outerHTML;", "Date.now();",
    "queueMicrotask(() => {{}});", "await 0;",
)  # fmt: skip
"""What is done beside, and changes nothing that is shown."""

_STYLED = "const style = document.createElement('style'); style.textContent = {}; document.head.append(style);"
_TEMPORARY = (
    ("document.body.className = 'large';", "document.body.className = '';"),
    ("document.body.className = 'dark'; document.body.offsetWidth;", "document.body.className = '';"),
    ("document.documentElement.dir = 'rtl';", "document.documentElement.dir = '';"),
    ("const base = document.createElement('base'); base.href = '/x/'; document.head.append(base);", "base.remove();"),
    (_STYLED.format("'* {{ color: red; font-size: 20px }}'") + "document.body.offsetWidth;", "style.remove();"),
    (_STYLED.format("'@font-face {{ font-family: nobody; src: local(\"{family}\") }}'"), "style.remove();"),
    ("const {{ body }} = document, at = body.parentNode; body.remove();", "at.append(body);"),
)
"""A state in which a page is for a moment, and how it is left again."""

_HOLE = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


@dataclass(frozen=True)
class Act:
    """One thing that a page does.

    Args:
        form: As it is in the grammar.
        code: With its values.
        needs: Which parts of the markup.
        when: The frame; `_LOADING` is before all.
        each: Whether it is done at every frame from there on.
    """

    form: str
    code: str
    needs: tuple[str, ...]
    when: int
    each: bool


def _filled(draw: st.DrawFn, form: str) -> str:
    code = _HOLE.sub(lambda hole: draw(st.sampled_from(_HOLES[hole[1]])), form)
    return code.replace("{{", "{").replace("}}", "}")


@st.composite
def _acts(draw: st.DrawFn) -> Act:
    forms = st.sampled_from(_FOLLOWED)
    if draw(st.integers(0, 23)) == 23:
        forms = st.sampled_from(_REFUSED)
    form, needs = draw(forms)
    when = draw(st.integers(_LOADING, FRAMES - 1))
    return Act(form, _filled(draw, form), needs, when, draw(st.booleans()))


def pages() -> st.SearchStrategy[tuple[Act, ...]]:
    """Pages of a few acts."""
    return st.lists(_acts(), min_size=1, max_size=4).map(tuple)


def _refilled(draw: st.DrawFn, act: Act) -> Act:
    return replace(act, code=_filled(draw, act.form))


def _moved(draw: st.DrawFn, act: Act) -> Act:
    return replace(act, when=draw(st.integers(_LOADING, FRAMES - 1)), each=draw(st.booleans()))


def _for_a_moment(draw: st.DrawFn, act: Act) -> Act:
    before, after = (_filled(draw, text) for text in draw(st.sampled_from(_TEMPORARY)))
    return replace(act, code=f"{before} {{ {act.code} }} {after}")


def _beside(draw: st.DrawFn, act: Act) -> Act:
    aside = _filled(draw, draw(st.sampled_from(_ASIDE)))
    return replace(act, code=f"{aside} {{ {act.code} }}")


_EDITS: tuple[Callable[[st.DrawFn, Act], Act], ...] = (_refilled, _refilled, _refilled, _moved, _for_a_moment, _beside)


@st.composite
def changes(draw: st.DrawFn, acts: Sequence[Act], *, seen: bool) -> tuple[Act, ...]:
    """A page that differs from one in one to three places; it may be `seen`, or by nothing that is shown."""
    changed = list(acts)
    for _ in range(draw(st.sampled_from((1, 1, 1, 1, 2, 3)))):
        place = draw(st.integers(0, len(changed) - 1))
        kind = draw(st.sampled_from(("edit", "edit", "edit", "edit", "add", "drop", "swap"))) if seen else ""
        if not seen:
            changed[place] = _beside(draw, changed[place])
        elif kind == "edit":
            changed[place] = draw(st.sampled_from(_EDITS))(draw, changed[place])
        elif kind == "add":
            changed.insert(place, draw(_acts()))
        elif kind == "drop" and len(changed) > 1:
            changed.pop(place)
        else:
            changed.insert(0, changed.pop(place))
    return tuple(changed)


def _needs(acts: Sequence[Act]) -> set[str]:
    return {need for act in acts for need in act.needs}


def first_difference(one: Sequence[Act], other: Sequence[Act]) -> int:
    """Return the first frame at which two pages may do something different; `FRAMES` where they never do."""
    if _needs(one) != _needs(other):
        return 0
    for frame in range(_LOADING, FRAMES):
        if [act.code for act in _at(one, frame)] != [act.code for act in _at(other, frame)]:
            return max(0, frame)
    return FRAMES


def _at(acts: Sequence[Act], frame: int) -> list[Act]:
    return [act for act in acts if act.when == frame or (act.each and act.when < frame)]


def bundle_of(acts: Sequence[Act]) -> Bundle:
    """Return the page that does these acts, in their order."""
    needs = _needs(acts)
    body = "".join(part for name, part in _MARKUP.items() if name in needs)
    parts = [script for name, script in _SETUP.items() if name in needs]
    for frame in range(_LOADING, FRAMES):
        done = "".join(f"  try {{ {act.code} }} catch {{}}\n" for act in _at(acts, frame))
        parts.append(f"const frame{frame + 1} = async (f) => {{\n{done}}};")
    shown = ", ".join(f"frame{frame + 1}" for frame in range(FRAMES))
    parts.append(
        f"const shown = [{shown}];\nconst there = frame0(0);\n"
        'window.__koda = { version: 1, mode: "export", duration: 1, fps: 10, size: { width: 160, height: 90 },\n'
        "  ready: there, seek: (seconds) => { const f = Math.round(seconds * 10); return shown[f]?.(f); } };"
    )
    html = f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style><body>{body}<script src=film.js></script>"
    return Bundle(_FILES | {"index.html": html.encode(), "film.js": "\n".join(parts).encode()})
