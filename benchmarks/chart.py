"""Bars of wall per frame for each scene, ours and the peers', over the line that no renderer here can be under.

Plain SVG, so that no drawing library is needed to read a benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Group", "draw"]

_WIDTH, _ROW, _GAP, _LEFT, _RIGHT, _TOP = 960, 26, 30, 170, 110, 64
_COLOURS = {"koda": "#2563eb", "koda draft": "#60a5fa", "remotion": "#94a3b8", "hyperframes": "#cbd5e1"}
_OTHER = "#e2e8f0"


@dataclass(frozen=True)
class Group:
    """One scene: milliseconds a frame by renderer, and half of its floor."""

    name: str
    bars: Sequence[tuple[str, float]]
    half_floor_ms: float


def draw(title: str, groups: Sequence[Group]) -> str:
    """Return the chart as SVG."""
    most = max((value for group in groups for _, value in group.bars), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    parts: list[str] = []
    y = float(_TOP)
    for group in groups:
        top = y
        for name, value in group.bars:
            fill = _COLOURS.get(name, _OTHER)
            middle = y + _ROW / 2 + 4
            parts += [
                f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end" fill="#334155">{escape(name)}</text>',
                f'<rect x="{_LEFT}" y="{y + 2}" width="{max(1.0, value * scale):.1f}" height="{_ROW - 4}" '
                f'rx="3" fill="{fill}"/>',
                f'<text x="{_LEFT + value * scale + 8:.1f}" y="{middle}" fill="#0f172a">{value:.1f} ms</text>',
            ]
            y += _ROW
        line = _LEFT + group.half_floor_ms * scale
        parts += [
            f'<text x="16" y="{top - 8}" font-weight="700" fill="#0f172a">{escape(group.name)}</text>',
            f'<line x1="{line:.1f}" x2="{line:.1f}" y1="{top - 3}" y2="{y + 3}" stroke="#dc2626" stroke-width="2"/>',
        ]
        y += _GAP
    note = "red: half of what painting and x264 alone take, the least that two processors need"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 16:.0f}" width="{_WIDTH}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="16" y="26" font-size="17" font-weight="700" fill="#0f172a">{escape(title)}</text>'
        f"{''.join(parts)}"
        f'<text x="16" y="{y + 4:.0f}" fill="#64748b">{escape(note)}</text></svg>\n'
    )
