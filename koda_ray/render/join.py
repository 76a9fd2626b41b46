"""Stored units become the verified, stored video: fetch, join, look, then announce."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from koda_ray.cancellation import all_or_cancel, end_all
from koda_ray.errors import EncodeFailed, NotFound, QualityRejected
from koda_ray.render.audio import DecodedSound, decode_audio
from koda_ray.render.bundle import load_bundle
from koda_ray.render.compare import compare_videos
from koda_ray.render.decode import LISTED, skips_to_units
from koda_ray.render.facts import Checksums, VideoFacts
from koda_ray.render.formats import FORMATS
from koda_ray.render.isolation import WorkFolder, sweep_dead_folders
from koda_ray.render.mux import join_units, list_units
from koda_ray.render.protocol import JoinResult, JoinTask, UnitResult
from koda_ray.render.quality import check_video, look_at_units
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.sheet import kept_of, make_sheet, make_thumbnail, seeks, seeks_to, thumbnail_frame
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import sheet_key, thumbnail_key, unit_key, unit_meta_key, video_key

__all__ = ["join_video"]

_FETCHES = 8
_Look = Callable[[], Coroutine[Any, Any, None]]


async def join_video(task: JoinTask) -> JoinResult:
    """Join, check and store a video.

    Returns:
        The video; or, where stored units are missing or not what they were, their keys in ``torn`` and no video. Torn
        units are removed, so that they are captured again.

    Raises:
        QualityRejected: The joined file is not what was asked.
        EncodeFailed: FFmpeg failed.
        StorageError: Storage did.
    """
    await asyncio.to_thread(sweep_dead_folders)  # a capture's worker may have died, and no browser be started since
    folder = WorkFolder("join")
    try:
        joining = _Joining(task, folder.path)
        torn = await joining.fetch()
        if torn:
            return JoinResult(
                video_key="", thumbnail_key="", size_bytes=0, sha256="", duration_s=0.0, frame_count=0, torn=torn
            )
        await joining.make()
        return await joining.store()
    finally:
        folder.close()


class _Joining:
    """One video on its way from stored units to a stored file; each step notes how long it took.

    Args:
        task: What is joined.
        folder: Where files lie meanwhile.
    """

    def __init__(self, task: JoinTask, folder: Path) -> None:
        self._task = task
        self._storage = RetryingStorage(task.storage)
        self._folder = folder
        self._video = folder / f"video.{FORMATS[task.spec.format].extension}"
        self._thumbnail, self._sheet = folder / "thumbnail.jpg", folder / "sheet.jpg"
        self._parts: list[tuple[Path, int]] = []
        self._looks: asyncio.Task[list[bytes]] | None = None
        self._seen: dict[str, JsonValue] = {}
        self._timings: dict[str, float] = {}

    async def fetch(self) -> tuple[str, ...]:
        """Have all units here; returns the keys of those that are missing or not what they were."""
        units, started = self._task.units, time.perf_counter()
        gate = asyncio.Semaphore(_FETCHES)
        paths = await asyncio.gather(*(self._fetched(unit, gate) for unit in units))
        found = list(zip(units, paths, strict=True))
        self._parts = [(path, unit.unit.frame_count) for unit, path in found if path is not None]
        self._timings["fetch"] = _lap(started)
        return tuple(unit.key for unit, path in found if path is None)

    async def make(self) -> None:
        """Join the units with their sound, check the video and take its pictures: at once what needs no other."""
        spec = self._task.spec
        sounds = await self._decode()
        began = time.perf_counter()
        sheet: _Look = partial(self._picture, make_sheet, self._video, self._sheet)
        thumbnail: _Look = partial(self._picture, make_thumbnail, self._video, self._thumbnail)
        # each of them waits for processes of its own, and a sheet takes longest where its frames are decoded for it
        if FORMATS[spec.format].pictures:
            await self._join(sounds, began, [thumbnail])
            await sheet()
            return
        beside, after = list[_Look](), list[_Look]()
        if kept := _kept_thumbnail(spec, self._task.units):
            await asyncio.to_thread(self._thumbnail.write_bytes, kept)
        elif seeks_to(spec):
            beside.append(self._thumbnail_of_unit())
        else:
            after.append(thumbnail)
        if cells := _kept_cells(spec, self._task.units):
            beside.append(partial(self._picture, partial(make_sheet, cells=cells), self._video, self._sheet))
        elif seeks(spec):
            after.append(sheet)
        else:
            listing = self._folder / f"units{LISTED}"
            await asyncio.to_thread(list_units, spec, self._parts, listing)
            beside.append(partial(self._picture, make_sheet, listing, self._sheet))
        if skips_to_units(spec):
            self._looks = asyncio.create_task(self._look_at_units())
        try:
            await all_or_cancel([self._join(sounds, began, after), *(look() for look in beside)])
        finally:
            if self._looks is not None:
                await end_all([self._looks])

    async def store(self) -> JoinResult:
        """Store the video and its pictures, and say what it is."""
        task, began = self._task, time.perf_counter()
        key = video_key(task.user_id, task.job_id, FORMATS[task.spec.format].extension)
        sheet, thumbnail = sheet_key(task.user_id, task.job_id), thumbnail_key(task.user_id, task.job_id)
        put = self._storage.put_file
        files = {sheet: self._sheet, thumbnail: self._thumbnail, key: self._video}
        await all_or_cancel([put(name, file) for name, file in files.items()])
        self._timings["upload"] = _lap(began)
        return JoinResult(
            video_key=key,
            thumbnail_key=thumbnail,
            size_bytes=self._video.stat().st_size,
            sha256=await asyncio.to_thread(_digest, self._video),
            duration_s=task.spec.seconds(task.spec.frame_count),
            frame_count=task.spec.frame_count,
            quality=self._seen,
            timings_ms=self._timings,
        )

    async def _fetched(self, unit: UnitResult, gate: asyncio.Semaphore) -> Path | None:
        """Return a file with a unit's bytes, or None after removing a unit that is not what its name promises."""
        user_id, storage = self._task.user_id, self._storage
        key = unit_key(user_id, unit.key)
        path = storage.local_path(key)
        async with gate:
            try:
                if path is None:
                    path = self._folder / f"unit-{unit.unit.index:06d}.mp4"
                    await storage.get_file(key, path)
                if await asyncio.to_thread(_digest, path) == unit.sha256:
                    return path
            except (NotFound, FileNotFoundError):
                pass
            await storage.delete(unit_meta_key(user_id, unit.key))
            await storage.delete(key)
            return None

    async def _decode(self) -> tuple[DecodedSound, ...]:
        task, began = self._task, time.perf_counter()
        if not task.spec.audio:
            return ()
        bundle = await load_bundle(self._storage, task.user_id, task.spec.bundle)
        sounds = await decode_audio(task.spec, bundle, self._folder)
        self._timings["sound"] = _lap(began)
        return sounds

    def _thumbnail_of_unit(self) -> _Look:
        """Return what takes the thumbnail of the unit that has its frame."""
        frame = thumbnail_frame(self._task.spec)
        at = next(at for at, unit in enumerate(self._task.units) if unit.unit.start <= frame < unit.unit.stop)
        make = partial(make_thumbnail, first=self._task.units[at].unit.start)
        return partial(self._picture, make, self._parts[at][0], self._thumbnail)

    async def _look_at_units(self) -> list[bytes]:
        each = {unit.sha256: part for unit, part in zip(self._task.units, self._parts, strict=True)}
        listing = self._folder / f"looked{LISTED}"
        await asyncio.to_thread(list_units, self._task.spec, [*each.values()], listing)
        return await look_at_units(self._task.spec, listing, len(each))

    async def _join(self, sounds: tuple[DecodedSound, ...], began: float, looks: Sequence[_Look]) -> None:
        """Join the units; then check the video, and take what pictures are found in it alone."""
        spec = self._task.spec
        checksums = await join_units(spec, self._parts, self._video, sounds=sounds)
        self._timings["join"] = _lap(began)
        await all_or_cancel([self._check(checksums), *(look() for look in looks)])

    async def _check(self, checksums: Checksums) -> None:
        began = time.perf_counter()
        hashes = [digest for unit in self._task.units for digest in unit.frame_hashes]
        facts = await check_video(self._task.spec, self._video, hashes, checksums=checksums, looks=self._looks)
        self._seen = await _quality(self._task, self._storage, self._video, facts, self._folder)
        self._timings["check"] = _lap(began)

    async def _picture(
        self, make: Callable[[RenderSpec, Path, Path], Awaitable[None]], source: Path, path: Path
    ) -> None:
        began = time.perf_counter()
        await make(self._task.spec, source, path)
        self._timings[path.stem] = _lap(began)


