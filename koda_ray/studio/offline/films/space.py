"""Solids that trade places, and bodies that orbit: things lit in three dimensions."""

from __future__ import annotations

import math

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.colour import from_oklch, to_oklch
from koda_ray.studio.offline.films.base import Film, Timing, pick
from koda_ray.studio.offline.films.stage import air, caption, framing_for, light_up
from koda_ray.studio.offline.palette import Palette

__all__ = ["orbit_film", "shapes_film"]

_CAST = ("sphere", "cube", "torus", "cone", "gem", "capsule")


def shapes_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of one to nine solids."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="ShapesScene",
        parts=(
            "lib/frame.ts",
            "lib/colour.ts",
            "components/Solids.tsx",
            "components/ContactShadow.tsx",
            "components/Camera.tsx",
            "components/Lights.tsx",
        ),
        values={},
        framing=framing_for(brief, light=(0.5, 0.46)),
    )
    light_up(film)
    kinds = brief.shapes or tuple(_CAST[(brief.seed + i) % len(_CAST)] for i in range(3))
    count = brief.count or (1 if len(kinds) == 1 else len(kinds) if len(kinds) > 2 else len(kinds) * 2 - 1)
    if not brief.shapes:
        count = brief.count or 5
        kinds = tuple(_CAST[(brief.seed + i) % len(_CAST)] for i in range(min(count, len(_CAST))))
    feel, total = film.feel, timing.total
    size = (1.3 if count == 1 else min(1.0, (3.5 if "cube" in kinds else 4.2) / (count + 0.9))) * min(1.4, brief.scale)
    half = (3.35 if brief.aspect == "wide" else 1.9) * (count - 1) / max(1, count)
    places = [0.0 if count == 1 else -half + i * 2 * half / (count - 1) for i in range(count)]
    beat = 0.9 / brief.speed
    solids: list[dict[str, object]] = []
    for i in range(count):
        name = f"Solid {i + 1}" if count > 1 else "Solid"
        enter = i * min(feel.stagger_s * 1.6, 1.2 / count)
        grow = feel.enter_s
        first = 0.55
        film.score.add(name, "scale", [(0, first), (enter, first), (enter + grow, 1, feel.enter)])
        rest = size * 1.02
        hop = 1.1 * brief.bounce
        film.score.add(
            name,
            "y",
            [
                (0, rest + 0.5),
                (enter, rest + 0.5),
                (enter + grow, rest, feel.enter),
                *_hops(film, i, count, rest, hop, beat, enter + grow),
            ],
        )
        if count > 1:
            film.score.add(name, "x", _swaps(film, i, places, beat, enter + grow))
            film.score.add(name, "z", [(0, 0.0)])
        else:
            film.score.add(name, "x", [(0, 0.0)])
        turns = math.tau * max(1, round(brief.speed * total / 6)) * (1 if i % 2 == 0 else -1)
        if (brief.easing or brief.style) == "playful":
            keys: list[tuple[float, float, str]] = [(0, -0.5, "linear")]
            steps = max(1, int((timing.ending - 0.4) / (beat * 1.6)))
            for n in range(steps):
                at = 0.4 + n * beat * 1.6 + 0.06 * i
                keys += [
                    (at, keys[-1][1], "linear"),
                    (at + beat * 1.1, keys[-1][1] + math.pi / 2 * (1 if i % 2 == 0 else -1), "easeOutBack"),
                ]
            film.score.add(name, "turn", keys)
        else:
            film.score.add(name, "turn", [(0, -0.6), (total, turns - 0.6, "easeInOutSine")])
        film.score.add(name, "roll", [(0, 0.55), (enter + grow, 0.28, feel.enter), (total, 0.24, "easeInOutSine")])
        solids.append(
            {
                "name": name,
                "kind": kinds[i % len(kinds)],
                "color": palette.accent
                if brief.accent and len(brief.colours) == 1 and len(set(kinds)) == 1
                else palette.colours[i % len(palette.colours)],
                "size": round(size * (1 - 0.1 * (i % 2)), 3),
                "gloss": {"playful": 0.35, "smooth": 0.15, "cinematic": 0.9}[brief.style],
                "shadow": None if brief.shadow else False,
            }
        )
    film.values = {"solids": solids, "mood": brief.style}
    if brief.style != "playful":
        film.score.add("Camera", "closer", [(0, 0), (total, 0.08, "easeInOutSine")])
        film.score.add("Camera", "orbit", [(0, -0.14), (total, 0.14, "easeInOutSine")])
    if brief.particles or brief.style == "cinematic":
        air(film, kind=brief.particle_kind if brief.particles else "dust", count=None if brief.particles else 40)
    if brief.heading:
        caption(film, brief.heading)
    return film


