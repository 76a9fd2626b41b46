"""How far a picture is from its reference: over all, and where it is worst.

A small thing that is missing hardly moves the PSNR of a whole picture, so the worst square of 16 pixels has a bar of
its own. Squares are compared after halving the size: how edges and letters are smoothed differs between browsers, and
is no fault; a shape, a colour or a place that is another is seen as well as before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

__all__ = ["OVERALL_DB", "SQUARE_DB", "Difference", "as_array", "contact_sheet", "difference", "side_by_side"]

OVERALL_DB = 34.0
SQUARE_DB = 22.0
SQUARE_PX = 16
SAME_DB = 99.0
_CHECK = (200, 235)

Pixels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """What was measured.

    Args:
        overall_db: PSNR of the whole picture, 99 where it is the same.
        square_db: PSNR of its worst square.
        at: That square's left upper corner, in pixels.
    """

    overall_db: float
    square_db: float
    at: tuple[int, int]

    @property
    def same(self) -> bool:
        """Whether the picture shows what the reference shows."""
        return self.overall_db >= OVERALL_DB and self.square_db >= SQUARE_DB

    def __str__(self) -> str:
        where = f"{self.square_db:.1f} dB in the square at {self.at} (bar {SQUARE_DB:g})"
        return f"{self.overall_db:.1f} dB over all (bar {OVERALL_DB:g}), {where}"


def as_array(image: Image.Image) -> Pixels:
    """Return a picture as (height, width, 4): red, green and blue as far as they are seen, then alpha, 0 to 255."""
    pixels = np.asarray(image.convert("RGBA"), dtype=np.float64).copy()
    pixels[..., :3] *= pixels[..., 3:] / 255
    return pixels


def difference(one: Image.Image, other: Image.Image) -> Difference:
    """Compare two pictures; those of different sizes have nothing in common."""
    if one.size != other.size:
        return Difference(0, 0, (0, 0))
    a, b = as_array(one), as_array(other)
    if a[..., 3].min() == 255 == b[..., 3].min():
        a, b = a[..., :3], b[..., :3]
    half = SQUARE_PX // 2
    errors = ((_halved(a) - _halved(b)) ** 2).mean(axis=-1)
    # overlapping squares, so that nothing small hides on a seam
    squares = np.lib.stride_tricks.sliding_window_view(errors, (half, half))[:: half // 2, :: half // 2].mean(
        axis=(-1, -2)
    )
    row, column = np.unravel_index(int(squares.argmax()), squares.shape)
    corner = int(column) * half, int(row) * half
    return Difference(_db(float(((a - b) ** 2).mean())), _db(float(squares.max())), corner)


def _halved(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[0] // 2 * 2, pixels.shape[1] // 2 * 2
    return pixels[:height, :width].reshape(height // 2, 2, width // 2, 2, -1).mean(axis=(1, 3))


def _db(error: float) -> float:
    return min(SAME_DB, 10 * math.log10(255**2 / error)) if error else SAME_DB


def _opaque(image: Image.Image) -> Image.Image:
    """Show a transparent picture on a chequered ground."""
    if image.mode != "RGBA":
        return image.convert("RGB")
    y, x = np.mgrid[0 : image.height, 0 : image.width] // 8
    ground = np.where((x + y) % 2, *_CHECK).astype(np.uint8)
    return Image.alpha_composite(Image.fromarray(ground).convert("RGBA"), image).convert("RGB")


def side_by_side(actual: Image.Image, reference: Image.Image, path: Path) -> None:
    """Write the picture, its reference and four times their difference."""
    reference = reference.resize(actual.size) if reference.size != actual.size else reference
    apart = np.abs(as_array(actual) - as_array(reference)).max(axis=-1)
    shown = Image.fromarray(np.minimum(apart * 4, 255).astype(np.uint8))
    _grid([("actual", actual), ("reference", reference), ("difference x4", shown)], columns=3).save(path)


def contact_sheet(pictures: list[tuple[str, Image.Image]], path: Path, columns: int = 4) -> None:
    """Write all pictures with their names under each other."""
    _grid(pictures, columns=columns).save(path)


def _grid(pictures: list[tuple[str, Image.Image]], *, columns: int) -> Image.Image:
    width, height = (max(image.size[i] for _, image in pictures) + 6 for i in (0, 1))
    height += 12
    rows = math.ceil(len(pictures) / columns)
    sheet = Image.new("RGB", (width * columns, height * rows), (60, 60, 60))
    pen = ImageDraw.Draw(sheet)
    for i, (name, image) in enumerate(pictures):
        x, y = i % columns * width, i // columns * height
        pen.text((x + 3, y), name, fill=(255, 255, 255))
        sheet.paste(_opaque(image), (x + 3, y + 13))
    return sheet
