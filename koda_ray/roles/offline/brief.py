"""What a person asked for, as one frozen value: the only thing the director's later steps look at.

Parsing words and drawing pictures never meet: everything between them is a `Brief`, so the same brief gives the same
bytes, and a change request is a function from brief to brief.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = [
    "FPS",
    "SIZES",
    "STYLES",
    "Aspect",
    "Brief",
    "Direction",
    "Font",
    "Heard",
    "Impossible",
    "Language",
    "Look",
    "PartName",
    "Style",
    "known_style",
]

Style = Literal["playful", "smooth", "cinematic"]
Heard = Literal["explicit", "inferred", "unknown"]
Direction = Literal["left", "right", "up", "down"]
Aspect = Literal["16:9", "9:16", "1:1", "4:5"]
Font = Literal["sans", "serif", "mono", "round"]
Language = Literal["en", "ja", "zh", "ko"]
PartName = Literal["subject", "heading", "aside", "ground", "air", "finish"]
"""What a film consists of: what it is about, its words, what lies behind, what drifts through, its last layer."""
Impossible = Literal["too_long", "live_action", "interactive"]

STYLES: tuple[Style, ...] = ("playful", "smooth", "cinematic")
SIZES: dict[Aspect, tuple[int, int]] = {
    "16:9": (1920, 1080),
    "9:16": (1080, 1920),
    "1:1": (1080, 1080),
    "4:5": (1080, 1350),
}
FPS = 60


def known_style(name: str | None) -> Style | None:
    """Return ``name`` as a style where it is one, else None."""
    for style in STYLES:
        if style == name:
            return style
    return None


_FILMS = (".mp4", ".webm")


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one part differs from the rest: ``scale`` and ``speed`` are relative to the film's."""

    colour: str | None = None
    scale: float = 1.0
    speed: float = 1.0
    shown: bool = True


@dataclass(frozen=True, kw_only=True)
class Brief:
    """A request, understood. Durations in seconds, sizes in pixels, ``speed`` and ``scale`` relative to 1."""

    prompt: str
    subject: str
    """The name of a subject; see `subject.subject_of`."""
    style: Style = "smooth"
    style_heard: Heard = "unknown"
    duration_s: float = 5.0
    duration_heard: Heard = "unknown"
    width: int = 1920
    height: int = 1080
    fps: int = FPS
    seed: int = 0
    language: Language = "en"

    accent: str | None = None
    colours: tuple[str, ...] = ()
    background: str | None = None
    repaint: tuple[tuple[str, str], ...] = ()
    """Colour overrides from change requests: (part, hex), the last one of a part wins."""

    count: int | None = None
    direction: Direction | None = None
    speed: float = 1.0
    scale: float = 1.0
    bounce: float = 1.0
    shadow: bool = True
    particles: bool = False
    particle_kind: str = "dust"
    font: Font | None = None
    lettering: float = 1.0
    """How large a line of type is beside its subject, relative to usual."""
    looks: tuple[tuple[PartName, Look], ...] = ()
    """What was asked of one part alone; see `look`."""
    variant: int = 0
    """Which of the compositions, on top of the one that the prompt's seed picks."""
    easing: Style | None = None
    """Curves of another style than the picture's, where a change request asked for that."""
    tone: float = 0.0
    """Brighter (above 0) or darker (below 0), in OKLCH lightness."""

    heading: str = ""
    """The words a person reads first: a title, a name, a chart's subject; empty where none was given."""
    texts: tuple[str, ...] = ()
    """Quoted texts beyond the heading: a caption, a tagline."""
    own: object = None
    """What the subject alone speaks of, in a value of its module's; see `subject.own_brief`."""
    image: str | None = None
    """Address of an uploaded picture on the page, such as ``/assets/photo.jpg``, or of a film."""

    impossible: Impossible | None = None
    notes: tuple[str, ...] = field(default=())
    """What was assumed, clamped or left out: said to the person, never hidden."""

    @property
    def still(self) -> str | None:
        """The uploaded picture where it is one that stands still, for what has room for no other."""
        return None if self.image is None or self.image.endswith(_FILMS) else self.image

    @property
    def aspect(self) -> Literal["wide", "tall", "square"]:
        """The picture's shape, for staging."""
        ratio = self.width / self.height
        return "wide" if ratio > 1.2 else "tall" if ratio < 0.84 else "square"

    def look(self, part: PartName) -> Look:
        """Return how a part differs from the rest of the film; as it does not where nothing was asked of it."""
        return dict(self.looks).get(part, Look())

    def with_look(self, part: PartName, look: Look) -> Brief:
        """Return the brief with a part that looks so."""
        others = {name: each for name, each in self.looks if name != part}
        kept = {**others, part: look} if look != Look() else others
        return replace(self, looks=tuple(sorted(kept.items())))

    def unpainted(self, part: PartName) -> Brief:
        """Return the brief without a colour of that part alone: one for the whole film was said later."""
        return self.with_look(part, replace(self.look(part), colour=None))
