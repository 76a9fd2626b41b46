"""Pictures into units: H.264 (x264, or NVENC on a GPU), VP9 or ProRes, closed, exact, the same bytes every time.

A unit is one closed group of pictures in a file of its own: an mp4 (VP9 too: its timestamps are exact there, where
webm rounds to milliseconds), or a webm where VP9 is transparent, which mp4 has no place for. Each encoder has one
thread: with two, x264 looks ahead in a thread of its own and now and then decides otherwise when pictures come late (2
of 100 units did). A machine's processors are busy with the pages of other units anyway.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Protocol

from koda_ray.errors import EncodeFailed
from koda_ray.render import matroska
from koda_ray.render.decode import chosen
from koda_ray.render.ffmpeg import Child, command_line, ensure_ended, failed, is_full, start
from koda_ray.render.formats import FORMATS
from koda_ray.render.graphics import H264Encoder
from koda_ray.render.kept import KeptFrames, KeptPictures
from koda_ray.render.matroska import ImageKind
from koda_ray.render.pictures import PictureUnit
from koda_ray.render.pipe import PIPE_ENDED, Pipe
from koda_ray.render.sheet import cell_filter, thumbnail_filter
from koda_ray.render.spec import RenderSpec, unit_frames

__all__ = ["BT709", "ENCODER_VERSION", "Encoder", "UnitEncoder", "timescale", "unit_encoder", "unit_options"]

ENCODER_VERSION = "5"
"""Raised whenever encoded bytes may change; part of the environment's fingerprint."""

_THREADS = 1
_FINISH_TIMEOUT_S = 300.0
_SMALL_FROM_CRF = 24
_TICKS = 1000
_NVENC_PRESETS = {"draft": "p1", "fast": "p4"}
_NVENC_LEAST, _NVENC_MOST = (145, 49), (4096, 4096)
_VP9_SPEEDS = {"draft": 7, "fast": 4, "small": 2}
_ONE_GROUP = 100_000
"""Frames between key frames: more than a unit has."""
_NOTHING = KeptFrames()
_JPEGS = re.compile(rb"\xff\xd8\xff.*?\xff\xd9", re.DOTALL)
"""Pictures one behind the other: neither mark occurs within one, where 255 is followed by 0."""

BT709 = {"colorspace": "bt709", "color_primaries": "bt709", "color_trc": "bt709", "color_range": "tv"}
"""FFmpeg's options that say which colours a stream has."""
_PNG_TO_BT709 = "scale=out_color_matrix=bt709:out_range=tv:flags=accurate_rnd+full_chroma_int"
# ProRes takes what its frames say of their colours, not what the encoder is told
_SAY_BT709 = "setparams=colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=tv"
# JPEG's colours are BT.601 in full range. This filter is as exact as the scaler's accurate mode and takes 1 ms of a
# 1080p frame where that takes 16.
_JPEG_TO_BT709 = "format=yuvj420p,colorspace=iall=bt470bg:irange=pc:all=bt709:range=tv:format=yuv420p:fast=1"


def unit_options(
    spec: RenderSpec, frames: int, *, image: ImageKind, encoder: H264Encoder = "libx264"
) -> dict[str, object]:
    """Return FFmpeg's output options for one unit of a video.

    Args:
        spec: The video; its format is not one that keeps pictures.
        frames: How many frames the unit has.
        image: How its pictures arrive.
        encoder: Who encodes mp4 on this machine; libx264 does what NVENC cannot.
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
    hardware = encoder == "h264_nvenc" and _suits_nvenc(spec)
    return common | {
        "format": "mp4",
        "video_track_timescale": timescale(spec),
        "g": _ONE_GROUP,
        "flags": "+cgop+bitexact",
        **(_nvenc(spec) if hardware else _x264(spec)),
    }


def _kept_options(spec: RenderSpec, kept: KeptFrames, image: ImageKind, cells: Path, thumbnail: Path) -> list[str]:
    """Return FFmpeg's arguments of more outputs: some frames, as large as sheet and thumbnail show them."""
    options: list[str] = []
    places = () if kept.thumbnail is None else (kept.thumbnail,)
    for frames, shown, quality, target in (
        (kept.cells, cell_filter(spec), "2", cells),
        (places, thumbnail_filter(spec), "3", thumbnail),
    ):
        if not frames:
            continue
        # they are chosen behind the repeating, as the first output's are, and no others are converted
        filters = f"fps={spec.fps},select='{chosen(frames)}',{_conversion(spec, image)},{shown}"
        options += ["-map", "0:v:0", "-vf", filters, "-frames:v", str(len(frames)), "-fps_mode", "passthrough"]
        options += ["-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-q:v", quality]
        options += ["-f", "mjpeg", str(target)]
    return options


