"""Pictures with their times, for FFmpeg's standard input: as much Matroska as one video track of pictures needs.

A bare sequence of pictures has no times, so a picture that stands for a second would have to be sent, decoded and
converted once a frame. With times it is sent once, and FFmpeg repeats it behind the decoder.

Source: RFC 9559 (Matroska), RFC 8794 (EBML).
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Literal

__all__ = ["TICKS_PER_S", "ImageKind", "header", "lead"]

ImageKind = Literal["png", "jpeg", "raw"]
"""How pictures travel from browser to encoder; raw ones are planes of YUV 4:2:0, BT.709 in studio range."""

TICKS_PER_S = 1_000_000
"""How finely times are written: FFmpeg's frame filter finds the frame from times that are half a tick off."""

_UNKNOWN = b"\x01\xff\xff\xff\xff\xff\xff\xff"
_BITMAP_HEADER_BYTES = 40


def header(width: int, height: int, fps: Fraction, image: ImageKind) -> bytes:
    """Return the beginning of a stream.

    Args:
        width: Of the pictures, in pixels.
        height: The same.
        fps: Frames per second.
        image: How the pictures are encoded.
    """
    codec = [_element(0x86, b"V_MJPEG")]
    if image == "png":
        fields = (_BITMAP_HEADER_BYTES, width, height, 1, 32, b"MPNG", 0, 0, 0, 0, 0)
        codec = [_element(0x86, b"V_MS/VFW/FOURCC"), _element(0x63A2, struct.pack("<IiiHH4sIiiII", *fields))]
    shape = _element(0xB0, _uint(width)) + _element(0xBA, _uint(height))
    if image == "raw":
        codec, shape = [_element(0x86, b"V_UNCOMPRESSED")], shape + _element(0x2EB524, b"I420")
    track = [
        _element(0xD7, _uint(1)),  # number
        _element(0x73C5, _uint(1)),  # UID
        _element(0x83, _uint(1)),  # video
        _element(0x9C, _uint(0)),  # no lacing
        _element(0x23E383, _uint(round(1_000_000_000 / fps))),  # duration of a frame, in ns
        *codec,
        _element(0xE0, shape),
    ]
    names = _element(0x4D80, b"koda") + _element(0x5741, b"koda")
    return b"".join(
        (
            _element(
                0x1A45DFA3, _element(0x4282, b"matroska") + _element(0x4287, _uint(4)) + _element(0x4285, _uint(2))
            ),
            b"\x18\x53\x80\x67" + _UNKNOWN,  # the segment, which ends with the stream
            _element(0x1549A966, _element(0x2AD7B1, _uint(1_000_000_000 // TICKS_PER_S)) + names),
            _element(0x1654AE6B, _element(0xAE, b"".join(track))),
        )
    )


def lead(index: int, fps: Fraction, data_bytes: int) -> bytes:
    """Return what goes before the bytes of one picture, which is shown from frame ``index`` on.

    Args:
        index: The frame's.
        fps: Frames per second.
        data_bytes: How long the picture is.
    """
    time = _element(0xE7, _uint(round(index * TICKS_PER_S / fps)))
    block = b"\x81\x00\x00\x80"  # track 1, at the cluster's time, a key frame
    before = time + _begin(0xA3, len(block) + data_bytes) + block
    return _begin(0x1F43B675, len(before) + data_bytes) + before


def _element(identifier: int, data: bytes) -> bytes:
    return _begin(identifier, len(data)) + data


def _begin(identifier: int, data_bytes: int) -> bytes:
    name = identifier.to_bytes((identifier.bit_length() + 7) // 8, "big")
    return name + (data_bytes | 1 << 56).to_bytes(8, "big")


def _uint(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
