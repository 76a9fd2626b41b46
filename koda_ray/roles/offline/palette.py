"""Palettes: a ground, an ink and a family of colours that belong together, chosen by eye, by style."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import cast

from koda_ray.roles.offline.brief import STYLES, Style
from koda_ray.roles.offline.colour import contrast, mix, on, to_oklch

__all__ = ["AIR", "PALETTES", "SCENIC", "Palette", "ink_on"]


@dataclass(frozen=True)
class Palette:
    """Colours as ``#RRGGBB``: the ground runs from ``top`` to ``bottom`` with ``glow`` where the light falls."""

    name: str
    top: str
    bottom: str
    glow: str
    ink: str
    muted: str
    accent: str
    colours: tuple[str, ...]
    around: tuple[str, ...] = ()
    """The colours of what is not the subject, where that was given one of its own."""
    plain_ink: str | None = None
    """The ink of what is no words, where words were given another."""

    @property
    def ground(self) -> str:
        """The ground's middle, to judge contrast by."""
        return mix(self.top, self.bottom, 0.5)

    @property
    def dark(self) -> bool:
        """Whether light inks belong on this ground."""
        return to_oklch(self.ground)[0] < 0.55


def _palette(row: Mapping[str, object]) -> Palette:
    (top, bottom, glow), ink = cast("list[str]", row["ground"]), str(row["ink"])
    colours = tuple(cast("list[str]", row["colours"]))
    muted = mix(ink, mix(top, bottom, 0.5), 0.42)
    return Palette(str(row["name"]), top, bottom, glow, ink, muted, colours[0], colours)


def _palettes(kind: str) -> tuple[Palette, ...]:
    return tuple(_palette(row) for row in cast("list[Mapping[str, object]]", _DATA[kind]))


_DATA = tomllib.loads((resources.files("koda_ray.roles.offline") / "palettes.toml").read_text(encoding="utf-8"))
PALETTES: dict[Style, tuple[Palette, ...]] = {style: _palettes(style) for style in STYLES}
SCENIC = _palettes("scenic")
"""Grounds with more colour, for landscapes."""
AIR = {kind: tuple(colours) for kind, colours in cast("dict[str, list[str]]", _DATA["air"]).items()}
"""Colours of particles by kind, of those that have colours of their own."""


def ink_on(palette: Palette, ground: str) -> str:
    """Return an ink of the palette that reads on ``ground``, or black or white where none does."""
    dark = [c for c in (palette.ink, *palette.colours, palette.bottom) if to_oklch(c)[0] < 0.4]
    if contrast("#FFFFFF", ground) >= 2.6 and to_oklch(ground)[0] < 0.72:
        return "#FFFFFF"
    return next((c for c in dark if contrast(c, ground) >= 4.5), on(ground))
