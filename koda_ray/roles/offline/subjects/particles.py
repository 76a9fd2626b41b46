"""Skies and rooms full of particles; fireworks have shells of their own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from koda_ray.roles.offline.brief import Brief, Style
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import Ground, caption, colours_of, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import alternatives, said
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Countable, Subject

__all__ = ["Particles"]

_STYLES: dict[str, Style] = {
    "fireworks": "cinematic",
    "confetti": "playful",
    "snow": "smooth",
    "rain": "cinematic",
    "stars": "cinematic",
    "bubbles": "playful",
    "embers": "cinematic",
    "fireflies": "cinematic",
    "petals": "smooth",
}
_NIGHTS: dict[str, tuple[str, ...]] = {
    "fireworks": ("midnight gold", "violet hour", "midnight pop"),
    "stars": ("midnight gold", "violet hour", "teal and amber"),
    "embers": ("ember", "crimson"),
    "fireflies": ("deep forest", "teal and amber"),
    "rain": ("steel", "deep water", "midnight gold"),
}
_USUAL = {
    "dust": 170,
    "snow": 320,
    "rain": 300,
    "stars": 420,
    "bubbles": 34,
    "embers": 230,
    "fireflies": 80,
    "petals": 110,
    "confetti": 260,
}
_BURSTS = ("#FFB454", "#FF5D73", "#7EA8FF", "#6FE3C1", "#FFE7A3", "#D58BFF")
_MOST_SHELLS = 12


class Particles(Subject):
    """Particles of one kind."""

    name = "particles"
    style = "cinematic"
    length_s = 6.0
    airy = True
    place = (0.0, 0.0, 1.0, 1.0)
    counted = Countable(nouns=alternatives("motes"), again=alternatives("motes_again"), most=400)
    letterboxed = True
    scenic = True

    def claims(self, heard: Hearing) -> Iterator[int]:
        if heard.air and heard.air[0] != "dust" and not heard.quotes:
            yield 160
        if heard.air:
            yield 200

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        return replace(super().fill(brief, heard), particles=False)

    def manner(self, brief: Brief) -> Style | None:
        return _STYLES.get(brief.particle_kind)

    def palettes(self, brief: Brief) -> tuple[str, ...]:
        return _NIGHTS.get(brief.particle_kind, ())

    def in_air(self, brief: Brief, kind: str) -> tuple[Brief, str]:
        return replace(brief, particle_kind=kind), said("particles.changed", kind=kind)

    def script(self, brief: Brief) -> Script:
        kind = brief.particle_kind
        return Script.told(kind if kind == "fireworks" else self.name, kind=kind)

    def left(self, film: Film) -> list[tuple[str, str]]:
        place = film.values.get("place", "none")
        return [("Scenery", f'<Scenery place="{place}" seed={{{film.brief.seed % 997}}} heading={{0}} />')]

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        kind = brief.particle_kind
        film = _fireworks(brief, timing, palette) if kind == "fireworks" else _drift(brief, timing, palette)
        if brief.heading:
            caption(film, brief.heading)
        return film


def _drift(brief: Brief, timing: Timing, palette: Palette) -> Film:
    kind, total = brief.particle_kind, timing.total
    film = set_stage(
        brief,
        timing,
        palette,
        scene="ParticlesScene",
        ground=Ground(
            motifs=("blobs", "plain") if brief.style == "playful" else ("plain",),
            light=(0.5, 0.5) if kind == "stars" else (0.6, 0.35),
        ),
    )
    film.score.add("Particles", "density", [(0, 0.5), (min(2.0, timing.opening + 0.4), 1, "easeOutCubic")])
    gust = total * 0.55
    film.score.add(
        "Particles",
        "wind",
        [(0, 0), (gust * 0.7, 0.15, "easeInOutSine"), (gust, 0.5, film.feel.move), (total, 0.62, "easeOutSine")],
    )
    film.score.add("Scenery", "pass", [(0, 0), (total, 0.3, "linear")])
    film.values = {
        "particles": {
            "kind": kind,
            "colors": list(brief.colours) or colours_of(kind, palette),
            "count": brief.count if brief.count and brief.count > 12 else _USUAL[kind],
            "speed": brief.speed if (brief.easing or brief.style) != "smooth" else round(brief.speed * 0.8, 3),
            "size": round(brief.scale * (2.2 if kind == "dust" else 1.0), 3),
            "seed": brief.seed % 997,
        },
        "place": "sky" if kind in ("snow", "rain", "fireflies", "petals") else "none",
    }
    return film


def _fireworks(brief: Brief, timing: Timing, palette: Palette) -> Film:
    film = set_stage(
        brief,
        timing,
        palette,
        scene="FireworksScene",
        ground=Ground(motifs=("plain",), light=(0.5, 0.95)),
    )
    dice = random.Random(brief.seed + brief.variant)
    colours = list(brief.colours) or list(_BURSTS)
    if not brief.colours:
        dice.shuffle(colours)
    usual = max(5, round(timing.total * (1.5 if brief.style == "smooth" else 2.1)))
    count = brief.count if brief.count and brief.count <= _MOST_SHELLS else usual
    film.values = {
        "shells": [_shell(film, dice, colours, i, count) for i in range(count)],
        "pace": brief.speed,
        "seed": brief.seed % 997,
    }
    film.score.add("Sky", "flash", [(0, 0.8), (timing.total, 1.0, "easeInOutSine")])
    return film


def _shell(film: Film, dice: random.Random, colours: list[str], i: int, count: int) -> dict[str, object]:
    """Return a shell: the first one is open already, the last ones come close to each other."""
    brief, total = film.brief, film.timing.total
    finale = max(3, count // 3)
    if i == 0:
        at = -0.35
    elif i >= count - finale and count > 4:
        at = total - 1.75 + (i - count + finale) * (1.2 / finale)
    else:
        at = 0.35 + (i - 1) * (total - 2.2) / max(1, count - finale - 1)
    thrown = dice.choices(("peony", "willow", "ring", "palm"), (5, 3 if brief.style != "playful" else 1, 2, 2))[0]
    kind = "peony" if i == 0 else thrown
    framing = i in (0, count - 1)
    return {
        "at": round(at * max(0.25, brief.speed) if brief.speed < 1 else at * brief.speed, 3),
        "x": round(0.5 + (dice.random() - 0.5) * (0.2 if framing else 0.72), 3),
        "y": round(0.3 if framing else 0.2 + dice.random() * 0.3, 3),
        "size": round((1.15 if framing else 0.62 + dice.random() * 0.5) * brief.scale, 3),
        "color": "#FFCB6B" if kind == "willow" and not brief.colours else colours[i % len(colours)],
        "kind": kind,
    }
