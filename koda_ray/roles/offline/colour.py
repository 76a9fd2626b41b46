"""Colour arithmetic in OKLCH, where equal steps look equal, so that a palette can be made from one colour.

Source: Ottosson, "A perceptual color space for image processing" (2020), the Oklab matrices; WCAG 2.2 for contrast.
"""

from __future__ import annotations

import math
import re

__all__ = ["HEX", "contrast", "from_oklch", "mix", "on", "parse_hex", "shift", "to_oklch", "with_contrast"]

HEX = re.compile(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b")


def parse_hex(text: str) -> str:
    """Return ``#RGB`` or ``#RRGGBB`` as upper-case ``#RRGGBB``."""
    digits = text.lstrip("#")
    if len(digits) == 3:
        digits = "".join(d * 2 for d in digits)
    return "#" + digits.upper()


def _linear(hex_: str) -> tuple[float, float, float]:
    values = [int(hex_[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return r, g, b


def to_oklch(hex_: str) -> tuple[float, float, float]:
    """Return lightness 0 to 1, chroma (0 to about 0.37) and hue in degrees."""
    r, g, b = _linear(hex_)
    l_ = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    m_ = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    s_ = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    lightness = 0.2104542553 * l_ + 0.7936177850 * m_ - 0.0040720468 * s_
    a = 1.9779984951 * l_ - 2.4285922050 * m_ + 0.4505937099 * s_
    bb = 0.0259040371 * l_ + 0.7827717662 * m_ - 0.8086757660 * s_
    return lightness, math.hypot(a, bb), math.degrees(math.atan2(bb, a)) % 360


def _rgb(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    l_ = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m_ = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s_ = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * l_ - 3.3077115913 * m_ + 0.2309699292 * s_,
        -1.2684380046 * l_ + 2.6097574011 * m_ - 0.3413193965 * s_,
        -0.0041960863 * l_ - 0.7034186147 * m_ + 1.7076147010 * s_,
    )


def from_oklch(lightness: float, chroma: float, hue: float) -> str:
    """Return the nearest ``#RRGGBB``: chroma gives way until the colour fits the screen's gamut."""
    lightness = max(0.0, min(1.0, lightness))
    while chroma > 0.0005:
        if all(-0.0005 <= v <= 1.0005 for v in _rgb(lightness, chroma, hue)):
            break
        chroma *= 0.96
    else:
        chroma = 0.0
    out = "#"
    for v in _rgb(lightness, chroma, hue):
        v = max(0.0, min(1.0, v))
        s = 12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055
        out += f"{round(s * 255):02X}"
    return out


def shift(hex_: str, *, lightness: float = 0.0, chroma: float = 1.0, hue: float = 0.0) -> str:
    """Move a colour: lightness is added, chroma multiplied, hue turned by degrees."""
    lo, c, h = to_oklch(hex_)
    return from_oklch(lo + lightness, c * chroma, (h + hue) % 360)


def mix(a: str, b: str, share: float) -> str:
    """Return ``a`` with ``share`` (0 to 1) of ``b`` in it, mixed in Oklab."""
    la, ca, ha = to_oklch(a)
    lb, cb, hb = to_oklch(b)
    ax, ay = ca * math.cos(math.radians(ha)), ca * math.sin(math.radians(ha))
    bx, by = cb * math.cos(math.radians(hb)), cb * math.sin(math.radians(hb))
    x, y = ax + (bx - ax) * share, ay + (by - ay) * share
    return from_oklch(la + (lb - la) * share, math.hypot(x, y), math.degrees(math.atan2(y, x)) % 360)


def _luminance(hex_: str) -> float:
    r, g, b = _linear(hex_)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    """Return the WCAG contrast ratio, 1 to 21."""
    la, lb = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (la + 0.05) / (lb + 0.05)


def on(background: str, *, dark: str = "#15161A", light: str = "#FFFFFF") -> str:
    """Return whichever ink reads better on ``background``."""
    return light if contrast(light, background) * 1.15 >= contrast(dark, background) else dark


def with_contrast(colour: str, background: str, *, least: float) -> str:
    """Return ``colour``, lightened or darkened only as far as it takes to stand off ``background``."""
    if contrast(colour, background) >= least:
        return colour
    lightness, chroma, hue = to_oklch(colour)
    step = 0.02 if _luminance(background) < 0.28 else -0.02
    for _ in range(45):
        lightness += step
        candidate = from_oklch(lightness, chroma, hue)
        if contrast(candidate, background) >= least:
            return candidate
        if not 0.02 < lightness < 0.99:
            break
    return on(background)
