"""How many units a task takes, and where a page begins anew: pure reckoning.

A browser draws a layer a little differently by what it drew before (where its text lies between pixels, for one). So
pages begin anew at fixed places of the grid, which depend on the video's size and rate, and on whether it is short:
what a unit shows depends on its run's beginning and on nothing else, whoever captures it, with whatever before and
after. A short video's runs are short at first, so that several workers share it. Longer ones have long runs from the
start, for one that comes later is as long anyway: so pages cost less than frames. A page that has to be stepped
through every frame before its run gets runs that grow with that way.

A task that is too small spends its time opening a page; one that is too large leaves the other workers idle at the
end, hides failures and makes urgent work wait. So a task takes a share of what is left that shrinks towards the end,
between a bound from below by the cost of a start and one from above in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from koda_ray.render.protocol import Slots
from koda_ray.render.spec import RenderSpec, Unit, unit_frames

__all__ = ["EARLY_UNITS", "CostModel", "next_units", "run_of", "tasks_at_once", "tasks_left"]

START_S = 0.6
"""A page that is opened and ready, with its first picture."""
_START_SHARE = 0.15
_LONGEST_S = 8.0
_FIRST_S = 2.0
_BASE_S = 0.005
_S_PER_MEGAPIXEL = 0.05
_MEMORY = 0.7
EARLY_UNITS = 12
"""Units behind which runs begin at the same places whatever the video's length."""
_EARLY_RUN_S, _EARLY_RUN_UNITS = 2.0, (3, 6)
"""How long an early run may take, and how many units it may have: in the first and the second half of a short video's;
of a longer one's they have as many as in the second."""
_LATER_RUN_S, _LATER_RUN_UNITS = 4.0, 8
_STEP_S = 0.0015
"""A frame that is stepped through without being painted."""
_STEPS_SHARE = 0.5
_LONGEST_RUN_S = 60.0
_MANY_UNITS = 16
_WORTH_A_SLOT_S = 30.0
"""So much work is worth a slot on a machine that has to be started: that takes a minute or two, and is paid for."""


class CostModel:
    """What a frame of a video costs: a guess from its size, then what was measured.

    Args:
        spec: The video.

    Attributes:
        measured: Whether a unit was measured yet.
        stepped: Whether its page has to be stepped through every frame; None until a unit says.
    """

    def __init__(self, spec: RenderSpec) -> None:
        self._spec = spec
        self._frame_s = _guess_s(spec)
        self.measured = False
        self.stepped: bool | None = None

    @property
    def spec(self) -> RenderSpec:
        """The video."""
        return self._spec

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


def _guess_s(spec: RenderSpec) -> float:
    width, height = spec.picture
    return _BASE_S + _S_PER_MEGAPIXEL * width * height / 1e6


def run_of(spec: RenderSpec, index: int, *, stepped: bool) -> int:
    """Return the first unit of a unit's run: the units that one page shows.

    Args:
        spec: The video; its size and rate count, and of its length whether it goes on behind the early units.
        index: The unit.
        stepped: Whether the page has to be stepped through every frame.
    """
    frames = unit_frames(spec)
    unit_s = _guess_s(spec) * frames
    if index < EARLY_UNITS:
        part = 1 if spec.frame_count > EARLY_UNITS * frames else index * len(_EARLY_RUN_UNITS) // EARLY_UNITS
        most = _EARLY_RUN_UNITS[part]
        size = next(n for n in (most, 3, 2, 1) if n == 1 or n * unit_s <= _EARLY_RUN_S)
        return index - index % size
    size = min(_LATER_RUN_UNITS, max(1, int(_LATER_RUN_S / unit_s)))
    if not stepped:
        return index - (index - EARLY_UNITS) % size
    longest = max(size, int(_LONGEST_RUN_S / unit_s))
    start = EARLY_UNITS
    while True:
        way = math.ceil(start * frames * _STEP_S / _STEPS_SHARE / unit_s)
        here = min(longest, max(size, way))
        if index < start + here:
            return start
        start += here


def tasks_at_once(frames_left: int, slots: Slots, cost: CostModel) -> int:
    """Return how many tasks are to be under way: as many as run at once, and more where machines are worth starting.

    Args:
        frames_left: Frames that are not captured yet, those of tasks that are under way included.
        slots: How many run at once, and may come to, because tasks wait for them.
        cost: What a frame costs.
    """
    return max(1, slots.now, min(slots.most, int(frames_left * cost.frame_s / _WORTH_A_SLOT_S)))


def tasks_left(pending: Sequence[Unit], *, workers: int, cost: CostModel, most: int) -> int:
    """Return into how many tasks what is left is cut, ``most`` where it is that many or more.

    Args:
        pending: Units that nobody has taken, in order.
        workers: How many tasks run at once.
        cost: What a frame costs.
        most: How many tasks count.
    """
    if len(pending) > most * _MANY_UNITS:  # a long video, of which there is something for everybody
        return most
    count, left = 0, list(pending)
    while left and count < most:
        del left[: len(next_units(left, workers=workers, cost=cost))]
        count += 1
    return count


def next_units(pending: Sequence[Unit], *, workers: int, cost: CostModel) -> tuple[Unit, ...]:
    """Return the units that the next task takes from the front of what is left: neighbours, whole runs, at least one.

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
    if cost.stepped is None and pending[0].index < EARLY_UNITS:  # where later runs begin is not known yet
        run = min(run, EARLY_UNITS - pending[0].index)
    stepped = cost.stepped is True
    unit_s = max(1e-6, cost.frame_s * max(unit.frame_count for unit in pending[:run]))
    worth_a_start = math.ceil(START_S * (1 - _START_SHARE) / _START_SHARE / unit_s)
    share = math.ceil(len(pending) / (2 * workers))
    longest = max(1, int((_LONGEST_S if cost.measured else _FIRST_S) / unit_s))
    fair = math.ceil(len(pending) / workers)
    count = max(1, min(run, fair, longest, max(share, worth_a_start)))
    return tuple(pending[: _whole_runs(pending[:run], count, lambda unit: run_of(cost.spec, unit, stepped=stepped))])


def _whole_runs(pending: Sequence[Unit], count: int, run_of_unit: Callable[[int], int]) -> int:
    """Return how many of these units are whole runs, as near to a count as there are; the more of two."""
    last = run_of_unit(pending[count - 1].index)
    below, above = count - 1, count
    while above < len(pending) and run_of_unit(pending[above].index) == last:
        above += 1
    while below > 0 and run_of_unit(pending[below - 1].index) == last:
        below -= 1
    return below if below > 0 and count - below < above - count else above
