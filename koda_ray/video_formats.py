"""What goes together in a video's format: one set of rules and words, whoever is asked for the video.

The renderer refuses by it, and so does the request, before anything is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

__all__ = ["ALPHA_FORMATS", "PLAYED_FORMATS", "VideoFormat", "one_of", "why_not"]

VideoFormat = Literal["mp4", "webm", "mov", "gif", "png"]
"""Container and codec: H.264, VP9, ProRes 4444, GIF, or PNG pictures in a zip."""
ALPHA_FORMATS: tuple[VideoFormat, ...] = ("webm", "mov", "gif", "png")
PLAYED_FORMATS: tuple[VideoFormat, ...] = ("mp4", "webm")
"""What browsers play as a video."""
_GIF_MAX_FPS = 50


def why_not(
    format: VideoFormat,
    *,
    fps: float,
    alpha: bool,
    offered: Sequence[str] = get_args(VideoFormat),
    gif_fps: int = _GIF_MAX_FPS,
) -> str | None:
    """Say why there is no such video, with the way out; None where there is.

    Args:
        format: Container and codec.
        fps: Frames per second.
        alpha: Whether what is transparent shall stay so.
        offered: The formats that whoever asks may choose from.
        gif_fps: The highest rate that they may choose for a gif.
    """
    if format == "gif" and fps > _GIF_MAX_FPS:
        return (
            f"fps {fps:g}: a gif counts in hundredths of a second and players slow down at less than two of "
            f"them, so give at most {gif_fps}"
        )
    if alpha and format not in ALPHA_FORMATS:
        return f"{format} cannot be transparent: choose {one_of([each for each in ALPHA_FORMATS if each in offered])}"
    return None


def one_of(names: Sequence[str]) -> str:
    """Name some choices in a sentence."""
    return f"{', '.join(names[:-1])} or {names[-1]}"
