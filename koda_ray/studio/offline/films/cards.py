"""Steps, logos, product cards and pictures: flat things arranged in space, entering one after another."""

from __future__ import annotations

import math
from urllib.parse import quote

from koda_ray.studio.offline import lexicon
from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.colour import mix
from koda_ray.studio.offline.films.base import Film, Timing, pick
from koda_ray.studio.offline.films.stage import air, framing_for, light_up
from koda_ray.studio.offline.palette import Palette, ink_on

__all__ = ["card_film", "logo_film", "picture_film", "steps_film"]

_MANNER = {"playful": "pop", "smooth": "rise", "cinematic": "emerge"}
_LIBS = ("lib/frame.ts", "lib/colour.ts", "lib/type.ts")


def steps_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a list of steps, one scene each where there are enough."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="StepsScene",
        parts=(*_LIBS, "components/Heading.tsx", "components/Steps.tsx"),
        values={},
        framing=framing_for(
            brief, motifs=("blobs", "dots") if brief.style == "playful" else ("plain",), light=(0.3, 0.25)
        ),
    )
    light_up(film)
    feel, total, count = film.feel, timing.total, len(brief.steps)
    film.score.add(
        "Heading", "reveal", [(0, 0.4), (min(timing.opening * 0.7, 1.0) / max(1.0, brief.speed), 1, feel.enter)]
    )
    first = timing.opening * 0.62 / max(1.0, brief.speed)
    last = max(first + 0.3 * count, timing.ending - 0.2)
    slot = (last - first) / count / max(1.0, brief.speed)
    enter = min(feel.enter_s, slot * 0.9)
    steps: list[dict[str, object]] = []
    path: list[tuple[float, float, str]] = [(0, 0.0, "linear"), (first, 0.0, "linear")]
    for i, label in enumerate(brief.steps):
        name = f"Step {i + 1}"
        at = first + i * slot
        film.score.add(name, "enter", [(0, 0), (at, 0), (at + enter, 1, feel.enter)])
        keys: list[tuple[float, float, str]] = [(0, 0, "linear"), (at, 1, "hold")]
        if i < count - 1:
            keys += [(at + slot, 1, "linear"), (at + slot + min(0.5, slot * 0.5), 0, feel.move)]
        film.score.add(name, "active", keys)
        path.append((at + enter, (i + 1) / count, feel.move))
        colour = (
            palette.accent if brief.style != "playful" or brief.accent else _bright(palette)[i % len(_bright(palette))]
        )
        steps.append(
            {
                "name": name,
                "label": label,
                "kicker": brief.step_kickers[i] if brief.step_kickers else f"{i + 1:02d}",
                "color": colour,
                "ink": ink_on(palette, colour),
            }
        )
    clean = [key for i, key in enumerate(path) if i == 0 or key[0] > path[i - 1][0] + 0.002]
    film.score.add("Path", "draw", [key for key in clean if key[0] <= total])
    film.values = {
        "heading": brief.heading,
        "steps": steps,
        "corner": {"playful": 44, "smooth": 28, "cinematic": 10}[brief.style],
        "manner": _MANNER[brief.style],
    }
    if brief.particles or brief.style == "cinematic":
        air(film, count=36, opacity=0.7, kind=brief.particle_kind if brief.particles else "dust")
    return film


def _bright(palette: Palette) -> list[str]:
    return [c for c in palette.colours if c != "#FFFFFF"] or list(palette.colours)


