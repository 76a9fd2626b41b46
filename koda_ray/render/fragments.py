"""Stored units as fragments of one video that is not finished: a player takes them one after the other.

A fragmented file needs no table of all its frames, so it can be sent, and played, while most of it is still to be made.
The coded frames are the unit's own, copied.

Source: ISO/IEC 14496-12, section 8.8 (movie fragments).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from koda_ray.errors import EncodeFailed
from koda_ray.render.ffmpeg import QUIETLY, UNDECODED, run
from koda_ray.render.spec import RenderSpec

__all__ = ["EMPTY_BOX", "fragment_of", "padding_after"]

EMPTY_BOX = b"\0\0\0\x08free"
"""What a player passes over, as short as it can be."""


_FLAGS = "+".join(
    (
        "empty_moov",
        "default_base_moof",
        "frag_keyframe",
        "frag_discont",  # fragments keep the time that the unit has in the video
        "negative_cts_offsets",  # frames that are reordered begin when the unit does, without a list of edits
    )
)
_HEAD = (b"ftyp", b"moov")
_BODY = (b"moof", b"mdat")
_TIMEOUT_S = 60.0
_BLOCK_BYTES = 32 * 1024
_BOX_BYTES = 8
_LARGE_HEADER_BYTES = 16


async def fragment_of(spec: RenderSpec, unit: Path, start: int, *, leads: bool) -> bytes:
    """Return a unit of an mp4 as fragments.

    Args:
        spec: The video, an mp4.
        unit: The unit's file.
        start: Number of its first frame in the video.
        leads: Whether what all the video's fragments share comes before it, as it does before the first.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It failed, or the file is none of a unit.
    """
    inputs = [
        *QUIETLY,
        *UNDECODED,
        "-i",
        str(unit),
        "-map",
        "0:v:0",
        "-c",
        "copy",
        "-output_ts_offset",
        f"{spec.seconds(start):.9f}",
    ]
    made = await run("ffmpeg", [*inputs, "-movflags", _FLAGS, "-f", "mp4", "pipe:1"], timeout_s=_TIMEOUT_S)
    kept = (*_HEAD, *_BODY) if leads else _BODY  # and no index at the end
    return b"".join(box for kind, box in _boxes(made) if kind in kept)


def padding_after(sent_bytes: int) -> bytes:
    """Return a box without meaning that fills the block of so many bytes, so that its player has all of it.

    Chromium's network cache gives its player whole blocks of 32 KiB: the rest would wait for the next fragment
    (``kBlockSizeShift`` in ``media/.../url_index.cc``).
    """
    size = -sent_bytes % _BLOCK_BYTES
    size += _BLOCK_BYTES if 0 < size < _BOX_BYTES else 0
    return size.to_bytes(4) + b"free" + bytes(size - _BOX_BYTES) if size else b""


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield a file's outermost boxes: their kind, and each whole."""
    at = 0
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + _LARGE_HEADER_BYTES])
        if size < len(kind) + 4 or at + size > len(data):
            raise EncodeFailed(f"what ffmpeg wrote is no mp4: a box of {size} bytes at {at} of {len(data)}")
        yield kind, data[at : at + size]
        at += size
