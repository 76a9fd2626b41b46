"""Bar, line and pie charts: the figures are drawn to scale, and motion only decides when."""

from __future__ import annotations

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.colour import from_oklch, mix, to_oklch, with_contrast
from koda_ray.studio.offline.films.base import Film, Timing
from koda_ray.studio.offline.films.stage import air, framing_for, light_up
from koda_ray.studio.offline.motion import elastic
from koda_ray.studio.offline.palette import Palette

__all__ = ["bars_film", "line_film", "pie_film"]

_PARTS = ("lib/frame.ts", "lib/colour.ts", "lib/type.ts", "lib/figures.ts", "components/Heading.tsx")


def _film(brief: Brief, timing: Timing, palette: Palette, scene: str, part: str) -> Film:
    film = Film(
        brief=brief,
        timing=timing,
        palette=palette,
        scene=scene,
        parts=(*_PARTS, part),
        values={},
        framing=framing_for(
            brief, motifs=("blobs", "plain", "dots") if brief.style == "playful" else ("plain",), light=(0.3, 0.3)
        ),
    )
    light_up(film)
    opening = min(timing.opening, 1.6) / max(1.0, brief.speed)
    film.score.add(
        "Heading",
        "reveal",
        [(0, 0.45), (opening * 0.8, 1, film.feel.enter if brief.style != "playful" else "easeOutBack")],
    )
    film.score.add("Chart", "reveal", [(0, 0.3), (opening * 0.9, 1, film.feel.move)])
    if brief.style == "cinematic":
        air(film, kind="dust", count=36, opacity=0.7)
    return film


def _note(brief: Brief) -> str | None:
    return "Sample values" if brief.sample_data else None


def _grow(film: Film, name: str, prop: str, start: float, seconds: float) -> None:
    brief = film.brief
    if (brief.easing or brief.style) == "playful":
        keys = elastic(0.0, 1.0, seconds * 1.25, from_s=start, bounce=0.7 * brief.bounce)
        film.score.add(name, prop, [(0, 0), *keys] if start > 0.01 else keys)
    else:
        film.score.add(name, prop, [(0, 0), (start, 0), (start + seconds, 1, film.feel.enter)])


def _schedule(film: Film, count: int) -> tuple[float, float, float]:
    """Return (first start, step between parts, seconds of one part), all grown before the ending begins."""
    brief, timing = film.brief, film.timing
    start = min(timing.opening, 1.5) * 0.3 / max(1.0, brief.speed)
    end = max(start + 0.6, min(timing.ending - 0.1, timing.total - 0.8))
    # the growth takes the scenes between opening and ending, at the pace that was asked for
    length = (end - start) * min(1.0, 0.82 / brief.speed)
    one = max(0.35, min(film.feel.enter_s * 1.5, length * 0.6))
    step = (length - one) / max(1, count - 1)
    return start, max(0.02, step), one


def _emphasise(film: Film, after: float) -> None:
    timing = film.timing
    begin = max(after, timing.ending - 0.6)
    if begin + 0.6 < timing.total:
        film.score.add("Chart", "emphasis", [(0, 0), (begin, 0), (min(timing.total, begin + 0.9), 1, film.feel.move)])


def _series(brief: Brief, palette: Palette, count: int) -> list[str]:
    """Return ``count`` colours that tell parts apart and belong together."""
    if brief.style == "playful" and brief.accent is None:
        usable = [c for c in palette.colours if c != "#FFFFFF"] or list(palette.colours)
        return [usable[i % len(usable)] for i in range(count)]
    if len(brief.colours) > 1:
        return [brief.colours[i % len(brief.colours)] for i in range(count)]
    lightness, chroma, hue = to_oklch(palette.accent)
    toward = 0.88 if palette.dark is False else 0.42
    out: list[str] = []
    for i in range(count):
        share = i / max(1, count - 1) * 0.8
        colour = from_oklch(
            lightness + (toward - lightness) * share, chroma * (1 - 0.5 * share), (hue + 22 * share) % 360
        )
        out.append(with_contrast(colour, palette.ground, least=1.22))
    return out


def bars_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a bar chart."""
    film = _film(brief, timing, palette, "BarChartScene", "components/BarChart.tsx")
    start, step, one = _schedule(film, len(brief.data))
    most = max(d.value for d in brief.data)
    several = (brief.style == "playful" and brief.accent is None) or len(brief.colours) > 1
    series = _series(brief, palette, len(brief.data))
    bars: list[dict[str, object]] = []
    for i, datum in enumerate(brief.data):
        name = f"Bar {i + 1}"
        _grow(film, name, "grow", start + i * step, one)
        colour = (
            series[i]
            if several
            else palette.accent
            if datum.value == most
            else mix(palette.accent, palette.ground, 0.16)
        )
        bars.append(
            {"name": name, "label": datum.label, "value": datum.value, "unit": datum.unit or None, "color": colour}
        )
    if not several:
        _emphasise(film, start + step * (len(bars) - 1) + one)
    film.values = {
        "heading": brief.heading,
        "note": _note(brief),
        "bars": bars,
        "corner": {"playful": 0.22, "smooth": 0.1, "cinematic": 0.04}[brief.style],
        "glow": brief.style == "cinematic",
    }
    return film


def line_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a line chart."""
    film = _film(brief, timing, palette, "LineChartScene", "components/LineChart.tsx")
    start, step, one = _schedule(film, len(brief.data))
    end = start + step * (len(brief.data) - 1) + one
    film.score.add("Chart", "draw", [(0, 0.02), (start, 0.02), (end, 1, film.feel.move)])
    _emphasise(film, end)
    film.values = {
        "heading": brief.heading,
        "note": _note(brief),
        "points": [{"label": d.label, "value": d.value} for d in brief.data],
        "unit": brief.data[0].unit,
        "color": palette.accent,
    }
    return film


def pie_film(brief: Brief, timing: Timing, palette: Palette) -> Film:
    """Make the film of a pie chart, as a ring."""
    film = _film(brief, timing, palette, "PieChartScene", "components/PieChart.tsx")
    start, step, one = _schedule(film, len(brief.data))
    series = _series(brief, palette, len(brief.data))
    slices: list[dict[str, object]] = []
    for i, datum in enumerate(brief.data):
        name = f"Slice {i + 1}"
        first = 0.0 if i == 0 else start * 0.6 + i * step
        film.score.add(
            name, "open", [(0, 0.12 if i == 0 else 0), (first, 0.12 if i == 0 else 0), (first + one, 1, film.feel.move)]
        )
        slices.append({"name": name, "label": datum.label or f"Part {i + 1}", "value": datum.value, "color": series[i]})
    film.score.add("Chart", "turn", [(0, -0.9), (timing.ending, 0.0, "easeOutCubic")])
    _emphasise(film, start * 0.6 + step * (len(slices) - 1) + one)
    film.values = {
        "heading": brief.heading,
        "note": _note(brief),
        "slices": slices,
        "unit": brief.data[0].unit if brief.data[0].unit == "%" else "",
        "hole": 0.58 if brief.style != "playful" else 0.46,
    }
    return film
