"""Whether this machine's GPU draws and encodes: found out by using it, once, before anything is rendered.

Neither a device file nor a driver's name proves that. Drivers fall back to software without a word (Mesa draws with
llvmpipe where it may not open the card), and FFmpeg lists encoders that it was built with. So the isolated browser is
started with the devices, draws a triangle and says who drew it; FFmpeg encodes a few frames. A machine without a
GPU's device files starts nothing for this.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from koda_ray.errors import BrowserCrashed, EncodeFailed, Missing, RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.encode import unit_options
from koda_ray.render.ffmpeg import command_line, run
from koda_ray.render.graphics import (
    DEVICES,
    Graphics,
    GraphicsChoice,
    find_devices,
    is_nvidia,
    software_because,
    software_graphics,
)
from koda_ray.render.interposing import find_interposer
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.spec import RenderSpec

__all__ = ["choose_graphics", "confirm_graphics", "try_gpu", "try_nvenc"]

_TRY_S = 10.0
# what the GPU cannot draw ends in an error: software in its place would go on with other pictures
_FLAGS = ("--use-gl=angle", "--ignore-gpu-blocklist", "--disable-gpu-compositing", "--disable-software-rasterizer")
_WAYS = ("gl-egl", "vulkan")
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
_NVIDIA_DRIVER = Path("/sys/module/nvidia/version")
_NOTHING = f"nothing was drawn within {_TRY_S:g} s"
_MAX_WORDS = 160

_chosen: dict[tuple[Path, Path | None], Graphics] = {}


async def choose_graphics(binary: Path, choice: GraphicsChoice = "auto", *, folder: Path = DEVICES) -> Graphics:
    """Choose what a browser draws with; of one browser the same in all of this process.

    Args:
        binary: The browser.
        choice: A GPU where there is one, never, or nothing else.
        folder: Where device files are.

    Raises:
        Missing: A GPU is asked for and there is none to use; the message says why. Or bubblewrap is not there.
    """
    looked = None if choice == "software" else folder
    chosen = _chosen.get((binary, looked))
    if chosen is None:  # of several that ask at once the first to know decides: it may come out otherwise a second time
        chosen = _chosen.setdefault((binary, looked), await _choose(binary, looked))
    if choice == "gpu" and chosen.kind == "software":
        raise Missing(
            f"KODA_RENDER_GRAPHICS=gpu and no GPU can be used here: {chosen.why}. Set it to auto or software, or give "
            "this machine one: its device files and, inside a container, its driver's libraries",
            context={"program": "gpu"},
        )
    return chosen


async def _choose(binary: Path, folder: Path | None) -> Graphics:
    """Choose; without a folder no device is looked for."""
    if folder is None:
        drawn_by = software_graphics("KODA_RENDER_GRAPHICS=software")
    else:
        found = await asyncio.to_thread(find_devices, binary, folder)
        drawn_by = await try_gpu(binary, found.usable) if found.usable else software_graphics(found.why)
    return replace(drawn_by, interposer=await find_interposer(binary, drawn_by))


async def try_gpu(binary: Path, devices: tuple[Path, ...]) -> Graphics:
    """Draw with a GPU in each way that a browser can, and return the first that works.

    Args:
        binary: The browser.
        devices: The GPU's device files.

    Returns:
        The GPU; or software, and why each way was refused.

    Raises:
        Missing: bubblewrap is not there, or may not isolate.
    """
    refused: list[str] = []
    for way in _WAYS:
        flags = (*_FLAGS, f"--use-angle={way}")
        renderer, no = await _draw(binary, Graphics(kind="gpu", flags=flags, devices=devices))
        if no is None:
            return await _graphics(renderer, flags, devices, way)
        refused.append(f"{way}: {no}")
    return software_graphics("; ".join(refused))


async def _graphics(renderer: str, flags: tuple[str, ...], devices: tuple[Path, ...], way: str) -> Graphics:
    """Return a GPU that draws, with who encodes beside it."""
    nvidia = is_nvidia(renderer)
    refusal = await try_nvenc() if nvidia else "only NVIDIA has it"
    return Graphics(
        kind="gpu",
        flags=flags,
        renderer=renderer,
        driver=_nvidia_driver() if nvidia else "",
        devices=devices,
        encoder="h264_nvenc" if refusal is None else "libx264",
        why=f"{way} draws, NVENC encodes" if refusal is None else f"{way} draws; NVENC: {refusal}",
    )


def _nvidia_driver() -> str:
    try:
        return _NVIDIA_DRIVER.read_text().strip()
    except OSError:
        return ""


async def confirm_graphics(browser: Browser) -> None:
    """Make sure that a browser which just started draws with the GPU it was given; software needs no such thing.

    Raises:
        BrowserCrashed: It draws with something else, or not at all; another one may be right.
    """
    wanted = browser.graphics
    if wanted.kind == "software":
        return
    try:
        async with asyncio.timeout(_TRY_S):
            renderer, no = await _picture(browser)
    except TimeoutError:
        renderer, no = "", _NOTHING
    if no is not None or renderer != wanted.renderer:
        raise BrowserCrashed(f"the browser draws with {renderer or no}, and the video with {wanted.renderer}")


async def _draw(binary: Path, graphics: Graphics) -> tuple[str, str | None]:
    """Return who draws in a browser of its own, and why that is no GPU, if it is none."""
    try:
        async with (
            asyncio.timeout(_TRY_S),
            await Browser.launch(chromium_path=binary, graphics=graphics, timeout_s=_TRY_S) as browser,
        ):
            renderer, no = await _picture(browser)
    except RenderError as error:
        return "", _short(error.message)
    except TimeoutError:
        return "", _NOTHING
    why = None if no else software_because(renderer)
    return renderer, f"{why}: {renderer or 'it says nothing'}" if why else no


async def _picture(browser: Browser) -> tuple[str, str | None]:
    """Draw a triangle; return who says to have drawn it, and what is wrong with it, if anything is."""
    target = await browser.new_target(64, 64)
    asked = {"expression": _DRAW, "returnByValue": True}
    answer = cast("dict[str, Any]", (await target.session.send("Runtime.evaluate", asked)).get("result"))
    await target.close()
    seen = cast("dict[str, Any] | None", answer.get("value"))
    if seen is None:
        return "", "no WebGL 2"
    renderer, pixel = str(seen["renderer"]), cast("list[int]", seen["pixel"])
    if any(abs(one - two) > 1 for one, two in zip(pixel, _COLOUR, strict=True)):
        return renderer, f"{renderer} drew {pixel} in place of {list(_COLOUR)}"
    return renderer, None


async def try_nvenc() -> str | None:
    """Encode a few frames as a unit is encoded; return why NVENC cannot, in FFmpeg's words, or None when it can."""
    spec = RenderSpec(bundle="0" * 64, duration_s=0.5, fps=Fraction(10), width=320, height=180)
    options = unit_options(spec, spec.frame_count, image="png", encoder="h264_nvenc")
    folder = WorkFolder("trial")
    try:
        source = f"color=black:size={spec.width}x{spec.height}:rate={spec.fps}"
        target = str(folder.path / "trial.mp4")
        await run("ffmpeg", command_line(source, {"format": "lavfi"}, target, options), timeout_s=_TRY_S)
    except (EncodeFailed, Missing) as error:
        return _short(error.message)
    finally:
        folder.close()
    return None


def _short(words: str) -> str:
    """Return what is said first, without the addresses that FFmpeg puts before it."""
    words = re.sub(r"\[[^]]* @ 0x[0-9a-f]+\] ?", "", words)
    return words.partition("\n")[0].strip()[:_MAX_WORDS]
