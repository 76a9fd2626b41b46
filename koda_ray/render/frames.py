"""Raw frames: planes of YUV 4:2:0 in memory that a browser shares, where `interposer.c` stands before its JPEG encoder.

A picture of full HD costs a browser 10 ms of a processor to encode as JPEG, and FFmpeg as much to decode; its planes
take 1 ms. Debian's Chromium links the system's libjpeg, and so lets itself be given other functions of that name.
Whether this one does is tried, not believed: see `koda_ray.render.interposing`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

__all__ = ["RAW_QUALITY", "FrameMemory", "Interposer", "interposer_digest", "interposer_source", "suits_raw"]

RAW_QUALITY = 100
"""The JPEG quality that asks for a raw frame."""

_SLOTS = 2
_SLOT_BYTES = 8192 * 4320 * 3 // 2
_MARK = b"koda-frame "
_LEAST_DESCRIPTOR = 10  # 3 and 4 are the browser's protocol
_INSIDE = "/koda-frames.so"


@dataclass(frozen=True)
class Interposer:
    """The compiled library, or None; ``why`` says in a few words why there is none."""

    library: bytes | None = field(default=None, repr=False)
    why: str = ""

    def __str__(self) -> str:
        return "raw frames" if self.library else f"JPEG frames ({self.why})" if self.why else "JPEG frames"


def suits_raw(width: int, height: int) -> bool:
    """Whether a picture of this size, in pixels, can come out raw: halved chroma takes even sides."""
    return width % 2 == 0 and height % 2 == 0 and width * height * 3 // 2 <= _SLOT_BYTES


def interposer_source() -> bytes:
    """Return the C source of the library that a browser is given."""
    return files("koda_ray.render").joinpath("interposer.c").read_bytes()


@cache
def interposer_digest() -> str:
    """Return what names the source: pixels may change where it does."""
    return hashlib.sha256(interposer_source()).hexdigest()[:16]


class FrameMemory:
    """Memory into which one browser writes its frames. Only what is written takes room. Close it when done.

    Args:
        library: The interposer, compiled.
        folder: Where it is put for the browser, which can walk that folder.
    """

    def __init__(self, library: bytes, folder: Path) -> None:
        self._library = folder / "frames.so"
        self._library.write_bytes(library)
        self._library.chmod(0o644)
        made = os.memfd_create("koda-frames")
        try:
            self.descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
        finally:
            os.close(made)
        os.ftruncate(self.descriptor, _SLOTS * _SLOT_BYTES)
        self._memory = mmap.mmap(self.descriptor, _SLOTS * _SLOT_BYTES)

    def arguments(self) -> list[str]:
        """Return bubblewrap's arguments that give it to the browser, which must inherit `descriptor`."""
        return [
            *("--ro-bind", str(self._library), _INSIDE),
            *("--setenv", "LD_PRELOAD", _INSIDE, "--setenv", "INTERPOSER_FD", str(self.descriptor)),
        ]

    def started(self) -> None:
        """Let go of the descriptor once the browser has it."""
        os.close(self.descriptor)
        self.descriptor = -1

    def read(self, picture: bytes) -> bytes | None:
        """Return the frame that a picture stands for: Y, U and V, a plane after the other; None where it is a JPEG.

        Args:
            picture: What came as the picture's bytes.
        """
        if not picture.startswith(_MARK):
            return None
        at, width, height = map(int, picture[len(_MARK) :].split())
        return self._memory[at : at + width * height * 3 // 2]

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
        if self.descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self.descriptor)
            self.descriptor = -1
