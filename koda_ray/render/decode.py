"""Some frames of a finished file, decoded for a look: whatever its format, and no more of it than is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from koda_ray.render.ffmpeg import QUIETLY, TALKING, UNDECODED, Conversed, converse
from koda_ray.render.pictures import sequence_feed
from koda_ray.render.spec import RenderSpec, unit_frames

__all__ = ["OVER_GREY", "chosen", "decoder_of", "look", "look_and_hear", "skips_to_units"]

# not drawbox, which crashes on these (5.1)
OVER_GREY = "format=rgba,split[over][under];[under]lutrgb=128:128:128:255[grey];[grey][over]overlay=format=rgb"
"""The filter that shows what is transparent as grey."""
_TIMEOUT_S = 600.0


def decoder_of(spec: RenderSpec) -> list[str]:
    """Return FFmpeg's arguments before an input: its own VP9 decoder does not see transparency."""
    return ["-c:v", "libvpx-vp9"] if spec.format == "webm" and spec.alpha else []


def skips_to_units(spec: RenderSpec) -> bool:
    """Whether the first frames of units, and no others, are decoded without the rest: they are H.264's key frames.

    Of ProRes each frame is one, and FFmpeg's decoders of VP9 skip none.
    """
    return spec.format == "mp4"


async def look(
    spec: RenderSpec, path: Path, frames: Sequence[int] | None, filters: str, target: Sequence[str]
) -> bytes:
    """Decode some frames, and return what FFmpeg makes of them, as `look_and_hear`."""
    return (await look_and_hear(spec, path, frames, filters, target)).output


async def look_and_hear(
    spec: RenderSpec,
    path: Path,
    frames: Sequence[int] | None,
    filters: str,
    target: Sequence[str],
    *,
    more: Callable[[int], list[str]] | None = None,
) -> Conversed:
    """Decode some frames, and return what FFmpeg makes of them; where more is asked of it, also what it says.

    Args:
        spec: What the file is.
        path: The finished file.
        frames: Which, in order; None for the first of each unit, without decoding any other where it `skips_to_units`.
        filters: What is done with them; times are those in the video.
        target: FFmpeg's arguments of the output.
        more: And of another, whose input, of this number, is the file as well, of which nothing is decoded.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: The file cannot be decoded so far.
    """
    output = ["-an", "-fps_mode", "passthrough", *target]
    firsts = range(0, spec.frame_count, unit_frames(spec))
    if spec.format == "png":
        feed = sequence_feed(path, firsts if frames is None else frames, size=spec.picture, fps=spec.fps)
        line = [*QUIETLY, "-f", "matroska", "-i", "pipe:", "-vf", filters, *output]
        return await converse("ffmpeg", line, timeout_s=_TIMEOUT_S, feed=feed)
    inputs = [*decoder_of(spec), "-i", str(path)]
    if frames is None and skips_to_units(spec):  # nor are others read: threads would wait for each other between them
        inputs = ["-discard", "nokey", "-skip_frame", "nokey", *inputs]
    else:
        filters = f"select='{chosen(firsts if frames is None else frames)}',{filters}"
    if more is not None:
        inputs += [*UNDECODED, "-i", str(path)]
        output += more(1)
    line = [*(QUIETLY if more is None else TALKING), *inputs, "-map", "0:v:0", "-vf", filters, *output]
    return await converse("ffmpeg", line, timeout_s=_TIMEOUT_S)


def chosen(frames: Sequence[int]) -> str:
    """Return the expression that is true for some frames; decoding ends soon after the last."""
    if isinstance(frames, range):
        return f"between(n,{frames[0]},{frames[-1]})*not(mod(n-{frames[0]},{frames.step}))"
    return "+".join(f"eq(n,{frame})" for frame in frames)
