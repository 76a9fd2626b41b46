"""How close a video's frames are to the pictures that the browser painted, without loss.

Both are compared as RGB, so each video's own colour matrix and range are honoured, and what halved colour planes lose
counts for all alike.

Source: Wang et al., "Image quality assessment: from error visibility to structural similarity" (FFmpeg's ssim filter).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from koda_ray.render.programs import find_program

__all__ = ["ssim"]

_ALL = re.compile(r"All:([0-9.]+)")
_TIMEOUT_S = 300


async def ssim(video: Path, pictures: Mapping[int, Path]) -> float:
    """Return the mean structural similarity of some frames of a video with their pictures.

    Args:
        video: The video.
        pictures: Lossless pictures (PNG, of the video's size) by the index of their frame, in order.
    """
    chosen = "+".join(f"eq(n\\,{frame})" for frame in pictures)
    inputs = ["-i", str(video)]
    for path in pictures.values():
        inputs += ["-i", str(path)]
    count = len(pictures)
    still = "".join(f"[{index + 1}:v]" for index in range(count))
    graph = (
        f"[0:v]select='{chosen}',scale=flags=accurate_rnd+full_chroma_int,format=gbrp,setpts=N/TB,settb=1[a];"
        f"{still}concat=n={count}:v=1:a=0,format=gbrp,setpts=N/TB,settb=1[b];[a][b]ssim"
    )
    process = await asyncio.create_subprocess_exec(
        *(find_program("ffmpeg"), "-hide_banner", "-nostdin", *inputs),
        *("-filter_complex", graph, "-f", "null", "-"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(_TIMEOUT_S):
        _, errors = await process.communicate()
    text = errors.decode(errors="replace")
    found = _ALL.search(text)
    if process.returncode or found is None:
        raise SystemExit(f"{video.name} could not be compared: {text[-1500:]}")
    return float(found[1])
