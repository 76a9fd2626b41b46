"""Palettes: a ground, an ink and a family of colours that belong together, by style and by the prompt's seed.

The grounds are chosen by eye; what a person asks for ("blue", "on black") replaces a part, and the rest is moved in
OKLCH until it harmonises and reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from koda_ray.studio.offline.brief import STYLES, Brief, Style
from koda_ray.studio.offline.colour import contrast, from_oklch, mix, on, shift, to_oklch, with_contrast
from koda_ray.studio.offline.subject import subject_of

__all__ = ["PALETTES", "Palette", "ink_on", "palette_for"]


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

    @property
    def ground(self) -> str:
        """The ground's middle, to judge contrast by."""
        return mix(self.top, self.bottom, 0.5)

    @property
    def dark(self) -> bool:
        """Whether light inks belong on this ground."""
        return to_oklch(self.ground)[0] < 0.55


def _p(name: str, top: str, bottom: str, glow: str, ink: str, *colours: str) -> Palette:
    ground = mix(top, bottom, 0.5)
    return Palette(name, top, bottom, glow, ink, mix(ink, ground, 0.42), colours[0], colours)


PALETTES: dict[Style, tuple[Palette, ...]] = {
    "playful": (
        _p(
            "sunshine",
            "#FFE07A",
            "#FFBF3F",
            "#FFF3BF",
            "#2A1A5E",
            "#FF4D6D",
            "#4361EE",
            "#06B48F",
            "#FFFFFF",
            "#8338EC",
        ),
        _p("mint", "#C9F5E6", "#8FE3CC", "#EEFFF9", "#0F3B3A", "#FF6B4A", "#FFB627", "#3A86FF", "#FFFFFF", "#EF3E8C"),
        _p("lilac", "#EADFFF", "#C9B3FF", "#F8F3FF", "#2B1463", "#FF4F8B", "#FFB400", "#18C29C", "#FFFFFF", "#5B5BF0"),
        _p("sky", "#CBEAFF", "#8CCBFF", "#F1FAFF", "#0E2A5C", "#FF6A3D", "#FFC531", "#5B5BF0", "#FFFFFF", "#12B886"),
        _p(
            "bubblegum",
            "#FFDCEB",
            "#FFA9CC",
            "#FFF3F8",
            "#4A1040",
            "#6D3BEB",
            "#FFB829",
            "#18BFA8",
            "#FFFFFF",
            "#FF3D7F",
        ),
        _p(
            "midnight pop",
            "#34228A",
            "#1C1257",
            "#5A3FD0",
            "#FFFFFF",
            "#FFCB2D",
            "#FF5C8A",
            "#2DE0C0",
            "#8FA8FF",
            "#FF8A3D",
        ),
        _p(
            "tangerine",
            "#FFD3B0",
            "#FF9F6B",
            "#FFEFE2",
            "#43154A",
            "#5A2AD9",
            "#E8265E",
            "#0FAE96",
            "#FFFFFF",
            "#FFC21C",
        ),
        _p("lagoon", "#19B5B0", "#0B7F95", "#6FE6D6", "#FFFFFF", "#FFD447", "#FF7A59", "#FFFFFF", "#0A3F5C", "#FF9EC4"),
    ),
    "smooth": (
        _p("paper", "#FAF8F4", "#ECE7DE", "#FFFFFF", "#1D1C1A", "#2F56E8", "#5E7CF2", "#93A7F7", "#C3CDFA", "#1D1C1A"),
        _p("mist", "#F5F8FB", "#DFE7F0", "#FFFFFF", "#152033", "#1F6FEB", "#4B92F5", "#86B5F8", "#BAD4FB", "#152033"),
        _p(
            "graphite",
            "#1C1F26",
            "#101217",
            "#2F3540",
            "#F3F4F6",
            "#7AA2FF",
            "#9DBBFF",
            "#5873C9",
            "#C6D6FF",
            "#F3F4F6",
        ),
        _p("sage", "#F2F5EF", "#DDE6D6", "#FFFFFF", "#1B2A20", "#2F7A53", "#5C9E78", "#93C0A4", "#C4DDCD", "#1B2A20"),
        _p("blush", "#FCF4F1", "#F1DDD5", "#FFFFFF", "#2C1A17", "#CF4F37", "#E07D69", "#EBA698", "#F4CEC5", "#2C1A17"),
        _p("dusk", "#F4F1FA", "#DFD8EF", "#FFFFFF", "#211A38", "#6247D9", "#8C77E6", "#B3A5EF", "#D6CEF7", "#211A38"),
        _p(
            "deep water",
            "#0E2A38",
            "#071821",
            "#1B4C61",
            "#EAF6F8",
            "#4FD0C4",
            "#85E0D7",
            "#2C9AA3",
            "#B9EFE9",
            "#EAF6F8",
        ),
        _p("sand", "#FBF6EC", "#EFE3CC", "#FFFFFF", "#2B2417", "#B8791F", "#D09A4B", "#E1BC84", "#EFDBBA", "#2B2417"),
    ),
    "cinematic": (
        _p(
            "midnight gold",
            "#101A33",
            "#04060D",
            "#30508F",
            "#F7EFDD",
            "#F0C26B",
            "#C98F3C",
            "#8FA9D9",
            "#F9E2B0",
            "#4C6BB0",
        ),
        _p("ember", "#26100C", "#070302", "#8E3417", "#FBEDE2", "#FF9450", "#E2562B", "#FFC48A", "#8A3A24", "#FFE0C2"),
        _p(
            "teal and amber",
            "#07232A",
            "#02090C",
            "#12606B",
            "#EEF7F5",
            "#FFB067",
            "#3FB8B3",
            "#FFD6A8",
            "#1E7F86",
            "#E8743B",
        ),
        _p(
            "violet hour",
            "#1A1238",
            "#070511",
            "#5632A8",
            "#F2EDFF",
            "#BFA4FF",
            "#7F5BE8",
            "#F2A6D8",
            "#E6DBFF",
            "#4C7DF0",
        ),
        _p(
            "deep forest",
            "#0B1F18",
            "#030906",
            "#1F5A3F",
            "#EFF6EC",
            "#C9E07A",
            "#5FAE74",
            "#F0EDB0",
            "#2F7D55",
            "#E0A85A",
        ),
        _p("steel", "#141A21", "#06080B", "#3B5064", "#F0F4F8", "#9CC4E4", "#5E8BB0", "#E4EEF6", "#D98E5F", "#3E5F7D"),
        _p(
            "crimson", "#25070F", "#080204", "#8B1631", "#FBEBEA", "#FF6B6B", "#C9274A", "#FFC2A8", "#7A1830", "#F3A64F"
        ),
    ),
}


