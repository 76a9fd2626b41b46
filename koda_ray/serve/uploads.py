"""What may be uploaded: pictures, films and sound, told by their first bytes, and never by what they say they are.

A file that says it is one thing and is another is refused: whoever made it was mistaken or wants something. SVG is
refused because it is a program: it can hold scripts and fetch other files.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from koda_ray.errors import InvalidInput

__all__ = ["SNIFF_BYTES", "TYPES", "MediaType", "UnsupportedType", "check_type", "clean_name", "sniff"]

SNIFF_BYTES = 64
"""How much of a file's beginning `sniff` looks at."""

_NAME_CHARS = 100
_SVG = re.compile(rb"^\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE\s+svg|<svg)", re.IGNORECASE | re.DOTALL)
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "video/x-m4v": "video/mp4",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/opus": "audio/ogg",
    "application/ogg": "audio/ogg",
}
_UNSAID = {"", "application/octet-stream", "binary/octet-stream"}


class UnsupportedType(InvalidInput):
    """A file that is no picture, film or sound, or not the one it says it is."""

    code = "UNSUPPORTED_TYPE"
    status = 415


@dataclass(frozen=True)
class MediaType:
    """A kind of file that is taken; ``extension`` without the dot."""

    name: str
    kind: Literal["image", "video", "audio"]
    extension: str


_PNG = MediaType("image/png", "image", "png")
_JPEG = MediaType("image/jpeg", "image", "jpg")
_GIF = MediaType("image/gif", "image", "gif")
_WEBP = MediaType("image/webp", "image", "webp")
_AVIF = MediaType("image/avif", "image", "avif")
_MP4 = MediaType("video/mp4", "video", "mp4")
_WEBM = MediaType("video/webm", "video", "webm")
_MP3 = MediaType("audio/mpeg", "audio", "mp3")
_WAV = MediaType("audio/wav", "audio", "wav")
_OGG = MediaType("audio/ogg", "audio", "ogg")
_FLAC = MediaType("audio/flac", "audio", "flac")
_M4A = MediaType("audio/mp4", "audio", "m4a")
_AAC = MediaType("audio/aac", "audio", "aac")
TYPES = tuple(each.name for each in (_PNG, _JPEG, _GIF, _WEBP, _AVIF, _MP4, _WEBM, _MP3, _WAV, _OGG, _FLAC, _M4A, _AAC))
"""What a file that is kept may be."""
_SOUNDS = (".m4a", ".m4b")
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), _AVIF),
    **dict.fromkeys((b"M4A ", b"M4B "), _M4A),
    **dict.fromkeys((b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"M4V ", b"MSNV"), _MP4),
}


def sniff(head: bytes) -> MediaType | None:
    """Tell a file by its first bytes; None for anything that is not taken.

    Source: WHATWG MIME Sniffing, section 6; ISO/IEC 13818-7 (ADTS) and 14496-12 (ftyp brands); RFC 8794 (EBML).
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _PNG
    if head.startswith(b"\xff\xd8\xff"):
        return _JPEG
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return _GIF
    if head[:4] == b"RIFF":
        return {b"WEBP": _WEBP, b"WAVE": _WAV}.get(head[8:12])
    if head.startswith(b"OggS"):
        return _OGG
    if head.startswith(b"fLaC"):
        return _FLAC
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12])
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return _WEBM if b"webm" in head else None
    if head.startswith(b"ID3"):
        return _MP3
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return _AAC
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[1] & 0x06:
        return _MP3
    return None


def check_type(head: bytes, *, name: str, declared: str | None) -> MediaType:
    """Return what a file is, if it is taken and is what it says it is.

    Args:
        head: Its first `SNIFF_BYTES` bytes, or all of a shorter one.
        name: Its name, for the message.
        declared: The media type that came with it.

    Raises:
        UnsupportedType: It is empty, SVG, something else, or not what was declared.
    """
    if not head:
        raise UnsupportedType(f"{name!r} is empty; send a picture, a film or a sound")
    if _SVG.match(head) or (declared or "").startswith("image/svg"):
        raise UnsupportedType(f"{name!r} is SVG, which can hold programs and is not taken; export it as PNG")
    found = sniff(head)
    if found is None:
        raise UnsupportedType(
            f"{name!r} is no picture, film or sound that is taken: PNG, JPEG, GIF, WebP, AVIF, MP4, WebM, MP3, WAV, "
            "Ogg, FLAC, M4A or AAC"
        )
    said = (declared or "").partition(";")[0].strip().lower()
    if found is _MP4 and (_ALIASES.get(said, said) == _M4A.name or name.lower().endswith(_SOUNDS)):
        found = _M4A  # both are boxes of one kind, and what is in them is told further on
    if said not in _UNSAID and _ALIASES.get(said, said) != found.name:
        raise UnsupportedType(
            f"{name!r} says it is {said} and is {found.name}; send it as what it is",
            context={"declared": said, "found": found.name},
        )
    return found


def clean_name(name: str | None, media_type: MediaType) -> str:
    """Make a file name that is safe as a path component and in a URL's last part, with the right extension."""
    base = unicodedata.normalize("NFC", name or "").replace("\\", "/").rpartition("/")[2]
    stem = base.rpartition(".")[0] or base
    stem = re.sub(r"[^\w.-]+", "-", stem).strip(".-")
    while len(stem.encode()) > _NAME_CHARS:
        stem = stem[:-1]
    return f"{stem or media_type.kind}.{media_type.extension}"
