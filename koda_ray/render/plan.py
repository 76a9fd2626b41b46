"""How many units a task takes: pure reckoning from what a frame costs, what a start costs and who is free.

A task that is too small spends its time opening a page; one that is too large leaves the other workers idle at the
end, hides failures and makes urgent work wait. So a task takes a share of what is left that shrinks towards the end,
between a bound from below by the cost of a start and one from above in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from koda_ray.render.spec import RenderSpec, Unit

__all__ = ["CostModel", "next_units"]

START_S = 0.6
"""A page that is opened and ready, with its first picture."""
_START_SHARE = 0.15
_LONGEST_S = 8.0
_FIRST_S = 2.0
_BASE_S = 0.005
_S_PER_MEGAPIXEL = 0.05
_MEMORY = 0.7


class CostModel:
    """What a frame of a video costs: a guess from its size, then what was measured.

    Args:
        spec: The video.
    """

    def __init__(self, spec: RenderSpec) -> None:
        width, height = spec.picture
        self._frame_s = _BASE_S + _S_PER_MEGAPIXEL * width * height / 1e6
        self.measured = False

    @property
    def frame_s(self) -> float:
        """Seconds of one worker for one frame."""
        return self._frame_s

    def learn(self, frames: int, seconds: float) -> None:
        """Take in what a unit took."""
        if frames > 0 and seconds > 0:
            weight = _MEMORY if self.measured else 0.0
            self._frame_s = weight * self._frame_s + (1 - weight) * seconds / frames
            self.measured = True


def next_units(pending: Sequence[Unit], *, workers: int, cost: CostModel) -> tuple[Unit, ...]:
    """Return the units that the next task takes from the front of what is left: neighbours, at least one.

    Args:
        pending: Units that nobody has taken, in order; not empty.
        workers: How many tasks run at once.
        cost: What a frame costs.
    """
    run = 1
    for before, unit in pairwise(pending):
        if unit.index != before.index + 1:
            break
        run += 1
    unit_s = max(1e-6, cost.frame_s * max(unit.frame_count for unit in pending[:run]))
    worth_a_start = math.ceil(START_S * (1 - _START_SHARE) / _START_SHARE / unit_s)
    share = math.ceil(len(pending) / (2 * workers))
    longest = max(1, int((_LONGEST_S if cost.measured else _FIRST_S) / unit_s))
    fair = math.ceil(len(pending) / workers)
    return tuple(pending[: max(1, min(run, fair, longest, max(share, worth_a_start)))])
