"""A session's past on the SQL database; see `past`.

The row of the session is locked first, as by every commit, so what a plan is made from is what is there when it is
carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import JsonValue
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    delete,
    false,
    insert,
    or_,
    select,
    update,
)

from koda_ray.errors import Conflict
from koda_ray.events import Envelope, EventType
from koda_ray.state import schema
from koda_ray.state.content import after_removal
from koda_ray.state.database import Database
from koda_ray.state.heads import (
    PAGE,
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
from koda_ray.state.notify import Notifier
from koda_ray.state.past import UNDO, Change, ForkedSession, HeadRecord, Past, PointRecord, Span, counts, spans_of
from koda_ray.state.points import see_point
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
from koda_ray.state.refusals import Repeated, belongs, check_sessions, no_such, used_for_another, was_deleted
from koda_ray.state.rows import body_hash, columns, field_names, number, record, session
from koda_ray.state.sql_content import may_begin
from koda_ray.state.sql_holdings import share_holdings
from koda_ray.state.sql_inbox import quota_used
from koda_ray.state.sql_jobs import put_job
from koda_ray.state.sql_parts import SqlParts, add_events, envelope_rows, fenced, put_command
from koda_ray.state.sql_points import SqlPointLookup, counted, points_of
from koda_ray.state.versions import VersionRecord
from koda_ray.types import NodeState, now

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["SqlHistory", "save_state"]

R = TypeVar("R", bound="DataclassInstance")
T = TypeVar("T")
K = TypeVar("K", MessageRecord, ToolCallRecord)
_S = schema.sessions.c
_CALLS_IN_ORDER = ("started_at", "ordinal", "id")
_REPLACED = (schema.tool_calls, schema.approvals, schema.beads)


class SqlHistory(SqlParts):
    """The part of `SqlStore` that goes back, and makes sessions of others."""

    _database: Database
    _notifier: Notifier

    async def past(self, session_id: str, *, user_id: str | None = None, point: str | None = None) -> Past:
        """Read what a session was at a point; see `HistoryStore.past`."""
        return await self._database.read(
            lambda connection: past_of(
                _kept(connection, _row(connection, session_id, user_id), point, whole=True), point
            )
        )

    async def see_point(self, session_id: str, point: str, *, user_id: str | None = None) -> None:
        """See that a session could be put back to a point; see `HistoryStore.see_point`."""

        def work(connection: Connection) -> None:
            query = select(_S.history, _S.state_rev).where(*_known(session_id, user_id))
            row = connection.execute(query).one_or_none()
            if row is None:
                raise no_such("session", session_id)
            spans = spans_of(row.history)
            points = SqlPointLookup(connection, session_id, spans)
            see_point(points, session_id, point, spans=spans, state_rev=row.state_rev)

        await self._database.read(work)

    async def rewind(
        self, session_id: str, epoch: int, point: str, plan: Callable[[Past], Change]
    ) -> tuple[Change | None, list[Envelope]]:
        """Put a session back to a point; see `HistoryStore.rewind`."""

        def work(connection: Connection) -> tuple[Change, list[Envelope]]:
            fence = update(schema.sessions).where(_S.id == session_id, _S.epoch == epoch).values(rev=_S.rev)
            row = connection.execute(fence.returning(schema.sessions)).one_or_none()
            if row is None:
                raise fenced(connection, schema.sessions, session_id, epoch)
            kept = _kept(connection, row, point)
            past = past_of(kept, point)
            change = plan(past)
            made = self._apply_change(connection, kept, past, change, head_now(kept, change, point=point))
            return change, made

        try:
            return await self._database.write(work, lambda _: self._notifier.notify(session_id))
        except Repeated as repeated:
            return None, await self._led_to(session_id, repeated)

    def _apply_change(
        self, connection: Connection, kept: KeptPast, past: Past, change: Change, head: HeadRecord
    ) -> list[Envelope]:
        now_is, batch, at = kept.record, change.batch, now()
        session_id, user_id, rev = now_is.id, now_is.user_id, now_is.rev + 1
        save_state(self._database, connection, session_id)
        seq = now_is.seq + len(batch.events)
        made = number(session_id, seq, now_is.epoch, batch.events)
        if batch.command is not None:
            belongs(batch.command, session_id, user_id)
            put_command(self._database, connection, batch.command, user_id=user_id, seq=seq, count=len(made))
        history = onwards(past)
        values: dict[str, object] = {"seq": seq, "rev": rev, "state_rev": rev, "history": [list(s) for s in history]}
        values |= {"state": change.state.model_dump_json(), "owes": change.state.owes, "updated_at": at}
        if batch.touch:
            values["last_activity"] = at
        connection.execute(update(schema.sessions).where(_S.id == session_id).values(values))
        connection.execute(insert(schema.heads).values(_head_row(head)))
        if past.head is not None:
            heads = schema.heads.c
            undone = update(schema.heads).where(heads.session_id == session_id, heads.id == past.head.id)
            connection.execute(undone.values(undone=True))
        for table in (schema.messages, schema.checkpoints, schema.versions):
            stays = counted(table, history)
            mine = table.c.session_id == session_id
            connection.execute(update(table).where(mine, table.c.live, ~stays).values(live=False))
            connection.execute(update(table).where(mine, ~table.c.live, stays).values(live=True))
        for table in _REPLACED:
            connection.execute(delete(table).where(table.c.session_id == session_id))
        self._put_rows(connection, change, session_id, user_id)
        messages = [replace(message, rev=rev, seq=now_is.seq) for message in batch.messages]
        _insert(connection, schema.messages, messages, session_id, user_id)
        add_events(connection, user_id, made)
        return made

    def _put_rows(self, connection: Connection, rows: Change | ForkedSession, session_id: str, user_id: str) -> None:
        for table, records in zip(_REPLACED, (rows.tool_calls, rows.approvals, rows.beads), strict=True):
            place = 0
            for page in _pages(records):
                _insert(connection, table, page, session_id, user_id, place=place)
                place += len(page)

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
        digest = body_hash(body)

        def work(connection: Connection) -> tuple[SessionRecord, bool]:
            there = select(schema.sessions).where(_S.user_id == user_id, _S.create_key == key)
            same = connection.execute(there).one_or_none()
            if same is not None:
                if same.create_hash != digest:
                    raise used_for_another("request", key)
                if same.status == "closed" or same.delete_at is not None:
                    raise was_deleted(key)
                return session(same), False
            may_begin(connection, user_id)
            connection.execute(update(schema.sessions).where(_S.id == session_id).values(rev=_S.rev))  # its lock
            row = _row(connection, session_id, user_id)
            past = past_of(_kept(connection, row, point, calls=False), point, with_states=True)
            fork = plan(_with_belongings(connection, past))
            made = self._insert_fork(connection, fork, key=key, digest=digest)
            share_holdings(connection, user_id, made.id, of=session_id)
            return made, True

        return await after_removal(
            lambda: self._database.write(work, lambda result: self._notifier.notify(result[0].id))
        )

    def _insert_fork(self, connection: Connection, fork: ForkedSession, *, key: str, digest: str) -> SessionRecord:
        state, at = fork.state, now()
        session_id, user_id = state.session_id, state.user_id
        values: dict[str, object] = {
            "id": session_id,
            "node_id": state.node_id,
            "user_id": user_id,
            "project_id": state.project_id,
            "state": state.model_dump_json(),
            "owes": state.owes,
            "status": "active",
            "take_group": state.group,
            "epoch": 0,
            "seq": fork.said_count + len(fork.events),
            "rev": fork.rev,
            "state_rev": fork.rev,
            "create_key": key,
            "create_hash": digest,
            "last_activity": at,
            "created_at": at,
            "updated_at": at,
        }
        statement = self._database.insert(schema.sessions).values(values).on_conflict_do_nothing()
        row = connection.execute(statement.returning(schema.sessions)).one_or_none()
        if row is None:
            raise Conflict(f"session id {session_id} or key {key!r} is taken; try again", retryable=True)
        for said in _pages(fork.messages):
            _insert(connection, schema.messages, said, session_id, user_id)
        _insert(connection, schema.checkpoints, fork.checkpoints, session_id, user_id)
        _insert(connection, schema.versions, fork.versions, session_id, user_id)
        self._put_rows(connection, fork, session_id, user_id)
        for page in _pages(fork.states):
            rows: list[dict[str, object]] = [
                {"session_id": session_id, "rev": rev, "user_id": user_id, "state": each.model_dump_json()}
                for rev, each in page
            ]
            connection.execute(insert(schema.states), rows)
        _insert(connection, schema.assets, fork.assets, session_id, user_id)
        for job in fork.jobs:
            belongs(job, session_id, user_id)
            put_job(self._database, connection, job)
        seq = 0
        for events in (*_pages(fork.said), fork.events):
            seq += len(events)
            add_events(connection, user_id, number(session_id, seq, 0, events))
        if fork.quota is not None:
            check_sessions(fork.quota, quota_used(connection, user_id, fork.quota))
        return session(row)

    async def points(
        self, session_id: str, *, limit: int, before: tuple[datetime, str] | None = None
    ) -> list[PointRecord]:
        """Read a page of the points that count now, newest first; see `HistoryStore.points`."""
        return await self._database.read(
            lambda connection: points_of(connection, session_id, limit=limit, before=before)
        )

    async def checkpoints(self, session_id: str) -> list[CheckpointRecord]:
        """Read the pointers that count now, oldest first."""
        table = schema.checkpoints.c
        query = select(schema.checkpoints).where(table.session_id == session_id, table.live)
        return await self._database.records(
            CheckpointRecord, query.order_by(table.event_seq, table.created_at, table.id)
        )

    async def heads(self, session_id: str) -> list[HeadRecord]:
        """Read where it was each time it was put back, oldest first."""
        table = schema.heads.c
        query = select(schema.heads).where(table.session_id == session_id).order_by(table.rev)
        return await self._database.read(lambda connection: [_head(row) for row in connection.execute(query)])

    async def said(self, session_id: str, *, before: int | None = None, limit: int = 100) -> list[Envelope]:
        """Read the ``message`` events that count now, newest first."""
        return await self._counted("message", session_id, before, limit)

    async def pictured(self, session_id: str, *, before: int | None = None, limit: int = 100) -> list[Envelope]:
        """Read the ``picture_taken`` events that count now, newest first."""
        return await self._counted("picture_taken", session_id, before, limit)

    async def _counted(self, type: EventType, session_id: str, before: int | None, limit: int) -> list[Envelope]:
        events = schema.events.c
        told = select(schema.events).where(events.stream_id == session_id, events.type == type)
        if before is not None:
            told = told.where(events.seq < before)

        def work(connection: Connection) -> list[Envelope]:
            history = connection.execute(select(_S.history).where(_S.id == session_id)).scalar_one_or_none()
            heard = told.where(_in_events(events.seq, spans_of(history)))
            return envelope_rows(connection, heard.order_by(events.seq.desc()).limit(limit))

        return await self._database.read(work)

    async def named_keys(self, session_id: str) -> dict[str, bool]:
        """Read the keys of manifests and uploaded files that a session names, and whether another one does."""

        def work(connection: Connection) -> dict[str, bool]:
            named: dict[str, bool] = {}
            for table, column in ((schema.checkpoints, "manifest_key"), (schema.assets, "key")):
                mine, other = table.alias(), table.alias()
                query = select(mine.c[column]).where(mine.c.session_id == session_id)
                named |= dict.fromkeys(connection.execute(query).scalars(), False)
                shared = (
                    select(other.c[column])
                    .join(mine, mine.c[column] == other.c[column])
                    .join(schema.sessions, _S.id == other.c.session_id)
                    .where(mine.c.session_id == session_id, other.c.session_id != session_id, _S.status != "closed")
                )
                named |= dict.fromkeys(connection.execute(shared).scalars(), True)
            return named

        return await self._database.read(work)


def save_state(database: Database, connection: Connection, session_id: str) -> None:
    """Keep the present state as what the session was until now, once."""
    state = select(_S.id, _S.state_rev, _S.user_id, _S.state).where(_S.id == session_id)
    statement = database.insert(schema.states).from_select(["session_id", "rev", "user_id", "state"], state)
    connection.execute(statement.on_conflict_do_nothing())


def _row(connection: Connection, session_id: str, user_id: str | None) -> Row[*tuple[Any, ...]]:
    row = connection.execute(select(schema.sessions).where(*_known(session_id, user_id))).one_or_none()
    if row is None:
        raise no_such("session", session_id)
    return row


def _known(session_id: str, user_id: str | None) -> tuple[ColumnElement[bool], ...]:
    """Say which session is meant: by its user one that they see, by who works for it any that is not being deleted."""
    if user_id is None:
        return _S.id == session_id, _S.status != "closed"
    return _S.id == session_id, _S.user_id == user_id, schema.IS_SEEN


def _kept(
    connection: Connection, row: Row[*tuple[Any, ...]], point: str | None, *, whole: bool = False, calls: bool = True
) -> KeptPast:
    """Read what is kept of a session.

    Args:
        connection: In whose transaction.
        row: The session's.
        point: Which point of its past is wanted.
        whole: Read what messages say at once, not as it is asked for.
        calls: The same of what calls were given and gave.
    """
    session_id = row.id
    kept = _KeptRows(connection, session_id, schema.messages, MessageRecord, ("position", "id"), {"content": []})
    made = _KeptRows(
        connection, session_id, schema.tool_calls, ToolCallRecord, _CALLS_IN_ORDER, {"input": {}, "result": None}
    )

    def rows(cls: type[R], table: Table, *order: str) -> list[R]:
        query = select(table).where(table.c.session_id == session_id).order_by(*(table.c[name] for name in order))
        return [record(cls, each) for each in connection.execute(query)]

    version = _version_at(connection, session_id, point)
    return KeptPast(
        record=session(row),
        state_rev=row.state_rev,
        spans=spans_of(row.history),
        messages=rows(MessageRecord, schema.messages, "position", "id") if whole else kept.places(),
        tool_calls=rows(ToolCallRecord, schema.tool_calls, *_CALLS_IN_ORDER) if calls else made.places(),
        approvals=rows(ApprovalRecord, schema.approvals, "created_at", "ordinal", "id"),
        beads=rows(BeadRecord, schema.beads, "position", "id"),
        checkpoints=rows(CheckpointRecord, schema.checkpoints, "event_seq", "created_at", "id"),
        states=_KeptStates(connection, session_id),
        head=_head_at(connection, session_id, point, version, spans_of(row.history)),
        version=version,
        read=None if whole else kept.read,
        read_calls=None if calls else made.read,
    )


@dataclass(frozen=True)
class _KeptRows(Generic[K]):
    """All that was ever said in a session, or all calls: many, and some are large.

    ``order`` are the columns by which they are in order, ``large`` those that may be large, with what stands for them.
    """

    connection: Connection
    session_id: str
    table: Table
    cls: type[K]
    order: Sequence[str]
    large: Mapping[str, object]

    def places(self) -> list[K]:
        """Read all, in order, but for what is large."""
        columns = self.table.c
        query = select(*(column for column in columns if column.name not in self.large))
        query = query.where(columns.session_id == self.session_id).order_by(*(columns[name] for name in self.order))
        names = {*field_names(self.cls)} - self.large.keys()
        return [
            self.cls(**self.large, **{name: row._mapping[name] for name in names})  # pyright: ignore[reportPrivateUsage]
            for row in self.connection.execute(query)
        ]

    def read(self, ids: Sequence[str]) -> list[K]:
        """Read some whole, in the order of their ids here."""
        columns = self.table.c
        query = select(self.table).where(columns.session_id == self.session_id, columns.id.in_(ids))
        found = {row.id: record(self.cls, row) for row in self.connection.execute(query)}
        return [found[each] for each in ids]


@dataclass(frozen=True)
class _KeptStates:
    """A session's earlier states as JSON, oldest first: there is one for each commit, so they are read by pages."""

    connection: Connection
    session_id: str

    def __iter__(self) -> Iterator[tuple[int, str]]:
        table = schema.states.c
        query = select(table.rev, table.state).where(table.session_id == self.session_id).order_by(table.rev)
        after = -1
        while page := self.connection.execute(query.where(table.rev > after).limit(PAGE)).all():
            for row in page:
                yield row.rev, row.state
            after = page[-1].rev


