"""Some frames of a finished file, decoded for a look: whatever its format, and no more of it than is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from koda_ray.render.ffmpeg import QUIETLY, TALKING, UNDECODED, Conversed, converse
from koda_ray.render.pictures import sequence_feed
from koda_ray.render.spec import RenderSpec, unit_frames

__all__ = ["LISTED", "OVER_GREY", "chosen", "decoder_of", "look", "look_and_hear", "skips_to", "skips_to_units"]

LISTED = ".ffconcat"
"""How the name of a list of units ends."""
# not drawbox, which crashes on these (5.1)
OVER_GREY = "format=rgba,split[over][under];[under]lutrgb=128:128:128:255[grey];[grey][over]overlay=format=rgb"
"""The filter that shows what is transparent as grey."""
_TIMEOUT_S = 600.0
_KEYS_ALONE = ("-discard", "nokey", "-skip_frame", "nokey")
"""Nor are others read: threads would wait for each other between them. Not every demuxer discards (5.1)."""
_OF_A_LIST = ("-auto_convert", "0", *UNDECODED, "-codec_whitelist:v", "h264")
"""FFmpeg would look at the first picture of each unit before it decodes that."""


def decoder_of(spec: RenderSpec) -> list[str]:
    """Return FFmpeg's arguments before an input: its own VP9 decoder does not see transparency."""
    return ["-c:v", "libvpx-vp9"] if spec.format == "webm" and spec.alpha else []


def skips_to_units(spec: RenderSpec) -> bool:
    """Whether the first frames of units, and no others, are decoded without the rest: they are H.264's key frames.

    Of ProRes each frame is one, and FFmpeg's decoders of VP9 skip none.
    """
    return spec.format == "mp4"


def skips_to(spec: RenderSpec, frames: Sequence[int]) -> bool:
    """Whether these frames of the finished video are decoded without the rest: all are first ones of units."""
    return skips_to_units(spec) and all(frame % unit_frames(spec) == 0 for frame in frames)


async def look(spec: RenderSpec, path: Path, frames: Sequence[int], filters: str, target: Sequence[str]) -> bytes:
    """Decode some frames, and return what FFmpeg makes of them, as `look_and_hear`."""
    return (await look_and_hear(spec, path, frames, filters, target)).output


async def look_and_hear(
    spec: RenderSpec,
    path: Path,
    frames: Sequence[int],
    filters: str,
    target: Sequence[str],
    *,
    more: Sequence[str] = (),
) -> Conversed:
    """Decode some frames, and return what FFmpeg makes of them; where more is asked of it, also what it says.

    Args:
        spec: What the file is.
        path: The finished file, or a list of units, as `koda_ray.render.mux.list_units` writes it: they are the video.
        frames: Which, in order, at least one; no others are decoded where it `skips_to` them.
        filters: What is done with them; their times are not those in the video.
        target: FFmpeg's arguments of the output.
        more: And of another, whose input, number 1, is the file as well, of which nothing is decoded.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: The file cannot be decoded so far.
    """
    output = ["-an", "-fps_mode", "passthrough", *target]
    if spec.format == "png":
        feed = sequence_feed(path, frames, size=spec.picture, fps=spec.fps)
        line = [*QUIETLY, "-f", "matroska", "-i", "pipe:", "-vf", filters, *output]
        return await converse("ffmpeg", line, timeout_s=_TIMEOUT_S, feed=feed)
    inputs = [*decoder_of(spec), "-i", str(path)]
    if path.suffix == LISTED and skips_to_units(spec):
        inputs = [*_OF_A_LIST, *inputs]
    if skips_to(spec, frames):
        if frames[0]:  # half a frame late: the last key frame that is not after that is the unit's
            inputs = ["-noaccurate_seek", "-ss", f"{float((frames[0] + Fraction(1, 2)) / spec.fps):.6f}", *inputs]
        inputs = [*_KEYS_ALONE, *inputs]
        frames = _units_since(spec, frames)
    if more:
        inputs += [*UNDECODED, "-i", str(path)]
    line = [*(TALKING if more else QUIETLY), *inputs, "-map", "0:v:0", "-vf", f"select='{chosen(frames)}',{filters}"]
    return await converse("ffmpeg", [*line, *output, *more], timeout_s=_TIMEOUT_S)


def chosen(frames: Sequence[int]) -> str:
    """Return the expression that is true for some frames; decoding ends soon after the last."""
    if isinstance(frames, range):  # of hundreds, each by itself would be more than FFmpeg reads
        return f"between(n,{frames[0]},{frames[-1]})*not(mod(n-{frames[0]},{frames.step}))"
    return "+".join(f"eq(n,{frame})" for frame in frames)


def _units_since(spec: RenderSpec, frames: Sequence[int]) -> Sequence[int]:
    """Return which units frames begin, counted from the first one's."""
    step, first = unit_frames(spec), frames[0]
    if isinstance(frames, range):
        return range(0, (frames[-1] - first) // step + 1, max(1, frames.step // step))
    return [(frame - first) // step for frame in frames]
