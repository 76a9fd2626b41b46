"""Pictures into units: H.264, VP9 or ProRes, closed, exact, and the same bytes every time.

A unit is one closed group of pictures in a file of its own: an mp4 (VP9 too: its timestamps are exact there, where
webm rounds to milliseconds), or a webm where VP9 is transparent, which mp4 has no place for. Each encoder has one
thread: with two, x264 looks ahead in a thread of its own and now and then decides otherwise when pictures come late (2
of 100 units did). A machine's processors are busy with the pages of other units anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Literal, Protocol

from koda_ray.errors import EncodeFailed
from koda_ray.render import matroska
from koda_ray.render.ffmpeg import PIPE_ENDED, command_line, ended, failed, is_full
from koda_ray.render.formats import FORMATS
from koda_ray.render.pictures import PictureUnit
from koda_ray.render.programs import find_program
from koda_ray.render.spec import RenderSpec

__all__ = ["BT709", "ENCODER_VERSION", "Encoder", "Image", "UnitEncoder", "timescale", "unit_encoder", "unit_options"]

Image = Literal["png", "jpeg"]
"""How pictures travel from browser to encoder."""

ENCODER_VERSION = "4"
"""Raised whenever encoded bytes may change; part of the environment's fingerprint."""

_THREADS = 1
_FINISH_TIMEOUT_S = 300.0
_SMALL_FROM_CRF = 24
_TICKS = 1000
_ONE_GROUP = 100_000
"""Frames between key frames: more than a unit has."""

BT709 = {"colorspace": "bt709", "color_primaries": "bt709", "color_trc": "bt709", "color_range": "tv"}
"""FFmpeg's options that say which colours a stream has."""
_PNG_TO_BT709 = "scale=out_color_matrix=bt709:out_range=tv:flags=accurate_rnd+full_chroma_int"
# ProRes takes what its frames say of their colours, not what the encoder is told
_SAY_BT709 = "setparams=colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=tv"
# JPEG's colours are BT.601 in full range. This filter is as exact as the scaler's accurate mode and takes 1 ms of a
# 1080p frame where that takes 16.
_JPEG_TO_BT709 = "format=yuvj420p,colorspace=iall=bt470bg:irange=pc:all=bt709:range=tv:format=yuv420p:fast=1"


def unit_options(spec: RenderSpec, frames: int, *, image: Image) -> dict[str, object]:
    """Return FFmpeg's output options for one unit of a video.

    Args:
        spec: The video; its format is not one that keeps pictures.
        frames: How many frames the unit has.
        image: How its pictures arrive.
    """
    common: dict[str, object] = {
        # pictures that stand are repeated here, behind the conversion
        "vf": f"{_conversion(spec, image)},fps={spec.fps}",
        "vframes": frames,
        "threads": _THREADS,
        "fps_mode": "passthrough",
        "map_metadata": -1,
        "fflags": "+bitexact",
        **BT709,
    }
    if spec.format == "webm":
        container: dict[str, object] = {"format": "webm"}
        if not spec.alpha:
            container = {"format": "mp4", "video_track_timescale": timescale(spec)}
        return common | container | _vp9(spec)
    if spec.format == "mov":
        return common | {
            "format": "mov",
            "video_track_timescale": timescale(spec),
            "vcodec": "prores_ks",
            "profile:v": "4444",
            "alpha_bits": 16 if spec.alpha else 0,
            "vendor": "apl0",
            "flags": "+bitexact",
        }
    return common | {
        "format": "mp4",
        "video_track_timescale": timescale(spec),
        "vcodec": "libx264",
        "preset": _x264_preset(spec),
        "g": _ONE_GROUP,
        "flags": "+cgop+bitexact",
        "x264-params": "open-gop=0:keyint=infinite:scenecut=40",
        **({"crf": spec.crf} if spec.bitrate_kbps is None else _bitrate(spec.bitrate_kbps)),
    }


def _conversion(spec: RenderSpec, image: Image) -> str:
    """Return the filter that makes pictures what the encoder takes."""
    if image == "jpeg":
        return _JPEG_TO_BT709
    if spec.format == "mov":
        return f"{_PNG_TO_BT709},format={'yuva444p10le' if spec.alpha else 'yuv444p10le'},{_SAY_BT709}"
    return f"{_PNG_TO_BT709},format={'yuva420p' if spec.alpha else 'yuv420p'}"


def _vp9(spec: RenderSpec) -> dict[str, object]:
    options: dict[str, object] = {
        "vcodec": "libvpx-vp9",
        "g": _ONE_GROUP,
        "deadline": "good",
        "cpu-used": 2 if spec.effort == "small" else 4,
        "row-mt": 0,
        "flags": "+bitexact",
    }
    if spec.alpha:  # its two encoders have to put their key frames in the same places
        options["auto-alt-ref"] = 0
    if spec.bitrate_kbps is not None:
        return options | _bitrate(spec.bitrate_kbps)
    # VP9's scale runs to 63; these pairs look alike: 18 and 24, 28 and 36
    return options | {"crf": min(63, round(spec.crf * 1.2 + 2.4)), "video_bitrate": 0}


def _bitrate(kbps: int) -> dict[str, object]:
    """Return options for a rate that each unit keeps for itself: its buffer is half full at first, and holds 0.5 s."""
    return {
        "video_bitrate": f"{kbps}k",
        "maxrate": f"{kbps}k",
        "bufsize": f"{kbps // 2}k",
        "rc_init_occupancy": f"{kbps // 4}k",
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


class Encoder(Protocol):
    """Takes a unit's pictures one by one and leaves its file."""

    async def start(self) -> None:
        """Begin."""
        ...

    async def write(self, image: bytes) -> None:
        """Take the next picture."""
        ...

    async def finish(self) -> Path:
        """Return the file, which is whole now."""
        ...

    async def close(self) -> None:
        """End what still runs; nothing happens after `finish`."""
        ...


def unit_encoder(spec: RenderSpec, frames: int, target: Path, *, image: Image) -> Encoder:
    """Return what makes a unit's file of pictures: FFmpeg, or where the format keeps them, a plain archive.

    Args:
        spec: The video.
        frames: How many frames the unit has.
        target: The file to write.
        image: What the pictures are.
    """
    if FORMATS[spec.format].pictures:
        return PictureUnit(target)
    return UnitEncoder(spec, frames, target, image=image)


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
        except PIPE_ENDED:
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
        with contextlib.suppress(*PIPE_ENDED):
            process.stdin.close()  # what is still to be sent is sent; the process ends after it
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
