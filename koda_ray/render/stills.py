"""Frames of a stored video as JPEGs: one as large as somebody wants it, or many small ones in a grid to look through.

One frame is decoded from its unit where that is there still, and so before the video is: a unit is a second, whatever
the video's length. Of a whole video FFmpeg seeks to it, except where that would show another one.
"""

from __future__ import annotations

import asyncio
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from koda_ray.errors import EncodeFailed
from koda_ray.render.decode import chosen, look, skips_to_units
from koda_ray.render.ffmpeg import QUIETLY, run
from koda_ray.render.formats import FORMATS
from koda_ray.render.pictures import frame_name
from koda_ray.render.sheet import TO_PICTURE, picture_filter, sheet_frames
from koda_ray.render.spec import RenderSpec, plan_units

__all__ = ["frame_of_unit", "frame_of_video", "make_sprite"]

_COLUMNS = 10
_HIGHEST_CELL_PX = 640
_TIMEOUT_S = 300.0
_GOOD, _SMALL = ["-q:v", "3"], ["-q:v", "5"]
_SENT = ["-f", "mjpeg", "pipe:"]


async def frame_of_unit(spec: RenderSpec, unit: Path, frame: int, *, width: int) -> bytes:
    """Return a frame of a stored unit as a JPEG.

    Args:
        spec: The video that it is a part of.
        unit: The unit's file.
        frame: Which, counted from the unit's first.
        width: In pixels; the video's own where that is less. What is transparent is grey.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: The file cannot be decoded.
    """
    if FORMATS[spec.format].pictures:
        spec, frame = replace(spec, format="png"), await asyncio.to_thread(_shown_at, unit, frame)
    output = [*TO_PICTURE, *_GOOD, *_SENT]
    return _there(await look(spec, unit, [frame], _filter(spec, width), output), frame)


async def frame_of_video(spec: RenderSpec, video: Path, frame: int, *, width: int) -> bytes:
    """Return a frame of a finished video as a JPEG; arguments and errors as `frame_of_unit` has them."""
    filters, output = _filter(spec, width), [*TO_PICTURE, *_GOOD, *_SENT]
    if FORMATS[spec.format].pictures or (spec.alpha and spec.format == "webm"):
        return _there(await look(spec, video, [frame], filters, output), frame)
    # half a frame early: what is sought is the first frame that is not before that, and times are rounded
    at = max(0.0, float((frame - Fraction(1, 2)) / spec.fps))
    inputs = ["-ss", f"{at:.6f}", "-i", str(video), "-map", "0:v:0"]
    return _there(await run("ffmpeg", [*QUIETLY, *inputs, "-vf", filters, *output], timeout_s=_TIMEOUT_S), frame)


async def make_sprite(spec: RenderSpec, video: Path, *, count: int, width: int) -> bytes:
    """Return frames of a finished video in a grid, ten in a row: spread evenly, in order, without gaps.

    Args:
        spec: The video.
        video: Its file.
        count: How many; as many as there are where that is less.
        width: Of each in pixels; less where it would be higher than 640, or wider than the video.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: The file cannot be decoded.
    """
    frames = sheet_frames(spec, count)
    columns = min(len(frames), _COLUMNS)
    shape = f"tile={columns}x{-(-len(frames) // columns)}"
    lowered = min(width, _HIGHEST_CELL_PX * spec.picture[0] / spec.picture[1])
    filters, output = f"{_filter(spec, lowered)},{shape}", [*TO_PICTURE, *_SMALL, *_SENT]
    starts = {unit.start: unit.index for unit in plan_units(spec)}
    if skips_to_units(spec) and all(frame in starts for frame in frames):
        units = chosen([starts[frame] for frame in frames])
        return _there(await look(spec, video, None, f"select='{units}',{filters}", output), frames[0])
    return _there(await look(spec, video, frames, filters, output), frames[0])


def _filter(spec: RenderSpec, width: float) -> str:
    return picture_filter(spec, min(1.0, width / spec.picture[0]))


def _there(picture: bytes, frame: int) -> bytes:
    if not picture:
        raise EncodeFailed(f"frame {frame} is not in the file: it has fewer, or is damaged")
    return picture


def _shown_at(unit: Path, frame: int) -> int:
    """Return which of a unit's pictures a frame shows: what stands is stored once."""
    try:
        with zipfile.ZipFile(unit) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError) as error:
        raise EncodeFailed(f"the pictures of a unit cannot be read: {error}", retryable=True) from error
    return next((at for at in range(frame, -1, -1) if frame_name(at) in names), 0)
