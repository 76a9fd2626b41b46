"""Whether a browser draws WebGL, and who draws it: a triangle of a known colour is drawn and read back.

Neither a file nor a name proves that: drivers and browsers fall back to something else without a word.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from koda_ray.errors import RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.graphics import Graphics

__all__ = ["TRY_S", "Drawn", "draw", "draw_in", "in_short"]

TRY_S = 10.0
"""How long a browser may take to start, and then to draw, in seconds."""
_MAX_WORDS = 160
_COLOUR = (51, 102, 153, 255)
_DRAW = """(() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const gl = canvas.getContext("webgl2");
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [kind, source] of [
    [gl.VERTEX_SHADER, "attribute vec2 at; void main() { gl_Position = vec4(at, 0.0, 1.0); }"],
    [gl.FRAGMENT_SHADER, "void main() { gl_FragColor = vec4(0.2, 0.4, 0.6, 1.0); }"],
  ]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.bindAttribLocation(program, 0, "at");
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 3, -1, -1, 3]), gl.STATIC_DRAW);
  gl.enableVertexAttribArray(0);
  gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
  gl.drawArrays(gl.TRIANGLES, 0, 3);
  const pixel = new Uint8Array(4);
  gl.readPixels(4, 4, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return { renderer: info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : "", pixel: [...pixel] };
})()"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What came of a triangle.

    Attributes:
        renderer: Who says to have drawn it, as WebGL's ``UNMASKED_RENDERER_WEBGL``.
        wrong: What is wrong with the picture, or why there is none; None where it is right.
        answered: Whether the browser said so; otherwise it did not start, or fell silent, and another try may differ.
    """

    renderer: str
    wrong: str | None
    answered: bool = True


async def draw(binary: Path, graphics: Graphics, *, timeout_s: float = TRY_S) -> Drawn:
    """Draw in a browser of its own.

    Args:
        binary: The browser.
        graphics: What it is to draw with.
        timeout_s: How long all of it may take, in seconds.

    Raises:
        Missing: bubblewrap is not there, or may not isolate.
    """
    try:
        async with (
            asyncio.timeout(timeout_s),
            await Browser.launch(chromium_path=binary, graphics=graphics, timeout_s=timeout_s) as browser,
        ):
            return await _drawn(browser)
    except RenderError as error:
        return Drawn("", in_short(error.message), answered=False)
    except TimeoutError:
        return Drawn("", _nothing(timeout_s), answered=False)


async def draw_in(browser: Browser, *, timeout_s: float = TRY_S) -> Drawn:
    """Draw in a browser that runs.

    Args:
        browser: The browser.
        timeout_s: How long it may take, in seconds.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _drawn(browser)
    except TimeoutError:
        return Drawn("", _nothing(timeout_s), answered=False)


def in_short(words: str) -> str:
    """Return what is said first, without the addresses that FFmpeg puts before it."""
    words = re.sub(r"\[[^]]* @ 0x[0-9a-f]+\] ?", "", words)
    return words.partition("\n")[0].strip()[:_MAX_WORDS]


def _nothing(timeout_s: float) -> str:
    return f"nothing was drawn within {timeout_s:g} s"


async def _drawn(browser: Browser) -> Drawn:
    target = await browser.new_target(64, 64)
    asked = {"expression": _DRAW, "returnByValue": True}
    answer = cast("dict[str, Any]", (await target.session.send("Runtime.evaluate", asked)).get("result"))
    await target.close()
    seen = cast("dict[str, Any] | None", answer.get("value"))
    if seen is None:
        return Drawn("", "no WebGL 2")
    renderer, pixel = str(seen["renderer"]), cast("list[int]", seen["pixel"])
    if any(abs(one - two) > 1 for one, two in zip(pixel, _COLOUR, strict=True)):
        return Drawn(renderer, f"{renderer or 'nobody'} drew {pixel} in place of {list(_COLOUR)}")
    return Drawn(renderer, None)
