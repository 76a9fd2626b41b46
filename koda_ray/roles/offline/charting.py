"""What bar, line and pie charts share: figures drawn to scale, and motion that only decides when."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.colour import from_oklch, to_oklch, with_contrast
from koda_ray.roles.offline.extract import find_length
from koda_ray.roles.offline.figures import Datum, find_data
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import Ground, air, heading_of, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import alternatives, expression, figures, listed, said
from koda_ray.roles.offline.motion import elastic
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Subject, own_brief

__all__ = ["Chart", "Figures", "any_chart", "emphasise", "grow", "schedule", "series"]

_TOPIC_END = re.compile(rf"{alternatives('chart_topic_end')}|[-(「\"“'‘=–—]", re.I)


@dataclass(frozen=True)
class Figures:
    """A chart's figures; ``sample`` where they are ours, since none were given."""

    data: tuple[Datum, ...] = ()
    sample: bool = False


class Chart(Subject):
    """A chart of some kind."""

    obvious = True
    length_s = 6.0
    heading_in = "Heading"
    place = (0.05, 0.24, 0.95, 0.95)
    zoom = 1.08
    long = True

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        """Take the figures that are given, or some of ours."""
        data, dropped = heard.figures
        quotes, notes = heard.quotes, heard.notes
        if dropped:
            notes.append(said("chart.dropped", dropped=dropped, most=len(data)))
        data = self.shown(data, notes)
        absurd = [d for d in data if not math.isfinite(d.value) or abs(d.value) >= 1e12]
        if absurd:
            notes.append(said("chart.absurd"))
            data = tuple(d for d in data if d not in absurd)
        if all(d.value == 0 for d in data):
            data = ()
        sample = not data
        if sample:
            samples = figures(f"sample.{self.name}")
            names = quotes if len(quotes) > 1 else [label for label, _ in samples]
            values = [value for _, value in samples]
            data = tuple(Datum(label=label, value=value) for label, value in zip(names, values, strict=False))
            notes.append(said("chart.sample"))
        elif len(quotes) >= len(data) and not any(d.label for d in data):
            data = tuple(replace(d, label=label) for d, label in zip(data, quotes, strict=False))
            quotes = quotes[len(data) :]
        heading = quotes[0] if quotes and not sample else _topic(heard.bare)
        if any(heading.casefold() == d.label.casefold() for d in data):
            heading = ""
        return replace(brief, heading=heading, texts=heard.quotes[1:], own=Figures(data, sample))

    def shown(self, data: tuple[Datum, ...], notes: list[str]) -> tuple[Datum, ...]:
        """Return those figures that this chart can show, and note what is left out."""
        return data

    def changed(self, brief: Brief, text: str) -> tuple[Brief, str] | None:
        """Take other figures, where a change gives some."""
        length = find_length(text)
        data, _ = find_data(length.rest if length else text)
        if len(data) < 2:
            return None
        before = own_brief(brief, Figures)
        kept = [d.label for d in before.data] if len(before.data) == len(data) and not before.sample else []
        if kept and not any(d.label for d in data):
            data = tuple(replace(d, label=label) for d, label in zip(data, kept, strict=True))
        return replace(brief, own=Figures(data)), said("chart.changed")

    def script(self, brief: Brief) -> Script:
        """Tell of the chart, with its first figures."""
        values = ", ".join(f"{d.value:g}" for d in own_brief(brief, Figures).data[:6])
        return Script.told("chart", thing=said(f"thing.{self.name}"), values=values)

    def left(self, film: Film) -> list[tuple[str, str]]:
        """Leave the heading and the small print."""
        return [heading_of(film)]

    def begin(self, brief: Brief, timing: Timing, palette: Palette, *, scene: str) -> Film:
        """Begin a chart's film: its ground, its heading, and the axes as they come in."""
        motifs = ("blobs", "plain", "dots") if brief.style == "playful" else ("plain",)
        film = set_stage(brief, timing, palette, scene=scene, ground=Ground(motifs=motifs, light=(0.3, 0.3)))
        opening = min(timing.opening, 1.6) / max(1.0, brief.speed)
        enter = film.feel.enter if brief.style != "playful" else "easeOutBack"
        film.score.add("Heading", "reveal", [(0, 0.45), (opening * 0.8, 1, enter)])
        film.score.add("Chart", "reveal", [(0, 0.3), (opening * 0.9, 1, film.feel.move)])
        if brief.style == "cinematic":
            air(film, kind="dust", count=36, opacity=0.7)
        note = said("chart.sample_note", language=brief.language) if own_brief(brief, Figures).sample else None
        film.values = {"heading": brief.heading, "note": note, "size": {}}
        return film


