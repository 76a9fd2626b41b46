"""What a session is made of, as the Store reads it: messages, tool calls, approvals, beads, events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, case, delete, func, insert, not_, or_, select, tuple_, update

from koda_ray.errors import KodaError
from koda_ray.events import EPHEMERAL, Envelope
from koda_ray.state import schema
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.database import Database
from koda_ray.state.lookout import Newest
from koda_ray.state.records import (
    ApprovalRecord,
    BeadRecord,
    CheckpointRecord,
    CommandRecord,
    LogRest,
    MessageRecord,
    ToolCallRecord,
    ToolCallStatus,
)
from koda_ray.state.refusals import Repeated, replaced, used_for_another
from koda_ray.state.rows import body_hash, columns, envelope, one_page, record
from koda_ray.state.sql_charges import close_charges
from koda_ray.state.sql_inbox import take_out

__all__ = ["PRUNED_AT_ONCE", "SqlParts", "add_events", "envelope_rows", "fenced", "put_command"]

_E = schema.events.c
_STREAMS = 500
PRUNED_AT_ONCE = 5_000
"""How many events are removed in one transaction."""
_ENDED = ("succeeded", "failed", "cancelled")


class SqlParts:
    """The part of `SqlStore` that reads a session's rows."""

    _database: Database

    async def messages(self, session_id: str, *, agent: str | None = None) -> list[MessageRecord]:
        """Read messages in order; those of several agents by time."""
        table = schema.messages.c
        query = select(schema.messages).where(table.session_id == session_id, table.live)
        if agent is not None:
            query = query.where(table.agent == agent).order_by(table.position, table.id)
        else:
            query = query.order_by(table.created_at, table.position, table.id)
        return await self._database.records(MessageRecord, query)

    async def tool_calls(self, session_id: str, *, status: Sequence[ToolCallStatus] = ()) -> list[ToolCallRecord]:
        """Read the ledger in order of start, all statuses when none is named."""
        table = schema.tool_calls.c
        query = select(schema.tool_calls).where(table.session_id == session_id)
        if status:
            query = query.where(table.status.in_(status))
        return await self._database.records(ToolCallRecord, query.order_by(table.started_at, table.ordinal, table.id))

    async def approvals(self, session_id: str, *, pending: bool = False) -> list[ApprovalRecord]:
        """Read approvals in order."""
        table = schema.approvals.c
        query = select(schema.approvals).where(table.session_id == session_id)
        if pending:
            query = query.where(table.status == "pending")
        return await self._database.records(ApprovalRecord, query.order_by(table.created_at, table.ordinal, table.id))

    async def approvals_page(
        self, session_id: str, *, pending: bool = False, limit: int, before: tuple[datetime, str] | None = None
    ) -> tuple[list[ApprovalRecord], bool]:
        """Read a page of approvals, newest first, and whether there is another; see `Store.approvals_page`."""
        table = schema.approvals.c
        size = func.length(table.payload) + func.coalesce(func.length(table.answer), 0)
        mine = table.session_id == session_id
        order = (table.created_at.desc(), table.id.desc())
        sizes = select(table.id, size).where(mine).order_by(*order).limit(limit + 1)
        if pending:
            sizes = sizes.where(table.status == "pending")
        if before is not None:
            at, approval_id = before
            sizes = sizes.where(or_(table.created_at < at, and_(table.created_at == at, table.id < approval_id)))

        def work(connection: Connection) -> tuple[list[ApprovalRecord], bool]:
            found = connection.execute(sizes).all()
            count = one_page([each[1] for each in found], limit)
            page = select(schema.approvals).where(mine, table.id.in_([each[0] for each in found[:count]]))
            rows = connection.execute(page.order_by(*order))
            return [record(ApprovalRecord, row) for row in rows], len(found) > count

        return await self._database.read(work)

    async def beads(self, session_id: str) -> list[BeadRecord]:
        """Read beads by position."""
        table = schema.beads.c
        query = select(schema.beads).where(table.session_id == session_id).order_by(table.position, table.id)
        return await self._database.records(BeadRecord, query)

    async def latest_checkpoint(self, session_id: str) -> CheckpointRecord | None:
        """Read the newest checkpoint's pointer."""
        table = schema.checkpoints.c
        query = select(schema.checkpoints).where(table.session_id == session_id, table.live)
        query = query.order_by(table.event_seq.desc(), table.created_at.desc(), table.id.desc()).limit(1)
        found = await self._database.records(CheckpointRecord, query)
        return found[0] if found else None

    async def sandboxes(self, *, session_id: str | None = None, live: bool = True) -> list[SandboxRecord]:
        """Read sandbox rows, of one session or of all."""
        table = schema.sandboxes.c
        query = select(schema.sandboxes)
        if session_id is not None:
            query = query.where(table.session_id == session_id)
        if live:
            query = query.where(table.status != "destroyed")
        return await self._database.records(SandboxRecord, query.order_by(table.created_at, table.id))

    async def sandbox_destroyed(self, sandbox_id: str, *, why: str = "") -> None:
        """Record that a sandbox is gone, and its processes; without a fence: that is true whoever found it out."""
        processes = delete(schema.processes).where(schema.processes.c.sandbox_id == sandbox_id)
        table = schema.sandboxes.c
        said = case((table.status == "destroyed", table.ended), else_=why)
        statement = update(schema.sandboxes).where(table.id == sandbox_id).values(status="destroyed", ended=said)

        def work(connection: Connection) -> None:
            session_id = connection.execute(statement.returning(table.session_id)).scalar_one_or_none()
            connection.execute(processes)
            if session_id is not None:
                charges = schema.charges.c
                close_charges(self._database, connection, and_(charges.work_id == session_id, charges.id == sandbox_id))

        await self._database.write(work)

    async def events(
        self, stream_id: str, *, after: int = 0, limit: int = 500, lasting: bool = False
    ) -> list[Envelope]:
        """Read events with ``seq > after`` in order, or only those not EPHEMERAL; returns at once, also with none."""
        query = select(schema.events).where(_E.stream_id == stream_id, _E.seq > after)
        if lasting:
            query = query.where(_E.type.not_in(EPHEMERAL))
        query = query.order_by(_E.seq).limit(limit)
        return await self._database.read(lambda connection: envelope_rows(connection, query))

    async def newest(self, stream_ids: Collection[str]) -> dict[str, Newest]:
        """Read the newest numbers of streams, some hundreds with a question."""
        sessions, jobs = schema.sessions.c, schema.jobs.c
        ids = list(stream_ids)
        shares = [ids[start : start + _STREAMS] for start in range(0, len(ids), _STREAMS)]

        def work(connection: Connection) -> dict[str, Newest]:
            found: dict[str, Newest] = {}
            for share in shares:
                for table, over in ((sessions, not_(schema.IS_SEEN)), (jobs, jobs.status.in_(_ENDED))):
                    query = select(table.id, table.seq, over.label("over")).where(table.id.in_(share))
                    found |= {row.id: Newest(row.seq, bool(row.over)) for row in connection.execute(query)}
            return found

        return await self._database.read(work)

    async def log_rest(self, stream_id: str, after: int) -> LogRest:
        """Say what there is of a stream after a number; see `Store.log_rest`."""

        def work(connection: Connection) -> LogRest:
            newest, kept, lasting = connection.execute(_rest_of(stream_id, after)).one()
            whole_from = after + 1
            if kept < newest - after:
                gap, last = connection.execute(_gap_of(stream_id, after)).one()
                whole_from = newest + 1 if (last or after) < newest else gap
            return LogRest(newest=newest, kept=kept, lasting=lasting, whole_from=whole_from)

        return await self._database.read(work)

    async def _led_to(self, session_id: str, repeated: Repeated) -> list[Envelope]:
        """Read the events of a command that was applied before."""
        after, last = repeated.first_seq - 1, repeated.last_seq
        return await self.events(session_id, after=after, limit=last - after) if last > after else []

    async def prune_events(self, before: datetime) -> int:
        """Remove events that a later one has made worthless; return how many. Numbers of the others stay."""
        some = select(_E.stream_id, _E.seq).where(schema.IS_EPHEMERAL, _E.at < before).limit(PRUNED_AT_ONCE)
        statement = delete(schema.events).where(tuple_(_E.stream_id, _E.seq).in_(some))
        removed, last = 0, PRUNED_AT_ONCE
        while last == PRUNED_AT_ONCE:  # others write between one piece and the next
            last = await self._database.write(lambda connection: connection.execute(statement).rowcount)
            removed += last
        return removed


