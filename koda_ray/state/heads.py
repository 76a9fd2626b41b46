"""Finding a point in what a store keeps of a session, and heads as JSON: the same for every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

from pydantic import JsonValue

from koda_ray.state.json_rows import decode, encode
from koda_ray.state.past import UNDO, Change, HeadRecord, Past, Span, counts, cut
from koda_ray.state.points import HEAD, no_point, nothing_to_undo, too_old
from koda_ray.state.records import (
    ApprovalRecord,
    BeadRecord,
    CheckpointRecord,
    MessageRecord,
    SessionRecord,
    ToolCallRecord,
)
from koda_ray.state.versions import VERSION, VersionRecord
from koda_ray.types import NodeState, now

__all__ = [
    "PAGE",
    "KeptPast",
    "head_now",
    "head_with",
    "is_head",
    "is_version",
    "onwards",
    "parts_json",
    "past_of",
    "read_parts",
]

R = TypeVar("R", MessageRecord, ToolCallRecord)
PAGE = 16
"""How many messages, calls, states or events are held at once."""


@dataclass(frozen=True, kw_only=True)
class KeptPast:
    """All that a store keeps of a session's past; messages and checkpoints also where they do not count now.

    ``states`` are JSON by the commit that brought them, oldest first, which may be gone through several times;
    ``state_rev`` is the present one's. ``head`` is the one that is gone to, if any: each has all calls of its time.
    ``messages`` are in the order of their positions; without what they say, where ``read`` reads that by their ids, as
    ``read_calls`` does what ``tool_calls`` were given and gave.
    ``version`` is the one that is gone to, if any; where it does not count now, ``head`` is the newest in whose past it
    does.
    """

    record: SessionRecord
    state_rev: int
    spans: tuple[Span, ...]
    messages: list[MessageRecord]
    tool_calls: list[ToolCallRecord]
    approvals: list[ApprovalRecord]
    beads: list[BeadRecord]
    checkpoints: list[CheckpointRecord]
    states: Iterable[tuple[int, str]]
    head: HeadRecord | None
    read: Callable[[Sequence[str]], Iterable[MessageRecord]] | None = None
    read_calls: Callable[[Sequence[str]], Iterable[ToolCallRecord]] | None = None
    version: VersionRecord | None = None


def is_version(point: str | None) -> bool:
    """Whether what a point names is a version, or none."""
    return point is not None and point.startswith(VERSION)


def head_with(heads: Iterable[tuple[str, Sequence[Span], int, int]], rev: int) -> str | None:
    """Return the id of the first head in whose past a commit counts.

    Args:
        heads: Each head's id, stretches, commit and event, those that are looked at first before the others.
        rev: The commit.
    """
    return next((each for each, spans, last, seq in heads if counts(cut(spans, rev=last, seq=seq), rev)), None)


def is_head(point: str | None) -> bool:
    """Whether what a point names is a head, or none."""
    return point == UNDO or (point is not None and point.startswith(HEAD))


def past_of(kept: KeptPast, point: str | None, *, with_states: bool = False) -> Past:
    """Say what a session was at a point. Raises as `HistoryStore.past`."""
    record = kept.record
    pending = [approval for approval in kept.approvals if approval.status == "pending"]
    if is_head(point):
        if kept.head is None:
            raise nothing_to_undo(record.id) if point == UNDO else no_point(record.id, str(point))
        return _at_head(kept, kept.head, with_states=with_states)
    rev, seq, until = record.rev, record.seq, None
    if is_version(point):
        version = _version(kept, str(point))
        rev, seq, until = version.rev, version.seq, version.created_at
        kept = _as_counted(kept, rev)
    elif point is not None and (following := _next(kept, point)) is not None:
        rev, seq, until = following.rev - 1, following.seq, following.created_at
    spans = cut(kept.spans, rev=rev, seq=seq)
    gone = {message.id for message in kept.messages if not counts(spans, message.rev)}
    calls = [call for call in kept.tool_calls if call.message_id not in gone]
    dropped = {call.id for call in kept.tool_calls if call.message_id in gone}
    return Past(
        record=record,
        point=point,
        spans=spans,
        rev=rev,
        seq=seq,
        until=until,
        state=record.state if kept.state_rev <= rev else _state(kept, spans, rev, str(point)),
        messages=_messages(kept, spans),
        tool_calls=calls if kept.read_calls is None else _Read(kept.read_calls, [call.id for call in calls]),
        approvals=[
            approval
            for approval in kept.approvals
            if approval.call_id not in dropped
            and (approval.call_id is not None or until is None or approval.created_at < until)
        ],
        beads=kept.beads,
        checkpoints=[each for each in kept.checkpoints if counts(spans, each.rev)],
        pending=pending,
        states=_States(kept, spans) if with_states else (),
    )


def head_now(kept: KeptPast, change: Change, *, point: str) -> HeadRecord:
    """Keep where a session is, before it is changed."""
    return HeadRecord(
        id=change.head_id,
        session_id=kept.record.id,
        user_id=kept.record.user_id,
        kind="undo" if point == UNDO else "rewind",
        point=point,
        rev=kept.record.rev,
        seq=kept.record.seq,
        history=kept.spans,
        state=kept.record.state,
        tool_calls=kept.tool_calls,
        approvals=kept.approvals,
        beads=kept.beads,
        undone=False,
        created_at=now(),
    )


def onwards(past: Past) -> tuple[Span, ...]:
    """Return what counts once a session was put back: what did at the point, and what comes from now on."""
    return (*past.spans, Span(past.record.rev + 1, None, past.record.seq + 1, None))


def parts_json(head: HeadRecord) -> dict[str, JsonValue]:
    """Write a head's rows."""
    return {
        "tool_calls": [encode(each) for each in head.tool_calls],
        "approvals": [encode(each) for each in head.approvals],
        "beads": [encode(each) for each in head.beads],
    }