def _hops(
    film: Film, i: int, count: int, rest: float, hop: float, beat: float, begin: float
) -> list[tuple[float, float, str]]:
    """Return hops on the beat, in turn, until the ending."""
    keys: list[tuple[float, float, str]] = []
    playful = (film.brief.easing or film.brief.style) == "playful"
    height = hop if playful else hop * 0.3
    t = begin + 0.15 + (i * beat * (0.5 if count > 1 else 0))
    while t + beat < film.timing.ending + 0.2:
        ease = ("rise", "fall") if playful else ("easeInOutSine", "easeInOutSine")
        keys += [(t, rest, "linear"), (t + beat / 2, rest + height, ease[0]), (t + beat, rest, ease[1])]
        t += beat * max(2, count)
    leap = film.timing.ending + 0.3 + 0.07 * i
    if playful and leap + beat < film.timing.total - 0.4:
        # all together, as a last word
        keys += [
            (leap, rest, "linear"),
            (leap + beat * 0.45, rest + height * 1.25, "rise"),
            (leap + beat * 0.9, rest, "fall"),
        ]
    return keys


def _swaps(film: Film, i: int, places: list[float], beat: float, begin: float) -> list[tuple[float, float, str]]:
    """Return places that are traded pair by pair, back in order at the end."""
    keys: list[tuple[float, float, str]] = [(0, places[i], "linear")]
    count = len(places)
    order = list(range(count))
    t = max(begin, film.timing.opening) + 0.1
    step = 0
    while t + beat < film.timing.ending + 0.2:
        a = step % count
        b = (a + 1) % count
        order[a], order[b] = order[b], order[a]
        now = places[order.index(i)]
        if abs(now - keys[-1][1]) > 1e-6:
            keys += [(t, keys[-1][1], "linear"), (t + beat * 0.9, now, film.feel.move)]
        t += beat
        step += 1
    return keys


def orbit_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of bodies on circular paths, their periods by Kepler's third law."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="OrbitScene",
        parts=("lib/frame.ts", "lib/colour.ts", "components/Orbits.tsx", "components/Camera.tsx"),
        values={},
        framing=framing_for(brief, motifs=("plain",), light=(0.5, 0.5)),
    )
    light_up(film)
    feel, total = film.feel, timing.total
    count = min(8, brief.count or 5)
    bodies: list[dict[str, object]] = []
    planets = (
        palette.colours
        if brief.accent
        else (*palette.colours[1:], "#7EC8E3", "#E38B75", "#B7A6E8", "#E9C46A", "#6FCF97")
    )
    colours = [
        from_oklch(max(0.62, to_oklch(c)[0] - 0.08), to_oklch(c)[1], to_oklch(c)[2]) for c in planets if c != "#FFFFFF"
    ]
    sun = palette.accent if brief.accent else "#FFC56B"
    for i in range(count):
        name = f"Planet {i + 1}"
        path = 1.9 + i * 4.4 / count + 0.25 * (brief.seed // (i + 3) % 3) / 2
        size = (0.3 + 0.16 * ((brief.seed // (i + 2)) % 3)) * (1.25 if i == count // 2 else 1) * brief.scale
        period = 3.4 * (path / 1.9) ** 1.5 / brief.speed
        start = (brief.seed % 628) / 100 + i * 2.4
        sign = -1 if brief.direction == "left" else 1
        film.score.add(name, "angle", [(0, start), (total, start + sign * math.tau * total / period, "linear")])
        at = timing.opening * 0.3 + i * min(feel.stagger_s, 0.18)
        film.score.add(
            name, "enter", [(0, 0.55 if i < 2 else 0), (at, 0.55 if i < 2 else 0), (at + feel.enter_s, 1, feel.enter)]
        )
        bodies.append(
            {
                "name": name,
                "color": colours[(i + 1) % len(colours)],
                "size": round(size, 3),
                "path": round(path, 3),
                "look": ("bands", "craters", "plain")[(brief.seed // (i + 5)) % 3],
                "ring": True if i == (count - 2 if count > 2 else count - 1) else None,
            }
        )
    film.score.add("Sun", "light", [(0, 0.55), (min(1.6, timing.opening), 1, feel.enter)])
    high = pick(brief, (4.6, 3.6, 5.6), 4)
    film.score.add("Camera", "y", [(0, 2.0), (total, -0.8, "easeInOutSine")])
    film.score.add("Camera", "closer", [(0, 0.12), (total, 0.0, "easeInOutSine")])
    film.values = {
        "bodies": bodies,
        "sun": sun,
        "size": round(0.82 * brief.scale, 3),
        "distance": 14.4 if film.framing.bars else 13.2,
        "height": high,
    }
    air(film, kind="stars" if not brief.particles else brief.particle_kind, count=150, opacity=0.75)
    film.overlays = []
    film.backlayers.append(("Starfield", f"<Starfield seed={{{brief.seed % 997}}} />"))
    film.parts = (*[p for p in film.parts if p != "components/Particles.tsx"], "components/Starfield.tsx")
    film.score.tracks.pop("Particles", None)
    if brief.heading:
        caption(film, brief.heading)
    return film
