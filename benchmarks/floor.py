"""The least that a frame can cost here: the page painting it, and x264 encoding it, with nothing in between.

Between the two a picture leaves the browser: what that takes of its own processes is measured too, since whoever is
not the browser cannot have it do with less.

Both are measured under the load that a job makes: as many pages, then as many encoders, at once as there are workers,
each at a unit of the same video. Painting is a seek and a frame of the browser without a picture. Encoding is x264 at
the job's own settings from raw pictures, less what reading the raw pictures costs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cpu import ProcessKind, children_cpu_s, tree_cpu_by_kind
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.capture import image_of
from koda_ray.render.encode import unit_options
from koda_ray.render.gpu import choose_graphics
from koda_ray.render.matroska import ImageKind
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.programs import find_browser, find_program
from koda_ray.render.spec import RenderSpec, Unit, plan_units

__all__ = ["Floor", "measure_floor", "take_pictures"]

_TIMEOUT_S = 600
_READY_S = 60.0
_WARM_FRAMES = 2
_BROWSER: tuple[ProcessKind, ...] = ("browser", "renderer", "gpu")
_ENCODER_OPTIONS = ("vcodec", "preset", "crf", "g", "threads", "flags", "x264-params")


@dataclass(frozen=True)
class Floor:
    """Per frame, in milliseconds: processor time of painting and of x264, and the wall that painting took a page.

    ``paint_by_ms`` is ``paint_ms`` by kind of process; ``taken_ms`` is what the browser's processes take to paint a
    frame and hand over its picture, as the engine has it.
    """

    paint_ms: float
    paint_wall_ms: float
    x264_ms: float
    paint_by_ms: dict[ProcessKind, float] = field(default_factory=dict[ProcessKind, float])
    taken_ms: float = 0.0

    @property
    def with_pictures_ms(self) -> float:
        """The floor with pictures that leave the browser: it paints and hands them over, and x264 encodes them."""
        return max(self.cpu_ms, self.taken_ms + self.x264_ms)

    @property
    def cpu_by_ms(self) -> dict[ProcessKind, float]:
        """The floor by kind of process: what paints, and FFmpeg."""
        return {**self.paint_by_ms, "ffmpeg": self.paint_by_ms.get("ffmpeg", 0.0) + self.x264_ms}

    @property
    def cpu_ms(self) -> float:
        """The floor: processor time of painting and encoding."""
        return self.paint_ms + self.x264_ms


async def take_pictures(bundle: Bundle, spec: RenderSpec, folder: Path, *, workers: int) -> dict[int, Path]:
    """Take the pictures of a video's first units: raw ones for `measure_floor`, and a few without loss.

    Args:
        bundle: The page.
        spec: The video.
        folder: For the pictures; they stay.
        workers: How many units.

    Returns:
        Those without loss, by the index of their frame.
    """
    pictures: dict[int, Path] = {}
    units = plan_units(spec)[:workers]
    async with _browsers(len(units)) as browsers:
        taken = zip(browsers, units, strict=True)
        await asyncio.gather(*(_take(browser, bundle, spec, unit, folder, pictures) for browser, unit in taken))
    return dict(sorted(pictures.items()))


async def measure_floor(bundle: Bundle, spec: RenderSpec, folder: Path, *, workers: int, stride: int = 4) -> Floor:
    """Measure the floor of a video's first units.

    Args:
        bundle: The page.
        spec: The video.
        folder: Where `take_pictures` left raw ones of as many units.
        workers: How many pages and encoders at once.
        stride: Every how-many-th frame is painted for the figure.
    """
    units = plan_units(spec)[:workers]
    async with _browsers(len(units)) as browsers:
        paint_by_ms, paint_wall_ms = await _paint(browsers, bundle, spec, units, stride)
        image = image_of(spec, browsers[0].graphics)
        taken_by_ms, _ = await _paint(browsers, bundle, spec, units, stride, image)
    x264_ms = await _encode(spec, units, folder)
    taken_ms = sum(taken_by_ms.get(kind, 0.0) for kind in _BROWSER)
    return Floor(sum(paint_by_ms.values()), paint_wall_ms, x264_ms, paint_by_ms, taken_ms)


@asynccontextmanager
async def _browsers(count: int) -> AsyncGenerator[list[Browser]]:
    graphics = await choose_graphics(find_browser().path)
    browsers = await asyncio.gather(*(Browser.launch(graphics=graphics) for _ in range(count)))
    try:
        yield browsers
    finally:
        await asyncio.gather(*(browser.close() for browser in browsers))


async def _page(browser: Browser, bundle: Bundle, spec: RenderSpec) -> LoadedPage:
    page = await LoadedPage.open(browser, bundle, PageSetup(width=spec.width, height=spec.height, entry=spec.entry))
    await page.wait_ready(_READY_S)
    return page


async def _frame(page: LoadedPage, frame: int, spec: RenderSpec, image: ImageKind | None) -> None:
    await page.go(frame, spec.fps)
    if image is not None:
        await page.picture(image=image)
        return
    await page._begin_frame()  # pyright: ignore[reportPrivateUsage]  # painting alone has no public name


async def _paint(
    browsers: list[Browser],
    bundle: Bundle,
    spec: RenderSpec,
    units: tuple[Unit, ...],
    stride: int,
    image: ImageKind | None = None,
) -> tuple[dict[ProcessKind, float], float]:
    pages = await asyncio.gather(*(_page(browser, bundle, spec) for browser in browsers))
    for page, unit in zip(pages, units, strict=True):
        for frame in range(unit.start, unit.start + _WARM_FRAMES):
            await _frame(page, frame, spec, image)

    async def all_of(page: LoadedPage, unit: Unit) -> int:
        frames = range(unit.start + _WARM_FRAMES, unit.stop, stride)
        for frame in frames:
            await _frame(page, frame, spec, image)
        return len(frames)

    cpu, started = tree_cpu_by_kind(), time.perf_counter()
    counts = await asyncio.gather(*(all_of(page, unit) for page, unit in zip(pages, units, strict=True)))
    wall, then = time.perf_counter() - started, tree_cpu_by_kind()
    await asyncio.gather(*(page.close() for page in pages))
    taken: dict[ProcessKind, float] = {
        kind: (each - cpu.get(kind, 0.0)) * 1000 / sum(counts) for kind, each in then.items()
    }
    return taken, wall * 1000 / max(counts)


async def _take(
    browser: Browser, bundle: Bundle, spec: RenderSpec, unit: Unit, folder: Path, pictures: dict[int, Path]
) -> None:
    """Take a unit's pictures as the engine does, into one raw file; and a few without loss."""
    page = await _page(browser, bundle, spec)
    looked_at = {unit.start + unit.frame_count * part // 4 for part in range(4)}
    image = image_of(spec, browser.graphics)
    convert = str(unit_options(spec, unit.frame_count, image=image)["vf"]).rpartition(",fps=")[0]
    source = ("-f", "image2pipe", "-c:v", "mjpeg")
    if image == "raw":
        source = ("-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{spec.width}x{spec.height}")
    process = await asyncio.create_subprocess_exec(
        *(find_program("ffmpeg"), "-v", "error", "-y", *source, "-framerate", str(spec.fps), "-i", "pipe:"),
        *("-vf", convert, "-c:v", "rawvideo", str(_raw(folder, unit))),
        stdin=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    for frame in range(unit.start, unit.stop):
        await page.go(frame, spec.fps)
        process.stdin.write(await page.picture(image=image))
        await process.stdin.drain()
        if frame in looked_at:
            path = folder / f"lossless-{frame}.png"
            path.write_bytes(await page.picture(image="png"))
            pictures[frame] = path
    process.stdin.close()
    if await process.wait():
        raise SystemExit("the captured pictures could not be kept as raw video")
    await page.close()


def _raw(folder: Path, unit: Unit) -> Path:
    return folder / f"raw-{unit.index}.nut"


async def _encode(spec: RenderSpec, units: tuple[Unit, ...], folder: Path) -> float:
    """Return x264's processor time per frame, in milliseconds."""
    options = unit_options(spec, units[0].frame_count, image="jpeg")
    encoder = [part for name in _ENCODER_OPTIONS if name in options for part in (f"-{name}", str(options[name]))]

    async def one(unit: Unit, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(find_program("ffmpeg"), "-v", "error", "-nostdin", "-y", "-threads", "1", "-i", str(_raw(folder, unit))),
            *(*arguments, "-f", "null", "-"),
        )
        async with asyncio.timeout(_TIMEOUT_S):
            if await process.wait():
                raise SystemExit("x264 could not encode the captured pictures")

    frames = sum(unit.frame_count for unit in units)
    taken: list[float] = []
    for arguments in (("-c", "copy"), encoder):
        before = children_cpu_s()
        await asyncio.gather(*(one(unit, *arguments) for unit in units))
        taken.append((children_cpu_s() - before) * 1000 / frames)
    return taken[1] - taken[0]