def _rest_of(stream_id: str, after: int) -> Select[Any, int, Any]:
    """Select a stream's newest number, how many events come after a number, and how many of those are for ever."""
    owners = (schema.sessions, schema.jobs)
    newest = [select(table.c.seq).where(table.c.id == stream_id).scalar_subquery() for table in owners]
    lasting = func.coalesce(func.sum(case((_E.type.in_(EPHEMERAL), 0), else_=1)), 0)
    query = select(func.coalesce(*newest, 0), func.count(_E.seq), lasting)
    return query.where(_E.stream_id == stream_id, _E.seq > after)


def _gap_of(stream_id: str, after: int) -> Select[Any, Any]:
    """Select the number after the last gap among those after a number, and the last of all."""
    before = func.lag(_E.seq, 1, after).over(order_by=_E.seq)
    rest = select(_E.seq, before.label("before")).where(_E.stream_id == stream_id, _E.seq > after).subquery().c
    return select(func.max(case((rest.seq != rest.before + 1, rest.seq))), func.max(rest.seq))


def envelope_rows(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[Envelope]:
    """Read events."""
    return [envelope(row) for row in connection.execute(query)]


def add_events(connection: Connection, user_id: str, events: Sequence[Envelope]) -> None:
    """Insert numbered events."""
    rows = [
        {
            "stream_id": event.stream_id,
            "seq": event.seq,
            "id": event.id,
            "user_id": user_id,
            "channel": event.channel,
            "type": event.type,
            "data": event.data,
            "cause_id": event.cause_id,
            "epoch": event.epoch,
            "at": event.at,
        }
        for event in events
    ]
    if rows:
        connection.execute(insert(schema.events), rows)


def put_command(
    database: Database, connection: Connection, command: CommandRecord, *, user_id: str, seq: int, count: int
) -> None:
    """Insert a command that leads to the ``count`` events up to ``seq``; it waits no longer.

    Raises:
        Repeated: It was inserted before.
        Conflict: Its key was used for another.
    """
    digest = body_hash(command.body)
    values = columns(command) | {"body_hash": digest, "first_seq": seq - count + 1, "last_seq": seq}
    statement = database.insert(schema.commands).values(values).on_conflict_do_nothing()
    if connection.execute(statement.returning(schema.commands.c.key)).one_or_none() is not None:
        take_out(connection, command.session_id, command.key)
        return
    table = schema.commands.c
    there = connection.execute(
        select(schema.commands).where(table.session_id == command.session_id, table.key == command.key)
    ).one()
    if (there.name, there.body_hash) != (command.name, digest):
        raise used_for_another("command", command.key)
    raise Repeated(there.first_seq, there.last_seq)


def fenced(connection: Connection, table: Table, item_id: str, epoch: int) -> KodaError:
    """Say why the fence of a row matched nothing: a newer epoch, or no row any more."""
    current = connection.execute(select(table.c.epoch).where(table.c.id == item_id)).scalar_one_or_none()
    return replaced(table.name.removesuffix("s"), item_id, epoch=epoch, current=current)
