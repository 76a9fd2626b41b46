"""A session's past in a folder of JSON; see `past`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import JsonValue

from koda_ray.errors import Conflict
from koda_ray.events import Envelope, EventType
from koda_ray.state.content import after_removal
from koda_ray.state.heads import (
    KeptPast,
    head_now,
    head_with,
    is_head,
    is_version,
    onwards,
    parts_json,
    past_of,
    read_parts,
)
from koda_ray.state.json_commit import put_command, save_state
from koda_ray.state.json_content import may_begin
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_holdings import share_holdings
from koda_ray.state.json_inbox import quota_used
from koda_ray.state.json_jobs import put_job
from koda_ray.state.json_parts import JsonParts, put_events
from koda_ray.state.json_rows import decode, encode, event, is_seen, moment, state_row, time_of, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.json_versions import versions_in
from koda_ray.state.notify import Notifier
from koda_ray.state.past import (
    UNDO,
    Change,
    ForkedSession,
    HeadRecord,
    Past,
    PointRecord,
    Span,
    counts,
    heard,
    spans_of,
)
from koda_ray.state.points import said_in, see_point
from koda_ray.state.records import (
    ApprovalRecord,
    AssetRecord,
    BeadRecord,
    CheckpointRecord,
    JobRecord,
    MessageRecord,
    SessionRecord,
    ToolCallRecord,
)
from koda_ray.state.refusals import Repeated, belongs, check_sessions, no_such, replaced, used_for_another, was_deleted
from koda_ray.state.rows import body_hash, number
from koda_ray.state.versions import VersionRecord
from koda_ray.types import NodeState, now

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["JsonHistory"]

R = TypeVar("R", bound="DataclassInstance")
_Rows = Iterable[MessageRecord | ToolCallRecord | ApprovalRecord | BeadRecord | CheckpointRecord | VersionRecord]


class JsonHistory(JsonParts):
    """The part of `JSONStore` that goes back, and makes sessions of others."""

    _database: JsonDatabase
    _notifier: Notifier

    async def past(self, session_id: str, *, user_id: str | None = None, point: str | None = None) -> Past:
        """Read what a session was at a point; see `HistoryStore.past`."""
        return await self._database.read(
            lambda tables: past_of(_kept(tables, _row(tables, session_id, user_id), point), point)
        )

    async def see_point(self, session_id: str, point: str, *, user_id: str | None = None) -> None:
        """See that a session could be put back to a point; see `HistoryStore.see_point`."""

        def work(tables: Tables) -> None:
            row = _row(tables, session_id, user_id)
            spans = spans_of(row.get("history"))
            points = _JsonPointLookup(tables, session_id, spans)
            see_point(points, session_id, point, spans=spans, state_rev=cast("int", row.get("state_rev", 0)))

        await self._database.read(work)

    async def rewind(
        self, session_id: str, epoch: int, point: str, plan: Callable[[Past], Change]
    ) -> tuple[Change | None, list[Envelope]]:
        """Put a session back to a point; see `HistoryStore.rewind`."""

        def work(change: Transaction) -> tuple[Change, list[Envelope]]:
            row = change.tables.get("sessions", session_id)
            if row is None or row["epoch"] != epoch:
                current = None if row is None else cast("int", row["epoch"])
                raise replaced("session", session_id, epoch=epoch, current=current)
            kept = _kept(change.tables, row, point)
            past = past_of(kept, point)
            planned = plan(past)
            return planned, _apply(change, kept, past, planned, head_now(kept, planned, point=point))

        try:
            return await self._database.write(work, lambda _: self._notifier.notify(session_id))
        except Repeated as repeated:
            return None, await self._led_to(session_id, repeated)

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
        """Make a session of another one's past; see `HistoryStore.fork`."""
        digest, same = body_hash(body), (words(user_id), words(key))

        def work(change: Transaction) -> tuple[SessionRecord, bool]:
            for row in change.tables.of("sessions"):
                if (row["user_id"], row["create_key"]) == same:
                    if row["create_hash"] != digest:
                        raise used_for_another("request", key)
                    if not is_seen(row):
                        raise was_deleted(key)
                    return decode(SessionRecord, row), False
            may_begin(change, user_id)
            kept = _kept(change.tables, _row(change.tables, session_id, user_id), point)
            past = past_of(kept, point, with_states=True)
            fork = plan(_with_belongings(change.tables, past))
            made = _insert(change, fork, key=key, digest=digest)
            share_holdings(change, user_id, made.id, of=session_id)
            return made, True

        return await after_removal(
            lambda: self._database.write(work, lambda result: self._notifier.notify(result[0].id))
        )

    async def points(
        self, session_id: str, *, limit: int, before: tuple[datetime, str] | None = None
    ) -> list[PointRecord]:
        """Read a page of the points that count now, newest first; see `HistoryStore.points`."""
        return await self._database.read(lambda tables: _points(tables, session_id, limit=limit, before=before))

    async def checkpoints(self, session_id: str) -> list[CheckpointRecord]:
        """Read the pointers that count now, oldest first."""
        order = ("event_seq", "created_at", "id")
        return await self._records(
            CheckpointRecord, "checkpoints", session_id, order, lambda row: bool(row.get("live", True))
        )

    async def heads(self, session_id: str) -> list[HeadRecord]:
        """Read where it was each time it was put back, oldest first."""
        return await self._database.read(lambda tables: [_head(row) for row in _heads(tables, session_id)])

    async def said(self, session_id: str, *, before: int | None = None, limit: int = 100) -> list[Envelope]:
        """Read the ``message`` events that count now, newest first."""
        return await self._counted("message", session_id, before, limit)

    async def pictured(self, session_id: str, *, before: int | None = None, limit: int = 100) -> list[Envelope]:
        """Read the ``picture_taken`` events that count now, newest first."""
        return await self._counted("picture_taken", session_id, before, limit)

    async def _counted(self, type: EventType, session_id: str, before: int | None, limit: int) -> list[Envelope]:
        def work(tables: Tables) -> list[Envelope]:
            row = tables.get("sessions", session_id)
            spans = spans_of(None if row is None else row.get("history"))
            counted = [
                each
                for each in tables.of("events", words(session_id))
                if each["type"] == type
                and heard(spans, seq := cast("int", each["seq"]))
                and (before is None or seq < before)
            ]
            return [event(each) for each in reversed(counted[-limit:])]

        return await self._database.read(work)

    async def named_keys(self, session_id: str) -> dict[str, bool]:
        """Read the keys of manifests and uploaded files that a session names, and whether another one does."""
        mine = words(session_id)

        def work(tables: Tables) -> dict[str, bool]:
            open_ = {str(row["id"]) for row in tables.of("sessions") if row["status"] != "closed"} - {mine}
            named: dict[str, bool] = {}
            for table, column in (("checkpoints", "manifest_key"), ("assets", "key")):
                rows = list(tables.everywhere(table))
                keys = {str(row[column]) for row in rows if row["session_id"] == mine}
                others = {str(row[column]) for row in rows if row["session_id"] in open_}
                named |= {key: key in others for key in keys}
            return named

        return await self._database.read(work)


