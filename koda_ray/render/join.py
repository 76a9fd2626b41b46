"""Stored units become the verified, stored video: fetch, join, look, then announce."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

from koda_ray.errors import NotFound
from koda_ray.render.encode import join_units, make_thumbnail
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.protocol import JoinResult, JoinTask, UnitResult
from koda_ray.render.quality import check_video
from koda_ray.state.storage import thumbnail_key, unit_key, unit_meta_key, video_key

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
        video = folder.path / f"video.{task.spec.format}"
        parts = [
            (path, unit.unit.frame_count) for unit, path in zip(task.units, paths, strict=True) if path is not None
        ]
        await join_units(task.spec, parts, video)
        timings["join"] = _lap(lap)
        lap = time.perf_counter()
        facts = await check_video(task.spec, video, [digest for unit in task.units for digest in unit.frame_hashes])
        timings["check"] = _lap(lap)
        lap = time.perf_counter()
        thumbnail = folder.path / "thumbnail.jpg"
        await make_thumbnail(task.spec, video, thumbnail)
        timings["thumbnail"] = _lap(lap)
        lap = time.perf_counter()
        await task.storage.put_file(thumbnail_key(task.user_id, task.job_id), thumbnail)
        await task.storage.put_file(video_key(task.user_id, task.job_id, task.spec.format), video)
        timings["upload"] = _lap(lap)
        return JoinResult(
            video_key=video_key(task.user_id, task.job_id, task.spec.format),
            thumbnail_key=thumbnail_key(task.user_id, task.job_id),
            size_bytes=video.stat().st_size,
            sha256=await asyncio.to_thread(_digest, video),
            duration_s=task.spec.seconds(len(facts.times_s)),
            frame_count=len(facts.times_s),
            timings_ms=timings,
        )
    finally:
        folder.close()


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
