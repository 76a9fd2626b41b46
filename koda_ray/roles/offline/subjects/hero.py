"""Things that cross, climb, fall, bounce, spin or float: a drawing of the kit's or an emoji, in its landscape."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import cast

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.bouncing import Bounce, bounce
from koda_ray.roles.offline.films.crossing import cross
from koda_ray.roles.offline.films.stage import Ground, air, caption, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import expression, rows, said
from koda_ray.roles.offline.motion import Score
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Countable, Subject, around, own_brief, subject_named
from koda_ray.roles.offline.travelling import MOTIONS, Traveller, find_hero

__all__ = ["Hero"]

_TRAITS: dict[str, list[str]] = tomllib.loads(
    (resources.files("koda_ray.roles.offline") / "drawings.toml").read_text(encoding="utf-8")
)


def _is(look: str, trait: str) -> bool:
    return look in _TRAITS[trait]


class Hero(Subject):
    """One to seven things on their way."""

    name = "hero"
    style = "playful"
    obvious = True
    counted = Countable(
        nouns="|".join(sorted((h for h in lexicon.HEROES if h.isascii()), key=len, reverse=True)) + r"|\w+s",
        again=r"\w+s",
    )
    letterboxed = True
    scenic = True

    def claims(self, heard: Hearing) -> Iterator[int]:
        hero = find_hero(heard.bare)
        if hero is None:
            return
        crossing = bool(expression("hero_crosses").search(heard.bare))
        airy = heard.air and heard.air[0] != "dust" and not (heard.quotes and heard.says(subject_named("title").words))
        if crossing and airy and not _is(hero.look, "airy"):
            yield 140
        moving = any(expression(words).search(heard.bare) for words, _ in MOTIONS)
        if crossing or moving or len(heard.bare.split()) <= 8:
            yield 180

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        return replace(super().fill(brief, heard), own=find_hero(heard.bare) or Traveller())

    def palettes(self, brief: Brief) -> tuple[str, ...]:
        if _is(own_brief(brief, Traveller).look, "nightly"):
            return ("violet hour", "midnight gold", "midnight pop", "teal and amber")
        return ()

    def script(self, brief: Brief) -> Script:
        hero = own_brief(brief, Traveller)
        thing = said(f"drawing.{hero.look}") if hero.look.isascii() else hero.look
        (entrance, entering), (passage, passing) = rows(f"journey.{hero.motion}")
        return Script.told(
            self.name,
            entrance=entrance,
            entering=entering.format(thing=thing),
            passage=passage,
            passing=passing.format(thing=thing),
        )

    def paintable(self, brief: Brief) -> bool:
        return own_brief(brief, Traveller).look.isascii()

    def seen(self, film: Film, at_s: float) -> tuple[float, float, float, float]:
        brief = film.brief
        across, down = (min(brief.width, brief.height) / 1080 / side for side in (brief.width, brief.height))
        places: list[tuple[float, float, float, float]] = []
        for each in cast("list[dict[str, object]]", film.values["heroes"]):
            name, half = str(each["name"]), cast("float", each["size"]) / 2
            x, y = film.score.value(name, "x", at_s), film.score.value(name, "y", at_s)
            places.append((x - half * across, y - half * down, x + half * across, y + half * down))
        return around(places)

    def left(self, film: Film) -> list[tuple[str, str]]:
        place, seed = film.values["place"], film.values["seed"]
        return [("Scenery", f'<Scenery place="{place}" seed={{{seed}}} heading={{{film.values["heading"]}}} />')]

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        hero = own_brief(brief, Traveller)
        place = _place(hero)
        film = set_stage(
            brief,
            timing,
            palette,
            scene="JourneyScene",
            ground=Ground(
                motifs=("plain",) if place != "none" else ("rays", "blobs", "rings", "dots"),
                light=(0.68, 0.3) if place != "none" else (0.5, 0.5),
            ),
        )
        count = min(7, brief.count or 1)
        heroes: list[dict[str, object]] = []
        for i in range(count):
            name = "Hero" if count == 1 else f"Hero {i + 1}"
            way = _move(film, name, place, i, count)
            _sway(film, name, place)
            heroes.append(_look(film, name, place, i, count, way))
            if hero.look == "rocket" and hero.motion == "cross":
                _upend(film, name)
        film.score.add(
            "Scenery", "pass", [(0, 0.0), (timing.total, 1.0 if hero.motion == "cross" else 0.35, "easeOutSine")]
        )
        film.values = {"heroes": heroes, "place": place, "seed": brief.seed % 997, "heading": _heading(brief)}
        if brief.particles:
            air(film)
        if brief.heading:
            caption(film, brief.heading, position="top")
        return film


@lru_cache(maxsize=256)
def _heading(brief: Brief) -> int:
    return -1 if brief.direction == "left" else 1


def _place(hero: Traveller) -> str:
    if _is(hero.look, "space"):
        return "space"
    if _is(hero.look, "sea"):
        return "sea"
    if _is(hero.look, "road") and hero.motion == "cross":
        return "land"
    if hero.motion in ("cross", "rise", "fall") or hero.look in ("balloon", "paper-plane"):
        return "sky"
    return "none"


def _move(film: Film, name: str, place: str, i: int, count: int) -> list[list[float]] | None:
    """Add the keys of a thing's way; return the trail that it leaves, where it does."""
    hero = own_brief(film.brief, Traveller)
    x = 0.5 if count == 1 else 0.16 + 0.68 * i / (count - 1)
    if hero.motion == "cross":
        path = cross(film, name, place, i, count, 0.25 * i)
        return [[round(px, 4), round(py, 4)] for px, py in path] if hero.look == "paper-plane" else None
    if hero.motion == "bounce":
        _bounce(film, name, i, x)
    elif hero.motion in ("rise", "fall"):
        _climb(film, name, i, x, rising=hero.motion == "rise")
    else:
        film.score.add(name, "scale", [(0, 0.6), (film.feel.enter_s, 1, film.feel.enter)])
        film.score.add(name, "x", [(0, x)])
        if hero.motion == "spin":
            _spin(film, name)
        else:
            _float(film, name)
    return None


