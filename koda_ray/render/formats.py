"""What each video format is called outside: how its file ends, and what a server says that it is."""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.video_formats import VideoFormat

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """A kind of finished file.

    Args:
        extension: How its name ends, without the dot.
        media_type: Its content type.
        pictures: Whether its units are the captured pictures themselves, which the join makes the file of.
    """

    extension: str
    media_type: str
    pictures: bool = False


FORMATS: dict[VideoFormat, Format] = {
    "mp4": Format("mp4", "video/mp4"),
    "webm": Format("webm", "video/webm"),
    "mov": Format("mov", "video/quicktime"),
    "gif": Format("gif", "image/gif", pictures=True),
    "png": Format("zip", "application/zip", pictures=True),
}