class _JsonPointLookup:
    """What a folder of JSON says of a session's points; see `PointLookup`."""

    def __init__(self, tables: Tables, session_id: str, spans: Sequence[Span]) -> None:
        self._tables = tables
        self._session_id = words(session_id)
        self._spans = spans

    def can_undo(self) -> bool:
        """Whether a rewind was not undone."""
        heads = self._tables.of("heads", self._session_id)
        return any(head["kind"] == "rewind" and not head["undone"] for head in heads)

    def has_head(self, head_id: str) -> bool:
        """Whether there is this head."""
        return self._tables.get("heads", head_id, self._session_id) is not None

    def has_version(self, version_id: str) -> bool:
        """Whether there is this version."""
        return self._tables.get("versions", version_id, self._session_id) is not None

    def rev_of(self, point: str) -> int | None:
        """Return the commit of a message or a checkpoint."""
        for table in ("messages", "checkpoints"):
            if (row := self._tables.get(table, point, self._session_id)) is not None:
                return cast("int", row.get("rev", 0))
        return None

    def next_rev(self, rev: int, *, checkpoints: bool) -> int | None:
        """Return the next commit that counts and has a message, or a checkpoint."""
        tables = ("messages", "checkpoints") if checkpoints else ("messages",)
        revs = (rev_ for table in tables for rev_ in self._revs(table) if rev_ > rev)
        return min(revs, default=None)

    def has_state(self, rev: int) -> bool:
        """Whether a state that counts was kept at a commit or before."""
        return any(rev_ <= rev for rev_ in self._revs("states"))

    def _revs(self, table: str) -> Iterable[int]:
        revs = (cast("int", row.get("rev", 0)) for row in self._tables.of(table, self._session_id))
        return (rev for rev in revs if counts(self._spans, rev))


def _points(tables: Tables, session_id: str, *, limit: int, before: tuple[datetime, str] | None) -> list[PointRecord]:
    mine = words(session_id)
    every: list[tuple[datetime, str, str, dict[str, Any]]] = []
    for table, kind in (("messages", "message"), ("checkpoints", "checkpoint"), ("heads", "head")):
        rows = cast("Iterable[dict[str, Any]]", tables.of(table, mine))
        every += [(time_of(row["created_at"]), str(row["id"]), kind, row) for row in rows if row.get("live", True)]
    page = sorted((each for each in every if before is None or each[:2] < before), key=_place, reverse=True)[:limit]
    return [_point(*each) for each in page]


