"""Labelled figures in a prompt: "12, 30, 45", "Q1: 12, Q2: 30", "Apples 40%", one on each line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from koda_ray.roles.offline.language import alternatives, expression, signs, table

__all__ = ["Datum", "find_data", "without_measures"]


@dataclass(frozen=True, kw_only=True)
class Datum:
    """One value of a chart; ``unit`` is what follows the number (``%``, ``k``) or leads it (``$``)."""

    label: str
    value: float
    unit: str = ""


def without_measures(text: str) -> str:
    """Drop figures that are not data: frame rates, sizes."""
    return expression("measure").sub(" ", text)


_CURRENCY, _UNITS = signs("currency_signs"), table("units")
_FIGURE = re.compile(
    rf"(?P<lead>{_CURRENCY})?\s?(?P<sign>[-−])?(?P<number>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)\s?"
    rf"(?P<unit>{alternatives('figure_unit')})?"
)
_NOISE = re.compile(rf"{alternatives('chart_noise')}|{alternatives('figure_noise')}", re.I)
"""What stands beside a figure and is no part of its label."""
_AND = re.compile(rf"(?<=\d)\s+(?:{alternatives('figure_and')})\s+(?=(?:{_CURRENCY}|-)?\d)")
_SPLIT = re.compile(rf"{signs('pauses')}|[\n/|]|{alternatives('figure_split')}")


def find_data(text: str, *, limit: int = 12) -> tuple[tuple[Datum, ...], int]:
    """Read labelled figures: "12, 30, 45", "Q1: 12, Q2: 30", "Apples 40%", one on each line.

    Args:
        text: The prompt without durations, sizes and quotes that are titles.
        limit: How many figures a chart can show legibly.

    Returns:
        At most ``limit`` figures, and how many were left out.
    """
    text = _AND.sub(", ", text)
    if re.search(r"\d, ", text) or len(re.findall(r"\d,\d", text)) == 1:
        text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d),(?=\d)", ", ", text)
    data: list[Datum] = []
    for part in _SPLIT.split(text):
        figures = list(_FIGURE.finditer(part))
        figures = [m for m in figures if not _glued(part, m)]
        if not figures:
            continue
        years = [m for m in figures if re.fullmatch(r"(?:19|20)\d\d", m["number"]) and not m["sign"] and not m["unit"]]
        if len(figures) == 2 and years and years[0] is figures[0]:
            figures = figures[1:]
        bare = not re.search(r"[^\W\d_]", _NOISE.sub(" ", part))
        chosen = figures if bare else figures[-1:]
        label = _NOISE.sub(" ", part[: chosen[0].start()] + " " + part[chosen[-1].end() :])
        label = re.sub(r"\s+", " ", label).strip(" :=-–—.!?*•")
        label = label.rpartition(":")[2].strip()
        for figure in chosen:
            value = float(figure["number"].replace(",", "")) * (-1 if figure["sign"] else 1)
            unit = str(_UNITS.get(figure["unit"], figure["unit"]) or figure["lead"] or "")
            data.append(Datum(label=label[:24] if len(chosen) == 1 else "", value=value, unit=unit))
    return tuple(data[:limit]), max(0, len(data) - limit)


def _glued(part: str, figure: re.Match[str]) -> bool:
    """Return whether the digits belong to a word ("Q1", "3D", "H2O") and are no figure."""
    before = part[figure.start("number") - 1 : figure.start("number")]
    after = part[figure.end("number") : figure.end("number") + 1]
    return bool(re.fullmatch(r"[A-Za-z_#]", before) or (re.fullmatch(r"[A-Za-z]", after) and not figure["unit"]))
