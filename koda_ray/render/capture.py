"""One unit from page to stored file: a fresh page, its frames in order, an encoder at the other end of a short queue.

Each unit starts from a page of its own, so that what it shows depends on the bundle, the spec and its place in the
grid, and on no other unit: any worker makes the same pictures in any order. The frame before the first is captured
too, and the job compares it with the neighbour's last.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from koda_ray.errors import PageError
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.encode import UnitEncoder
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.page import RenderPage
from koda_ray.render.protocol import UnitResult, UnitTask
from koda_ray.render.stored import write_unit
from koda_ray.state.storage import sha256

__all__ = ["IMAGE", "capture_unit"]

IMAGE: Literal["png", "jpeg"] = "jpeg"
"""How pictures travel from browser to encoder; what travels is what is hashed.

JPEG 95 has the video's own halved colour planes and takes a third of PNG's time on a 1080p WebGL scene; after CRF 18
it is 51 dB from the lossless original, where PNG is 57: neither can be seen.
"""

_QUEUE_FRAMES = 4
_HASH_DIGITS = 32


async def capture_unit(
    task: UnitTask, browser: Browser, bundle: Bundle, *, on_frames: Callable[[int], None] | None = None
) -> UnitResult:
    """Capture, encode and store a unit.

    Args:
        task: Which.
        browser: A running browser; a page of it is opened and closed.
        bundle: The bundle that the task names.
        on_frames: Hears how many frames are captured.

    Raises:
        PageError: The page threw, or looped for ever.
        PageNotReady: It did not become ready, or a frame's images did not come.
        BrowserCrashed: The browser ended.
        EncodeFailed: FFmpeg failed.
        StorageError: The unit could not be stored.
    """
    started = time.perf_counter()
    spec = task.spec
    folder = WorkFolder("unit")
    encoder = UnitEncoder(spec, folder.path / "unit.mp4", image=IMAGE)
    page: RenderPage | None = None
    timings: dict[str, float] = {}
    try:
        page = await RenderPage.open(
            browser,
            bundle,
            width=spec.width,
            height=spec.height,
            seed=spec.seed,
            entry=spec.entry,
        )
        await page.wait_ready(spec.ready_timeout_s)
        timings["ready"] = _ms_since(started)
        await encoder.start()
        before, hashes = await _pictures(task, page, encoder, on_frames)
        timings["capture"] = _ms_since(started) - timings["ready"]
        path = await encoder.finish()
        timings["encode_tail"] = _ms_since(started) - timings["ready"] - timings["capture"]
        result = await _store(task, path, before, hashes, timings, started)
    finally:
        await encoder.close()
        if page is not None:
            await page.close()
        folder.close()
    return result


async def _pictures(
    task: UnitTask, page: RenderPage, encoder: UnitEncoder, on_frames: Callable[[int], None] | None
) -> tuple[str | None, list[str]]:
    """Take the unit's pictures while those before are being encoded; return the hash before and the hashes."""
    spec, unit = task.spec, task.unit
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_FRAMES)

    async def write() -> None:
        while (image := await queue.get()) is not None:
            await encoder.write(image)

    writer = asyncio.create_task(write())
    before: str | None = None
    hashes: list[str] = []
    try:
        for frame in range(max(0, unit.start - 1), unit.stop):
            await page.go(frame, spec.fps, mode=task.mode)
            image = await page.picture(image=IMAGE)
            if spec.strict and (fatal := page.problems.fatal) is not None:
                where = f" at {fatal.file}:{fatal.line}:{fatal.column}" if fatal.file else ""
                raise PageError(
                    f"frame {frame}: {fatal.message}{where}",
                    context={"frame": frame, "file": fatal.file, "line": fatal.line, "column": fatal.column},
                )
            digest = hashlib.sha256(image).hexdigest()[:_HASH_DIGITS]
            if frame < unit.start:
                before = digest
                continue
            hashes.append(digest)
            await _hand_over(queue, image, writer)
            if on_frames is not None:
                on_frames(len(hashes))
        await _hand_over(queue, None, writer)
        await writer
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
    return before, hashes


async def _hand_over(queue: asyncio.Queue[bytes | None], image: bytes | None, writer: asyncio.Task[None]) -> None:
    """Queue a picture, or raise what ended the writer."""
    put = asyncio.ensure_future(queue.put(image))
    try:
        await asyncio.wait({put, writer}, return_when=asyncio.FIRST_COMPLETED)
        if writer.done() and not put.done():
            await writer
    finally:
        put.cancel()


async def _store(
    task: UnitTask, path: Path, before: str | None, hashes: list[str], timings: dict[str, float], started: float
) -> UnitResult:
    data = await asyncio.to_thread(path.read_bytes)
    result = UnitResult(
        unit=task.unit,
        key=task.key,
        mode=task.mode,
        frame_hashes=tuple(hashes),
        before_hash=before,
        sha256=sha256(data),
        size_bytes=len(data),
        worker=f"{socket.gethostname()}:{os.getpid()}",
        attempts=task.attempt,
        timings_ms=timings | {"total": _ms_since(started)},
    )
    await write_unit(task.storage, task.user_id, result, data)
    return result


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
