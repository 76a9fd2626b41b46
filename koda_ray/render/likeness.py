"""Whether somebody draws, or encodes, what others do: a scene with words on it pictured by two, and a second of video.

Equal it never is: edges are smoothed and textures filtered a little differently by each. So pictures are made small, by
the mean of each 4x4 pixels, before they are compared: as a whole, and in each part. A missing light, a texture that is
upside down or colours of another space are far beyond what is taken for alike.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

from koda_ray.errors import EncodeFailed, Missing
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.compare import psnr
from koda_ray.render.drawing import in_short
from koda_ray.render.encode import unit_options
from koda_ray.render.ffmpeg import QUIETLY, command_line, run
from koda_ray.render.graphics import Graphics, H264Encoder
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.spec import RenderSpec

__all__ = ["LEAST_DB", "LEAST_ENCODED_DB", "LEAST_TILE_DB", "encoded_unlike", "try_encoder", "unlike"]

LEAST_DB = 35.0
"""How close two pictures are at least, made small, as peak signal to noise ratio of red, green and blue."""
LEAST_TILE_DB = 25.0
"""The same of any tile of 60x60 pixels (15x15 of what they are made)."""
LEAST_ENCODED_DB = 33.0
"""How close each frame of what was encoded is to its source, at the quality of a final video."""

_SIZE = (960, 540)
_SMALL = (240, 135)
_TILE_PX = 15
_FRAMES = (0, 20, 45)
_FPS = Fraction(30)
_READY_S = 15.0
_ALL_S = 60.0
_ENCODE_S = 20.0
_WORDS = b"""<style>
  p { position: absolute; margin: 0; color: #fff; font: 600 68px sans-serif; left: 48px; top: 40px }
  p + p { font: italic 30px serif; top: 420px; left: 300px; color: #ffd60ab0; transform: rotate(-4deg) }
</style><canvas></canvas><p>Words, 0123</p><p>and smaller ones over what moves</p>"""


async def unlike(binary: Path, graphics: Graphics, *, reference: Graphics) -> str | None:
    """Return in words how what one draws differs from what another draws; None where it is alike.

    Args:
        binary: The browser.
        graphics: Who is looked at.
        reference: Whom it is held against.

    Raises:
        BrowserCrashed, PageError, PageNotReady: One of them drew nothing.
        EncodeFailed: The pictures could not be read.
        Missing: bubblewrap or FFmpeg is not there.
        TimeoutError: Somebody took longer than a minute.
    """
    async with asyncio.timeout(_ALL_S):
        seen = [await _levels(await _pictures(binary, each)) for each in (graphics, reference)]
    return await asyncio.to_thread(_difference, *seen)


async def _pictures(binary: Path, graphics: Graphics) -> list[bytes]:
    """Return a few frames of the scene, as PNG."""
    scene = files("koda_ray.render").joinpath("rasterizer_scene.html").read_bytes()
    bundle = Bundle({"index.html": scene.replace(b"<canvas></canvas>", _WORDS)})
    width, height = _SIZE
    async with await Browser.launch(chromium_path=binary, graphics=graphics) as browser:
        page = await LoadedPage.open(browser, bundle, PageSetup(width=width, height=height))
        try:
            await page.wait_ready(_READY_S)
            found: list[bytes] = []
            for frame in _FRAMES:
                await page.go(frame, _FPS)
                found.append(await page.picture(image="png"))
            return found
        finally:
            await page.close()


async def _levels(pictures: Sequence[bytes]) -> list[bytes]:
    """Return pictures, made small, as rows of red, green and blue."""
    folder = WorkFolder("trial")
    try:
        for number, data in enumerate(pictures):
            (folder.path / f"{number}.png").write_bytes(data)
        small = f"scale={_SMALL[0]}:{_SMALL[1]}:flags=area,format=rgb24"
        line = [*QUIETLY, "-i", str(folder.path / "%d.png"), "-vf", small, "-f", "rawvideo", "pipe:"]
        data = await run("ffmpeg", line, timeout_s=_ENCODE_S)
    finally:
        folder.close()
    step = _SMALL[0] * _SMALL[1] * 3
    return [data[start : start + step] for start in range(0, len(data), step)]


def _difference(ours: Sequence[bytes], theirs: Sequence[bytes]) -> str | None:
    for frame, one, other in zip(_FRAMES, ours, theirs, strict=True):
        whole = psnr(one, other)
        if whole < LEAST_DB:
            return f"frame {frame} is {whole:.1f} dB from it, less than {LEAST_DB:g}"
        worst, place = min((psnr(_tile(one, at), _tile(other, at)), at) for at in _tiles())
        if worst < LEAST_TILE_DB:
            where = ",".join(str(4 * axis) for axis in place)
            return f"frame {frame} is {worst:.1f} dB from it at {where}, less than {LEAST_TILE_DB:g}"
    return None


def _tiles() -> list[tuple[int, int]]:
    width, height = _SMALL
    return [(x, y) for y in range(0, height, _TILE_PX) for x in range(0, width, _TILE_PX)]


def _tile(picture: bytes, at: tuple[int, int]) -> bytes:
    x, y = at
    row = _SMALL[0] * 3
    starts = (line * row + x * 3 for line in range(y, y + _TILE_PX))
    return b"".join(picture[start : start + _TILE_PX * 3] for start in starts)


# --- encoding -----------------------------------------------------------------------------------------------------


async def try_encoder(encoder: H264Encoder) -> str | None:
    """Encode a second as a unit is encoded, and hold it against its source.

    Args:
        encoder: Who encodes.

    Returns:
        Why it cannot, in FFmpeg's words, or how what it made differs; None where it is as it should be.
    """
    spec = RenderSpec(bundle="0" * 64, duration_s=1.0, fps=Fraction(30), width=640, height=360)
    options = unit_options(spec, spec.frame_count, image="png", encoder=encoder)
    folder = WorkFolder("trial")
    try:
        target = folder.path / "trial.mp4"
        source = f"testsrc2=size={spec.width}x{spec.height}:rate={spec.fps}"
        await run("ffmpeg", command_line(source, {"format": "lavfi"}, str(target), options), timeout_s=_ENCODE_S)
        return await encoded_unlike(spec, source, target)
    except (EncodeFailed, Missing) as error:
        return in_short(error.message)
    finally:
        folder.close()


async def encoded_unlike(spec: RenderSpec, source: str, video: Path) -> str | None:
    """Return in words how an encoded video differs from its source; None where it is close enough.

    Args:
        spec: What it is.
        source: FFmpeg's description of a source, without an end.
        video: The file.

    Raises:
        EncodeFailed: It cannot be decoded.
    """
    shown = unit_options(spec, spec.frame_count, image="png")["vf"]
    counted = f"settb=1/{spec.fps},setpts=N"
    graph = f"[0:v]{counted}[a];[1:v]{shown},{counted}[b];[a][b]psnr=shortest=1:stats_file=-"
    line = [*QUIETLY, "-i", str(video), "-f", "lavfi", "-i", source, "-lavfi", graph, "-f", "null", "-"]
    said = (await run("ffmpeg", line, timeout_s=_ENCODE_S)).decode()
    found = [float(db) for db in re.findall(r"psnr_avg:(inf|[\d.]+)", said)]
    if len(found) != spec.frame_count:
        return f"{len(found)} frames came out in place of {spec.frame_count}"
    worst = min(range(len(found)), key=found.__getitem__)
    if found[worst] < LEAST_ENCODED_DB:
        return f"frame {worst} is {found[worst]:.1f} dB from its source, less than {LEAST_ENCODED_DB:g}"
    return None
