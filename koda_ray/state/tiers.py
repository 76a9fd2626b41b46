"""What a store can do beyond keeping sessions: answer questions about them, say how it is, and lend locks.

Two protocols, which `Store` joins: whoever needs only one of them (a report, a health check) asks for that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from koda_ray.state.records import SessionRecord

__all__ = ["LockRecord", "OperatedStore", "QueryStore", "StoreHealth", "StoreMetrics", "TimeWindow"]


@dataclass(frozen=True, kw_only=True)
class TimeWindow:
    """Which part of a list: times ``[since, until)``, and how many at most."""

    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100


@dataclass(frozen=True, kw_only=True)
class StoreHealth:
    """Whether a store can be read and written now; ``detail`` says why not, ``schema`` which version its rows have."""

    ok: bool
    backend: str
    schema: str | None
    latency_ms: float
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class StoreMetrics:
    """What this process has asked of a store since it was opened, and how large that is.

    Times are means over all calls, waiting included. ``failures`` are calls that the store could not do; a refusal
    (a fence, an unknown id) is an answer. ``rows`` of a table with more than ten thousand may be an estimate.
    ``size_bytes`` is None where it cannot be told.
    """

    backend: str
    reads: int
    writes: int
    failures: int
    read_ms: float
    write_ms: float
    slowest_write_ms: float
    rows: dict[str, int]
    size_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class LockRecord:
    """A lock as taken; ``epoch`` is higher each time, so whoever is asked to act for its holder can tell a late one."""

    name: str
    holder: str
    epoch: int
    lease_until: datetime


class QueryStore(Protocol):
    """Questions about what is kept."""

    async def query_sessions(
        self,
        user_id: str,
        *,
        statuses: Sequence[Literal["active", "suspended"]] = (),
        window: TimeWindow | None = None,
    ) -> list[SessionRecord]:
        """Read a user's sessions by when they were last used, newest first; never closed ones."""
        ...


class OperatedStore(Protocol):
    """What whoever runs a store wants to know, and locks."""

    async def health(self) -> StoreHealth:
        """Try to read and to write, changing nothing. Never raises, and answers within seconds."""
        ...

    async def metrics(self) -> StoreMetrics:
        """Count, and estimate what takes long to count: for a person or a scrape, not for a request."""
        ...

    async def take_lock(self, name: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take a lock that nobody has, or whose lease has run out; None when somebody has it.

        Clocks are the callers' own: leases should be long against their difference. `locks.locked` waits and renews.
        """
        ...

    async def renew_lock(self, lock: LockRecord, *, lease_until: datetime) -> LockRecord:
        """Keep a lock longer; raises Fenced where it was given up or taken by another since."""
        ...

    async def release_lock(self, lock: LockRecord) -> None:
        """Give a lock up; nothing happens where another has it by now."""
        ...