def logo_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a logo reveal: the mark, then the name."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="LogoScene",
        parts=(*_LIBS, "lib/stagger.ts", "components/Logo.tsx"),
        values={},
        framing=framing_for(
            brief, motifs=("blobs", "rays") if brief.style == "playful" else ("plain", "rings"), light=(0.5, 0.5)
        ),
    )
    light_up(film)
    feel, total = film.feel, timing.total
    pace = max(0.5, brief.speed)
    drawn = min(timing.opening * 0.75, 1.7) / pace
    aside = drawn + min(1.0, feel.enter_s) * 0.35
    moved = min(total * 0.62, aside + feel.enter_s * 0.85)
    film.score.add("Mark", "draw", [(0, 0.22), (drawn, 1, feel.move)])
    film.score.add("Mark", "fill", [(0, 0), (drawn * 0.55, 0), (drawn + 0.25, 1, feel.enter)])
    if (brief.easing or brief.style) == "playful":
        film.score.add("Mark", "scale", [(0, 0.9), (drawn * 0.7, 0.92), (drawn + 0.3, 1, "easeOutBack")])
        film.score.add("Mark", "turn", [(0, -24), (drawn + 0.3, 0, "easeOutBack")])
    else:
        film.score.add("Mark", "scale", [(0, 0.96), (moved, 1, "easeInOutSine")])
        film.score.add("Mark", "turn", [(0, -8), (drawn + 0.2, 0, feel.enter)])
    film.score.add("Mark", "aside", [(0, 0), (aside, 0), (moved, 1, feel.move)])
    named = min(total * 0.8, moved + feel.enter_s * 0.7)
    film.score.add("Wordmark", "reveal", [(0, 0), (aside + (moved - aside) * 0.45, 0), (named, 1, "easeOutSine")])
    film.score.add(
        "Wordmark", "line", [(0, 0), (named - 0.2, 0), (min(total - 0.1, named + feel.enter_s * 0.6), 1, feel.enter)]
    )
    film.score.add("Wordmark", "breathe", [(0, 0), (named, 0), (total, 1, "easeInOutSine")])
    film.values = {
        "logo": {
            "name": brief.heading,
            "tagline": brief.texts[0] if brief.texts else None,
            "image": brief.image,
            "mark": pick(brief, ("arch", "orbit", "petals", "stack", "letter"), 1),
            "manner": _MANNER[brief.style],
        }
    }
    if brief.particles or brief.style == "cinematic":
        air(film, kind=brief.particle_kind if brief.particles else "dust", count=None if brief.particles else 40)
    return film


def card_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a product card."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="ProductScene",
        parts=(*_LIBS, "components/ProductCard.tsx"),
        values={},
        framing=framing_for(
            brief, motifs=("blobs", "rings") if brief.style == "playful" else ("plain", "rings"), light=(0.4, 0.35)
        ),
    )
    light_up(film)
    feel, total = film.feel, timing.total
    arrive = min(timing.opening, 1.5) / max(1.0, brief.speed)
    film.score.add("Card", "scale", [(0, 0.82), (arrive, 1, feel.enter)])
    film.score.add(
        "Card",
        "turn",
        [(0, -38), (arrive * 1.15, -7, feel.enter), (timing.ending, 6, "easeInOutSine"), (total, 0, "easeInOutSine")],
    )
    film.score.add(
        "Card",
        "tilt",
        [(0, 14), (arrive * 1.15, 3, feel.enter), (timing.ending, -2, "easeInOutSine"), (total, 0, "easeInOutSine")],
    )
    film.score.add(
        "Card",
        "rise",
        [(0, -0.4), (arrive, 0, feel.enter), (timing.ending, 0.25, "easeInOutSine"), (total, 0, "easeInOutSine")],
    )
    step = max(0.2, feel.stagger_s * 2.4)
    at = arrive * 0.45
    film.score.add("Product", "enter", [(0, 0.35), (at, 0.4, "easeInOutSine"), (at + feel.enter_s, 1, feel.enter)])
    film.score.add("Product", "float", [(0, 0), (total, round(total / 3.2) or 1, "linear")])
    for i, prop in enumerate(("name", "price", "action")):
        begin = at + step * (i + 0.6)
        film.score.add("Facts", prop, [(0, 0), (begin, 0), (begin + feel.enter_s, 1, feel.enter)])
    sheen = max(arrive + 0.6, timing.ending - 1.2)
    film.score.add("Facts", "sheen", [(0, 0), (sheen, 0), (min(total, sheen + 1.4), 1, "easeInOutSine")])
    emblem = next(
        (emoji for _, _, emoji in lexicon.find_all(brief.heading + " " + brief.prompt[:200], lexicon.PRODUCTS)), None
    )
    film.values = {
        "product": {
            "name": brief.heading,
            "price": brief.price or None,
            "tagline": brief.texts[0] if brief.texts else None,
            "action": brief.texts[1]
            if len(brief.texts) > 1
            else ("詳しく見る" if brief.language == "ja" else "Shop now" if brief.price else "Discover"),
            "image": brief.image,
            "emblem": emblem,
            "corner": {"playful": 64, "smooth": 40, "cinematic": 20}[brief.style],
        }
    }
    if brief.particles or brief.style == "cinematic":
        air(film, kind=brief.particle_kind if brief.particles else "dust", count=None if brief.particles else 36)
    return film