def _place(point: tuple[datetime, str, str, dict[str, Any]]) -> tuple[datetime, str]:
    return point[:2]


def _point(at: datetime, point_id: str, kind: str, row: dict[str, Any]) -> PointRecord:
    if kind == "message":
        text = said_in(row["content"])
        return PointRecord(id=point_id, kind=kind, created_at=at, text=text, agent=row["agent"], role=row["role"])
    if kind == "checkpoint":
        return PointRecord(id=point_id, kind=kind, created_at=at, text=row["trigger"])
    return PointRecord(id=point_id, kind="head", created_at=at, text=row["point"], undone=row["undone"])


def _apply(change: Transaction, kept: KeptPast, past: Past, planned: Change, head: HeadRecord) -> list[Envelope]:
    now_is, batch, at = kept.record, planned.batch, moment(now())
    session_id, user_id, rev = now_is.id, now_is.user_id, now_is.rev + 1
    save_state(change, session_id)
    seq = now_is.seq + len(batch.events)
    made = number(session_id, seq, now_is.epoch, batch.events)
    if batch.command is not None:
        put_command(change, batch.command, session_id, user_id, seq, len(made))
    history = onwards(past)
    fields: TableRow = {"seq": seq, "rev": rev, "state_rev": rev, "history": [list(span) for span in history]}
    fields |= {"state": state_row(planned.state), "owes": planned.state.owes, "updated_at": at}
    if batch.touch:
        fields["last_activity"] = at
    change.set("sessions", session_id, fields)
    change.put("heads", _head_row(head))
    if past.head is not None:
        change.set("heads", past.head.id, {"undone": True}, owner=session_id)
    for table in ("messages", "checkpoints", "versions"):
        for row in list(change.tables.of(table, session_id)):
            live = counts(history, cast("int", row.get("rev", 0)))
            if live != row.get("live", True):
                change.set(table, str(row["id"]), {"live": live}, owner=session_id)
    for table in ("tool_calls", "approvals", "beads"):
        change.drop(table, session_id)
    _put_rows(change, planned, session_id, user_id)
    messages = [replace(message, rev=rev, seq=now_is.seq) for message in batch.messages]
    _put(change, "messages", messages, session_id, user_id)
    put_events(change, user_id, made)
    return made


def _insert(change: Transaction, fork: ForkedSession, *, key: str, digest: str) -> SessionRecord:
    state, at, events = fork.state, now(), [*fork.said, *fork.events]
    session_id, user_id = state.session_id, state.user_id
    if change.tables.get("sessions", session_id) is not None:
        raise Conflict(f"session id {session_id} is taken; try again", retryable=True)
    record = SessionRecord(
        id=session_id,
        node_id=state.node_id,
        user_id=user_id,
        project_id=state.project_id,
        state=state,
        owes=state.owes,
        status="active",
        epoch=0,
        seq=len(events),
        host=None,
        lease_until=None,
        last_activity=at,
        created_at=at,
        updated_at=at,
        rev=fork.rev,
    )
    change.put("sessions", encode(record, create_key=words(key), create_hash=digest, state_rev=fork.rev))
    _put(change, "messages", fork.messages, session_id, user_id)
    _put(change, "checkpoints", fork.checkpoints, session_id, user_id)
    _put(change, "versions", fork.versions, session_id, user_id)
    _put_rows(change, fork, session_id, user_id)
    for rev, each in fork.states:
        saved: TableRow = {
            "session_id": words(session_id),
            "rev": rev,
            "user_id": words(user_id),
            "state": state_row(each),
        }
        change.put("states", saved)
    for asset in fork.assets:
        belongs(asset, session_id, user_id)
        change.put("assets", encode(asset))
    for job in fork.jobs:
        belongs(job, session_id, user_id)
        put_job(change, job)
    put_events(change, user_id, number(session_id, len(events), 0, events))
    if fork.quota is not None:
        check_sessions(fork.quota, quota_used(change.tables, user_id))
    return record


def _put_rows(change: Transaction, rows: Change | ForkedSession, session_id: str, user_id: str) -> None:
    _put(change, "tool_calls", rows.tool_calls, session_id, user_id)
    _put(change, "approvals", rows.approvals, session_id, user_id)
    _put(change, "beads", rows.beads, session_id, user_id)


