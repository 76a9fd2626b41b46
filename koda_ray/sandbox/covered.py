"""Whether files that root has laid over others in ``/proc`` (``docker_covers``) were read or written, from inside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

__all__ = ["Covered"]


class Covered:
    """One such file, wherever it lies; where none does, nothing is counted.

    Args:
        places: Where it is to lie.
        when: What is looked for: that it was ``read``, or ``written``.
        never_ns: The time of one that never was.
    """

    def __init__(self, places: Sequence[str], when: Literal["read", "written"], *, never_ns: int) -> None:
        self._places = places
        self._when = when
        self._last_ns = never_ns
        self._total = 0

    def total(self) -> int:
        """Say how often it was found to have been, ever."""
        last_ns = self._look()
        if last_ns is not None and last_ns != self._last_ns:
            self._last_ns = last_ns
            self._total += 1
        return self._total

    def _look(self) -> int | None:
        with suppress(OSError):
            kernels = os.stat("/proc").st_dev
            for place in self._places:
                with suppress(OSError):
                    found = os.stat(place)
                    if found.st_dev != kernels:
                        return found.st_atime_ns if self._when == "read" else found.st_mtime_ns
        return None
