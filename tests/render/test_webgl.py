"""What a WebGL page does not draw again is gone, as in a browser that shows every frame; what it keeps is kept."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FPS = 10
# a bar 10 px wide that is drawn 10 px further right in each frame, and nothing else unless the page draws it
PAGE = """<!doctype html><style>body{margin:0;background:#fff}canvas{display:block}</style>
<canvas id=c width=80 height=40></canvas><script>
const gl = c.getContext("KIND", OPTIONS), asked = gl.getContextAttributes();
const make = (type, text) => {
  const shader = gl.createShader(type);
  gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
};
const program = gl.createProgram();
make(gl.VERTEX_SHADER, `attribute vec2 p; uniform float x;
  void main() { gl_Position = vec4((p.x * 10. + x) / 40. - 1., p.y * 2. - 1., 0., 1.); }`);
make(gl.FRAGMENT_SHADER, "precision mediump float; void main() { gl_FragColor = vec4(0., 0., 0., 1.); }");
gl.linkProgram(program); gl.useProgram(program);
gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0,0, 1,0, 0,1, 1,1]), gl.STATIC_DRAW);
gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
const place = gl.getUniformLocation(program, "x");
const aside = gl.createFramebuffer();
gl.bindFramebuffer(gl.FRAMEBUFFER, aside);
const texture = gl.createTexture();
gl.bindTexture(gl.TEXTURE_2D, texture);
gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 16, 16, 0, gl.RGBA, gl.UNSIGNED_BYTE, null);
gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
gl.bindFramebuffer(gl.FRAMEBUFFER, null);
const bar = (x) => { gl.uniform1f(place, x); gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4); };
let frame = -1;
const draw = () => { frame += 1; const x = frame * 10; __DRAW__; requestAnimationFrame(draw); };
requestAnimationFrame(draw);
</script>"""
STATE = """["COLOR_CLEAR_VALUE", "COLOR_WRITEMASK", "DEPTH_WRITEMASK", "STENCIL_CLEAR_VALUE", "DEPTH_CLEAR_VALUE",
"STENCIL_WRITEMASK", "STENCIL_BACK_WRITEMASK", "SCISSOR_TEST"].map((name) => String(gl.getParameter(gl[name])))"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


async def opened(browser: Browser, draw: str, kind: str, options: str) -> LoadedPage:
    html = PAGE.replace("KIND", kind).replace("OPTIONS", options).replace("__DRAW__", draw)
    page = await LoadedPage.open(browser, Bundle({"index.html": html.encode()}), PageSetup(width=80, height=40))
    await page.wait_ready(20)
    return page


async def bars(page: LoadedPage) -> list[int]:
    """Which of the eight places of a bar are dark."""
    image = Image.open(io.BytesIO(await page.picture(image="png"))).convert("L")
    return [place for place in range(8) if np.asarray(image)[20, place * 10 + 5] < 128]


async def value(page: LoadedPage, expression: str) -> Any:
    return json.loads(str(await page.evaluate(f"JSON.stringify({expression})")))


@pytest.mark.parametrize("kind", ["webgl", "webgl2"])
@pytest.mark.parametrize(
    ("draw", "options", "each"),
    [
        pytest.param("bar(x)", "{}", [[0], [1], [2]], id="nothing is cleared"),
        pytest.param("bar(x)", "null", [[0], [1], [2]], id="no options"),
        pytest.param("bar(x)", "{preserveDrawingBuffer: true}", [[0], [0, 1], [0, 1, 2]], id="all is kept"),
        pytest.param("bar(x); bar(x + 40)", "{}", [[0, 4], [1, 5], [2, 6]], id="drawn twice"),
        pytest.param("gl.clear(gl.COLOR_BUFFER_BIT); bar(x)", "{}", [[0], [1], [2]], id="only the colour is cleared"),
        pytest.param("gl.clear(0x4100); bar(x)", "{antialias: false}", [[0], [1], [2]], id="all is cleared"),
        pytest.param("gl.clear(0x4500); bar(x)", "{stencil: true}", [[0], [1], [2]], id="with a stencil"),
        pytest.param(
            "gl.bindFramebuffer(gl.FRAMEBUFFER, aside); gl.clear(0x4000); bar(x);"
            "gl.bindFramebuffer(gl.FRAMEBUFFER, null); bar(x)",
            "{}",
            [[0], [1], [2]],
            id="first to a texture",
        ),
        pytest.param(
            "gl.enable(gl.SCISSOR_TEST); gl.scissor(70, 0, 10, 40); gl.clearColor(0, 0, 0, 1); gl.clear(0x4100);"
            "gl.disable(gl.SCISSOR_TEST); bar(x)",
            "{}",
            [[0, 7], [1, 7], [2, 7]],
            id="a piece is cleared",
        ),
        pytest.param(
            "gl.depthMask(false); gl.colorMask(true, true, true, false); gl.clearColor(1, 1, 1, 1); gl.clear(0x4100);"
            "gl.colorMask(true, true, true, true); bar(x)",
            "{}",
            [[0], [1], [2]],
            id="cleared behind masks",
        ),
        pytest.param("frame === 1 || bar(x)", "{}", [[0], [0], [2]], id="nothing is drawn in one frame"),
    ],
)
@pytest.mark.full
async def test_what_is_not_drawn_again_is_gone_unless_it_is_kept(
    browser: Browser, kind: str, draw: str, options: str, each: list[list[int]]
) -> None:
    page = await opened(browser, draw, kind, options)
    seen: list[list[int]] = []
    for frame in range(3):
        await page.go(frame, FPS)
        seen.append(await bars(page))
    assert seen == each
    assert await value(page, "asked.preserveDrawingBuffer") is ("true" in options and "preserve" in options)
    assert not page.problems.all
    await page.close()