def _x264(spec: RenderSpec) -> dict[str, object]:
    return {
        "vcodec": "libx264",
        "preset": _x264_preset(spec),
        # a cut is no key frame: x264 takes a second of whole frames for the least between two, and a unit may have more
        "x264-params": f"open-gop=0:keyint=infinite:min-keyint={unit_frames(spec)}:scenecut=40",
        **({"crf": spec.crf} if spec.bitrate_kbps is None else _bitrate(spec.bitrate_kbps)),
    }


def _suits_nvenc(spec: RenderSpec) -> bool:
    """Whether NVENC takes pictures of this size and gives what was asked: it is neither lossless nor small."""
    if spec.effort not in _NVENC_PRESETS or spec.lossless:
        return False
    sides = zip(_NVENC_LEAST, spec.picture, _NVENC_MOST, strict=True)
    return all(least <= side <= most for least, side, most in sides)


def _nvenc(spec: RenderSpec) -> dict[str, object]:
    """Return NVENC's options: its scale of quality is H.264's own, and without B frames decoding has no delay."""
    return {
        "vcodec": "h264_nvenc",
        "preset": _NVENC_PRESETS[spec.effort],
        "tune": "hq",
        "profile:v": "high",
        "rc": "vbr",
        "bf": 0,
        **({"cq": spec.crf, "video_bitrate": 0} if spec.bitrate_kbps is None else _bitrate(spec.bitrate_kbps)),
    }


def _conversion(spec: RenderSpec, image: ImageKind) -> str:
    """Return the filter that makes pictures what the encoder takes."""
    if image == "jpeg":
        return _JPEG_TO_BT709
    if image == "raw":
        return _SAY_BT709
    if spec.format == "mov":
        return f"{_PNG_TO_BT709},format={'yuva444p10le' if spec.alpha else 'yuv444p10le'},{_SAY_BT709}"
    return f"{_PNG_TO_BT709},format={'yuva420p' if spec.alpha else 'yuv420p'}"


