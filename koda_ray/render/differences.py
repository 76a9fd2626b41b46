"""By how much two videos differ, frame by frame: made small, their difference in colour, and its mean.

What two videos show at one moment of their common part is compared, whatever their sizes and rates: each is brought to
one rate first, so that a frame that stands longer is seen as often.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from koda_ray.render.ffmpeg import QUIETLY, run

__all__ = ["frame_differences"]

_SEEN = (320, 180)
"""What is compared of each picture, in pixels: less would lose what is small, more only costs."""
_CELLS = (32, 18)
_CELL_BYTES = 3
_TIMEOUT_S = 300.0


async def frame_differences(one: Path, other: Path, *, fps: float) -> tuple[float, ...]:
    """Compare two videos of constant rates as far as both go.

    Args:
        one: The first.
        other: The second.
        fps: How many frames a second are compared.

    Returns:
        For frame k, at k / fps seconds, the mean difference of its colours: 0 where both show the same, 1 between
        black and white.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: One of them cannot be decoded.
    """
    small = f"fps=fps={fps:g}:start_time=0:round=near,scale={_SEEN[0]}:{_SEEN[1]}:flags=area,format=gbrp"
    cells = f"scale={_CELLS[0]}:{_CELLS[1]}:flags=area,format=rgb24"
    graph = f"[0:v:0]{small}[a];[1:v:0]{small}[b];[a][b]blend=all_mode=difference:shortest=1,{cells}[out]"
    inputs = ["-threads", "1", "-i", str(one), "-threads", "1", "-i", str(other)]
    target = ["-map", "[out]", "-an", "-fps_mode", "passthrough", "-f", "rawvideo", "pipe:"]
    data = await run("ffmpeg", [*QUIETLY, *inputs, "-filter_complex", graph, *target], timeout_s=_TIMEOUT_S)
    return await asyncio.to_thread(_means, data)


def _means(data: bytes) -> tuple[float, ...]:
    step = _CELLS[0] * _CELLS[1] * _CELL_BYTES
    return tuple(
        round(sum(data[start : start + step]) / step / 255, 5) for start in range(0, len(data) - step + 1, step)
    )
