"""Sizes, rates and limits by name: qualities of our own, and what platforms take.

A quality fits the page's own shape; a platform has one shape, and a limit on length that is told before anything is
rendered rather than by the platform after the upload.

Source: the animation system's specification, part 7, for YouTube, Instagram Reels, TikTok and Twitter; for Shorts
YouTube's help, "Understand three-minute YouTube Shorts" (answer 15424877): square or vertical, up to three minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from koda_ray.errors import InvalidInput
from koda_ray.render.spec import PRESETS, fit_size

__all__ = ["PLATFORMS", "PRESET_NAMES", "Platform", "Shape", "check_preset", "shape_of", "within_limit"]

_CRF = 18


@dataclass(frozen=True)
class Platform:
    """What a platform shows; ``max_duration_s`` is None where there is no limit that a render could reach."""

    name: str
    width: int
    height: int
    fps: int
    max_duration_s: float | None = None


_TWITTER = Platform("X (Twitter)", 1920, 1080, 30, 140.0)
PLATFORMS: dict[str, Platform] = {
    "youtube": Platform("YouTube", 1920, 1080, 60),
    "youtube-shorts": Platform("YouTube Shorts", 1080, 1920, 60, 180.0),
    "instagram-reels": Platform("Instagram Reels", 1080, 1920, 30, 90.0),
    "tiktok": Platform("TikTok", 1080, 1920, 30, 180.0),
    "twitter": _TWITTER,
    "x": _TWITTER,
}
PRESET_NAMES: tuple[str, ...] = (*PRESETS, *PLATFORMS)


@dataclass(frozen=True)
class Shape:
    """A preset for one page: the viewport in CSS pixels, device pixels for each, frames per second, and quality."""

    width: int
    height: int
    scale: float
    fps: int
    crf: int


def check_preset(preset: str) -> str:
    """Return the preset's name.

    Raises:
        InvalidInput: There is no such preset.
    """
    if preset not in PRESET_NAMES:
        raise InvalidInput(f"preset {preset!r} is none of {', '.join(PRESET_NAMES)}", context={"field": "preset"})
    return preset


def shape_of(preset: str, page: tuple[int, int] | None) -> Shape:
    """Return what a preset means for a page.

    A page is laid out at its own size, and the preset decides how many device pixels that becomes: text and margins
    keep their proportions in a preview as in 4K. A platform of another shape than the page's gets a viewport of its
    own shape instead, and so does a page for which the scale would not give whole pixels.

    Args:
        preset: Its name.
        page: The page's own width and height in CSS pixels, where it states them.

    Raises:
        InvalidInput: There is no such preset, or the page's size is out of range.
    """
    check_preset(preset)
    if preset in PLATFORMS:
        platform = PLATFORMS[preset]
        picture, fps, crf = (platform.width, platform.height), platform.fps, _CRF
        layout = page or picture
    else:
        fields = next(found for name, found in PRESETS.items() if name == preset)
        layout = page or (1920, 1080)
        picture = fit_size(layout, short_side_px=fields.short_side_px, long_side_px=fields.long_side_px)
        fps, crf = fields.fps, fields.crf
    width, height = layout
    if Fraction(picture[0], width) == Fraction(picture[1], height):
        return Shape(width, height, picture[0] / width, fps, crf)
    return Shape(*picture, 1.0, fps, crf)


def within_limit(preset: str | None, duration_s: float, *, trim: bool) -> float:
    """Return a duration that the platform takes.

    Args:
        preset: The preset, if any; only platforms have limits.
        duration_s: What was asked for or what the page says.
        trim: Whether a longer video is cut at the limit.

    Raises:
        InvalidInput: It is longer than the limit, and was not to be cut.
    """
    platform = PLATFORMS.get(preset or "")
    limit_s = platform.max_duration_s if platform else None
    if platform is None or limit_s is None or duration_s <= limit_s:
        return duration_s
    if trim:
        return limit_s
    raise InvalidInput(
        f"{duration_s:g} s is longer than the {limit_s:g} s that {platform.name} takes (preset {preset!r}): make it "
        f"shorter with a duration of {limit_s:g}, or cut it there with trim",
        context={"field": "duration", "limit_s": limit_s, "duration_s": duration_s},
    )
