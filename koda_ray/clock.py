"""What time it is, on which machines agree whose clocks do not: the database's, which all of a deployment's share.

A lease is written by one machine and judged by another, and a clock that is a minute off would give up what is held,
or hold what was given up. So whoever opens a database asks it for its time, now and then (`koda_ray.state.database`).
Where this machine's clock agrees to half a second, that is the time, as it always is on one machine. Else it is the
database's, carried on by a count that nobody sets, whatever becomes of this machine's clock meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

__all__ = ["AGREES_S", "ASKED_EVERY_S", "CLOCK", "CommonClock"]

AGREES_S = 0.5
"""By so much, in seconds, two clocks may differ that say the same: leases are several seconds long."""
ASKED_EVERY_S = 60.0
"""How old an answer of the database may be, in seconds: what counts is a little fast or slow."""
_NANO = 1_000_000_000
_BEGINNING = datetime.fromtimestamp(0, UTC)
# goes on while a machine sleeps, which the other one does not everywhere
_COUNT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class CommonClock:
    """A process's idea of the time.

    Args:
        wall_ns: This machine's clock, in nanoseconds since 1970.
        count_ns: Counts nanoseconds, from whenever.
    """

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        count_ns: Callable[[], int] = lambda: time.clock_gettime_ns(_COUNT),
    ) -> None:
        self._wall_ns = wall_ns
        self._count_ns = count_ns
        self._heard: tuple[int, int, int] | None = None  # what the database said, the count then, and how sure that is

    def time_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        wall = self._wall_ns()
        if self._heard is None:
            return wall
        told, counted, unsure = self._heard
        theirs = told + self._count_ns() - counted
        return wall if abs(wall - theirs) <= AGREES_S * _NANO + unsure else theirs

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return _BEGINNING + timedelta(microseconds=self.time_ns() // 1000)

    @property
    def is_due(self) -> bool:
        """Whether the database is to be asked again."""
        return self._heard is None or self._count_ns() - self._heard[1] >= ASKED_EVERY_S * _NANO

    def hear(self, ask: Callable[[], float]) -> None:
        """Ask a database for its time.

        Args:
            ask: Returns its seconds since 1970; called at once. It said so in the middle of the way there and back.
        """
        began = self._count_ns()
        told = ask()
        half = (self._count_ns() - began) // 2
        self._heard = (round(told * _NANO), began + half, half)


CLOCK = CommonClock()
"""This process's."""