def any_chart(heard: Hearing) -> bool:
    """Return whether a chart is asked for without its kind."""
    return heard.says(listed("charts")) and (
        len(heard.figures[0]) >= 2 or bool(expression("any_chart").search(heard.bare))
    )


def _topic(text: str) -> str:
    """Return what a chart is about: "bar chart of monthly sales: ..." gives "Monthly sales"."""
    match = expression("chart_topic").search(text)
    if not match:
        return ""
    words = _TOPIC_END.split(match.group(1), maxsplit=1)[0].strip(" :,-.")
    words = re.sub(rf"^(?:{'|'.join(c for c in lexicon.COLOURS if c.isascii())})$", "", words, flags=re.I)
    return words[:1].upper() + words[1:] if len(words) > 2 else ""


def grow(film: Film, name: str, prop: str, start: float, seconds: float) -> None:
    """Let a part of the chart grow to its value, as its style does."""
    brief = film.brief
    if (brief.easing or brief.style) == "playful":
        keys = elastic(0.0, 1.0, seconds * 1.25, from_s=start, bounce=0.7 * brief.bounce)
        film.score.add(name, prop, [(0, 0), *keys] if start > 0.01 else keys)
    else:
        film.score.add(name, prop, [(0, 0), (start, 0), (start + seconds, 1, film.feel.enter)])


def schedule(film: Film, count: int) -> tuple[float, float, float]:
    """Return (first start, step between parts, seconds of one part), all grown before the ending begins."""
    brief, timing = film.brief, film.timing
    start = min(timing.opening, 1.5) * 0.3 / max(1.0, brief.speed)
    end = max(start + 0.6, min(timing.ending - 0.1, timing.total - 0.8))
    # the growth takes the scenes between opening and ending, at the pace that was asked for
    length = (end - start) * min(1.0, 0.82 / brief.speed)
    one = max(0.35, min(film.feel.enter_s * 1.5, length * 0.6))
    step = (length - one) / max(1, count - 1)
    return start, max(0.02, step), one


def emphasise(film: Film, after: float) -> None:
    """Let the largest value stand out from ``after`` seconds on, where there is time for it."""
    timing = film.timing
    begin = max(after, timing.ending - 0.6)
    if begin + 0.6 < timing.total:
        film.score.add("Chart", "emphasis", [(0, 0), (begin, 0), (min(timing.total, begin + 0.9), 1, film.feel.move)])


def series(brief: Brief, palette: Palette, count: int) -> list[str]:
    """Return ``count`` colours that tell parts apart and belong together."""
    if brief.style == "playful" and brief.accent is None:
        usable = [c for c in palette.colours if c != "#FFFFFF"] or list(palette.colours)
        return [usable[i % len(usable)] for i in range(count)]
    if len(brief.colours) > 1:
        return [brief.colours[i % len(brief.colours)] for i in range(count)]
    lightness, chroma, hue = to_oklch(palette.accent)
    toward = 0.88 if palette.dark is False else 0.42
    turn = 22 if brief.accent is None else 0  # a colour that was asked for holds for every part
    out: list[str] = []
    for i in range(count):
        share = i / max(1, count - 1) * 0.8
        colour = from_oklch(
            lightness + (toward - lightness) * share, chroma * (1 - 0.5 * share), (hue + turn * share) % 360
        )
        out.append(with_contrast(colour, palette.ground, least=1.22))
    return out