def _with_belongings(connection: Connection, past: Past) -> Past:
    """Add what a fork takes along beside the history."""
    session_id = past.record.id
    assets, jobs, events, versions = schema.assets, schema.jobs, schema.events.c, schema.versions
    aloud = select(schema.events).where(
        events.stream_id == session_id, events.type == "message", _in_events(events.seq, past.spans)
    )
    return replace(
        past,
        assets=[
            record(AssetRecord, each)
            for each in connection.execute(
                select(assets).where(assets.c.session_id == session_id).order_by(assets.c.created_at, assets.c.id)
            )
        ],
        jobs=[
            record(JobRecord, each) for each in connection.execute(select(jobs).where(jobs.c.session_id == session_id))
        ],
        versions=[
            record(VersionRecord, each)
            for each in connection.execute(
                select(versions)
                .where(versions.c.session_id == session_id, counted(versions, past.spans))
                .order_by(versions.c.number)
            )
        ],
        said=_KeptSaid(connection, aloud.order_by(events.seq)),
        said_seqs=list(connection.execute(aloud.with_only_columns(events.seq).order_by(events.seq)).scalars()),
    )


@dataclass(frozen=True)
class _KeptSaid:
    """What was said aloud, as events in their order, read by pages."""

    connection: Connection
    query: Select[*tuple[Any, ...]]

    def __iter__(self) -> Iterator[Envelope]:
        after = 0
        while page := envelope_rows(self.connection, self.query.where(schema.events.c.seq > after).limit(PAGE)):
            yield from page
            after = page[-1].seq