def _vp9(spec: RenderSpec) -> dict[str, object]:
    options: dict[str, object] = {
        "vcodec": "libvpx-vp9",
        "g": _ONE_GROUP,
        "deadline": "realtime" if spec.effort == "draft" else "good",
        "cpu-used": _VP9_SPEEDS[spec.effort],
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
    0.9941 on a page) in a third of the time; its files are twice as large. "ultrafast" saves half of what is left, and
    doubles them again.
    """
    if spec.effort != "fast":
        return "medium" if spec.effort == "small" else "ultrafast"
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

    def kept(self) -> KeptPictures:
        """Return what was kept, after `finish`."""
        ...

    async def close(self) -> None:
        """End what still runs; nothing happens after `finish`."""
        ...


def unit_encoder(
    spec: RenderSpec,
    frames: int,
    target: Path,
    *,
    image: ImageKind,
    encoder: H264Encoder = "libx264",
    kept: KeptFrames = _NOTHING,
) -> Encoder:
    """Return what makes a unit's file of pictures: FFmpeg, or where the format keeps them, a plain archive.

    Args:
        spec: The video.
        frames: How many frames the unit has.
        target: The file to write.
        image: What the pictures are.
        encoder: As `unit_options`.
        kept: Which frames of the unit are kept for sheet and thumbnail; none where the format keeps all.
    """
    if FORMATS[spec.format].pictures:
        return PictureUnit(target)
    return UnitEncoder(spec, frames, target, image=image, encoder=encoder, kept=kept)


class UnitEncoder:
    """An FFmpeg that takes pictures one by one and leaves a unit's file. Use `start`, `write`, `finish`, `close`.

    Args:
        spec: The video.
        frames: How many frames the unit has.
        target: The file to write.
        image: What the pictures are.
        encoder: As `unit_options`.
        kept: As `unit_encoder`.
    """

    def __init__(
        self,
        spec: RenderSpec,
        frames: int,
        target: Path,
        *,
        image: ImageKind,
        encoder: H264Encoder = "libx264",
        kept: KeptFrames = _NOTHING,
    ) -> None:
        options = unit_options(spec, frames, image=image, encoder=encoder)
        self._on_gpu = options.get("vcodec") == "h264_nvenc"
        # the header says what follows: FFmpeg encodes the first picture before it has the next twenty
        self._arguments = command_line("pipe:", {"format": "matroska", "probesize": 32}, str(target), options)
        self._cells, self._thumbnail = (target.with_name(f"{target.name}-{name}") for name in ("cells", "thumbnail"))
        self._arguments += _kept_options(spec, kept, image, self._cells, self._thumbnail)
        self._fps = spec.fps
        self._header = matroska.header(*spec.picture, spec.fps, image)
        self._target = target
        self._process: Child | None = None
        self._pipe: Pipe | None = None
        self._errors: asyncio.Task[bytes] | None = None
        self._count = 0
        self._last: bytes | None = None
        self._sent = -1

    async def start(self) -> None:
        """Start FFmpeg.

        Raises:
            Missing: It is not installed.
        """
        self._pipe = Pipe()
        process = await start("ffmpeg", self._arguments, pipe=self._pipe, heard=False)
        assert process.stderr is not None
        self._process = process
        self._errors = asyncio.create_task(process.stderr.read())
        await self._send(self._header)

    async def write(self, image: bytes) -> None:
        """Hand over the next picture; waits while FFmpeg is behind. The very object of the call before is not sent.

        Raises:
            EncodeFailed: FFmpeg has ended, or takes nothing any more.
        """
        index, self._count = self._count, self._count + 1
        if image is not self._last:
            self._last, self._sent = image, index
            await self._send(matroska.lead(index, self._fps, len(image)), image)

    async def _send(self, *parts: bytes) -> None:
        self._running()
        assert self._pipe is not None
        try:
            for part in parts:
                await self._pipe.write(part)
        except PIPE_ENDED:
            raise await self._failure() from None
        except TimeoutError:
            raise EncodeFailed("ffmpeg takes no pictures any more", retryable=True) from None

    async def finish(self) -> Path:
        """Wait until all pictures are encoded; return the unit's file.

        Raises:
            EncodeFailed: FFmpeg failed; code DISK_FULL where that is why.
        """
        process = self._running()
        assert self._pipe is not None
        if self._last is not None and self._sent < self._count - 1:  # the end has to be marked
            await self._send(matroska.lead(self._count - 1, self._fps, len(self._last)), self._last)
        self._pipe.close()  # the process ends after what it was sent
        try:
            async with asyncio.timeout(_FINISH_TIMEOUT_S):
                code = await process.wait()
        except TimeoutError:
            raise EncodeFailed(f"ffmpeg did not end in {_FINISH_TIMEOUT_S:g} s", retryable=True) from None
        assert self._errors is not None
        if code or is_full(await self._errors):
            raise await self._failure()
        return self._target

    def kept(self) -> KeptPictures:
        """Return what was kept, after `finish`; its files are removed."""
        return KeptPictures(tuple(_JPEGS.findall(_taken(self._cells))), _taken(self._thumbnail) or None)

    async def close(self) -> None:
        """End FFmpeg if it still runs; nothing happens after `finish`."""
        if self._process is not None:
            await ensure_ended(self._process)
        if self._pipe is not None:
            self._pipe.close()
        if self._errors is not None:
            await asyncio.wait({self._errors}, timeout=1)
            self._errors.cancel()

    def _running(self) -> Child:
        if self._process is None:
            raise RuntimeError("UnitEncoder.start has not been called")
        return self._process

    async def _failure(self) -> EncodeFailed:
        process = self._running()
        assert self._errors is not None
        errors = await self._errors
        await process.wait()
        failure = failed("ffmpeg", process.returncode, errors)
        # a GPU encodes so many at once: what others had may be free by the next try
        failure.retryable = failure.retryable or (self._on_gpu and failure.code == EncodeFailed.code)
        return failure


def _taken(file: Path) -> bytes:
    """Return what is in a file, and remove it; nothing where there is none."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return b""
    file.unlink()
    return data
