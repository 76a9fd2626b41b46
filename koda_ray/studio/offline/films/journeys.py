"""One thing on its way through a landscape, and skies full of particles."""

from __future__ import annotations

import math
import random

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.films.ball import bounce
from koda_ray.studio.offline.films.base import Film, Timing
from koda_ray.studio.offline.films.stage import air, caption, colours_of, framing_for, light_up
from koda_ray.studio.offline.lexicon import FACING_LEFT, ROAD_GOERS, SEA_GOERS, SPACE_GOERS, UPRIGHT
from koda_ray.studio.offline.motion import Score
from koda_ray.studio.offline.palette import Palette

__all__ = ["hero_film", "particles_film"]


def _place(brief: Brief) -> str:
    if brief.hero in SPACE_GOERS:
        return "space"
    if brief.hero in SEA_GOERS:
        return "sea"
    if brief.hero in ROAD_GOERS and brief.hero_motion == "cross":
        return "land"
    if brief.hero_motion in ("cross", "rise", "fall") or brief.hero in ("balloon", "paper-plane"):
        return "sky"
    return "none"


def _path(brief: Brief, place: str, lane: int, lanes: int) -> list[tuple[float, float]]:
    """Return the way across the picture as points in shares of it, left to right."""
    shift = (lane - (lanes - 1) / 2) * (0.17 if place == "sky" else 0.09)
    points: list[tuple[float, float]] = []
    wave = 0.6 + (brief.seed % 5) * 0.12
    for i in range(97):
        u = i / 96
        if place == "land":
            y = 0.79 + shift * 0.5
        elif place == "sea":
            y = 0.64 + shift * 0.5 + 0.012 * math.sin(u * 22)
        else:
            y = 0.56 - 0.2 * u + 0.13 * math.sin(u * math.tau * wave + 0.6) + shift
        points.append((-0.14 + 1.28 * u, y))
    return points


def _cross(film: Film, name: str, place: str, lane: int, lanes: int, delay: float) -> list[tuple[float, float]]:
    """Add the keys of a crossing, from in sight at the first frame to composed at the last; return the way."""
    brief, score, total = film.brief, film.score, film.timing.total
    path = _path(brief, place, lane, lanes)
    backwards = brief.direction == "left"
    if backwards:
        path = [(1 - x, y) for x, y in path]
    laps = max(1, round(brief.speed)) if brief.speed >= 1.5 else 1
    length = total / laps
    xs: list[tuple[float, float, str]] = []
    ys: list[tuple[float, float, str]] = []
    turns: list[tuple[float, float, str]] = []
    along: list[tuple[float, float, str]] = []
    steps = 12
    for lap in range(laps):
        # several keep their distance: the first in the row is ahead of the others all the way
        ahead = ((lanes - 1) / 2 - lane) * min(0.17, 0.6 / lanes)
        first = (0.16 if lanes == 1 else 0.26) + ahead * 0.8 if lap == 0 else 0.0
        last = (0.74 if lanes == 1 else 0.6) + ahead if lap == laps - 1 else 1.0
        for n in range(steps + 1):
            share = n / steps
            # slow towards the last picture, so that it is a poster and not a blur
            eased = math.sin(share * math.pi / 2) * 0.45 + share * 0.55 if lap == laps - 1 else share
            u = first + (last - first) * eased
            t = lap * length + share * length + (delay * (1 - share) if lap == 0 else 0)
            if lap and n == 0:
                t += 0.002
            u = min(1.0, max(0.0, u))
            k = min(95, int(u * 96))
            f = u * 96 - k
            x = path[k][0] + (path[k + 1][0] - path[k][0]) * f
            y = path[k][1] + (path[k + 1][1] - path[k][1]) * f
            ratio = brief.width / brief.height
            slope = math.degrees(math.atan2(path[k + 1][1] - path[k][1], (path[k + 1][0] - path[k][0]) * ratio))
            if backwards:
                slope = math.degrees(math.atan2(-(path[k + 1][1] - path[k][1]), -(path[k + 1][0] - path[k][0]) * ratio))
            ease = "hold" if lap and n == 0 else "linear"
            xs.append((t, x, ease))
            ys.append((t, y, ease))
            turns.append((t, slope * (1.0 if place == "sky" or place == "space" else 0.5), ease))
            along.append((t, u, ease))
    for prop, keys in (("x", xs), ("y", ys), ("turn", turns), ("along", along)):
        score.add(name, prop, _rising(keys))
    return path


