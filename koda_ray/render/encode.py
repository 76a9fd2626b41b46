"""Pictures into units, units into a video: H.264 or VP9, closed, exact, and the same bytes every time.

A unit is one closed group of pictures in an mp4 of its own (VP9 too: its timestamps are exact there, where webm
rounds to milliseconds). Joining copies the coded frames. Each encoder has one thread: with two, x264 looks ahead in a
thread of its own and now and then decides otherwise when pictures come late (2 of 100 units did). A machine's
processors are busy with the pages of other units anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from koda_ray.errors import EncodeFailed
from koda_ray.render import matroska
from koda_ray.render.ffmpeg import command_line, ended, failed, is_full, run
from koda_ray.render.programs import find_program
from koda_ray.render.spec import RenderSpec

__all__ = ["ENCODER_VERSION", "Image", "UnitEncoder", "join_units", "make_thumbnail", "timescale", "unit_options"]

Image = Literal["png", "jpeg"]
"""How pictures travel from browser to encoder."""

ENCODER_VERSION = "3"
"""Raised whenever encoded bytes may change; part of the environment's fingerprint."""

_THREADS = 1
_FINISH_TIMEOUT_S = 300.0
_JOIN_TIMEOUT_S = 600.0
_THUMBNAIL_LONG_SIDE_PX = 1280
_SMALL_FROM_CRF = 24
_TICKS = 1000

_BT709 = {"colorspace": "bt709", "color_primaries": "bt709", "color_trc": "bt709", "color_range": "tv"}
_PNG_TO_BT709 = "scale=out_color_matrix=bt709:out_range=tv:flags=accurate_rnd+full_chroma_int,format=yuv420p"
# JPEG's colours are BT.601 in full range. This filter is as exact as the scaler's accurate mode and takes 1 ms of a
# 1080p frame where that takes 16.
_JPEG_TO_BT709 = "format=yuvj420p,colorspace=iall=bt470bg:irange=pc:all=bt709:range=tv:format=yuv420p:fast=1"


def unit_options(spec: RenderSpec, frames: int, *, image: Image) -> dict[str, object]:
    """Return FFmpeg's output options for one unit of a video.

    Args:
        spec: The video.
        frames: How many frames the unit has.
        image: How its pictures arrive.
    """
    common: dict[str, object] = {
        # pictures that stand are repeated here, behind the conversion
        "vf": f"{_JPEG_TO_BT709 if image == 'jpeg' else _PNG_TO_BT709},fps={spec.fps}",
        "vframes": frames,
        "g": 100_000,  # one group of pictures: the unit
        "threads": _THREADS,
        "video_track_timescale": timescale(spec),
        "fps_mode": "passthrough",
        "map_metadata": -1,
        "fflags": "+bitexact",
        "format": "mp4",
        **_BT709,
    }
    if spec.format == "webm":
        return common | {
            "vcodec": "libvpx-vp9",
            # VP9's scale runs to 63; these pairs look alike: 18 and 24, 28 and 36
            "crf": min(63, round(spec.crf * 1.2 + 2.4)),
            "video_bitrate": 0,
            "deadline": "good",
            "cpu-used": 4,
            "row-mt": 0,
            "flags": "+bitexact",
        }
    return common | {
        "vcodec": "libx264",
        "preset": _x264_preset(spec),
        "crf": spec.crf,
        "flags": "+cgop+bitexact",
        "x264-params": "open-gop=0:keyint=infinite:scenecut=40",
    }


def timescale(spec: RenderSpec) -> int:
    """Return the mp4's ticks per second: a frame is a whole number of them."""
    return spec.fps.numerator * _TICKS


def _x264_preset(spec: RenderSpec) -> str:
    """Return x264's preset.

    At one CRF "superfast" is closer to the original than "medium" (SSIM 0.9982 and 0.9978 on a WebGL scene, 0.9942 and
    0.9941 on a page) in a third of the time; its files are twice as large.
    """
    if spec.effort == "small":
        return "medium"
    return "veryfast" if spec.crf >= _SMALL_FROM_CRF else "superfast"


