"""How a bundle's page is shown, and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.render.clock import Witness

__all__ = ["PageFacts", "PageSetup"]


@dataclass(frozen=True)
class PageFacts:
    """What a ready page says of itself; None where it says nothing."""

    contract: bool
    duration_s: float | None
    fps: float | None
    width: float | None
    height: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSetup:
    """Which of a bundle's pages is shown, and how.

    Args:
        width: The viewport's width in CSS pixels.
        height: The viewport's height in CSS pixels.
        seed: Seed of the page's random numbers.
        entry: The page's path in the bundle.
        scale: Device pixels per CSS pixel; the picture is the viewport times this.
        props: JSON that the page finds as ``window.__kodaProps``.
        transparent: Whether what the page does not paint stays transparent, instead of white.
        witness: Whether it is noted what frames are drawn from, where the bundle hides none of it; ``dry`` draws no
            WebGL.
        ahead: Whether the next frame may be asked for while one is painted (`LoadedPage.go`).
    """

    width: int
    height: int
    seed: int = 1
    entry: str = "index.html"
    scale: float = 1.0
    props: str = "{}"
    transparent: bool = False
    witness: Witness | None = None
    ahead: bool = False
