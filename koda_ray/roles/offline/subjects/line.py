"""Line charts."""

from __future__ import annotations

from collections.abc import Iterator

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.charting import Chart, Figures, any_chart, emphasise, schedule
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import expression
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import own_brief

__all__ = ["LineChart"]


class LineChart(Chart):
    """A line chart, and any chart of something over time."""

    name = "line"
    rank = 20

    def claims(self, heard: Hearing) -> Iterator[int]:
        yield from super().claims(heard)
        if any_chart(heard) and expression("over_time").search(heard.bare):
            yield 50

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = self.begin(brief, timing, palette, scene="LineChartScene")
        data = own_brief(brief, Figures).data
        start, step, one = schedule(film, len(data))
        end = start + step * (len(data) - 1) + one
        film.score.add("Chart", "draw", [(0, 0.02), (start, 0.02), (end, 1, film.feel.move)])
        emphasise(film, end)
        film.values |= {
            "points": [{"label": d.label, "value": d.value} for d in data],
            "unit": data[0].unit,
            "color": palette.accent,
        }
        return film
