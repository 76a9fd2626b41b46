"""What all films share: the ground's light, particles in the air, a caption, the film bars."""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.colour import mix
from koda_ray.roles.offline.film import Film, Framing, Timing, pick
from koda_ray.roles.offline.palette import AIR, Palette
from koda_ray.roles.offline.subject import subject_of
from koda_ray.roles.offline.tsx import literal

__all__ = ["MANNERS", "Ground", "air", "caption", "colours_of", "dust", "heading_of", "set_stage", "still"]

MANNERS = {"playful": "pop", "smooth": "rise", "cinematic": "emerge"}
"""How the kit's letters and cards come in, by style."""

_PLAYFUL_MOTIFS = ("blobs", "dots", "rays", "rings")
_SMOOTH_MOTIFS = ("plain", "rings", "plain")
_CINEMATIC_MOTIFS = ("plain", "beam", "plain")

_KIND_COUNT = {
    "dust": 70,
    "snow": 190,
    "rain": 170,
    "stars": 260,
    "bubbles": 26,
    "embers": 120,
    "fireflies": 46,
    "petals": 60,
    "confetti": 150,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """What is behind a scene.

    Args:
        motifs: The patterns to choose from; all of the style's when None.
        light: Where the light falls, in shares of the picture from its upper left.
    """

    motifs: tuple[str, ...] | None = None
    light: tuple[float, float] = (0.5, 0.42)


_GROUND = Ground()


def set_stage(
    brief: Brief,
    timing: Timing,
    palette: Palette,
    *,
    scene: str,
    ground: Ground = _GROUND,
) -> Film:
    """Begin a film: its ground, and its light as it comes up.

    Args:
        brief: What was asked for.
        timing: When its scenes begin and end.
        palette: Its colours.
        scene: The kit's scene, such as ``BounceScene``.
        ground: What is behind it.
    """
    framing = _framing(brief, ground)
    film = Film(brief=brief, timing=timing, palette=palette, scene=scene, values={}, framing=framing)
    _light_up(film)
    return film


def _framing(brief: Brief, ground: Ground) -> Framing:
    motifs, light = ground.motifs, ground.light
    if brief.style == "playful":
        choice = pick(brief, motifs or _PLAYFUL_MOTIFS, 3)
        return Framing(motif=choice, light_x=light[0], light_y=light[1], grain=0.022)
    if brief.style == "smooth":
        return Framing(motif=pick(brief, motifs or _SMOOTH_MOTIFS, 3), light_x=light[0], light_y=light[1], grain=0.03)
    bars = 0.105 if brief.aspect == "wide" and subject_of(brief).letterboxed else 0.0
    return Framing(
        motif=pick(brief, motifs or _CINEMATIC_MOTIFS, 3),
        light_x=light[0],
        light_y=light[1],
        vignette=0.62,
        bars=bars,
        grain=0.055,
    )


def _light_up(film: Film) -> None:
    """Let the ground's light come up, drift through the film, and the film bars close in where there are any."""
    total, opening = film.timing.total, min(film.timing.opening, 2.4)
    start = {"playful": 0.82, "smooth": 0.7, "cinematic": 0.32}[film.brief.style]
    film.score.add("Backdrop", "light", [(0, start), (opening, 1.0, "easeOutCubic")])
    film.score.add("Backdrop", "drift", [(0, -0.5), (total, 0.5, "easeInOutSine")])
    if film.framing.bars:
        film.score.add("Finish", "close", [(0, 0.72), (min(1.6, opening), 1.0, "easeInOutQuart")])


def colours_of(kind: str, palette: Palette) -> list[str]:
    """Return the colours of particles of a kind: their own, or the palette's."""
    if kind in AIR:
        return list(AIR[kind])
    if kind == "confetti":
        return list(palette.colours)
    if kind == "bubbles":
        return ["#FFFFFF", palette.accent] if palette.dark else ["#FFFFFF", palette.glow]
    return [palette.accent, palette.ink if palette.dark else palette.colours[1 % len(palette.colours)]]


def _air_colours(film: Film, kind: str) -> list[str]:
    own = film.brief.look("air").colour
    return colours_of(kind, film.palette) if own is None else [own, mix(own, "#FFFFFF", 0.35)]


def air(film: Film, *, kind: str | None = None, count: int | None = None, opacity: float | None = None) -> None:
    """Put particles over the scene."""
    chosen = kind or film.brief.particle_kind
    if chosen == "fireworks":
        chosen = "embers"
    look = film.brief.look("air")
    props = {
        "kind": chosen,
        "colors": _air_colours(film, chosen),
        "count": count or _KIND_COUNT[chosen],
        "speed": film.brief.speed * look.speed,
        "size": look.scale if look.scale != 1 else None,
        "seed": film.brief.seed % 997,
        "opacity": opacity,
    }
    text = " ".join(
        f"{key}={literal(value)}" if isinstance(value, str) else f"{key}={{{literal(value)}}}"
        for key, value in props.items()
        if value is not None
    )
    text = text.replace("='", '="').replace("' ", '" ') if "='" in text else text
    film.overlays.append(("Particles", f"<Particles {text} />"))
    film.score.add("Particles", "density", [(0, 0.45), (min(2.5, film.timing.opening + 0.6), 1.0, "easeOutCubic")])


def dust(film: Film, count: int, *, opacity: float | None = None) -> None:
    """Put the particles that were asked for over the scene, or ``count`` grains of dust where it is cinematic."""
    if film.brief.particles:
        air(film, kind=film.brief.particle_kind, opacity=opacity)
    elif film.brief.style == "cinematic":
        air(film, kind="dust", count=count, opacity=opacity)


def caption(film: Film, text: str, *, position: str = "bottom") -> None:
    """Put a line of type over the scene, entering as the opening ends."""
    scale = "" if film.brief.lettering == 1.0 else f" scale={{{film.brief.lettering:.3g}}}"
    film.overlays.append(("Caption", f'<Caption text={{{literal(text)}}} position="{position}"{scale} />'))
    at = min(film.timing.opening * 0.6, 1.2)
    film.score.add("Caption", "reveal", [(0, 0), (at, 0), (at + film.feel.enter_s, 1, film.feel.enter)])


def heading_of(film: Film) -> tuple[str, str]:
    """Return a scene's heading by itself, as (component, JSX)."""
    note = film.values.get("note")
    small = f" note={{{literal(note)}}}" if note else ""
    return "Heading", f"<Heading text={{{literal(film.brief.heading)}}}{small} />"


def still(timing: Timing) -> float:
    """Return how long the last picture holds: at least 0.8 s where the film is long enough."""
    return min(1.4, max(0.5, timing.total * 0.16))