class UnitEncoder:
    """An FFmpeg that takes pictures one by one and leaves a unit's file. Use `start`, `write`, `finish`, `close`.

    Args:
        spec: The video.
        frames: How many frames the unit has.
        target: The file to write.
        image: What the pictures are.
    """

    def __init__(self, spec: RenderSpec, frames: int, target: Path, *, image: Image) -> None:
        options = unit_options(spec, frames, image=image)
        self._arguments = command_line("pipe:", {"format": "matroska"}, str(target), options)
        self._fps = spec.fps
        self._header = matroska.header(*spec.picture, spec.fps, image)
        self._target = target
        self._process: asyncio.subprocess.Process | None = None
        self._errors: asyncio.Task[bytes] | None = None
        self._count = 0
        self._last: bytes | None = None
        self._sent = -1

    async def start(self) -> None:
        """Start FFmpeg.

        Raises:
            Missing: It is not installed.
        """
        process = await asyncio.create_subprocess_exec(
            find_program("ffmpeg"),
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        self._process = process
        self._errors = asyncio.create_task(process.stderr.read())
        await self._send(self._header)

    async def write(self, image: bytes) -> None:
        """Hand over the next picture; waits while FFmpeg is behind. The very object of the call before is not sent.

        Raises:
            EncodeFailed: FFmpeg has ended.
        """
        index, self._count = self._count, self._count + 1
        if image is not self._last:
            self._last, self._sent = image, index
            await self._send(matroska.picture(index, self._fps, image))

    async def _send(self, data: bytes) -> None:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(data)
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._failure() from None

    async def finish(self) -> Path:
        """Wait until all pictures are encoded; return the unit's file.

        Raises:
            EncodeFailed: FFmpeg failed; code DISK_FULL where that is why.
        """
        process = self._running()
        assert process.stdin is not None
        if self._last is not None and self._sent < self._count - 1:  # the end has to be marked
            await self._send(matroska.picture(self._count - 1, self._fps, self._last))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.close()
            await process.stdin.wait_closed()
        try:
            async with asyncio.timeout(_FINISH_TIMEOUT_S):
                code = await process.wait()
        except TimeoutError:
            raise EncodeFailed(f"ffmpeg did not end in {_FINISH_TIMEOUT_S:g} s", retryable=True) from None
        assert self._errors is not None
        if code or is_full(await self._errors):
            raise await self._failure()
        return self._target

    async def close(self) -> None:
        """End FFmpeg if it still runs; nothing happens after `finish`."""
        if self._process is not None:
            await ended(self._process)
            if self._process.stdin is not None:
                self._process.stdin.close()
        if self._errors is not None:
            await asyncio.wait({self._errors}, timeout=1)
            self._errors.cancel()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError("UnitEncoder.start has not been called")
        return self._process

    async def _failure(self) -> EncodeFailed:
        process = self._running()
        assert self._errors is not None
        errors = await self._errors
        await process.wait()
        return failed("ffmpeg", process.returncode, errors)


async def join_units(spec: RenderSpec, units: Sequence[tuple[Path, int]], target: Path) -> None:
    """Join units into the video by copying their coded frames, in one pass.

    Args:
        spec: The video.
        units: Each unit's file and number of frames, in order.
        target: The video.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It failed.
    """
    lines = ["ffconcat version 1.0"]
    for path, frames in units:
        # the container's own duration leaves the last frame's out where frames are reordered
        lines += [
            f"file '{str(path).replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'",
            f"duration {spec.seconds(frames):.9f}",
        ]
    listing = target.with_suffix(".ffconcat")
    await asyncio.to_thread(listing.write_text, "\n".join(lines) + "\n")
    container: dict[str, object] = {"format": "webm"}
    if spec.format == "mp4":
        container = {"format": "mp4", "movflags": "+faststart", "video_track_timescale": timescale(spec)}
    options = {"c": "copy", "map_metadata": -1, "fflags": "+bitexact", **container}
    await run(
        "ffmpeg",
        command_line(str(listing), {"format": "concat", "safe": 0}, str(target), options),
        timeout_s=_JOIN_TIMEOUT_S,
    )


async def make_thumbnail(spec: RenderSpec, video: Path, target: Path) -> None:
    """Save the middle frame as a JPEG, its long side at most 1280 pixels.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It failed.
    """
    width, height = spec.picture
    ratio = min(1.0, _THUMBNAIL_LONG_SIDE_PX / max(width, height))
    size = f"scale={max(2, round(width * ratio / 2) * 2)}:{max(2, round(height * ratio / 2) * 2)}"
    at_s = spec.seconds(spec.frame_count // 2)
    options: dict[str, object] = {
        "vframes": 1,
        "vf": f"{size}:in_color_matrix=bt709:out_color_matrix=bt601:out_range=pc,format=yuvj420p",
        "q:v": 3,
        "fflags": "+bitexact",
        "flags": "+bitexact",
        "format": "image2",
        "update": 1,
    }
    await run(
        "ffmpeg", command_line(str(video), {"ss": f"{at_s:.6f}"}, str(target), options), timeout_s=_JOIN_TIMEOUT_S
    )
