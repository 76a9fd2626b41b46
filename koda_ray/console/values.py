"""Values on the command line, as they are written there: sizes, rates, formats."""

from __future__ import annotations

import re
from typing import cast, get_args

from koda_ray.errors import InvalidInput
from koda_ray.render.spec import Effort
from koda_ray.video_formats import VideoFormat

__all__ = ["read_bitrate", "read_effort", "read_format", "read_size"]

_SIZE = re.compile(r"(\d{1,6})\s*[xX×*]\s*(\d{1,6})")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)(?:bit/s|bps)?")


def read_size(text: str | None) -> tuple[int, int] | None:
    """Read ``1920x1080``.

    Raises:
        InvalidInput: It is not of that form.
    """
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"size {text!r}: give width and height in pixels, such as 1920x1080")
    return int(found[1]), int(found[2])


def read_bitrate(text: str | None) -> int | None:
    """Read ``8M``, ``800k`` or a number of kilobits per second, and return kilobits per second.

    Raises:
        InvalidInput: It is none of these.
    """
    if text is None:
        return None
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"bitrate {text!r}: give it as 8M, 800k or a number of kilobits per second")
    return round(float(found[1]) * (1000 if found[2] in ("m", "M") else 1))


def read_format(text: str | None) -> VideoFormat | None:
    """Read a format's name.

    Raises:
        InvalidInput: There is no such format.
    """
    if text is not None and text not in get_args(VideoFormat):
        raise InvalidInput(f"format {text!r} is none of {', '.join(get_args(VideoFormat))}")
    return cast("VideoFormat | None", text)


def read_effort(text: str) -> Effort:
    """Read an effort's name.

    Raises:
        InvalidInput: There is no such effort.
    """
    if text not in get_args(Effort):
        raise InvalidInput(f"effort {text!r} is none of {', '.join(get_args(Effort))}")
    return cast("Effort", text)
