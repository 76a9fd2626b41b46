"""How much there is of everything, over all users: what whoever runs a deployment looks at, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from koda_ray.budgets import Amounts

__all__ = ["MONTH", "Census", "CensusStore"]

MONTH = "month:"
"""How the ids of accounts begin that hold what a user's work cost in a month; everything is charged to one of them."""


@dataclass(frozen=True, kw_only=True)
class Census:
    """What a store counts at one moment.

    Attributes:
        awake: Sessions that a process holds, also discarded ones that have not ended.
        asleep: Sessions that nobody holds, but for discarded ones, as with the next.
        owing: Sessions that owe work, awake or not.
        closing: Sessions whose removal has begun and not ended.
        unheld: Sessions and renders that owe work, or are asked something, while nobody holds them: what the janitor
            wakes.
        unheld_since: When the one that waits longest was last written, or asked; None where there is none.
        queued: Renders, also those of sessions, that have not begun.
        rendering: Renders that are under way.
        sandboxes: Sandboxes that are there, or are being made.
        spent_in_month: What all work of a month cost.
        spent: What all work ever cost.
    """

    awake: int = 0
    asleep: int = 0
    owing: int = 0
    closing: int = 0
    unheld: int = 0
    unheld_since: datetime | None = None
    queued: int = 0
    rendering: int = 0
    sandboxes: int = 0
    spent_in_month: Amounts = field(default_factory=Amounts)
    spent: Amounts = field(default_factory=Amounts)


class CensusStore(Protocol):
    """A store that counts."""

    async def census(self, at: datetime) -> Census:
        """Count everything. Reads every session's row and every month's account: for a person or a scrape.

        Args:
            at: The moment that leases are compared with, and whose month (UTC) it is.
        """
        ...