def read_parts(raw: JsonValue) -> tuple[list[ToolCallRecord], list[ApprovalRecord], list[BeadRecord]]:
    """Read them back."""
    rows = cast("dict[str, list[dict[str, JsonValue]]]", raw)
    return (
        [decode(ToolCallRecord, each) for each in rows["tool_calls"]],
        [decode(ApprovalRecord, each) for each in rows["approvals"]],
        [decode(BeadRecord, each) for each in rows["beads"]],
    )


def _at_head(kept: KeptPast, head: HeadRecord, *, with_states: bool) -> Past:
    spans = cut(head.history, rev=head.rev, seq=head.seq)
    return Past(
        record=kept.record,
        point=head.id,
        spans=spans,
        rev=head.rev,
        seq=head.seq,
        until=None,
        state=head.state,
        messages=_messages(kept, spans),
        tool_calls=head.tool_calls,
        approvals=head.approvals,
        beads=head.beads,
        checkpoints=[each for each in kept.checkpoints if counts(spans, each.rev)],
        pending=[approval for approval in kept.approvals if approval.status == "pending"],
        head=head,
        states=_States(kept, spans) if with_states else (),
    )


def _version(kept: KeptPast, point: str) -> VersionRecord:
    if kept.version is None:
        raise no_point(kept.record.id, point)
    return kept.version


def _as_counted(kept: KeptPast, rev: int) -> KeptPast:
    """Return the past in which a commit counts: the present one, or the one that was left at a head."""
    if counts(kept.spans, rev) or kept.head is None:
        return kept
    head = kept.head
    return replace(
        kept,
        spans=head.history,
        tool_calls=head.tool_calls,
        read_calls=None,
        approvals=head.approvals,
        beads=head.beads,
        head=None,
    )


def _next(kept: KeptPast, point: str) -> MessageRecord | CheckpointRecord | None:
    """Return what was said or saved next after a point; None where that was the last."""
    said: Sequence[MessageRecord | CheckpointRecord] = kept.messages
    if point.startswith("ckp_"):
        said = [*kept.messages, *kept.checkpoints]
    found = next((each for each in [*kept.messages, *kept.checkpoints] if each.id == point), None)
    if found is None or not counts(kept.spans, found.rev):
        raise no_point(kept.record.id, point, was=found is not None)
    after = [each for each in said if each.rev > found.rev and counts(kept.spans, each.rev)]
    return min(after, key=lambda each: (each.rev, each.created_at), default=None)


def _state(kept: KeptPast, spans: Sequence[Span], rev: int, point: str) -> NodeState:
    found: str | None = None
    for since, text in kept.states:
        if since > rev:
            break
        if counts(spans, since):
            found = text
    if found is None:
        raise too_old(kept.record.id, point)
    return NodeState.model_validate_json(found)


def _messages(kept: KeptPast, spans: Sequence[Span]) -> Iterable[MessageRecord]:
    counted = [message for message in kept.messages if counts(spans, message.rev)]
    return counted if kept.read is None else _Read(kept.read, [message.id for message in counted])


@dataclass(frozen=True)
class _Read(Generic[R]):
    """Messages or calls in an order, a few of which are held at once."""

    read: Callable[[Sequence[str]], Iterable[R]]
    ids: Sequence[str]

    def __iter__(self) -> Iterator[R]:
        for start in range(0, len(self.ids), PAGE):
            yield from self.read(self.ids[start : start + PAGE])


@dataclass(frozen=True)
class _States:
    """The states that count, oldest first, the present one among them: each is read as it is come to."""

    kept: KeptPast
    spans: Sequence[Span]

    def __iter__(self) -> Iterator[tuple[int, NodeState]]:
        for rev, text in self.kept.states:
            if rev != self.kept.state_rev and counts(self.spans, rev):
                yield rev, NodeState.model_validate_json(text)
        if counts(self.spans, self.kept.state_rev):
            yield self.kept.state_rev, self.kept.record.state