def _rising(keys: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    out: list[tuple[float, float, str]] = []
    for key in keys:
        if not out or key[0] > out[-1][0] + 0.0015:
            out.append(key)
    if out[0][0] > 0:
        out.insert(0, (0.0, out[0][1], "linear"))
    return out


def hero_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of one to nine things that cross, climb, fall, bounce, spin or float."""
    place = _place(brief)
    motifs = ("plain",) if place != "none" else ("rays", "blobs", "rings", "dots")
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="JourneyScene",
        parts=("lib/frame.ts", "lib/colour.ts", "components/Hero.tsx", "components/Scenery.tsx"),
        values={},
        framing=framing_for(brief, motifs=motifs, light=(0.68, 0.3) if place != "none" else (0.5, 0.5)),
    )
    light_up(film)
    total, feel = timing.total, film.feel
    count = min(7, brief.count or 1)
    size = (430 if count == 1 else 300 if count < 4 else 210) * brief.scale
    if place in ("land", "sea"):
        size *= 0.86
    heading = -1 if brief.direction == "left" else 1
    heroes: list[dict[str, object]] = []
    for i in range(count):
        name = "Hero" if count == 1 else f"Hero {i + 1}"
        trail: list[list[float]] | None = None
        flame = brief.hero == "rocket"
        x = 0.5 if count == 1 else 0.16 + 0.68 * i / (count - 1)
        if brief.hero_motion == "cross":
            path = _cross(film, name, place, i, count, 0.25 * i)
            if brief.hero == "paper-plane":
                trail = [[round(px, 4), round(py, 4)] for px, py in path]
        elif brief.hero_motion == "bounce":
            local = Score()
            bounce(
                local,
                name,
                period_s=0.86 / brief.speed * (1 + 0.08 * (i % 2)),
                height=0.42 * min(1.3, brief.bounce),
                squash=0.22 * brief.bounce,
                rest_s=timing.ending,
                total_s=total,
                start_s=0.0 if i == 0 else 0.1 * (i % 3),
            )
            for prop, keys in local.tracks[name].items():
                if prop == "height":
                    film.score.add(name, "y", [(k.t, 0.7 - k.v, k.ease) for k in keys])
                else:
                    film.score.add(name, prop, [(k.t, k.v, k.ease) for k in keys])
            film.score.add(name, "x", [(0, x)])
        elif brief.hero_motion in ("rise", "fall"):
            low, high = (0.78, 0.36) if brief.hero_motion == "rise" else (0.18, 0.62)
            wait = min(0.5, timing.opening * 0.25) + 0.16 * i
            ease = "easeInOutCubic" if brief.hero_motion == "rise" else "easeInOutSine"
            film.score.add(name, "y", [(0, low), (wait, low), (total - 0.4, high, ease)])
            film.score.add(
                name, "x", [(0, x - 0.02), (total * 0.5, x + 0.03, "easeInOutSine"), (total, x, "easeInOutSine")]
            )
            film.score.add(
                name,
                "turn",
                [
                    (0, -3),
                    (total * 0.3, 4, "easeInOutSine"),
                    (total * 0.7, -3, "easeInOutSine"),
                    (total, 0, "easeInOutSine"),
                ],
            )
        else:
            film.score.add(name, "scale", [(0, 0.6), (feel.enter_s, 1, feel.enter)])
            film.score.add(name, "x", [(0, x)])
            if brief.hero_motion == "spin":
                film.score.add(name, "y", [(0, 0.5)])
                turns = 360 * max(1, round(total / 2.4 * brief.speed))
                film.score.add(
                    name,
                    "turn",
                    [
                        (0, 0),
                        (timing.ending + 0.4, turns, "linear" if brief.style == "playful" else "easeInOutSine"),
                        (total, turns, "linear"),
                    ],
                )
            else:
                keys = [(0.0, 0.53, "linear")]
                period = 2.6 / brief.speed
                t, up = 0.0, True
                while t + period / 2 < total:
                    t += period / 2
                    keys.append((t, 0.46 if up else 0.53, "easeInOutSine"))
                    up = not up
                film.score.add(name, "y", keys)
                film.score.add(name, "turn", [(0, -5), (total / 2, 5, "easeInOutSine"), (total, 0, "easeInOutSine")])
        beat = 0.24 / brief.speed if flame else 0.9 / brief.speed
        sway: list[tuple[float, float, str]] = []
        n = 0
        while n * beat <= total and n < 400:
            sway.append((n * beat, (1 if n % 2 else -1) * (0.5 if place != "land" else 0.16), "easeInOutSine"))
            n += 1
        film.score.add(name, "sway", sway)
        left = brief.hero in FACING_LEFT
        heroes.append(
            {
                "name": name,
                "look": brief.hero,
                "size": round(size * (1 - 0.12 * (i % 3)), 1),
                "color": palette.colours[i % len(palette.colours)]
                if palette.colours[i % len(palette.colours)] != "#FFFFFF"
                else palette.accent,
                "mirrored": True
                if (brief.hero_motion == "cross" and (left == (heading == 1)) and brief.hero not in UPRIGHT)
                else None,
                "trail": trail if i == 0 else None,
                "shadow": True
                if brief.shadow
                and (place == "land" or (brief.hero_motion in ("bounce", "spin", "float") and place == "none"))
                else None,
                "flame": True if flame else None,
            }
        )
        if flame and brief.hero_motion == "cross":
            turned = [(k.t, k.v + 90 * heading, k.ease) for k in film.score.tracks[name]["turn"]]
            film.score.tracks[name].pop("turn")
            film.score.add(name, "turn", turned)
    pace = 1.0 if brief.hero_motion == "cross" else 0.35
    film.score.add("Scenery", "pass", [(0, 0.0), (total, pace, "easeOutSine")])
    film.values = {"heroes": heroes, "place": place, "seed": brief.seed % 997, "heading": heading}
    if brief.particles:
        air(film)
    if brief.heading:
        caption(film, brief.heading, position="top")
    return film


def particles_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of particles; fireworks have shells of their own."""
    kind = brief.particle_kind
    if kind == "fireworks":
        return _fireworks(brief, timing, palette)
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="ParticlesScene",
        parts=("lib/frame.ts", "lib/colour.ts", "components/Particles.tsx", "components/Scenery.tsx"),
        values={},
        framing=framing_for(
            brief,
            motifs=("blobs", "plain") if brief.style == "playful" else ("plain",),
            light=(0.5, 0.5) if kind == "stars" else (0.6, 0.35),
        ),
    )
    light_up(film)
    total = timing.total
    usual = {
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
    count = brief.count * 1 if brief.count and brief.count > 12 else usual[kind]
    film.score.add("Particles", "density", [(0, 0.5), (min(2.0, timing.opening + 0.4), 1, "easeOutCubic")])
    gust = total * 0.55
    film.score.add(
        "Particles",
        "wind",
        [(0, 0), (gust * 0.7, 0.15, "easeInOutSine"), (gust, 0.5, film.feel.move), (total, 0.62, "easeOutSine")],
    )
    film.score.add("Scenery", "pass", [(0, 0), (total, 0.3, "linear")])
    colours = list(brief.colours) or colours_of(kind, palette)
    place = "sky" if kind in ("snow", "rain", "fireflies", "petals") else "none"
    film.values = {
        "particles": {
            "kind": kind,
            "colors": colours,
            "count": count,
            "speed": brief.speed if (brief.easing or brief.style) != "smooth" else round(brief.speed * 0.8, 3),
            "size": round(brief.scale * (2.2 if kind == "dust" else 1.0), 3),
            "seed": brief.seed % 997,
        },
        "place": place,
    }
    if brief.heading:
        caption(film, brief.heading)
    return film


def _fireworks(brief: Brief, timing: Timing, palette: Palette) -> Film:
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="FireworksScene",
        parts=("lib/frame.ts", "lib/colour.ts", "components/Fireworks.tsx"),
        values={},
        framing=framing_for(brief, motifs=("plain",), light=(0.5, 0.95)),
    )
    light_up(film)
    dice = random.Random(brief.seed + brief.variant)
    total = timing.total
    colours = list(brief.colours) or ["#FFB454", "#FF5D73", "#7EA8FF", "#6FE3C1", "#FFE7A3", "#D58BFF"]
    dice.shuffle(colours) if not brief.colours else None
    wanted = (
        brief.count
        if brief.count and brief.count <= 12
        else max(5, round(total * (1.5 if brief.style == "smooth" else 2.1)))
    )
    shells: list[dict[str, object]] = []
    finale = max(3, wanted // 3)
    for i in range(wanted):
        late = i >= wanted - finale and wanted > 4
        at = (
            -0.35
            if i == 0
            else (
                total - 1.75 + (i - wanted + finale) * (1.2 / finale)
                if late
                else 0.35 + (i - 1) * (total - 2.2) / max(1, wanted - finale - 1)
            )
        )
        kind = ("peony", "willow", "ring", "palm")[
            dice.choices(range(4), (5, 3 if brief.style != "playful" else 1, 2, 2))[0]
        ]
        if i == 0:
            kind = "peony"
        shells.append(
            {
                "at": round(at * max(0.25, brief.speed) if brief.speed < 1 else at * brief.speed, 3),
                "x": round(0.5 + (dice.random() - 0.5) * (0.2 if i in (0, wanted - 1) else 0.72), 3),
                "y": round((0.3 if i in (0, wanted - 1) else 0.2 + dice.random() * 0.3), 3),
                "size": round((1.15 if i in (0, wanted - 1) else 0.62 + dice.random() * 0.5) * brief.scale, 3),
                "color": "#FFCB6B" if kind == "willow" and not brief.colours else colours[i % len(colours)],
                "kind": kind,
            }
        )
    film.score.add("Sky", "flash", [(0, 0.8), (total, 1.0, "easeInOutSine")])
    film.values = {"shells": shells, "pace": brief.speed, "seed": brief.seed % 997}
    if brief.heading:
        caption(film, brief.heading)
    return film
