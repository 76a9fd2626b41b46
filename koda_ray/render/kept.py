"""What is kept of a unit's frames as they are encoded, as large as sheet and thumbnail show them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KeptFrames", "KeptPictures"]


@dataclass(frozen=True)
class KeptFrames:
    """Which frames of a unit are kept, by their place in it: for the sheet, and for the thumbnail."""

    cells: tuple[int, ...] = ()
    thumbnail: int | None = None


@dataclass(frozen=True)
class KeptPictures:
    """What was kept of a unit, JPEGs: of each of `KeptFrames`, in order."""

    cells: tuple[bytes, ...] = ()
    thumbnail: bytes | None = None
