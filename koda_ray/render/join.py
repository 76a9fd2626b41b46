"""Stored units become the verified, stored video: fetch, join, look, then announce."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from koda_ray.cancellation import all_or_cancel
from koda_ray.errors import EncodeFailed, NotFound, QualityRejected
from koda_ray.render.audio import DecodedSound, decode_audio
from koda_ray.render.bundle import load_bundle
from koda_ray.render.compare import compare_videos
from koda_ray.render.formats import FORMATS
from koda_ray.render.isolation import WorkFolder, sweep_dead_folders
from koda_ray.render.mux import join_units, list_units
from koda_ray.render.protocol import JoinResult, JoinTask, UnitResult
from koda_ray.render.quality import VideoFacts, check_video
from koda_ray.render.sheet import make_sheet, make_thumbnail, seeks
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import sheet_key, thumbnail_key, unit_key, unit_meta_key, video_key

__all__ = ["join_video"]

_FETCHES = 8


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
    timings: dict[str, float] = {}
    await asyncio.to_thread(sweep_dead_folders)  # a capture's worker may have died, and no browser be started since
    folder = WorkFolder("join")
    try:
        started = time.perf_counter()
        gate = asyncio.Semaphore(_FETCHES)
        paths = await asyncio.gather(*(_fetch(task, unit, folder.path, gate) for unit in task.units))
        torn = tuple(unit.key for unit, path in zip(task.units, paths, strict=True) if path is None)
        if torn:
            return JoinResult(
                video_key="", thumbnail_key="", size_bytes=0, sha256="", duration_s=0.0, frame_count=0, torn=torn
            )
        timings["fetch"] = _lap(started)
        lap = time.perf_counter()
        video = folder.path / f"video.{FORMATS[task.spec.format].extension}"
        parts = [
            (path, unit.unit.frame_count) for unit, path in zip(task.units, paths, strict=True) if path is not None
        ]
        sounds: tuple[DecodedSound, ...] = ()
        if task.spec.audio:
            bundle = await load_bundle(task.storage, task.user_id, task.spec.bundle)
            sounds = await decode_audio(task.spec, bundle, folder.path)
            timings["sound"] = _lap(lap)
            lap = time.perf_counter()
        thumbnail, sheet = folder.path / "thumbnail.jpg", folder.path / "sheet.jpg"
        seen: dict[str, JsonValue] = {}

        async def check(checksums: tuple[str, ...]) -> None:
            began = time.perf_counter()
            hashes = [digest for unit in task.units for digest in unit.frame_hashes]
            facts = await check_video(task.spec, video, hashes, checksums=checksums)
            seen.update(await _quality(task, video, facts, folder.path))
            timings["check"] = _lap(began)

        async def still(make: Callable[[RenderSpec, Path, Path], Awaitable[None]], source: Path, path: Path) -> None:
            began = time.perf_counter()
            await make(task.spec, source, path)
            timings[path.stem] = _lap(began)

        async def join() -> None:
            checksums = await join_units(task.spec, parts, video, sounds=sounds)
            timings["join"] = _lap(lap)
            checks: list[Coroutine[Any, Any, None]] = [check(checksums), still(make_thumbnail, video, thumbnail)]
            if seeks(task.spec):
                checks.append(still(make_sheet, video, sheet))
            await all_or_cancel(checks)

        # each of them waits for processes of its own, and the sheet takes longest where it is not sought
        if FORMATS[task.spec.format].pictures:
            await join()
            await still(make_sheet, video, sheet)
        elif seeks(task.spec):
            await join()
        else:
            footage = folder.path / "units.ffconcat"
            await asyncio.to_thread(list_units, task.spec, parts, footage)
            await all_or_cancel([join(), still(make_sheet, footage, sheet)])
        lap = time.perf_counter()
        key = video_key(task.user_id, task.job_id, FORMATS[task.spec.format].extension)
        await task.storage.put_file(sheet_key(task.user_id, task.job_id), sheet)
        await task.storage.put_file(thumbnail_key(task.user_id, task.job_id), thumbnail)
        await task.storage.put_file(key, video)
        timings["upload"] = _lap(lap)
        return JoinResult(
            video_key=key,
            thumbnail_key=thumbnail_key(task.user_id, task.job_id),
            size_bytes=video.stat().st_size,
            sha256=await asyncio.to_thread(_digest, video),
            duration_s=task.spec.seconds(task.spec.frame_count),
            frame_count=task.spec.frame_count,
            quality=seen,
            timings_ms=timings,
        )
    finally:
        folder.close()


async def _quality(task: JoinTask, video: Path, facts: VideoFacts, folder: Path) -> dict[str, JsonValue]:
    """Return what the gate saw, with how the video compares with its preview where there is one."""
    warnings = list(facts.warnings)
    seen: dict[str, JsonValue] = {"codec": facts.codec, "colors": facts.colors, "audioS": facts.audio_s}
    if task.reference is not None and task.spec.format != "png":
        try:
            reference = task.storage.local_path(task.reference)
            if reference is None:
                reference = folder / "reference"
                await task.storage.get_file(task.reference, reference)
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


async def _fetch(task: JoinTask, unit: UnitResult, folder: Path, gate: asyncio.Semaphore) -> Path | None:
    """Return a file with a unit's bytes, or None after removing a unit that is not what its name promises."""
    key = unit_key(task.user_id, unit.key)
    path = task.storage.local_path(key)
    async with gate:
        try:
            if path is None:
                path = folder / f"unit-{unit.unit.index:06d}.mp4"
                await task.storage.get_file(key, path)
            if await asyncio.to_thread(_digest, path) == unit.sha256:
                return path
        except (NotFound, FileNotFoundError):
            pass
        await task.storage.delete(unit_meta_key(task.user_id, unit.key))
        await task.storage.delete(key)
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lap(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