def _bounce(film: Film, name: str, i: int, x: float) -> None:
    brief, local = film.brief, Score()
    bounce(
        local,
        name,
        Bounce(
            period_s=0.86 / brief.speed * (1 + 0.08 * (i % 2)),
            height=0.42 * min(1.3, brief.bounce),
            squash=0.22 * brief.bounce,
            rest_s=film.timing.ending,
            total_s=film.timing.total,
            start_s=0.0 if i == 0 else 0.1 * (i % 3),
        ),
    )
    for prop, keys in local.tracks[name].items():
        if prop == "height":
            film.score.add(name, "y", [(k.t, 0.7 - k.v, k.ease) for k in keys])
        else:
            film.score.add(name, prop, [(k.t, k.v, k.ease) for k in keys])
    film.score.add(name, "x", [(0, x)])


def _climb(film: Film, name: str, i: int, x: float, *, rising: bool) -> None:
    total, sine = film.timing.total, "easeInOutSine"
    low, high = (0.78 - film.framing.bars, 0.36) if rising else (0.18, 0.62)
    wait = min(0.5, film.timing.opening * 0.25) + 0.16 * i
    film.score.add(
        name, "y", [(0, low), (wait, low), (total - 0.4, high, "easeInOutCubic" if rising else "easeInOutSine")]
    )
    film.score.add(name, "x", [(0, x - 0.02), (total * 0.5, x + 0.03, sine), (total, x, sine)])
    film.score.add(name, "turn", [(0, -3), (total * 0.3, 4, sine), (total * 0.7, -3, sine), (total, 0, sine)])


def _spin(film: Film, name: str) -> None:
    brief, timing = film.brief, film.timing
    film.score.add(name, "y", [(0, 0.5)])
    turns = 360 * max(1, round(timing.total / 2.4 * brief.speed))
    ease = "linear" if brief.style == "playful" else "easeInOutSine"
    film.score.add(name, "turn", [(0, 0), (timing.ending + 0.4, turns, ease), (timing.total, turns, "linear")])


def _float(film: Film, name: str) -> None:
    total = film.timing.total
    keys = [(0.0, 0.53, "linear")]
    period = 2.6 / film.brief.speed
    t, up = 0.0, True
    while t + period / 2 < total:
        t += period / 2
        keys.append((t, 0.46 if up else 0.53, "easeInOutSine"))
        up = not up
    film.score.add(name, "y", keys)
    film.score.add(name, "turn", [(0, -5), (total / 2, 5, "easeInOutSine"), (total, 0, "easeInOutSine")])


def _sway(film: Film, name: str, place: str) -> None:
    beat = (0.24 if own_brief(film.brief, Traveller).look == "rocket" else 0.9) / film.brief.speed
    sway: list[tuple[float, float, str]] = []
    n = 0
    while n * beat <= film.timing.total and n < 400:
        sway.append((n * beat, (1 if n % 2 else -1) * (0.5 if place != "land" else 0.16), "easeInOutSine"))
        n += 1
    film.score.add(name, "sway", sway)


def _look(film: Film, name: str, place: str, i: int, count: int, way: list[list[float]] | None) -> dict[str, object]:
    brief, palette, hero = film.brief, film.palette, own_brief(film.brief, Traveller)
    size = (430 if count == 1 else 300 if count < 4 else 210) * brief.scale
    if place in ("land", "sea"):
        size *= 0.86
    colour = palette.colours[i % len(palette.colours)]
    backwards = (_is(hero.look, "facing_left")) == (_heading(brief) == 1)
    grounded = place == "land" or (hero.motion in ("bounce", "spin", "float") and place == "none")
    return {
        "name": name,
        "look": hero.look,
        "size": round(size * (1 - 0.12 * (i % 3)), 1),
        "color": colour if colour != "#FFFFFF" else palette.accent,
        "mirrored": True if hero.motion == "cross" and backwards and not _is(hero.look, "upright") else None,
        "trail": way if i == 0 else None,
        "shadow": True if brief.shadow and grounded else None,
        "flame": True if hero.look == "rocket" else None,
    }


def _upend(film: Film, name: str) -> None:
    """Lay what stands upright along its way."""
    turned = [(k.t, k.v + 90 * _heading(film.brief), k.ease) for k in film.score.tracks[name]["turn"]]
    film.score.tracks[name].pop("turn")
    film.score.add(name, "turn", turned)
