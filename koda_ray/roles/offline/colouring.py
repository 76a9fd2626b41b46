"""The palette of a brief: its style's, by the prompt's seed, with the colours that were asked for in place.

What a person asks for ("blue", "on black") replaces a part, and the rest is moved in OKLCH until it harmonises and
reads.
"""

from __future__ import annotations

from dataclasses import replace

from koda_ray.roles.offline.brief import STYLES, Brief
from koda_ray.roles.offline.colour import contrast, from_oklch, mix, on, shift, to_oklch, with_contrast
from koda_ray.roles.offline.palette import PALETTES, SCENIC, Palette
from koda_ray.roles.offline.subject import subject_of

__all__ = ["painted", "palette_for"]

_FAMILY = 6
"""Colours of a family."""
_DARKEST, _LIGHTEST = 0.3, 0.94
"""How dark and how light a shade may be, in OKLCH's lightness."""


def _recoloured(palette: Palette, accent: str, named: tuple[str, ...]) -> Palette:
    """Build the colour family from the asked colours: they hold for all that there is several of, and so no other does.

    What there is more of than colours were asked for comes in shades of them, in turn.
    """
    asked = named if len(named) > 1 else (accent,)
    shades = [_shades(colour) for colour in asked]
    family = [*asked, *(each[i] for i in range(_FAMILY) for each in shades)]
    return replace(palette, accent=accent, colours=tuple(dict.fromkeys(family))[: max(_FAMILY, len(asked))])


def _shades(colour: str) -> list[str]:
    """Return shades of a colour: its hue, lighter and darker in turn, as far as there is room to either side."""
    lightness, chroma, hue = to_oklch(colour)
    found: list[str] = []
    for step in (0.12, -0.1, 0.2, -0.18, 0.06, -0.26):
        to = lightness + step
        if not _DARKEST <= to <= _LIGHTEST:
            to = lightness - step * 0.8
        found.append(from_oklch(to, chroma * (0.8 if to > lightness else 1.0), hue))
    return found


def _turn(a: float, b: float) -> float:
    return (a - b + 180) % 360 - 180


def _grounded(palette: Palette, ground: str) -> Palette:
    """Replace the ground: a soft gradient around the asked colour, and an ink that reads on it."""
    lightness, chroma, hue = to_oklch(ground)
    if chroma < 0.01:
        top, bottom = shift(ground, lightness=0.03), shift(ground, lightness=-0.03)
        glow = shift(ground, lightness=0.1 if lightness < 0.5 else 0.04)
    else:
        top = from_oklch(lightness + 0.05, chroma * 0.92, hue)
        bottom = from_oklch(lightness - 0.06, chroma, (hue - 6) % 360)
        glow = from_oklch(min(0.97, lightness + 0.14), chroma * 0.7, (hue + 8) % 360)
    ink = on(ground, dark=from_oklch(0.2, min(0.06, chroma), hue), light="#FFFFFF")
    return replace(palette, top=top, bottom=bottom, glow=glow, ink=ink, muted=mix(ink, ground, 0.38))


def _toned(palette: Palette, tone: float) -> Palette:
    def moved(colour: str) -> str:
        return shift(colour, lightness=tone)

    return replace(palette, top=moved(palette.top), bottom=moved(palette.bottom), glow=moved(palette.glow))


def _family(brief: Brief) -> tuple[Palette, ...]:
    """Return the palettes to choose from: the style's, or those that the subject needs."""
    if brief.background is None:
        subject = subject_of(brief)
        needed = subject.palettes(brief)
        if needed:
            return tuple(p for style in STYLES for p in PALETTES[style] if p.name in needed)
        if brief.style == "smooth" and subject.scenic:
            return SCENIC
    return PALETTES[brief.style]


def _dark_one_below(brief: Brief) -> Brief:
    """Take the dark one of several named colours as the ground of dark words: "dark blue and gold" is gold on blue."""
    if brief.background is None and brief.style == "cinematic" and subject_of(brief).dark_words:
        for dark in brief.colours:
            bright = tuple(colour for colour in brief.colours if contrast(colour, dark) >= 3.0)
            if to_oklch(dark)[0] < 0.38 and bright:
                return replace(brief, background=dark, colours=bright, accent=bright[0])
    return brief


def palette_for(brief: Brief) -> Palette:
    """Return the brief's palette: its style's, picked by the seed, with the asked colours in place."""
    brief = _dark_one_below(brief)
    family = _family(brief)
    order = [family[(brief.seed // 7 + brief.variant + i) % len(family)] for i in range(len(family))]
    palette = order[0]
    if brief.accent is not None and brief.background is None:
        hue = to_oklch(brief.accent)[2]
        least = 2.1 if brief.style != "cinematic" else 2.6
        fits = [p for p in order if contrast(brief.accent, p.ground) >= least]
        calm = [p for p in fits if to_oklch(p.ground)[1] < 0.012 or abs(_turn(to_oklch(p.ground)[2], hue)) < 60]
        if brief.style == "smooth" or palette not in fits:
            palette = (calm or fits or order)[0] if palette not in calm else palette
    if brief.background is not None:
        palette = _grounded(palette, brief.background)
    if (ground := brief.look("ground").colour) is not None:
        palette = _grounded(palette, ground)
    if brief.tone:
        palette = _toned(palette, brief.tone)
    if brief.accent is not None:
        accent = with_contrast(brief.accent, palette.ground, least=1.35)
        palette = _recoloured(palette, accent, brief.colours)
    colours = tuple(with_contrast(c, palette.ground, least=1.3) for c in palette.colours)
    palette = replace(palette, colours=colours, accent=colours[0])
    for part, colour in brief.repaint:
        if part == "ink":
            plain = palette.plain_ink or with_contrast(palette.ink, palette.ground, least=3.0)
            palette = replace(palette, ink=with_contrast(colour, palette.ground, least=1.5), plain_ink=plain)
    return replace(palette, ink=with_contrast(palette.ink, palette.ground, least=3.0))


def painted(palette: Palette, colour: str) -> Palette:
    """Return the palette of a film whose subject alone has a colour: ground and inks stay."""
    new = _recoloured(palette, with_contrast(colour, palette.ground, least=1.35), (colour,))
    colours = tuple(with_contrast(each, palette.ground, least=1.3) for each in new.colours)
    return replace(new, colours=colours, accent=colours[0], around=palette.around or palette.colours)
