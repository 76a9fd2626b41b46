"""The gate before a video is announced: what FFmpeg left is measured, not believed.

Exit code 0 is not success. The file's frames are counted, their times checked, some of them looked at; a video that
is black throughout, or still where the plan moves, is refused with what was seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from koda_ray.errors import QualityRejected
from koda_ray.render.ffmpeg import command_line, run
from koda_ray.render.spec import RenderSpec

__all__ = ["VideoFacts", "check_video", "probe_video"]

_TIMEOUT_S = 600.0
_LOOKS_PER_S = 4
_LOOK_WIDTH, _LOOK_HEIGHT = 64, 36
_BLACK_LEVEL = 24
_WEBM_ROUNDING_S = 0.0011


@dataclass(frozen=True)
class VideoFacts:
    """What a file holds; seconds and pixels. ``times_s`` are the frames' presentation times, sorted."""

    width: int
    height: int
    codec: str
    colors: str
    duration_s: float
    times_s: tuple[float, ...]


async def probe_video(path: Path) -> VideoFacts:
    """Read a video's facts from its packets.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It cannot read the file.
        QualityRejected: There is no picture in it.
    """
    entries = "stream=codec_name,width,height,color_space,color_range:format=duration:packet=pts_time"
    arguments = ["-v", "error", "-select_streams", "v:0", "-show_entries", entries, "-of", "json", str(path)]
    found = cast("dict[str, object]", json.loads(await run("ffprobe", arguments, timeout_s=_TIMEOUT_S)))
    streams = cast("list[dict[str, object]]", found.get("streams") or [])
    if not streams:
        raise QualityRejected(f"{path.name} has no video stream")
    stream = streams[0]
    container = cast("dict[str, str]", found.get("format") or {})
    packets = cast("list[dict[str, str]]", found.get("packets") or [])
    return VideoFacts(
        width=int(cast("int", stream["width"])),
        height=int(cast("int", stream["height"])),
        codec=str(stream["codec_name"]),
        colors=f"{stream.get('color_space', 'unknown')}/{stream.get('color_range', 'unknown')}",
        duration_s=float(container.get("duration", "nan")),
        times_s=tuple(sorted(float(packet["pts_time"]) for packet in packets if "pts_time" in packet)),
    )


async def check_video(spec: RenderSpec, path: Path, frame_hashes: Sequence[str]) -> VideoFacts:
    """Refuse a finished video that is not what was asked.

    Args:
        spec: What was asked.
        path: The video.
        frame_hashes: Of the captured pictures, in order.

    Raises:
        QualityRejected: The message says what is wrong and what was seen.
        EncodeFailed: The file cannot be decoded to its end.
    """
    facts = await probe_video(path)
    wanted = spec.frame_count
    if len(facts.times_s) != wanted or len(frame_hashes) != wanted:
        raise QualityRejected(
            f"the video has {len(facts.times_s)} frames and {len(frame_hashes)} were captured; {wanted} were asked for"
        )
    if (facts.width, facts.height) != spec.picture:
        asked = "x".join(map(str, spec.picture))
        raise QualityRejected(f"the video is {facts.width}x{facts.height}; {asked} was asked for")
    step = spec.seconds(1)
    slack = _WEBM_ROUNDING_S if spec.format == "webm" else step / 100
    for index, time_s in enumerate(facts.times_s):
        if abs(time_s - facts.times_s[0] - index * step) > slack:
            raise QualityRejected(f"frame {index} lies at {time_s:.4f} s; {index * step:.4f} s was asked for")
    if not abs(facts.duration_s - wanted * step) <= step:
        raise QualityRejected(f"the video lasts {facts.duration_s:.3f} s; {wanted * step:.3f} s was asked for")
    if spec.moves and wanted > 1 and len(set(frame_hashes)) == 1:
        raise QualityRejected("every frame is the same picture, and the plan moves: the page does not animate")
    brightest = await _brightest(spec, path)
    if brightest < _BLACK_LEVEL:
        raise QualityRejected(f"the video is black throughout (brightest level seen: {brightest} of 255)")
    return facts


async def _brightest(spec: RenderSpec, path: Path) -> int:
    """Decode the whole file, look at four frames a second, and return the highest level of grey."""
    every = max(1, round(spec.fps / _LOOKS_PER_S))
    filters = f"select='not(mod(n,{every}))',scale={_LOOK_WIDTH}:{_LOOK_HEIGHT}:out_range=pc,format=gray"
    options: dict[str, object] = {"vf": filters, "fps_mode": "passthrough", "format": "rawvideo"}
    pixels = await run("ffmpeg", command_line(str(path), {}, "pipe:", options), timeout_s=_TIMEOUT_S)
    return max(pixels, default=0)
