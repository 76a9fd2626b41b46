"""Whether this machine's GPU draws and encodes: found out by using it, once, before anything is rendered.

Neither a device file nor a driver's name proves that. Drivers fall back to software without a word (Mesa draws with
llvmpipe where it may not open the card), and FFmpeg lists encoders that it was built with. So the isolated browser is
started with the devices, draws a triangle and says who drew it; then a scene that is held against what software draws,
since what was agreed to in a preview must be what a final shows. FFmpeg encodes a second, which is held against its
source. A machine without a GPU's device files starts nothing for this.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

from koda_ray.errors import BrowserCrashed, Missing, RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.drawing import draw, draw_in, in_short
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
from koda_ray.render.isolation import write_whole
from koda_ray.render.likeness import LEAST_DB, LEAST_TILE_DB, try_encoder, unlike
from koda_ray.render.rasterizers import choose_rasterizer, kept_at

__all__ = ["choose_graphics", "confirm_graphics", "try_gpu", "try_nvenc"]

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
    """Draw with a GPU in each way that a browser can, and return the first that works and shows what software shows.

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
        tried = Graphics(kind="gpu", flags=(*FLAGS, f"--use-angle={way}"), devices=devices)
        drawn = await draw(binary, tried)
        driver = _nvidia_driver() if is_nvidia(drawn.renderer) else ""
        tried = replace(tried, renderer=drawn.renderer, driver=driver)
        no = drawn.wrong
        if no is None and (software := software_because(drawn.renderer)):
            no = f"{software}: {drawn.renderer or 'it says nothing'}"
        if no is None:
            reference = await choose_rasterizer(binary)
            no = await _unlike(binary, tried, reference)
            if no is None:
                return await _with_encoder(tried, f"{way} draws what {reference.rasterizer} draws")
        refused.append(f"{way}: {no}")
    return software_graphics("; ".join(refused))


async def _unlike(binary: Path, tried: Graphics, reference: Graphics) -> str | None:
    """Return in words how a GPU's pictures differ from software's; looked at once for a driver, until the next start.

    What nobody else draws here is not held against anything.
    """
    if not reference.draws_webgl:
        return None
    devices = [str(path) for path in tried.devices]
    against = (*reference.flags, *reference.environment)
    decides = (tried.flags, tried.renderer, tried.driver, devices, against, LEAST_DB, LEAST_TILE_DB, _boot())
    kept = await asyncio.to_thread(kept_at, binary, *decides)
    with contextlib.suppress(FileNotFoundError):
        return await asyncio.to_thread(kept.read_text) or None
    try:
        no = await unlike(binary, tried, reference=reference)
    except RenderError as error:  # another time it may be seen: nothing is kept
        return f"its pictures could not be compared: {in_short(error.message)}"
    except TimeoutError:
        return "its pictures could not be compared in time"
    words = no and f"{tried.renderer} does not draw what {reference.rasterizer} draws: {no}"
    await asyncio.to_thread(write_whole, kept, (words or "").encode())
    return words


async def _with_encoder(drawn_by: Graphics, why: str) -> Graphics:
    """Return a GPU that draws, with who encodes beside it."""
    refusal = await try_nvenc() if is_nvidia(drawn_by.renderer) else "only NVIDIA has it"
    if refusal is None:
        return replace(drawn_by, encoder="h264_nvenc", why=f"{why}, NVENC encodes")
    return replace(drawn_by, why=f"{why}; NVENC: {refusal}")


def _boot() -> str:
    """Name this start of the machine: a driver may be another after the next."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


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
    """Encode a second as a unit is encoded, and compare; return why NVENC cannot, or how it differs, or None."""
    return await try_encoder("h264_nvenc")