def ink_on(palette: Palette, ground: str) -> str:
    """Return an ink of the palette that reads on ``ground``, or black or white where none does."""
    dark = [c for c in (palette.ink, *palette.colours, palette.bottom) if to_oklch(c)[0] < 0.4]
    if contrast("#FFFFFF", ground) >= 2.6 and to_oklch(ground)[0] < 0.72:
        return "#FFFFFF"
    return next((c for c in dark if contrast(c, ground) >= 4.5), on(ground))


def _recoloured(palette: Palette, accent: str, named: tuple[str, ...]) -> Palette:
    """Build the colour family from an asked accent: further asked colours first, then its own ramp and neighbours."""
    lightness, chroma, hue = to_oklch(accent)
    if len(named) > 1:
        family = [*named]
    elif chroma < 0.04:
        family = [accent]
    elif palette.name in {p.name for p in PALETTES["smooth"]}:
        step = 0.1 if not palette.dark else -0.09
        family = [
            accent,
            from_oklch(lightness + step, chroma * 0.86, hue),
            from_oklch(lightness + step * 2, chroma * 0.62, hue),
            from_oklch(lightness + step * 2.8, chroma * 0.4, hue),
        ]
    else:
        family = [
            accent,
            from_oklch(min(0.86, lightness + 0.12), chroma * 0.9, (hue + 24) % 360),
            from_oklch(max(0.45, lightness - 0.1), chroma, (hue - 26) % 360),
            from_oklch(0.9, min(0.09, chroma * 0.4), hue),
        ]
    family += [c for c in palette.colours if c not in family and abs(_turn(to_oklch(c)[2], hue)) > 18]
    return replace(palette, accent=accent, colours=tuple(family[:6]))


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


_SCENIC: tuple[Palette, ...] = (
    _p("harbour", "#E9F3FA", "#A3C7E4", "#FFFFFF", "#14304F", "#E4694B", "#2E6DA8", "#F3B562", "#FFFFFF", "#14304F"),
    _p("lilac dawn", "#F3E8F5", "#BFA9DD", "#FFF6F2", "#2E1F4F", "#E0628A", "#6C55B8", "#F5B889", "#FFFFFF", "#2E1F4F"),
    _p("peach dusk", "#FDE9DC", "#EFB193", "#FFF7EE", "#4A2436", "#3B6F93", "#C9503F", "#7C4A6D", "#FFFFFF", "#4A2436"),
    _p("alpine", "#E6F2F0", "#9CC7C3", "#FFFFFF", "#12393D", "#E36B4E", "#20757A", "#F0B95B", "#FFFFFF", "#12393D"),
)
"""Smooth palettes with more colour in the ground, for landscapes."""


def _family(brief: Brief) -> tuple[Palette, ...]:
    """Return the palettes to choose from: the style's, or those that the subject needs."""
    if brief.background is None:
        subject = subject_of(brief)
        needed = subject.palettes(brief)
        if needed:
            return tuple(p for style in STYLES for p in PALETTES[style] if p.name in needed)
        if brief.style == "smooth" and subject.scenic:
            return _SCENIC
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
    if brief.tone:
        palette = _toned(palette, brief.tone)
    if brief.accent is not None:
        accent = with_contrast(brief.accent, palette.ground, least=1.35)
        palette = _recoloured(palette, accent, brief.colours)
    colours = tuple(with_contrast(c, palette.ground, least=1.3) for c in palette.colours)
    palette = replace(palette, colours=colours, accent=colours[0])
    for part, colour in brief.repaint:
        if part == "ink":
            palette = replace(palette, ink=with_contrast(colour, palette.ground, least=1.5))
    return replace(palette, ink=with_contrast(palette.ink, palette.ground, least=3.0))