def _version_at(connection: Connection, session_id: str, point: str | None) -> VersionRecord | None:
    if not is_version(point):
        return None
    table = schema.versions.c
    query = select(schema.versions).where(table.session_id == session_id, table.id == point)
    row = connection.execute(query).one_or_none()
    return None if row is None else record(VersionRecord, row)


def _head_at(
    connection: Connection, session_id: str, point: str | None, version: VersionRecord | None, spans: Sequence[Span]
) -> HeadRecord | None:
    """Read the head that is gone to; or, for a version that does not count now, the one in whose past it does."""
    table = schema.heads.c
    if version is not None and not counts(spans, version.rev):
        every = select(table.id, table.history, table.rev, table.seq).where(table.session_id == session_id)
        rows = connection.execute(every.order_by(table.rev.desc()))
        point = head_with(((each.id, spans_of(each.history), each.rev, each.seq) for each in rows), version.rev)
    if not is_head(point):
        return None
    mine = select(schema.heads).where(table.session_id == session_id)
    named = mine.where(table.kind == "rewind", ~table.undone) if point == UNDO else mine.where(table.id == point)
    row = connection.execute(named.order_by(table.rev.desc()).limit(1)).one_or_none()
    return None if row is None else _head(row)


def _head(row: Row[*tuple[Any, ...]]) -> HeadRecord:
    calls, approvals, beads = read_parts(row.parts)
    return HeadRecord(
        id=row.id,
        session_id=row.session_id,
        user_id=row.user_id,
        kind=row.kind,
        point=row.point,
        rev=row.rev,
        seq=row.seq,
        history=spans_of(row.history),
        state=NodeState.model_validate_json(row.state),
        tool_calls=calls,
        approvals=approvals,
        beads=beads,
        undone=row.undone,
        created_at=row.created_at,
    )


