"""Pie charts, drawn as a ring."""

from __future__ import annotations

from collections.abc import Iterable

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.charting import Chart, Figures, emphasise, schedule, series
from koda_ray.roles.offline.figures import Datum
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import expression, said
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.subject import own_brief

__all__ = ["Pie"]


class Pie(Chart):
    """A pie chart."""

    name = "pie"
    rank = 30

    def claims(self, heard: Hearing) -> Iterable[int]:
        if len(heard.figures[0]) < 2 and expression("pie_eaten").search(heard.bare):
            return ()
        return super().claims(heard)

    def shown(self, data: tuple[Datum, ...], notes: list[str]) -> tuple[Datum, ...]:
        if any(d.value < 0 for d in data):
            notes.append(said("chart.negative"))
            return tuple(d for d in data if d.value > 0)
        return data

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = self.begin(brief, timing, palette, scene="PieChartScene")
        data = own_brief(brief, Figures).data
        start, step, one = schedule(film, len(data))
        colours = series(brief, palette, len(data))
        slices: list[dict[str, object]] = []
        for i, datum in enumerate(data):
            name = f"Slice {i + 1}"
            begin = 0.0 if i == 0 else start * 0.6 + i * step
            shut = 0.12 if i == 0 else 0
            film.score.add(name, "open", [(0, shut), (begin, shut), (begin + one, 1, film.feel.move)])
            label = datum.label or said("chart.part", language=brief.language, number=i + 1)
            slices.append({"name": name, "label": label, "value": datum.value, "color": colours[i]})
        film.score.add("Chart", "turn", [(0, -0.9), (timing.ending, 0.0, "easeOutCubic")])
        emphasise(film, start * 0.6 + step * (len(slices) - 1) + one)
        film.values |= {
            "slices": slices,
            "unit": data[0].unit if data[0].unit == "%" else "",
            "hole": 0.58 if brief.style != "playful" else 0.46,
        }
        return film
