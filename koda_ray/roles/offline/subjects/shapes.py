"""Solids that trade places, lit in three dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import Ground, caption, dust, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import alternatives
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import Countable, Subject, own_brief

__all__ = ["Kinds", "Shapes"]

_CAST = ("sphere", "cube", "torus", "cone", "gem", "capsule")


@dataclass(frozen=True)
class Kinds:
    """The solids that were named."""

    named: tuple[str, ...] = ()


class Shapes(Subject):
    """One to nine solids."""

    name = "shapes"
    style = "playful"
    counted = Countable(
        nouns="|".join([*(word for word in lexicon.SOLIDS if word.isascii()), alternatives("solids_of_any_kind")]),
        again=alternatives("solids_again"),
    )
    letterboxed = True
    squares = True

    def claims(self, heard: Hearing) -> Iterator[int]:
        if heard.says(lexicon.SOLIDS) or heard.says(self.words):
            yield 190

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        found = [shape for _, _, shape in lexicon.find_all(heard.bare, lexicon.SOLIDS)]
        return replace(super().fill(brief, heard), own=Kinds(tuple(dict.fromkeys(found))[:5]))

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(brief, timing, palette, scene="ShapesScene", ground=Ground(light=(0.5, 0.46)))
        kinds, count = _cast(brief)
        size = 1.3 if count == 1 else min(1.0, (3.5 if "cube" in kinds else 4.2) / (count + 0.9))
        size *= min(1.4, brief.scale)
        half = (3.35 if brief.aspect == "wide" else 1.9) * (count - 1) / max(1, count)
        places = [0.0 if count == 1 else -half + i * 2 * half / (count - 1) for i in range(count)]
        solids: list[dict[str, object]] = []
        for i in range(count):
            name = f"Solid {i + 1}" if count > 1 else "Solid"
            _move(film, name, i, places, size * 1.02)
            solids.append(_look(film, name, i, kinds, size))
        film.values = {"solids": solids, "mood": brief.style}
        if brief.style != "playful":
            film.score.add("Camera", "closer", [(0, 0), (timing.total, 0.08, "easeInOutSine")])
            film.score.add("Camera", "orbit", [(0, -0.14), (timing.total, 0.14, "easeInOutSine")])
        dust(film, 40)
        if brief.heading:
            caption(film, brief.heading)
        return film


def _cast(brief: Brief) -> tuple[tuple[str, ...], int]:
    """Return the kinds of solids, and how many there are."""
    named = own_brief(brief, Kinds).named
    if not named:
        count = brief.count or 5
        return tuple(_CAST[(brief.seed + i) % len(_CAST)] for i in range(min(count, len(_CAST)))), count
    return named, brief.count or (1 if len(named) == 1 else len(named) if len(named) > 2 else len(named) * 2 - 1)


def _move(film: Film, name: str, i: int, places: list[float], rest: float) -> None:
    """Add the keys of a solid: it comes in, hops, trades places and turns."""
    brief, feel, total, score = film.brief, film.feel, film.timing.total, film.score
    count, beat, way = len(places), 0.9 / brief.speed, 1 if i % 2 == 0 else -1
    enter = i * min(feel.stagger_s * 1.6, 1.2 / count)
    stands = enter + feel.enter_s
    score.add(name, "scale", [(0, 0.55), (enter, 0.55), (stands, 1, feel.enter)])
    hops = _hops(film, i, count, rest, beat, stands)
    score.add(name, "y", [(0, rest + 0.5), (enter, rest + 0.5), (stands, rest, feel.enter), *hops])
    if count > 1:
        score.add(name, "x", _swaps(film, i, places, beat, stands))
        score.add(name, "z", [(0, 0.0)])
    else:
        score.add(name, "x", [(0, 0.0)])
    if (brief.easing or brief.style) == "playful":
        keys: list[tuple[float, float, str]] = [(0, -0.5, "linear")]
        for n in range(max(1, int((film.timing.ending - 0.4) / (beat * 1.6)))):
            at, angle = 0.4 + n * beat * 1.6 + 0.06 * i, keys[-1][1]
            keys += [(at, angle, "linear"), (at + beat * 1.1, angle + math.pi / 2 * way, "easeOutBack")]
        score.add(name, "turn", keys)
    else:
        turns = math.tau * max(1, round(brief.speed * total / 6)) * way
        score.add(name, "turn", [(0, -0.6), (total, turns - 0.6, "easeInOutSine")])
    score.add(name, "roll", [(0, 0.55), (stands, 0.28, feel.enter), (total, 0.24, "easeInOutSine")])


def _look(film: Film, name: str, i: int, kinds: tuple[str, ...], size: float) -> dict[str, object]:
    brief, palette = film.brief, film.palette
    one_colour = brief.accent and len(brief.colours) == 1 and len(set(kinds)) == 1
    return {
        "name": name,
        "kind": kinds[i % len(kinds)],
        "color": palette.accent if one_colour else palette.colours[i % len(palette.colours)],
        "size": round(size * (1 - 0.1 * (i % 2)), 3),
        "gloss": {"playful": 0.35, "smooth": 0.15, "cinematic": 0.9}[brief.style],
        "shadow": None if brief.shadow else False,
    }


def _hops(film: Film, i: int, count: int, rest: float, beat: float, begin: float) -> list[tuple[float, float, str]]:
    """Return hops on the beat, in turn, until the ending."""
    keys: list[tuple[float, float, str]] = []
    playful = (film.brief.easing or film.brief.style) == "playful"
    hop = 1.1 * film.brief.bounce
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
