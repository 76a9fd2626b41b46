"""Units from page to stored files: a page for each run, its frames in order, an encoder for each unit behind a queue.

The units of a run follow each other on one page; runs begin at fixed places of the grid (`koda_ray.render.plan`). The
frame before a page's first is captured too, and the job compares it with the neighbour's last: where they differ, the
page keeps state that seeking does not restore. While a unit is finished and stored, the next one's frames are captured.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from koda_ray.cancellation import own, see_through
from koda_ray.errors import BrowserCrashed, KodaError, PageNotReady
from koda_ray.logs import get_logger
from koda_ray.render.alike import MISSES, are_alike, counterparts, is_worth_a_look, look_ready_s, spot
from koda_ray.render.audio import check_audio
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.clock import Witness
from koda_ray.render.encode import Encoder
from koda_ray.render.frames import suits_raw
from koda_ray.render.graphics import Graphics
from koda_ray.render.isolation import CAPTURE, WorkFolder
from koda_ray.render.matroska import ImageKind
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.plan import run_of
from koda_ray.render.protocol import Captured, CaptureTask, Hear, UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.sheet import kept_of
from koda_ray.render.spec import CaptureMode, RenderSpec, Unit, unit_frames
from koda_ray.render.still_units import StillUnits
from koda_ray.render.stored import copy_unit, write_unit
from koda_ray.state.storage import sha256

__all__ = ["capture_units", "image_of", "jpeg_quality"]

_QUEUE_FRAMES = 4
_HASH_DIGITS = 32
_log = get_logger(__name__)


def jpeg_quality(spec: RenderSpec) -> int:
    """Return the quality of the JPEG pictures that travel, 1 to 100.

    A draft's are a third as large as those of 95, which saves a few milliseconds of each; x264's fastest preset loses
    more than they do.
    """
    return 80 if spec.effort == "draft" else 95


def image_of(spec: RenderSpec, graphics: Graphics) -> ImageKind:
    """Return how pictures travel from browser to encoder; what travels is what is hashed.

    Raw where the browser hands over raw frames: no loss, and neither encoding nor decoding.

    JPEG 95 has the video's own halved colour planes and takes a third of PNG's time on a 1080p WebGL scene; after CRF
    18 it is 51 dB from the lossless original, where PNG is 57: neither can be seen.
    """
    if spec.lossless:
        return "png"
    return "raw" if graphics.interposer.library and suits_raw(*spec.picture) else "jpeg"


async def capture_units(
    task: CaptureTask, browser: Browser, bundle: Bundle, *, hear: Hear | None = None, stills: StillUnits | None = None
) -> None:
    """Capture, encode and store units.

    Args:
        task: Which.
        browser: A running browser; the last page that is opened in it is left to it (`Browser.leave`).
        bundle: The bundle that the task names.
        hear: Hears how many frames are captured, and of each stored unit, in order.
        stills: Units of one picture that were encoded for this user before.

    Raises:
        PageError: The page threw, or looped for ever.
        PageNotReady: It did not become ready, or a frame's images did not come.
        BrowserCrashed: The browser ended.
        EncodeFailed: FFmpeg failed.
        InvalidInput: A sound file is not in the bundle, or is not one.
        StorageError: A unit could not be stored.
    """
    await own(_Capture(task, browser, bundle, hear, stills or StillUnits()).run())


class _Capture:
    """One task under way."""

    def __init__(
        self, task: CaptureTask, browser: Browser, bundle: Bundle, hear: Hear | None, stills: StillUnits
    ) -> None:
        self._task = task
        self._browser = browser
        self._bundle = bundle
        self._hear = hear
        self._stills = stills
        self._image: ImageKind = image_of(task.spec, browser.graphics)
        self._quality = jpeg_quality(task.spec)
        self._picture: tuple[bytes, str] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._handed_over: Encoder | None = None
        self._ready_ms = 0.0
        self._page: LoadedPage | None = None
        # no picture is asked for twice where the next frame is begun: where one was missing, none is begun any more
        self._goes_ahead = task.attempt == 1 and browser.graphics.helpers > 0
        self._before = {unit.unit.index: unit for unit in task.before}
        self._misses = 0

    async def run(self) -> None:
        task, spec = self._task, self._task.spec
        folder = WorkFolder(CAPTURE)
        run: int | None = None
        try:
            if spec.audio and task.units[0].index == 0:  # said before the pictures are made, not after
                await check_audio(spec, self._bundle)
            page: LoadedPage | None = None
            before: str | None = None
            taken: set[int] = set()
            for unit, key in zip(task.units, task.keys, strict=True):
                if unit.index not in taken and (page is None or self._run(page, unit) != run):
                    taken |= await self._take_over_around(unit)
                if unit.index in taken:
                    continue
                if page is None or self._run(page, unit) != run:
                    page, before = await self._begin(unit)
                    run = self._run(page, unit)
                await self._unit(page, unit, key, before, folder.path / f"unit-{unit.index}")
                before = None
            await self._finished()
            if self._page is not None:
                self._browser.leave(self._page.close)
                self._page = None
        finally:
            # a cancel that arrives now, when all is done, must not leave a page or a folder
            await see_through(asyncio.create_task(self._clean(folder)))

    def _run(self, page: LoadedPage, unit: Unit) -> int:
        stepped = not page.contract or self._task.mode == "replay"
        return run_of(self._task.spec, unit.index, stepped=stepped)

    async def _begin(self, unit: Unit) -> tuple[LoadedPage, str | None]:
        """Open a page for a unit and those behind it; return it with the hash of the frame before.

        It begins where the unit's run does, also where some of that is there: what is drawn depends on what was before.
        """
        started = time.perf_counter()
        page = await self._open("drawn")
        self._ready_ms = _ms_since(started)
        run_start = self._run(page, unit) * unit_frames(self._task.spec)
        before: str | None = None
        for frame in range(max(0, run_start - 1), unit.start):
            _, before = await self._take(page, frame, self._task.mode)
        return page, before

    async def _open(self, witness: Witness, ready_timeout_s: float | None = None) -> LoadedPage:
        """Open the page anew, and wait until it is ready, for as long as its spec says where nothing else is said."""
        spec = self._task.spec
        if self._page is not None:
            await self._page.close()
        self._page = await LoadedPage.open(
            self._browser,
            self._bundle,
            PageSetup(
                width=spec.width,
                height=spec.height,
                scale=spec.scale,
                seed=spec.seed,
                entry=spec.entry,
                props=spec.props,
                transparent=spec.alpha,
                witness=witness if self._browser.kind == "shell" else None,  # another paints when it likes
                ahead=self._goes_ahead,
            ),
        )
        await self._page.wait_ready(spec.ready_timeout_s if ready_timeout_s is None else ready_timeout_s)
        return self._page

    async def _take_over_around(self, first: Unit) -> set[int]:
        """Take over the run that a unit begins; where it is the first that differs, those of the end that do not."""
        missed = self._misses
        taken = await self._take_over(first)
        if missed < self._misses < MISSES:
            later = {run_of(self._task.spec, unit.index, stepped=False): unit for unit in reversed(self._task.units)}
            for start, unit in sorted(later.items(), reverse=True):
                if start <= first.index or not (run := await self._take_over(unit)):
                    break
                taken |= run
            self._misses = MISSES
        return taken

    async def _take_over(self, first: Unit) -> set[int]:
        """Take over the run that a unit begins, where all of it looks as in the bundle before; return its units."""
        task = self._task
        start = run_of(task.spec, first.index, stepped=False)
        later = (unit for unit in task.units if unit.index >= first.index)
        run = [unit for unit in later if run_of(task.spec, unit.index, stepped=False) == start]
        before = counterparts(self._before, [unit.index for unit in run])
        if self._misses >= MISSES or not is_worth_a_look(before) or task.mode != "seek":
            return set()
        try:
            found = await self._look(run, before)
        except BrowserCrashed:
            raise
        except KodaError as error:  # it is captured, and says so again if it is the page's fault
            _log.info("not looked at", job_id=task.job_id, unit=first.index, code=error.code)
            found = []
            if isinstance(error, PageNotReady):  # nor would it be for another look
                self._misses = MISSES
        if len(found) < len(run):
            self._misses += 1
            return set()
        if not await self._is_seen(run, before):
            self._misses = MISSES
            return set()
        await self._finished()
        self._finishing = None
        storage = RetryingStorage(task.storage)
        copied = [await copy_unit(storage, task.user_id, old.key, new) for old, new in zip(before, found, strict=True)]
        if not all(copied):
            return set()
        for unit in found:
            if self._hear is not None:
                await self._hear(unit.as_told())
        return {unit.index for unit in run}

    async def _look(self, run: Sequence[Unit], before: Sequence[UnitResult]) -> list[UnitResult]:
        """Run the page through frames without drawing them; return the first units, which look as before."""
        spec, found = self._task.spec, list[UnitResult]()
        page = await self._open("dry", look_ready_s(before, spec.ready_timeout_s))
        if not page.contract:
            return []
        for unit, old in zip(run, before, strict=True):
            begins = unit is run[0] and unit.start > 0
            for frame in range(unit.start - begins, unit.stop):
                await page.go(frame, spec.fps)
                await page.unpainted()
                if spec.strict and page.problems.fatal is not None:
                    return []
            seen = page.evidence(await page.witnessed())
            if not are_alike(old, seen):
                break
            key = self._task.keys[self._task.units.index(unit)]
            warnings, inputs = page.problems.warnings, page.inputs
            new = replace(old, unit=unit, key=key, adopted=True, alike=True, inputs=inputs, warnings=warnings)
            found.append(replace(new, threw=page.problems.fatal is not None))
        return found

    async def _is_seen(self, run: Sequence[Unit], before: Sequence[UnitResult]) -> bool:
        """Draw one frame of a run that looks as before, and hold its picture against that of then.

        Where its page does not open, neither does the one that it would be captured from.
        """
        unit, frame = spot(run, self._task.keys[self._task.units.index(run[0])])
        old = before[run.index(unit)]
        page = await self._open("drawn")
        try:
            _, picture = await self._take(page, frame, self._task.mode)
        except BrowserCrashed:
            raise
        except KodaError as error:
            _log.info("not drawn", job_id=self._task.job_id, unit=unit.index, code=error.code)
            return False
        same = picture == old.frame_hashes[frame - unit.start]
        if not same:  # a list of `alike`'s lacks something: it is captured, and whoever keeps the lists should know
            _log.warning(
                "looked as before and is not", job_id=self._task.job_id, frame=frame, bundle=self._task.spec.bundle
            )
        return same

    async def _clean(self, folder: WorkFolder) -> None:
        try:
            if self._finishing is not None:
                self._finishing.cancel()
                await asyncio.gather(self._finishing, return_exceptions=True)
            if self._handed_over is not None:  # a task that is cancelled before its first step closes nothing
                await self._handed_over.close()
            if self._page is not None:
                await self._page.close()
        finally:
            await asyncio.to_thread(folder.close)

    async def _unit(self, page: LoadedPage, unit: Unit, key: str, before: str | None, path: Path) -> None:
        """Capture a unit's frames, and leave its end to `_finish`."""
        started = time.perf_counter()
        spec = self._task.spec
        encoder = self._stills.encoder(
            spec,
            unit.frame_count,
            path,
            image=self._image,
            encoder=self._browser.graphics.encoder,
            kept=kept_of(spec, unit),
        )
        try:
            await encoder.start()
            hashes = await self._pictures(page, unit, encoder)
            seen = await page.witnessed() if self._browser.kind == "shell" and page.contract else None
            timings = {"ready": self._ready_ms, "capture": _ms_since(started)}
            self._ready_ms = 0.0
            await self._finished()
            result = UnitResult(
                unit=unit,
                key=key,
                mode=self._task.mode if unit.start else "seek",
                frame_hashes=tuple(hashes),
                before_hash=before,
                sha256="",
                size_bytes=0,
                worker=f"{socket.gethostname()}:{os.getpid()}",
                attempts=self._task.attempt if unit is self._task.units[0] else 1,
                still=sum(one == two for one, two in itertools.pairwise(hashes)),
                timings_ms=timings,
                sought=page.contract,
                inputs=page.inputs,
                threw=page.problems.fatal is not None,
                evidence=None if seen is None else page.evidence(seen),
                warnings=page.problems.warnings,
            )
            self._handed_over = encoder
            self._finishing = asyncio.create_task(self._finish(encoder, result))
        finally:
            if self._handed_over is not encoder:
                await encoder.close()

    async def _finish(self, encoder: Encoder, result: UnitResult) -> None:
        started = time.perf_counter()
        try:
            path = await encoder.finish()
        finally:
            await encoder.close()
        encoded_ms = _ms_since(started)
        data = await asyncio.to_thread(path.read_bytes)
        path.unlink()
        places, kept = kept_of(self._task.spec, result.unit), await asyncio.to_thread(encoder.kept)
        cells = {place: _base64(cell) for place, cell in zip(places.cells, kept.cells, strict=False)}
        shown = None if places.thumbnail is None or not kept.thumbnail else (places.thumbnail, _base64(kept.thumbnail))
        timings = result.timings_ms | {"encode_tail": encoded_ms}
        timings["total"] = round(sum(timings.values()), 1)
        result = replace(
            result, sha256=sha256(data), size_bytes=len(data), timings_ms=timings, cells=cells, thumbnail=shown
        )
        await write_unit(RetryingStorage(self._task.storage), self._task.user_id, result, data)
        if self._hear is not None:
            await self._hear(result.as_told())

    async def _finished(self) -> None:
        """Wait until the unit before is stored."""
        if self._finishing is not None:
            await self._finishing

    async def _pictures(self, page: LoadedPage, unit: Unit, encoder: Encoder) -> list[str]:
        """Take the unit's pictures while those before are being encoded; return their hashes."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_FRAMES)

        async def write() -> None:
            while (image := await queue.get()) is not None:
                await encoder.write(image)

        writer = asyncio.create_task(write())
        hashes: list[str] = []
        try:
            for frame in range(unit.start, unit.stop):
                followed = self._goes_ahead and frame + 1 < unit.stop
                image, digest = await self._take(page, frame, self._task.mode, followed=followed)
                hashes.append(digest)
                await _hand_over(queue, image, writer)
                if self._finishing is not None and self._finishing.done():
                    await self._finishing
                if self._hear is not None:
                    await self._hear(Captured(unit.index, len(hashes)))
            await _hand_over(queue, None, writer)
            await writer
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return hashes

    async def _take(
        self, page: LoadedPage, frame: int, mode: CaptureMode, *, followed: bool = False
    ) -> tuple[bytes, str]:
        """Show a frame, which may be followed by the next, and return its picture and the picture's hash."""
        spec = self._task.spec
        await page.go(frame, spec.fps, mode=mode, followed=followed)
        await self._check_strict(page, frame)
        image = await page.picture(image=self._image, quality=self._quality)
        if not page.is_ahead:  # what it throws from now on is the next frame's
            await self._check_strict(page, frame)
        if self._picture is None or image is not self._picture[0]:
            self._picture = image, hashlib.sha256(image).hexdigest()[:_HASH_DIGITS]
        return self._picture

    async def _check_strict(self, page: LoadedPage, frame: int) -> None:
        if self._task.spec.strict and page.problems.fatal is not None:
            raise await page.problems.error(frame=frame)


async def _hand_over(queue: asyncio.Queue[bytes | None], image: bytes | None, writer: asyncio.Task[None]) -> None:
    """Queue a picture, or raise what ended the writer."""
    put = asyncio.ensure_future(queue.put(image))
    try:
        await asyncio.wait({put, writer}, return_when=asyncio.FIRST_COMPLETED)
        if writer.done() and not put.done():
            await writer
    finally:
        put.cancel()


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