def picture_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of an uploaded picture."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="PictureScene",
        parts=("lib/frame.ts", "lib/colour.ts", "components/Picture.tsx"),
        values={},
        framing=framing_for(brief, motifs=("plain",)),
    )
    light_up(film)
    feel, total = film.feel, timing.total
    opening = min(timing.opening, 2.0) / max(1.0, brief.speed)
    near = 1.3 if brief.style == "cinematic" else 1.22
    film.score.add("Picture", "open", [(0, 0.55), (opening, 1, feel.enter)])
    film.score.add("Picture", "zoom", [(0, near), (total - 0.3, 1.02, "easeInOutSine")])
    film.score.add("Picture", "pan", [(0, 0), (total - 0.3, 1, "easeInOutSine")])
    film.score.add("Picture", "mat", [(0, 0.2), (timing.ending, 0.15, "easeInOutSine"), (total - 0.25, 1, feel.move)])
    film.score.add("Picture", "tilt", [(0, 4), (total - 0.3, 0, "easeInOutSine")])
    middle = total * 0.45
    film.score.add("Picture", "sheen", [(0, 0), (middle, 0), (min(total, middle + 1.8), 1, "easeInOutSine")])
    corner = pick(brief, ({"x": 0.2, "y": 0.3}, {"x": 0.8, "y": 0.35}, {"x": 0.3, "y": 0.75}), 2)
    film.values = {
        "picture": {
            "src": brief.image or _stand_in(palette, brief.seed),
            "corner": {"playful": 56, "smooth": 24, "cinematic": 6}[brief.style],
            "from": corner,
        }
    }
    if brief.particles or brief.style == "cinematic":
        air(film, kind=brief.particle_kind if brief.particles else "dust", count=None if brief.particles else 40)
    return film


def _stand_in(palette: Palette, seed: int) -> str:
    """Return a drawn landscape as a data URL, for a film of a picture that was not uploaded."""
    far, near = mix(palette.accent, palette.glow, 0.55), mix(palette.accent, palette.bottom, 0.45)
    hills: list[str] = []
    for i, colour in enumerate((far, mix(far, near, 0.5), near)):
        base = 620 + i * 120
        points = " ".join(
            f"{x},{base - 90 * math.sin(x / (210 - i * 30) + seed % 7 + i * 2):.0f}" for x in range(0, 1601, 40)
        )
        hills.append(f'<polygon points="0,900 {points} 1600,900" fill="{colour}"/>')
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1600 900" preserveAspectRatio="xMidYMid slice">'
        f'<rect width="1600" height="900" fill="{mix(palette.accent, "#FFFFFF", 0.8)}"/>'
        f'<circle cx="1130" cy="300" r="120" fill="{mix(palette.accent, "#FFFFFF", 0.7)}"/>{"".join(hills)}</svg>'
    )
    return "data:image/svg+xml," + quote(svg, safe="")
