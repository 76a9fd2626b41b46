"""Line charts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.film import Film, Timing
from koda_ray.studio.offline.hearing import Hearing
from koda_ray.studio.offline.palette import Palette
from koda_ray.studio.offline.subject import own
from koda_ray.studio.offline.subjects.charting import Chart, Figures, any_chart, emphasise, schedule

__all__ = ["LineChart"]

_OVER_TIME = re.compile(r"\b(?:trend|over time|stock|price history|推移)\b", re.I)


class LineChart(Chart):
    """A line chart, and any chart of something over time."""

    name = "line"
    words = (
        "line chart",
        "line graph",
        "trend line",
        "line plot",
        "time series",
        "stock chart",
        "折れ線グラフ",
        "折线图",
    )
    rank = 20
    thing = "line"
    samples = (
        ("Jan", 18), ("Feb", 26), ("Mar", 22), ("Apr", 39), ("May", 44), ("Jun", 61), ("Jul", 58), ("Aug", 79),
    )  # fmt: skip

    def claims(self, heard: Hearing) -> Iterator[int]:
        yield from super().claims(heard)
        if any_chart(heard) and _OVER_TIME.search(heard.bare):
            yield 50

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = self.begin(brief, timing, palette, scene="LineChartScene", part="components/LineChart.tsx")
        data = own(brief, Figures).data
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
