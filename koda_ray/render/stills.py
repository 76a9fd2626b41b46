"""Frames of a stored video as JPEGs: one as large as somebody wants it, or many small ones in a grid to look through.

FFmpeg seeks to a frame, except where that would show another one: then everything before it is decoded, which is done
for short videos only. None of it may take long, since somebody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from fractions import Fraction
from pathlib import Path
from typing import Any

from koda_ray.errors import EncodeFailed, InvalidInput
from koda_ray.render.decode import look, skips_to, skips_to_units
from koda_ray.render.ffmpeg import QUIETLY, run
from koda_ray.render.formats import FORMATS
from koda_ray.render.sheet import TO_PICTURE, picture_filter, sheet_frames
from koda_ray.render.spec import RenderSpec, plan_units

__all__ = ["frame_of_video", "make_sprite"]

_COLUMNS = 10
_HIGHEST_CELL_PX = 640
_TIMEOUT_S = 20.0
_MOST_DECODED_S = 60.0
"""How long a video may be of which all is decoded."""
_GOOD, _SMALL = ["-q:v", "3"], ["-q:v", "5"]
_SENT = ["-f", "mjpeg", "pipe:"]


async def frame_of_video(spec: RenderSpec, video: Path, frame: int, *, width: int) -> bytes:
    """Return a frame of a finished video as a JPEG.

    Args:
        spec: The video.
        video: Its file.
        frame: Which.
        width: In pixels; the video's own where that is less. What is transparent is grey.

    Raises:
        InvalidInput: All before it would have to be decoded, and the video is too long for that.
        Missing: FFmpeg is not installed.
        EncodeFailed: The file cannot be decoded, or not in time.
    """
    filters, output = _filter(spec, width), [*TO_PICTURE, *_GOOD, *_SENT]
    if FORMATS[spec.format].pictures or (spec.alpha and spec.format == "webm"):
        if spec.format != "png":  # a picture in a zip is read without the others
            _check_short(spec, "a frame of it is decoded with all before it")
        return _there(await _in_time(look(spec, video, [frame], filters, output)), frame)
    # half a frame early: what is sought is the first frame that is not before that, and times are rounded
    at = max(0.0, float((frame - Fraction(1, 2)) / spec.fps))
    inputs = ["-ss", f"{at:.6f}", "-i", str(video), "-map", "0:v:0"]
    line = [*QUIETLY, *inputs, "-vf", filters, *output]
    return _there(await _in_time(run("ffmpeg", line, timeout_s=_TIMEOUT_S)), frame)


async def make_sprite(spec: RenderSpec, video: Path, *, count: int, width: int) -> bytes:
    """Return frames of a finished video in a grid, ten in a row: spread evenly, in order, without gaps.

    Args:
        spec: The video.
        video: Its file.
        count: How many; as many as there are where that is less.
        width: Of each in pixels; less where it would be higher than 640, or wider than the video.

    Raises:
        InvalidInput: All of it would have to be decoded, and it is too long for that.
        Missing: FFmpeg is not installed.
        EncodeFailed: The file cannot be decoded, or not in time.
    """
    frames = sheet_frames(spec, count)
    columns = min(len(frames), _COLUMNS)
    shape = f"tile={columns}x{-(-len(frames) // columns)}"
    lowered = min(width, _HIGHEST_CELL_PX * spec.picture[0] / spec.picture[1])
    filters, output = f"{_filter(spec, lowered)},{shape}", [*TO_PICTURE, *_SMALL, *_SENT]
    if not skips_to(spec, frames) and spec.format != "png":
        few = f"; {len(plan_units(spec))} frames or fewer can be seen of it" if skips_to_units(spec) else ""
        _check_short(spec, f"so many frames of it are seen by decoding it all{few}")
    return _there(await _in_time(look(spec, video, frames, filters, output)), frames[0])


def _check_short(spec: RenderSpec, why: str) -> None:
    """Raise InvalidInput where a video is too long to be decoded as a whole."""
    if spec.seconds(spec.frame_count) > _MOST_DECODED_S:
        kind = f"transparent {spec.format}" if spec.alpha else spec.format
        raise InvalidInput(
            f"this {kind} lasts {spec.seconds(spec.frame_count):g} s, and {why}: that is done up to "
            f"{_MOST_DECODED_S:g} s; download the video to look through it",
            code="VIDEO_TOO_LONG",
            context={"limit": _MOST_DECODED_S},
        )


async def _in_time(made: Coroutine[Any, Any, bytes]) -> bytes:
    """Return what FFmpeg makes, or end it. Raises EncodeFailed where it takes too long."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await made
    except TimeoutError:
        raise EncodeFailed(
            f"the picture was not made in {_TIMEOUT_S:g} s and was given up: ask for fewer, or download the video"
        ) from None


def _filter(spec: RenderSpec, width: float) -> str:
    return picture_filter(spec, min(1.0, width / spec.picture[0]))


def _there(picture: bytes, frame: int) -> bytes:
    if not picture:
        raise EncodeFailed(f"frame {frame} is not in the file: it has fewer, or is damaged")
    return picture
