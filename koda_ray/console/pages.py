"""Words on the command line become a render: sizes, rates, data, and what the video is called."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from koda_ray.console.rendering import Face, PageJob, render_batch, render_one
from koda_ray.errors import InvalidInput
from koda_ray.render.api import SUFFIXES
from koda_ray.render.rows import Row, read_props
from koda_ray.render.spec import Effort, VideoFormat

__all__ = ["read_bitrate", "read_effort", "read_format", "read_size", "render_page", "usual_out"]

_SIZE = re.compile(r"(\d{1,6})\s*[xX×*]\s*(\d{1,6})")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)(?:bit/s|bps)?")
_ENDINGS = {format: suffix for suffix, format in SUFFIXES.items()}


def render_page(job: PageJob, out: str | None, *, props: str | None, face: Face) -> None:
    """Render a page, or one video for each row of its data, and show it.

    Args:
        job: The page, and what is wanted of it.
        out: The video's name; for a batch, with fields of the row in braces.
        props: The data's file.
        face: How it is shown.

    Raises:
        KodaError: As `koda_ray.render.api.render`.
        Left: It was interrupted, or a row failed.
    """
    data = None if props is None else read_props(props)
    batch = isinstance(data, list)
    name = out or usual_out(job.page, job.options.get("format", "mp4"), batch=batch)
    if batch:
        render_batch(job, name, cast("list[Row]", data), face)
        return
    if data is not None:
        job = replace(job, options={**job.options, "props": data})
    render_one(job, Path(name), face)


def usual_out(path: Path, format: VideoFormat, *, batch: bool) -> str:
    """Return what a video is called when nobody says: after its page, in the current folder."""
    whole = path.absolute()
    if whole.stem in ("dist", "build", "index") and whole.parent.name:
        whole = whole.parent
        whole = whole.parent if whole.name in ("dist", "build") else whole
    stem = (whole.stem or "video").replace("{", "").replace("}", "")
    return f"{stem}{'-{index}' if batch else ''}{_ENDINGS[format]}"


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
    """Read ``8M``, ``800k`` or a number of kilobits per second.

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
