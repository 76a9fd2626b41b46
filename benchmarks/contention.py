"""How much slower a machine's cores are when all of them work: no scheduling wins that back.

Cores of one machine share caches, memory and often an arithmetic unit; machines of a cluster do not.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

__all__ = ["slower_together_pct"]

_ENCODE = ("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30", "-frames:v")
_TO_NOTHING = ("-c:v", "libx264", "-threads", "1", "-f", "null", "-")
FRAMES, ROUNDS = 240, 3


def slower_together_pct(cores: Sequence[int], *, frames: int = FRAMES, rounds: int = ROUNDS) -> float:
    """Encode the same pictures on each core alone, and on all at once; return how much longer the latter takes.

    Args:
        cores: Which.
        frames: How many pictures.
        rounds: How often, in turns; medians count.
    """
    alone: list[float] = []
    together: list[float] = []
    with ThreadPoolExecutor(len(cores)) as threads:
        for _ in range(rounds):
            alone += [_encode_s(core, frames) for core in cores]
            together += threads.map(lambda core: _encode_s(core, frames), cores)
    return round(100 * (statistics.median(together) / statistics.median(alone) - 1), 1)


def _encode_s(core: int, frames: int) -> float:
    began = time.perf_counter()
    subprocess.run(["taskset", "--cpu-list", str(core), *_ENCODE, str(frames), *_TO_NOTHING], check=True)
    return time.perf_counter() - began
