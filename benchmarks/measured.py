"""What `benchmarks.cluster` measured as tables of Markdown, so that a document shows what was measured and no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

__all__ = ["table"]

_ANY = float("inf")
_CAUSES = ("page_start", "slower", "between", "idle", "alone")


def table(figures: Mapping[str, Any], bars: Mapping[str, tuple[float, float]]) -> str:
    """Return the tables: figures with a bar, scaling by nodes, the model by browsers, and prices by scene.

    Args:
        figures: What `benchmarks.cluster` wrote.
        bars: By figure the least and the most that it shall be.
    """
    parts = [_barred(figures, bars), _nodes(figures), _beside(figures), _browsers(figures), _prices(figures)]
    return "\n\n".join(part for part in parts if part)


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _barred(figures: Mapping[str, Any], bars: Mapping[str, tuple[float, float]]) -> str:
    def row(name: str) -> tuple[str, str, str, str]:
        verdict = next((word for word in ("held", "missed") if name in figures.get(word, ())), "not measured")
        return f"`{name}`", _bar(*bars[name]), _value(figures.get(name)), verdict

    return _rows(("figure", "asked for", "measured", ""), map(row, bars))


def _bar(least: float, most: float) -> str:
    if least == most:
        return f"{least:g}"
    return f"at least {least:g}" if most == _ANY else f"at most {most:g}"


def _value(found: Any) -> str:
    if found is None:
        return ""
    if isinstance(found, dict):
        return ", ".join(f"{name}: {value:g}" for name, value in cast("dict[str, float]", found).items())
    return f"{float(found):,.10g}"


def _nodes(figures: Mapping[str, Any]) -> str:
    model: dict[str, float] = figures.get("model_speedup", {})

    def row(nodes: str) -> list[str]:
        lost = figures[f"losses_{nodes}_nodes_pct"]
        both = [figures["speedup"][nodes], figures["weak_efficiency"][nodes]]
        spans = [f"{middle:g} ({least:g} to {most:g})" for middle, least, most in both]
        return [nodes, *spans, _value(model.get(nodes)), *(f"{lost[cause]:g}" for cause in _CAUSES)]

    heads = (
        "nodes",
        "speedup",
        "weak efficiency",
        "the model's speedup",
        *(f"{cause.replace('_', ' ')}, %" for cause in _CAUSES),
    )
    return _rows(heads, map(row, figures.get("speedup", {})))


def _beside(figures: Mapping[str, Any]) -> str:
    if "possible_speedup" not in figures:
        return ""
    slower = f"{figures['cores_slower_together_pct']:g}"
    return (
        f"Two renders that know nothing of each other take {slower} % longer on two of this machine's cores at once "
        f"than one alone: two nodes here come to {figures['possible_speedup']:g} at most."
    )


def _browsers(figures: Mapping[str, Any]) -> str:
    speedups, causes = figures.get("one_video_speedup", {}), figures.get("losses_pct", {})

    def row(browsers: str) -> list[str]:
        loss, band = figures.get(f"model_{browsers}_loss_pct"), figures.get("loss_band_pct", {}).get(browsers)
        told = "" if loss is None else f"{loss:g}"
        within = "" if band is None else f" ({band[0]:g} to {band[1]:g})"
        by_cause = (f"{name.replace('_', ' ')} {percent:g}" for name, percent in causes[browsers].items())
        return [f"{int(browsers):,}", told + within, ", ".join(by_cause), f"{speedups[browsers]:g}"]

    heads = ("browsers", "less than n times one, %", "browsers' time that is not capture, %", "one video, times sooner")
    return _rows(heads, map(row, causes)) if causes else ""


def _prices(figures: Mapping[str, Any]) -> str:
    scenes: dict[str, dict[str, float]] = figures.get("dollars_per_1080p_minute", {})
    if not scenes:
        return ""
    machines = [*next(iter(scenes.values()))]
    rows = ([scene, *(f"{each[machine]:.4f}" for machine in machines)] for scene, each in scenes.items())
    return _rows(("scene", *(f"{machine}, $" for machine in machines)), rows)
