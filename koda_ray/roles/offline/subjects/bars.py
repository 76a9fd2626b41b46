"""Bar charts."""

from __future__ import annotations

from collections.abc import Iterator

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.charting import Chart, Figures, any_chart, emphasise, grow, schedule, series
from koda_ray.roles.offline.colour import mix
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import own_brief

__all__ = ["Bars"]


class Bars(Chart):
    """A bar chart, and what is only called a chart."""

    name = "bars"
    rank = 10

    def claims(self, heard: Hearing) -> Iterator[int]:
        yield from super().claims(heard)
        if any_chart(heard):
            yield 60

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = self.begin(brief, timing, palette, scene="BarChartScene")
        data = own_brief(brief, Figures).data
        start, step, one = schedule(film, len(data))
        most = max(d.value for d in data)
        several = (brief.style == "playful" and brief.accent is None) or len(brief.colours) > 1
        quiet = mix(palette.accent, palette.ground, 0.16)
        colours = series(brief, palette, len(data))
        bars: list[dict[str, object]] = []
        for i, datum in enumerate(data):
            name = f"Bar {i + 1}"
            grow(film, name, "grow", start + i * step, one)
            colour = colours[i] if several else palette.accent if datum.value == most else quiet
            bars.append(
                {"name": name, "label": datum.label, "value": datum.value, "unit": datum.unit or None, "color": colour}
            )
        if not several:
            emphasise(film, start + step * (len(bars) - 1) + one)
        film.values |= {
            "bars": bars,
            "corner": {"playful": 0.22, "smooth": 0.1, "cinematic": 0.04}[brief.style],
            "glow": brief.style == "cinematic",
        }
        return film
