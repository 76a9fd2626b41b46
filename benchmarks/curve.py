"""How work grows with browsers, beside the line that nothing can be above, and what is lost by cause. Plain SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["LossCurve", "draw"]

_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT = 960, 420, 70, 60, 400
_BARS, _BAR = 560, 60
_COLOURS = {"page_start": "#60a5fa", "between": "#94a3b8", "lost_machines": "#f59e0b", "idle": "#e2e8f0"}


@dataclass(frozen=True)
class LossCurve:
    """By browsers, how many times one browser's work, and percent lost by cause."""

    points: Sequence[tuple[int, float]]
    losses: Mapping[str, Mapping[str, float]]


def draw(title: str, curve: LossCurve) -> str:
    """Return the chart as SVG; both axes of the curve are logarithmic."""
    decades = math.log10(max(browsers for browsers, _ in curve.points))
    bottom = _TOP + 300

    def place(browsers: float, times: float) -> tuple[float, float]:
        return _LEFT + _PLOT * math.log10(browsers) / decades, bottom - 300 * math.log10(times) / decades

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve.points))
    (x1, y1), (x2, y2) = place(1, 1), place(10**decades, 10**decades)
    parts = [
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dc2626" stroke-dasharray="5 4"/>',
        f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="2.5"/>',
    ]
    for browsers, times in curve.points:
        x, y = place(browsers, times)
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#2563eb"/>',
            f'<text x="{x:.1f}" y="{bottom + 22}" text-anchor="middle" fill="#334155">{browsers:,}</text>',
            f'<text x="{x + 8:.1f}" y="{y + 16:.1f}" fill="#0f172a">{times:,.4g}</text>',
        ]
    most = max(sum(causes.values()) for causes in curve.losses.values()) or 1.0
    for number, (browsers, causes) in enumerate(curve.losses.items()):
        x, y = _BARS + number * (_BAR + 30), float(bottom)
        for cause, percent in causes.items():
            height = 260 * max(0.0, percent) / most
            y -= height
            fill = _COLOURS.get(cause, "#cbd5e1")
            parts.append(f'<rect x="{x}" y="{y:.1f}" width="{_BAR}" height="{height:.1f}" fill="{fill}"/>')
        label = f"{sum(causes.values()):.1f} %"
        parts += [
            f'<text x="{x + _BAR / 2}" y="{y - 6:.1f}" text-anchor="middle" fill="#0f172a">{label}</text>',
            f'<text x="{x + _BAR / 2}" y="{bottom + 22}" text-anchor="middle" fill="#334155">{browsers}</text>',
        ]
    for number, (cause, fill) in enumerate(_COLOURS.items()):
        x = _BARS + number * 100
        parts += [
            f'<rect x="{x}" y="{bottom + 36}" width="12" height="12" fill="{fill}"/>',
            f'<text x="{x + 17}" y="{bottom + 47}" fill="#64748b">{escape(cause.replace("_", " "))}</text>',
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="16" y="26" font-size="17" font-weight="700" fill="#0f172a">{escape(title)}</text>'
        f'<text x="{_BARS}" y="46" fill="#64748b">browsers\' time that is not capture</text>'
        f"{''.join(parts)}"
        f'<text x="16" y="{bottom + 47}" fill="#64748b">browsers; red: the ideal; a model, held against runs on 1, 2 '
        f"and 4 nodes</text></svg>\n"
    )
