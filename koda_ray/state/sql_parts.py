"""What a session is made of, as the Store reads it: messages, tool calls, approvals, beads, events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, Table, delete, insert, select, update

from koda_ray.errors import Fenced, KodaError, NotFound
from koda_ray.events import Envelope
from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.rows import envelope
from koda_ray.state.store import (
    ApprovalRecord,
    BeadRecord,
    CheckpointRecord,
    MessageRecord,
    SandboxRecord,
    ToolCallRecord,
    ToolCallStatus,
)

__all__ = ["SqlParts", "add_events", "fenced", "no_such"]

_E = schema.events.c


class SqlParts:
    """The part of `SqlStore` that reads a session's rows."""

    _database: Database

    async def messages(self, session_id: str, *, agent: str | None = None) -> list[MessageRecord]:
        """Read messages in order; those of several agents by time."""
        table = schema.messages.c
        query = select(schema.messages).where(table.session_id == session_id)
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

    async def beads(self, session_id: str) -> list[BeadRecord]:
        """Read beads by position."""
        table = schema.beads.c
        query = select(schema.beads).where(table.session_id == session_id).order_by(table.position, table.id)
        return await self._database.records(BeadRecord, query)

    async def latest_checkpoint(self, session_id: str) -> CheckpointRecord | None:
        """Read the newest checkpoint's pointer."""
        table = schema.checkpoints.c
        query = select(schema.checkpoints).where(table.session_id == session_id)
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

    async def sandbox_destroyed(self, sandbox_id: str) -> None:
        """Record that a sandbox is gone; without a fence, because that is true whoever found it out."""
        statement = update(schema.sandboxes).where(schema.sandboxes.c.id == sandbox_id).values(status="destroyed")
        await self._database.write(lambda connection: connection.execute(statement))

    async def events(self, stream_id: str, *, after: int = 0, limit: int = 500) -> list[Envelope]:
        """Read events with ``seq > after`` in order; returns at once, also with none."""
        query = select(schema.events).where(_E.stream_id == stream_id, _E.seq > after)
        query = query.order_by(_E.seq).limit(limit)
        return await self._database.read(lambda connection: [envelope(row) for row in connection.execute(query)])

    async def prune_events(self, before: datetime) -> int:
        """Remove events that a later one has made worthless; return how many. Numbers of the others stay."""
        statement = delete(schema.events).where(schema.IS_EPHEMERAL, _E.at < before)
        return await self._database.write(lambda connection: connection.execute(statement).rowcount)


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


def no_such(kind: str, item_id: str) -> NotFound:
    """Name what is not there for this user; another user's reads the same."""
    return NotFound(f"no {kind} {item_id[:80]!r}", context={"id": item_id[:80]})


def fenced(connection: Connection, table: Table, item_id: str, epoch: int) -> KodaError:
    """Say why the fence of a row matched nothing: a newer epoch, or no row any more."""
    kind = table.name.removesuffix("s")
    current = connection.execute(select(table.c.epoch).where(table.c.id == item_id)).scalar_one_or_none()
    if current is None:
        return no_such(kind, item_id)
    return Fenced(
        f"{kind} {item_id} is at epoch {current}, this activation at {epoch}: it was replaced and must stop",
        context={"id": item_id, "epoch": epoch, "current": current},
    )
