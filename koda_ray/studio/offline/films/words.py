"""Films made of type: a title, and kinetic typography of the prompt's own words."""

from __future__ import annotations

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.colour import contrast
from koda_ray.studio.offline.films.base import Film, Timing, pick
from koda_ray.studio.offline.films.stage import air, framing_for, light_up, still
from koda_ray.studio.offline.palette import Palette, ink_on

__all__ = ["title_film", "words_film"]

_MANNER = {"playful": "pop", "smooth": "rise", "cinematic": "emerge"}


def title_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of one title."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="TitleScene",
        parts=("lib/frame.ts", "lib/colour.ts", "lib/type.ts", "lib/stagger.ts", "components/Title.tsx"),
        values={},
        framing=framing_for(brief, light=(0.5, 0.5)),
        many_letter_colours=brief.style == "playful" and not any(p == "ink" for p, _ in brief.repaint),
    )
    light_up(film)
    feel, total = film.feel, timing.total
    letters = len(brief.heading)
    length = min(timing.ending - 0.1, feel.enter_s * 1.1 + min(1.8, letters * 0.05 * (feel.stagger_s / 0.1)))
    length = max(0.5, min(length, total * 0.55))
    film.score.add(
        "Title", "reveal", [(0, 0.14), (length, 1.0, "linear" if brief.style != "cinematic" else "easeOutSine")]
    )
    if brief.style == "cinematic":
        film.score.add("Title", "tracking", [(0, 0.0), (total, 0.045, "easeOutCubic")])
        film.score.add("Title", "push", [(0, -0.03), (total, 0.06, "easeInOutSine")])
        sweep = min(total - 0.6, max(length + 0.3, timing.ending))
        film.score.add("Title", "glint", [(0, 0.0), (max(length, sweep - 1.8), 0.0), (sweep, 1.0, "easeInOutSine")])
    elif brief.style == "smooth":
        film.score.add("Title", "push", [(0, 0.0), (total, 0.025, "easeInOutSine")])
    else:
        beat = length + 0.2
        waves = max(0, int((total - beat - 0.6) / (1.7 / brief.speed)))
        if waves:
            film.score.add(
                "Title", "wave", [(0, 0), (beat + 0.5, 0), (beat + 0.5 + waves * 1.7 / brief.speed, waves, "linear")]
            )
        if beat + 0.7 < total:
            film.score.add(
                "Title",
                "push",
                [(0, 0), (beat, 0), (beat + 0.22, 0.05, "easeOutCubic"), (beat + 0.7, 0.0, "easeOutBack")],
            )
    film.score.add(
        "Title", "sub", [(0, 0), (length * 0.8, 0), (min(total - 0.3, length * 0.8 + feel.enter_s), 1, feel.enter)]
    )
    film.values = {
        "title": {
            "text": brief.heading,
            "subtitle": brief.texts[0] if brief.texts else None,
            "manner": _MANNER[brief.style],
            "fill": 0.8,
            "rule": True if brief.style == "smooth" else None,
        }
    }
    if brief.particles or brief.style == "cinematic":
        air(film, kind=brief.particle_kind if brief.particles else "dust", count=None if brief.particles else 40)
    return film


def words_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make kinetic typography of the brief's phrases."""
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene="WordsScene",
        parts=("lib/frame.ts", "lib/type.ts", "lib/stagger.ts", "components/Phrase.tsx"),
        values={},
        framing=framing_for(brief, light=(0.4, 0.4)),
    )
    light_up(film)
    phrases = brief.words or ("Hello",)
    feel, total = film.feel, timing.total
    weights = [6 + len(p) for p in phrases]
    hold = still(timing)
    room = (total - hold) / max(1.0, brief.speed)
    starts: list[float] = []
    at = 0.0
    for weight in weights:
        starts.append(at)
        at += room * weight / sum(weights)
    layouts = {
        "playful": ("centre", "stack", "echo", "corner"),
        "smooth": ("stack", "corner", "centre", "stack"),
        "cinematic": ("centre", "centre", "corner", "centre"),
    }[brief.style]
    props: list[dict[str, object]] = []
    for i, phrase in enumerate(phrases):
        name = f"Phrase {i + 1}"
        start = starts[i]
        slot = (starts[i + 1] if i + 1 < len(phrases) else at) - start
        enter = min(feel.enter_s * 1.35, max(0.25, slot * 0.62))
        if i == 0:
            film.score.add(name, "enter", [(0, 0.3), (enter * 0.8, 1, "easeOutSine")])
        else:
            film.score.add(name, "enter", [(0, 0), (start, 0), (start + enter, 1, "easeOutSine")])
        if i + 1 < len(phrases):
            out = start + slot
            film.score.add(
                name, "leave", _leaving(out, slot, covered=_ground(brief, palette, i + 1, len(phrases)) is not None)
            )
        layout = layouts[(i + brief.seed // 11 + brief.variant) % len(layouts)]
        if len(phrase) > 30 and layout == "echo":
            layout = "stack"
        ground = _ground(brief, palette, i, len(phrases))
        base = ground or palette.ground
        ink = ink_on(palette, base) if ground else palette.ink
        readable = [c for c in (palette.accent, *palette.colours, palette.top, palette.bottom) if c != ink]
        accent = next((c for c in readable if contrast(c, base) >= 2), ink)
        props.append(
            {
                "name": name,
                "text": phrase,
                "layout": layout,
                "ink": ink,
                "accent": accent,
                "ground": ground,
                "from": pick(brief, ("left", "down", "right", "up"), i) if brief.direction is None else brief.direction,
                "manner": _MANNER[brief.style],
            }
        )
    film.values = {"phrases": props}
    if brief.particles or brief.style == "cinematic":
        air(
            film,
            kind=brief.particle_kind if brief.particles else "dust",
            count=None if brief.particles else 36,
            opacity=0.8,
        )
    return film


def _leaving(out: float, slot: float, *, covered: bool) -> list[tuple[float, float, str]]:
    """Return the keys of a phrase that goes: before the next one comes, or under the ground that wipes over it."""
    if covered:
        return [(0, 0, "linear"), (out + 0.3, 0, "linear"), (out + 0.45, 1, "linear")]
    gone = min(0.3, slot * 0.25)
    return [(0, 0, "linear"), (out - gone, 0, "linear"), (out, 1, "linear")]


def _ground(brief: Brief, palette: Palette, i: int, count: int) -> str | None:
    """Return a phrase's own ground: playful films change colour often, smooth ones once, cinematic ones never."""
    if brief.style == "cinematic":
        return None
    if brief.style == "smooth":
        turning = count > 3 and i == count // 2
        return palette.accent if turning else (palette.top if count > 3 and i == count // 2 + 1 else None)
    grounds = [None, *[c for c in palette.colours if c != "#FFFFFF"][:4]]
    return grounds[(i + brief.variant) % len(grounds)] if i else None
