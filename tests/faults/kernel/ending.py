"""How all of this ends when it is told to: at once, with all that was begun.

What a signal's handler raises is lost where Python calls something from which nothing may be raised, a finalizer for
one. So each process looks, before it begins another job, whether it was told to end.
"""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["heed", "look"]

_CUTS = (signal.SIGINT, signal.SIGTERM)
_told: list[int] = []


def heed() -> None:
    """End when told to; forks do the same."""
    for number in _CUTS:
        signal.signal(number, _cut_off)


def look() -> None:
    """End, if that was told and not heard."""
    if _told:
        raise SystemExit(128 + _told[0])


def _cut_off(number: int, _: FrameType | None) -> None:
    """End; whoever asks again while that goes on is not heard."""
    for each in _CUTS:
        signal.signal(each, signal.SIG_IGN)
    _told.append(number)
    look()