def _put(change: Transaction, table: str, records: _Rows, session_id: str, user_id: str) -> None:
    for position, item in enumerate(records):
        belongs(item, session_id, user_id)
        more: TableRow = {"ordinal": position} if table in ("tool_calls", "approvals") else {}
        change.put(table, encode(item, **more))


def _row(tables: Tables, session_id: str, user_id: str | None) -> TableRow:
    row = tables.get("sessions", session_id)
    if row is None or row["status"] == "closed":
        raise no_such("session", session_id)
    if user_id is not None and (row["user_id"] != words(user_id) or not is_seen(row)):
        raise no_such("session", session_id)
    return row


def _kept(tables: Tables, row: TableRow, point: str | None) -> KeptPast:
    session_id = str(row["id"])

    def rows(cls: type[R], table: str, *order: str) -> list[R]:
        def place(each: TableRow) -> tuple[Any, ...]:
            return tuple(each[name] for name in order)

        return [decode(cls, each) for each in sorted(tables.of(table, session_id), key=place)]

    states = sorted((cast("int", each["rev"]), json.dumps(each["state"])) for each in tables.of("states", session_id))
    version = tables.get("versions", str(point), session_id) if is_version(point) else None
    spans = spans_of(row.get("history"))
    return KeptPast(
        record=decode(SessionRecord, row),
        state_rev=cast("int", row.get("state_rev", 0)),
        spans=spans,
        messages=rows(MessageRecord, "messages", "position", "id"),
        tool_calls=rows(ToolCallRecord, "tool_calls", "started_at", "ordinal", "id"),
        approvals=rows(ApprovalRecord, "approvals", "created_at", "ordinal", "id"),
        beads=rows(BeadRecord, "beads", "position", "id"),
        checkpoints=rows(CheckpointRecord, "checkpoints", "event_seq", "created_at", "id"),
        states=states,
        head=_head_at(tables, session_id, point, version, spans),
        version=None if version is None else decode(VersionRecord, version),
    )


def _with_belongings(tables: Tables, past: Past) -> Past:
    """Add what a fork takes along beside the history."""
    mine = words(past.record.id)

    def of(table: str) -> list[TableRow]:
        return [row for row in tables.of(table) if row["session_id"] == mine]

    assets = [decode(AssetRecord, row) for row in of("assets")]
    said = [
        event(row)
        for row in tables.of("events", mine)
        if row["type"] == "message" and heard(past.spans, cast("int", row["seq"]))
    ]
    return replace(
        past,
        assets=sorted(assets, key=lambda asset: (asset.created_at, asset.id)),
        jobs=[decode(JobRecord, row) for row in of("jobs")],
        versions=[each for each in versions_in(tables, past.record.id) if counts(past.spans, each.rev)],
        said=said,
        said_seqs=[each.seq for each in said],
    )


def _heads(tables: Tables, session_id: str) -> list[dict[str, Any]]:
    rows = cast("Iterable[dict[str, Any]]", tables.of("heads", session_id))
    return sorted(rows, key=lambda row: row["rev"])


def _head_at(
    tables: Tables, session_id: str, point: str | None, version: TableRow | None, spans: Sequence[Span]
) -> HeadRecord | None:
    """Read the head that is gone to; or, for a version that does not count now, the one in whose past it does."""
    heads = _heads(tables, session_id)
    if version is not None and not counts(spans, rev := cast("int", version["rev"])):
        every = ((row["id"], spans_of(row["history"]), row["rev"], row["seq"]) for row in reversed(heads))
        point = head_with(every, rev)
    if not is_head(point):
        return None
    if point == UNDO:
        named = [row for row in heads if row["kind"] == "rewind" and not row["undone"]]
    else:
        named = [row for row in heads if row["id"] == point]
    return _head(named[-1]) if named else None


def _head(row: dict[str, Any]) -> HeadRecord:
    calls, approvals, beads = read_parts(row["parts"])
    names = ("id", "session_id", "user_id", "kind", "point", "rev", "seq", "undone")
    return HeadRecord(
        **{name: row[name] for name in names},
        history=spans_of(row["history"]),
        state=NodeState.model_validate_json(json.dumps(row["state"])),
        tool_calls=calls,
        approvals=approvals,
        beads=beads,
        created_at=time_of(row["created_at"]),
    )


def _head_row(head: HeadRecord) -> TableRow:
    return {
        "id": head.id,
        "session_id": words(head.session_id),
        "user_id": words(head.user_id),
        "kind": head.kind,
        "point": words(head.point),
        "rev": head.rev,
        "seq": head.seq,
        "history": [list(span) for span in head.history],
        "state": state_row(head.state),
        "parts": parts_json(head),
        "undone": head.undone,
        "created_at": moment(head.created_at),
    }
