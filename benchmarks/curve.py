"""What each of many browsers does over what one alone does, and what of their time is lost by cause. Plain SVG.

The ideal is all of it. The model's line is its median, in a band from the 10th to the 90th percentile of its seeds;
what was run is marked for itself. Percent, for a curve of times over browsers is a straight line to the eye, whatever
is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["LossCurve", "draw"]

_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT, _TALL = 960, 440, 70, 60, 400, 300
_BARS, _BAR, _BARS_TALL = 560, 60, 260
_MARGIN, _STEP = 3.0, 10
_COLOURS = {"page_start": "#60a5fa", "between": "#94a3b8", "lost_machines": "#f59e0b", "idle": "#e2e8f0"}
_NOTES = (
    "browsers; red: the ideal; blue: the model, with its 10th to 90th percentile",
    "green: one video as it was run here on 1, 2 and 4 nodes; four share two cores, and are held against two",
)


@dataclass(frozen=True)
class LossCurve:
    """By browsers, percent of what as many alone would do, and percent lost by cause.

    Attributes:
        points: The model's median.
        band: Between what eight of ten of its runs are.
        losses: Percent of the browsers' time, by cause.
        run: What was measured, by nodes.
    """

    points: Sequence[tuple[int, float]]
    band: Sequence[tuple[int, float, float]]
    losses: Mapping[str, Mapping[str, float]]
    run: Sequence[tuple[int, float]] = ()


def draw(title: str, curve: LossCurve) -> str:
    """Return the chart as SVG; browsers are on a logarithmic axis."""
    bottom = _TOP + _TALL
    notes = "".join(
        f'<text x="16" y="{bottom + 47 + 19 * number}" fill="#64748b">{escape(note)}</text>'
        for number, note in enumerate(_NOTES)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="16" y="26" font-size="17" font-weight="700" fill="#0f172a">{escape(title)}</text>'
        f'<text x="{_BARS}" y="46" fill="#64748b">browsers\' time that is not capture</text>'
        f"{''.join(_lines(curve, bottom) + _bars(curve.losses, bottom))}{notes}</svg>\n"
    )


def _lines(curve: LossCurve, bottom: int) -> list[str]:
    decades = math.log10(max(browsers for browsers, _ in curve.points))
    seen = [percent for _, percent in (*curve.points, *curve.run)] + [part for each in curve.band for part in each[1:]]
    most = max(100.0, *seen) + _MARGIN
    least = min(most - 2 * _STEP, _STEP * math.floor((min(seen) - _MARGIN) / _STEP))

    def place(browsers: float, percent: float) -> tuple[float, float]:
        return (
            _LEFT + _PLOT * math.log10(browsers) / decades,
            bottom - _TALL * (percent - least) / (most - least),
        )

    around = [place(n, high) for n, _, high in curve.band] + [place(n, low) for n, low, _ in reversed(curve.band)]
    area, line = (
        " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        for points in (around, [place(*point) for point in curve.points])
    )
    parts = [f'<polygon points="{area}" fill="#bfdbfe" stroke="#bfdbfe"/>']
    for percent in range(_STEP * math.ceil(least / _STEP), 101, _STEP):
        y = place(1, percent)[1]
        stroke = 'stroke="#dc2626" stroke-dasharray="5 4"' if percent == 100 else 'stroke="#e2e8f0"'
        parts += [
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _PLOT}" y2="{y:.1f}" {stroke}/>',
            f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end" fill="#334155">{percent} %</text>',
        ]
    parts.append(f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="2.5"/>')
    for browsers, percent in curve.points:
        x, y = place(browsers, percent)
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#2563eb"/>',
            f'<text x="{x:.1f}" y="{bottom + 22}" text-anchor="middle" fill="#334155">{browsers:,}</text>',
            f'<text x="{x + 8:.1f}" y="{y + 18:.1f}" fill="#0f172a">{percent:.1f}</text>',
        ]
    for nodes, percent in curve.run:
        x, y = place(nodes, percent)
        parts.append(f'<path d="M{x - 6:.1f} {y:.1f}l6 -6l6 6l-6 6z" fill="#fff" stroke="#047857" stroke-width="2"/>')
    return parts


def _bars(losses: Mapping[str, Mapping[str, float]], bottom: int) -> list[str]:
    parts: list[str] = []
    most = max(sum(causes.values()) for causes in losses.values()) or 1.0
    for number, (browsers, causes) in enumerate(losses.items()):
        x, y = _BARS + number * (_BAR + 30), float(bottom)
        for cause, percent in causes.items():
            height = _BARS_TALL * max(0.0, percent) / most
            y -= height
            fill = _COLOURS.get(cause, "#cbd5e1")
            parts.append(f'<rect x="{x}" y="{y:.1f}" width="{_BAR}" height="{height:.1f}" fill="{fill}"/>')
        label = f"{sum(causes.values()):.1f} %"
        parts += [
            f'<text x="{x + _BAR / 2}" y="{y - 6:.1f}" text-anchor="middle" fill="#0f172a">{label}</text>',
            f'<text x="{x + _BAR / 2}" y="{bottom + 22}" text-anchor="middle" fill="#334155">{int(browsers):,}</text>',
        ]
    x = float(_BARS)
    for cause, fill in _COLOURS.items():
        name = cause.replace("_", " ")
        parts += [
            f'<rect x="{x}" y="{bottom + 36}" width="12" height="12" fill="{fill}"/>',
            f'<text x="{x + 17}" y="{bottom + 47}" fill="#64748b">{escape(name)}</text>',
        ]
        x += 34 + 7.2 * len(name)
    return parts
