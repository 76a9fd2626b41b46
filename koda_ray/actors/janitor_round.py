"""What a janitor says of its last rounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["JanitorRound"]


@dataclass(frozen=True, kw_only=True)
class JanitorRound:
    """The last time it looked for owed work, and its last clearing.

    Attributes:
        woke_at: When it last looked; None before the first time.
        waking: How many sessions and renders are being woken now.
        failing: How many could not be woken, and are tried again after a pause.
        cleared_at: When the last clearing was over; None before the first one.
        took_s: How long that took, in seconds.
        machines: How many machines were cleared in it.
        gone: How many sandboxes and unfinished images it destroyed.
    """

    woke_at: datetime | None = None
    waking: int = 0
    failing: int = 0
    cleared_at: datetime | None = None
    took_s: float = 0.0
    machines: int = 0
    gone: int = 0
