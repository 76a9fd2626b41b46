"""Whether this machine's GPU draws and encodes: found out by using it, once, before anything is rendered.

Neither a device file nor a driver's name proves that. Drivers fall back to software without a word (Mesa draws with
llvmpipe where it may not open the card), and FFmpeg lists encoders that it was built with. So the isolated browser is
started with the devices, draws a triangle and says who drew it; FFmpeg encodes a few frames. A machine without a
GPU's device files starts nothing for this.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from koda_ray.errors import BrowserCrashed, EncodeFailed, Missing
from koda_ray.render.browser import Browser
from koda_ray.render.drawing import draw, draw_in, in_short
from koda_ray.render.encode import unit_options
from koda_ray.render.ffmpeg import command_line, run
from koda_ray.render.graphics import (
    DEVICES,
    Graphics,
    GraphicsChoice,
    RasterizerName,
    find_devices,
    is_nvidia,
    software_because,
    software_graphics,
)
from koda_ray.render.interposing import find_interposer
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.rasterizers import choose_rasterizer
from koda_ray.render.spec import RenderSpec

__all__ = ["choose_graphics", "confirm_graphics", "try_gpu", "try_nvenc"]

_ENCODE_S = 10.0
# what the GPU cannot draw ends in an error: software in its place would go on with other pictures
FLAGS = ("--use-gl=angle", "--ignore-gpu-blocklist", "--disable-gpu-compositing", "--disable-software-rasterizer")
_WAYS = ("gl-egl", "vulkan")
_NVIDIA_DRIVER = Path("/sys/module/nvidia/version")

_chosen: dict[tuple[Path, Path | None, RasterizerName | None], Graphics] = {}


async def choose_graphics(binary: Path, choice: GraphicsChoice = "auto", *, folder: Path = DEVICES) -> Graphics:
    """Choose what a browser draws with; of one browser the same in all of this process.

    Args:
        binary: The browser.
        choice: A GPU where there is one, never, nothing else; or who is to draw without one.
        folder: Where device files are.

    Raises:
        Missing: What is asked for cannot be used here; the message says why. Or bubblewrap is not there.
    """
    wanted = None if choice in ("auto", "software", "gpu") else choice
    looked = folder if choice in ("auto", "gpu") else None
    chosen = _chosen.get((binary, looked, wanted))
    if chosen is None:  # of several that ask at once the first to know decides: it may come out otherwise a second time
        chosen = _chosen.setdefault((binary, looked, wanted), await _choose(binary, looked, wanted))
    if choice == "gpu" and chosen.kind == "software":
        raise Missing(
            f"KODA_RENDER_GRAPHICS=gpu and no GPU can be used here: {chosen.why}. Set it to auto or software, or give "
            "this machine one: its device files and, inside a container, its driver's libraries",
            context={"program": "gpu"},
        )
    return chosen


async def _choose(binary: Path, folder: Path | None, wanted: RasterizerName | None) -> Graphics:
    """Choose; without a folder no device is looked for."""
    if folder is None:
        drawn_by = software_graphics(f"KODA_RENDER_GRAPHICS={wanted or 'software'}")
    else:
        found = await asyncio.to_thread(find_devices, binary, folder)
        drawn_by = await try_gpu(binary, found.usable) if found.usable else software_graphics(found.why)
    if drawn_by.kind == "software":
        drawn_by = await choose_rasterizer(binary, wanted, why=drawn_by.why)
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
        flags = (*FLAGS, f"--use-angle={way}")
        drawn = await draw(binary, Graphics(kind="gpu", flags=flags, devices=devices))
        software = None if drawn.wrong else software_because(drawn.renderer)
        no = f"{software}: {drawn.renderer or 'it says nothing'}" if software else drawn.wrong
        if no is None:
            return await _graphics(drawn.renderer, flags, devices, way)
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
    drawn = await draw_in(browser)
    if drawn.wrong is not None or drawn.renderer != wanted.renderer:
        raise BrowserCrashed(
            f"the browser draws with {drawn.renderer or drawn.wrong}, and the video with {wanted.renderer}"
        )


async def try_nvenc() -> str | None:
    """Encode a few frames as a unit is encoded; return why NVENC cannot, in FFmpeg's words, or None when it can."""
    spec = RenderSpec(bundle="0" * 64, duration_s=0.5, fps=Fraction(10), width=320, height=180)
    options = unit_options(spec, spec.frame_count, image="png", encoder="h264_nvenc")
    folder = WorkFolder("trial")
    try:
        source = f"color=black:size={spec.width}x{spec.height}:rate={spec.fps}"
        target = str(folder.path / "trial.mp4")
        await run("ffmpeg", command_line(source, {"format": "lavfi"}, target, options), timeout_s=_ENCODE_S)
    except (EncodeFailed, Missing) as error:
        return in_short(error.message)
    finally:
        folder.close()
    return None
