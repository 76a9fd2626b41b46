"""What a session was at an earlier point, and how a store puts it back there or makes another session of it.

Nothing that was said is deleted. Every commit has a number, and a session knows which stretches of its commits count
now (`Span`); putting it back ends the present stretch, keeps where it was whole (`HeadRecord`), and begins a new one.
So a way back is a way forward: undoing restores a head, and is itself a head to go back to. The event log only grows.

A point is a message, a checkpoint, a head or a version (`versions`). At a message or a checkpoint a session is what it
was just before the next one: with the answer that was shown, the question that waited, the files that were saved by
then. At a version it is what it was as that was shown, also where it has been put back to before it since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, cast

from pydantic import JsonValue

from koda_ray.events import Envelope, NewEvent
from koda_ray.state.records import (
    ApprovalRecord,
    AssetRecord,
    Batch,
    BeadRecord,
    CheckpointRecord,
    JobRecord,
    MessageRecord,
    SessionQuota,
    SessionRecord,
    ToolCallRecord,
)
from koda_ray.state.versions import VersionRecord
from koda_ray.types import NodeState

__all__ = [
    "UNDO",
    "Change",
    "ForkedSession",
    "HeadRecord",
    "HistoryStore",
    "Past",
    "PointRecord",
    "Span",
    "counts",
    "cut",
    "heard",
    "spans_of",
]

UNDO = "undo"
"""The point that the newest rewind which was not undone left."""


class Span(NamedTuple):
    """A stretch of a session's life that counts: commits ``[rev, rev_stop)``, events ``[seq, seq_stop)``.

    The last one goes on, and has no stops.
    """

    rev: int
    rev_stop: int | None
    seq: int
    seq_stop: int | None


def spans_of(raw: JsonValue) -> tuple[Span, ...]:
    """Read the stretches as they are stored; a session that was never put back has one."""
    if raw is None:
        return (Span(0, None, 1, None),)
    return tuple(Span(*each) for each in cast("list[list[int]]", raw))


def cut(spans: Sequence[Span], *, rev: int, seq: int) -> tuple[Span, ...]:
    """Keep what counts up to a commit and an event, both included."""
    return tuple(
        Span(
            span.rev,
            rev + 1 if span.rev_stop is None else min(span.rev_stop, rev + 1),
            span.seq,
            max(span.seq, seq + 1 if span.seq_stop is None else min(span.seq_stop, seq + 1)),
        )
        for span in spans
        if span.rev <= rev
    )


def counts(spans: Sequence[Span], rev: int) -> bool:
    """Whether a commit is in one of the stretches."""
    return any(span.rev <= rev and (span.rev_stop is None or rev < span.rev_stop) for span in spans)


def heard(spans: Sequence[Span], seq: int) -> bool:
    """Whether an event is in one of the stretches."""
    return any(span.seq <= seq and (span.seq_stop is None or seq < span.seq_stop) for span in spans)


@dataclass(frozen=True, kw_only=True)
class HeadRecord:
    """Where a session was when it was put back, whole.

    ``kind`` says what was done then, ``point`` where it was put to; ``rev`` and ``seq`` are the last commit and event
    before, ``undone`` is whether that was taken back.
    """

    id: str
    session_id: str
    user_id: str
    kind: Literal["rewind", "undo"]
    point: str
    rev: int
    seq: int
    history: tuple[Span, ...]
    state: NodeState
    tool_calls: list[ToolCallRecord]
    approvals: list[ApprovalRecord]
    beads: list[BeadRecord]
    undone: bool
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class PointRecord:
    """A point that counts now, as it is listed.

    ``text`` is how a message begins, why a checkpoint was made, or the point that a head's session was put to;
    ``agent`` and ``role`` are a message's, empty for others.
    """

    id: str
    kind: Literal["message", "checkpoint", "head"]
    created_at: datetime
    text: str
    agent: str = ""
    role: Literal["user", "assistant", ""] = ""
    undone: bool = False


@dataclass(frozen=True, kw_only=True)
class Past:
    """A session as it was at a point.

    ``record`` is the session as it is now, and ``pending`` what waits for a person now. ``head`` is the head that the
    point names. At a message or checkpoint, calls and approvals are those of what was said by then, as they are now:
    a call without a result in ``messages`` may have ended later. ``until`` is when the next thing was said. The last
    six are there for a fork: states at earlier points by commit, uploaded files, render jobs, versions that counted,
    what was said aloud, and the numbers of that. ``messages``, each agent's in their order, ``tool_calls``, ``states``
    and ``said`` may be gone through several times: a plan does so in the transaction alone, where they may be read a
    few at a time.
    """

    record: SessionRecord
    point: str | None
    spans: tuple[Span, ...]
    rev: int
    seq: int
    until: datetime | None
    state: NodeState
    messages: Iterable[MessageRecord]
    tool_calls: Iterable[ToolCallRecord]
    approvals: list[ApprovalRecord]
    beads: list[BeadRecord]
    checkpoints: list[CheckpointRecord]
    pending: list[ApprovalRecord]
    head: HeadRecord | None = None
    states: Iterable[tuple[int, NodeState]] = ()
    assets: list[AssetRecord] = field(default_factory=list["AssetRecord"])
    jobs: list[JobRecord] = field(default_factory=list["JobRecord"])
    versions: list[VersionRecord] = field(default_factory=list["VersionRecord"])
    said: Iterable[Envelope] = ()
    said_seqs: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a session becomes: calls, approvals and beads are all that it has from then on.

    Of ``batch``, messages, events, command and touch are committed with it.
    """

    head_id: str
    state: NodeState
    tool_calls: list[ToolCallRecord]
    approvals: list[ApprovalRecord]
    beads: list[BeadRecord]
    batch: Batch