def _head_row(head: HeadRecord) -> dict[str, object]:
    names = ("id", "session_id", "user_id", "kind", "point", "rev", "seq", "undone", "created_at")
    return {
        **{name: getattr(head, name) for name in names},
        "history": [list(span) for span in head.history],
        "state": head.state.model_dump_json(),
        "parts": parts_json(head),
    }


def _insert(
    connection: Connection,
    table: Table,
    records: Sequence[
        MessageRecord | ToolCallRecord | ApprovalRecord | BeadRecord | CheckpointRecord | VersionRecord | AssetRecord
    ],
    session_id: str,
    user_id: str,
    *,
    place: int = 0,
) -> None:
    """Insert rows; ``place`` is the first one's, where they have an order of their own."""
    rows: list[dict[str, object]] = []
    for position, item in enumerate(records, place):
        belongs(item, session_id, user_id)
        rows.append({**columns(item), "ordinal": position} if "ordinal" in table.c else columns(item))
    if rows:
        connection.execute(insert(table), rows)


def _pages(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while page := list(islice(left, PAGE)):
        yield page


def _in_events(seq: ColumnElement[int], spans: Sequence[Span]) -> ColumnElement[bool]:
    """Whether an event is in one of the stretches."""
    return or_(false(), *(and_(seq >= s.seq, *([] if s.seq_stop is None else [seq < s.seq_stop])) for s in spans))