async def _quality(
    task: JoinTask, storage: RetryingStorage, video: Path, facts: VideoFacts, folder: Path
) -> dict[str, JsonValue]:
    """Return what the gate saw, with how the video compares with its preview where there is one."""
    warnings = list(facts.warnings)
    seen: dict[str, JsonValue] = {"codec": facts.codec, "colors": facts.colors, "audioS": facts.audio_s}
    # what a preview shows behind a page is white, and what is transparent has nothing there
    if task.reference is not None and task.spec.format != "png" and not task.spec.alpha:
        try:
            reference = storage.local_path(task.reference)
            if reference is None:
                reference = folder / "reference"
                await storage.get_file(task.reference, reference)
            elif not reference.exists():
                raise NotFound(f"no object {task.reference!r}")
            found = await compare_videos(task.spec, video, reference)
            seen["preview"] = {
                "psnrDb": round(found.mean_db, 2),
                "worstPsnrDb": round(min(found.psnr_db), 2),
                "luminance": round(found.luminance, 2),
                "previewLuminance": round(found.reference_luminance, 2),
                "moments": len(found.times_s),
            }
            warnings += found.warnings
        except (NotFound, EncodeFailed, QualityRejected) as error:
            warnings.append(f"the preview could not be compared: {error.message}")
    return {**seen, "warnings": list[JsonValue](warnings)}


def _kept_thumbnail(spec: RenderSpec, units: Sequence[UnitResult]) -> bytes | None:
    """Return the thumbnail, where it was kept when its frame was encoded."""
    for unit in units:
        place = kept_of(spec, unit.unit).thumbnail
        if place is not None and unit.thumbnail is not None and unit.thumbnail[0] == place:
            return _decoded(unit.thumbnail[1])
    return None


def _kept_cells(spec: RenderSpec, units: Sequence[UnitResult]) -> list[bytes]:
    """Return the frames of the sheet that were kept when they were encoded; none unless all were."""
    places = [(unit, place) for unit in units for place in kept_of(spec, unit.unit).cells]
    if not all(place in unit.cells for unit, place in places):
        return []
    pictures = [picture for unit, place in places if (picture := _decoded(unit.cells[place])) is not None]
    return pictures if len(pictures) == len(places) else []


def _decoded(picture: str) -> bytes | None:
    """Return a kept picture; none where a disk spoilt it, and it is made of the video instead."""
    try:
        return base64.b64decode(picture, validate=True)
    except ValueError:
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lap(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
