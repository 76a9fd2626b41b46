"""Charts of a render's times as SVG: numbers to shapes, coloured by the page that they stand in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["BY_JOIN", "BY_UNIT", "NAMES", "bars", "unit_columns"]

BY_UNIT = ("ready", "capture", "encode_tail")
"""Stages of a unit, in order."""
BY_JOIN = ("fetch", "sound", "join", "check", "thumbnail", "sheet", "upload")
"""Stages of what is done once for a video, in order."""
NAMES = {
    "ready": "page ready",
    "capture": "capture",
    "encode_tail": "end of encoding",
    "fetch": "fetch units",
    "sound": "sound",
    "join": "join",
    "check": "check",
    "thumbnail": "thumbnail",
    "sheet": "contact sheet",
    "upload": "store",
}
_WIDTH = 1000
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 8, 10, 26
_HEIGHT = 250
_ROW = 26
_NAME_WIDTH, _VALUE_WIDTH = 130, 90
_PALE = 0.35


def unit_columns(units: Sequence[Mapping[str, Any]], *, seconds_per_frame: float) -> str:
    """Return a column for each unit, as wide as it is long and as high as its frames took, in parts by stage.

    Args:
        units: As a report has them.
        seconds_per_frame: For the axis.
    """
    frames = max(1, max(unit["stop"] for unit in units))
    costs = [
        {stage: unit["ms"].get(stage, 0.0) / max(1, unit["stop"] - unit["start"]) for stage in BY_UNIT}
        for unit in units
    ]
    step, top = _nice(max(sum(cost.values()) for cost in costs))
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    shapes: list[str] = []
    for tick in range(round(top / step) + 1):
        y = _TOP + plot_height * (1 - tick * step / top)
        shapes.append(f'<line x1={_LEFT} x2={_WIDTH - _RIGHT} y1="{y:.1f}" y2="{y:.1f}" />')
        unit_name = " ms" if (tick + 1) * step > top else ""
        shapes.append(f'<text x={_LEFT - 8} y="{y + 4:.1f}" text-anchor=end>{_short(tick * step)}{unit_name}</text>')
    seconds = frames * seconds_per_frame
    every, _ = _nice(seconds, wanted=8)
    for tick in range(math.floor(seconds / every + 1e-9) + 1):
        x = _LEFT + plot_width * tick * every / seconds
        anchor = "end" if x > _WIDTH - _RIGHT - 12 else "middle"
        shapes.append(f'<text x="{x:.1f}" y={_HEIGHT - 6} text-anchor={anchor}>{_short(tick * every)} s</text>')
    for unit, cost in zip(units, costs, strict=True):
        x, right = (_LEFT + plot_width * unit[edge] / frames for edge in ("start", "stop"))
        gap = 2 if right - x > 12 else 0
        words = ", ".join(f"{NAMES[stage]} {ms:.1f} ms" for stage, ms in cost.items() if ms)
        made = " (earlier)" if unit["reused"] else ""
        title = f"<title>frames {unit['start']} to {unit['stop'] - 1}{made}: {words}</title>"
        pale = f" opacity={_PALE}" if unit["reused"] else ""
        shapes.append(f"<g{pale}>{title}")
        y = float(_TOP + plot_height)
        for stage, ms in cost.items():
            height = plot_height * ms / top
            y -= height
            size = f'width="{right - x - gap:.2f}" height="{height:.2f}"'
            shapes.append(f'<rect class={stage} x="{x:.2f}" y="{y:.2f}" {size} />')
        shapes.append("</g>")
    return _svg(_HEIGHT, "Milliseconds per frame of each unit, by stage", shapes)


def bars(stages: Mapping[str, float]) -> str:
    """Return a bar for each stage.

    Args:
        stages: Milliseconds per frame by stage.
    """
    top = max(stages.values(), default=1.0) or 1.0
    left = _WIDTH - _NAME_WIDTH - _VALUE_WIDTH
    shapes: list[str] = []
    for row, (stage, ms) in enumerate(stages.items()):
        y = row * _ROW
        kind = stage if stage in BY_UNIT else "other"
        width = max(1.5, left * ms / top)
        shapes.append(f"<text x={_NAME_WIDTH - 12} y={y + 17} text-anchor=end>{NAMES[stage]}</text>")
        shapes.append(f'<rect class={kind} x={_NAME_WIDTH} y={y + 4} width="{width:.1f}" height={_ROW - 8} rx=3 />')
        value = f"{ms:.1f} ms" if ms >= 1 else f"{max(ms, 0.01):.2f} ms"
        shapes.append(f'<text class=value x="{_NAME_WIDTH + width + 8:.1f}" y={y + 17}>{value}</text>')
    return _svg(len(stages) * _ROW, "Milliseconds per frame, by stage", shapes)


def _svg(height: int, title: str, shapes: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role=img aria-label="{title}">{"".join(shapes)}</svg>'


def _nice(value: float, *, wanted: int = 4) -> tuple[float, float]:
    """Return a round step that divides a value into about so many, and the first multiple of it that is not less."""
    rough = max(value, 1e-6) / wanted
    scale = 10 ** math.floor(math.log10(rough))
    step = next(round_one * scale for round_one in (1, 2, 2.5, 5, 10) if round_one * scale >= rough * 0.999)
    return step, step * max(1, math.ceil(value / step - 1e-9))


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
