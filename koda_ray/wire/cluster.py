"""How a deployment is as a whole: its nodes, what is under way on them, what waits, what it cost."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from koda_ray.types import Model
from koda_ray.wire.usage import Usage

__all__ = [
    "Capacity",
    "ClusterReport",
    "DatabaseReport",
    "JanitorReport",
    "NodeReport",
    "OwedCount",
    "RenderCount",
    "SessionCount",
]


class Capacity(Model):
    """How much of something is taken, of how much."""

    used: float = 0.0
    total: float = 0.0


class NodeReport(Model):
    """A node that is alive; ``group`` is empty for one that was started by hand, ``idle_s`` 0 for one that works.

    ``unfit`` says why it is given no more work: its disk is full, or its version older than the database.
    """

    id: str
    address: str
    group: str = ""
    status: Literal["working", "idle", "draining"]
    idle_s: float = 0.0
    unfit: Literal["full", "outdated"] | None = None
    resources: dict[str, Capacity]


class SessionCount(Model):
    """Sessions that a process holds, that nobody holds, that owe work, and whose removal has begun."""

    active: int = 0
    asleep: int = 0
    owing: int = 0
    closing: int = 0


class RenderCount(Model):
    """Renders that have not begun, and that are under way; ``waiting`` are pieces of them that wait for a browser."""

    queued: int = 0
    running: int = 0
    waiting: int | None = None


class OwedCount(Model):
    """Sessions and renders that owe work while nobody holds them; ``since`` is when the oldest was last written."""

    count: int = 0
    since: datetime | None = None


class JanitorReport(Model):
    """The janitor's last rounds: when it last looked for owed work, and what its last clearing came to."""

    woke_at: datetime | None = None
    waking: int = 0
    failing: int = 0
    cleared_at: datetime | None = None
    took_s: float = 0.0
    machines: int = 0
    gone: int = 0


class DatabaseReport(Model):
    """How large the database is, and how it has served the process that answers, since that began.

    Times are means over all reads and all writes, waiting included; ``failures`` are those that it could not do.
    ``rows`` of a table with more than ten thousand may be an estimate. What ``size_bytes`` is cannot always be told.
    """

    backend: str
    rows: dict[str, int]
    size_bytes: int | None = None
    reads: int = 0
    writes: int = 0
    failures: int = 0
    read_ms: float = 0.0
    write_ms: float = 0.0
    slowest_write_ms: float = 0.0


class ClusterReport(Model):
    """How everything is.

    ``nodes`` and what is counted by them is None where the cluster's head does not say, and ``problem`` says why; so
    is ``janitor``. The rest is counted in the database.
    """

    at: datetime
    nodes: tuple[NodeReport, ...] | None = None
    lost_nodes: int | None = None
    coming_nodes: int | None = None
    problem: str | None = None
    browsers: Capacity | None = None
    urgent: Capacity | None = None
    room: Capacity | None = None
    sessions: SessionCount
    renders: RenderCount
    owed: OwedCount
    sandboxes: int = 0
    database: DatabaseReport
    spent_in_month: Usage
    spent: Usage
    janitor: JanitorReport | None = None
    janitor_problem: str | None = None