@pytest.mark.parametrize(("kind", "extension"), [("webgl", "ANGLE_instanced_arrays"), ("webgl", "WEBGL_multi_draw")])
async def test_what_an_extension_draws_is_drawing_too(browser: Browser, kind: str, extension: str) -> None:
    call = "drawArraysInstancedANGLE(gl.TRIANGLE_STRIP, 0, 4, 1)"
    if extension == "WEBGL_multi_draw":
        call = "multiDrawArraysWEBGL(gl.TRIANGLE_STRIP, [0], 0, [4], 0, 1)"
    page = await opened(browser, f"gl.uniform1f(place, x); gl.getExtension('{extension}').{call}", kind, "{}")
    seen: list[list[int]] = []
    for frame in range(3):
        await page.go(frame, FPS)
        seen.append(await bars(page))
    assert seen == [[0], [1], [2]]
    await page.close()


async def test_clearing_leaves_what_the_page_had_set(browser: Browser) -> None:
    set_up = (
        "if (!frame) { gl.clearColor(.25, .5, .75, .5); gl.clearDepth(.5); gl.clearStencil(3); gl.stencilMask(5);"
        "gl.enable(gl.SCISSOR_TEST); gl.scissor(0, 0, 80, 20); gl.colorMask(true, false, true, true);"
        "gl.depthMask(false); window.was = LOOK }; bar(x)"
    )
    page = await opened(browser, set_up.replace("LOOK", STATE), "webgl2", "{stencil: true}")
    for frame in range(3):
        await page.go(frame, FPS)
        await page.picture()
    assert await value(page, STATE) == await value(page, "was")
    assert await value(page, "gl.getError()") == 0
    await page.close()


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("gl.stencilMaskSeparate(gl.BACK, 5); gl.stencilMaskSeparate(1, 9)", id="of one side"),
        pytest.param("gl.stencilMaskSeparate(gl.FRONT_AND_BACK, -1); gl.depthMask(0)", id="of both sides"),
        pytest.param(
            "gl.getExtension('oes_draw_buffers_INDEXED').colorMaskiOES(0, true, false, true, true)", id="of one buffer"
        ),
        pytest.param("try { gl.colorMask(false) } catch {} gl.clearColor('.5', null, NaN, 2)", id="in odd ways"),
    ],
)
async def test_what_the_page_said_of_clearing_is_as_it_said_it(browser: Browser, said: str) -> None:
    draw = f"if (!frame) {{ {said}; window.was = {STATE}; window.wrong = gl.getError() }}; bar(x)"
    page = await opened(browser, draw, "webgl2", "{stencil: true}")
    for frame in range(3):
        await page.go(frame, FPS)
        await page.picture()
    assert await value(page, STATE) == await value(page, "was")
    assert await value(page, "gl.getError()") == 0
    await page.close()


async def test_a_context_that_was_lost_begins_anew(browser: Browser) -> None:
    lose = (
        "if (!frame) { window.was = LOOK; gl.colorMask(false, true, true, true); gl.clearColor(1, 0, 0, 1);"
        "c.addEventListener('webglcontextlost', (event) => event.preventDefault());"
        "c.addEventListener('webglcontextrestored', () => { window.there = true });"
        "window.loss = gl.getExtension('WEBGL_lose_context'); loss.loseContext() };"
        "if (frame === 2) loss.restoreContext(); if (frame > 2) gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)"
    )
    page = await opened(browser, lose.replace("LOOK", STATE), "webgl", "{stencil: true}")
    for frame in range(3):
        await page.go(frame, FPS)
        await page.picture()
    async with asyncio.timeout(60):
        while not await value(page, "!!window.there"):
            await asyncio.sleep(0.02)
    for frame in range(3, 6):
        await page.go(frame, FPS)
        await page.picture()
    assert await value(page, STATE) == await value(page, "was")
    await page.close()


async def test_a_frame_is_the_same_whether_those_before_it_were_painted(browser: Browser) -> None:
    painted, passed = [await opened(browser, "bar(x)", "webgl", "{alpha: false}") for _ in range(2)]
    for frame in range(4):
        await painted.go(frame, FPS)
        picture = await painted.picture(image="png")
    await passed.go(3, FPS)
    assert await passed.picture(image="png") == picture
    await painted.close()
    await passed.close()