@dataclass(frozen=True, kw_only=True)
class ForkedSession:
    """A session made of another one's past, with all its rows; ``rev`` is its first commit's number.

    Messages and checkpoints keep the numbers that they are given. ``messages``, ``tool_calls``, ``states`` and ``said``
    are gone through once, as they are written: ``said`` are the ``said_count`` events that come before ``events``.
    ``quota`` is what its user may have with it.
    """

    state: NodeState
    rev: int
    messages: Iterable[MessageRecord]
    tool_calls: Iterable[ToolCallRecord]
    approvals: list[ApprovalRecord]
    beads: list[BeadRecord]
    checkpoints: list[CheckpointRecord]
    states: Iterable[tuple[int, NodeState]]
    assets: list[AssetRecord]
    jobs: list[JobRecord]
    events: list[NewEvent]
    versions: list[VersionRecord] = field(default_factory=list["VersionRecord"])
    said: Iterable[NewEvent] = ()
    said_count: int = 0
    quota: SessionQuota | None = None


class HistoryStore(Protocol):
    """A session's past. What a plan is asked for, it is asked in the transaction that carries it out."""

    async def past(self, session_id: str, *, user_id: str | None = None, point: str | None = None) -> Past:
        """Read what a session was at a point; what it is now when none is named.

        Raises:
            NotFound: There is no such session, or no such point in what counts of it now.
            Conflict: The point is from before koda_ray kept states.
        """
        ...

    async def see_point(self, session_id: str, point: str, *, user_id: str | None = None) -> None:
        """See that a session could be put back to a point, by a few numbers: nothing of what it was is read.

        Raises:
            NotFound: As `past`.
            Conflict: As `past`.
        """
        ...

    async def rewind(
        self, session_id: str, epoch: int, point: str, plan: Callable[[Past], Change]
    ) -> tuple[Change | None, list[Envelope]]:
        """Put a session back to a point under its fence, in one transaction; where it was becomes a head.

        Args:
            session_id: Which.
            epoch: The activation that does it.
            point: A message, a checkpoint, a head, a version, or `UNDO`.
            plan: Pure: says what the session becomes.

        Returns:
            What it became, and the events as numbered; None, and the events of that time, for a command that was
            recorded before: it changes nothing again.

        Raises:
            Fenced: ``epoch`` is no longer the session's.
            NotFound: As `past`; with `UNDO`, nothing was put back.
            Conflict: As `past`, or the command's key was used for another body.
        """
        ...

    async def fork(
        self,
        session_id: str,
        *,
        user_id: str,
        point: str | None,
        key: str,
        body: dict[str, JsonValue],
        plan: Callable[[Past], ForkedSession],
    ) -> tuple[SessionRecord, bool]:
        """Make a session of another one's past, in one transaction; the other one is not changed.

        Returns:
            The row, and whether this call made it; ``key`` and ``body`` as in `Store.create_session`.

        Raises:
            NotFound: As `past`.
            Conflict: As `past`, or the key or the id that the plan says belongs to another session, or what the key
                made was deleted.
            LimitReached: With it, the user would have more than the plan's ``quota``; nothing was made.
        """
        ...

    async def checkpoints(self, session_id: str) -> list[CheckpointRecord]:
        """Read the pointers that count now, oldest first."""
        ...

    async def heads(self, session_id: str) -> list[HeadRecord]:
        """Read where it was each time it was put back, oldest first."""
        ...

    async def points(
        self, session_id: str, *, limit: int, before: tuple[datetime, str] | None = None
    ) -> list[PointRecord]:
        """Read a page of the points that count now, newest first; what one takes does not grow with the session.

        Args:
            session_id: Whose.
            limit: How many at most.
            before: Only those after this one in the list: its time and its id.
        """
        ...

    async def said(self, session_id: str, *, before: int | None = None, limit: int = 100) -> list[Envelope]:
        """Read the ``message`` events that count now, newest first: what was said aloud.

        Args:
            session_id: Whose.
            before: Only those with a smaller number.
            limit: How many at most.
        """
        ...

    async def pictured(self, session_id: str, *, before: int | None = None, limit: int = 100) -> list[Envelope]:
        """Read the ``picture_taken`` events that count now, newest first; the arguments are those of `said`."""
        ...

    async def named_keys(self, session_id: str) -> dict[str, bool]:
        """Read the keys of manifests and uploaded files that a session names, whatever counts of it now.

        Returns:
            By key, whether another session that is not closed names it too.
        """
        ...
