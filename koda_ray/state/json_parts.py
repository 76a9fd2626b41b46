"""What a session is made of, as the Store reads it from a folder of JSON: messages, tool calls, approvals, events."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from koda_ray.events import EPHEMERAL, Envelope
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.json_charges import close_charges
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode_event, event, is_seen, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.lookout import Newest
from koda_ray.state.records import (
    ApprovalRecord,
    BeadRecord,
    CheckpointRecord,
    LogRest,
    MessageRecord,
    ToolCallRecord,
    ToolCallStatus,
)
from koda_ray.state.refusals import Repeated
from koda_ray.state.rows import one_page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["JsonParts", "epoch_of", "put_events"]

R = TypeVar("R", bound="DataclassInstance")


class JsonParts:
    """The part of `JSONStore` that reads a session's rows."""

    _database: JsonDatabase

    async def messages(self, session_id: str, *, agent: str | None = None) -> list[MessageRecord]:
        """Read messages in order; those of several agents by time."""
        wanted = None if agent is None else words(agent)
        order = ("created_at", "position", "id") if agent is None else ("position", "id")
        return await self._records(
            MessageRecord,
            "messages",
            session_id,
            order,
            lambda row: bool(row.get("live", True)) and wanted in (None, row["agent"]),
        )

    async def tool_calls(self, session_id: str, *, status: Sequence[ToolCallStatus] = ()) -> list[ToolCallRecord]:
        """Read the ledger in order of start, all statuses when none is named."""
        order = ("started_at", "ordinal", "id")
        return await self._records(
            ToolCallRecord, "tool_calls", session_id, order, lambda row: not status or row["status"] in status
        )

    async def approvals(self, session_id: str, *, pending: bool = False) -> list[ApprovalRecord]:
        """Read approvals in order."""
        order = ("created_at", "ordinal", "id")
        return await self._records(
            ApprovalRecord, "approvals", session_id, order, lambda row: not pending or row["status"] == "pending"
        )

    async def approvals_page(
        self, session_id: str, *, pending: bool = False, limit: int, before: tuple[datetime, str] | None = None
    ) -> tuple[list[ApprovalRecord], bool]:
        """Read a page of approvals, newest first, and whether there is another; see `Store.approvals_page`."""
        every = await self.approvals(session_id, pending=pending)
        places = {(each.created_at, each.id): each for each in every}
        found = [places[place] for place in sorted(places, reverse=True) if before is None or place < before]
        count = one_page([len(json.dumps([each.payload, each.answer])) for each in found[: limit + 1]], limit)
        return found[:count], len(found) > count

    async def beads(self, session_id: str) -> list[BeadRecord]:
        """Read beads by position."""
        return await self._records(BeadRecord, "beads", session_id, ("position", "id"))

    async def latest_checkpoint(self, session_id: str) -> CheckpointRecord | None:
        """Read the newest checkpoint's pointer."""
        order = ("event_seq", "created_at", "id")
        found = await self._records(
            CheckpointRecord, "checkpoints", session_id, order, lambda row: bool(row.get("live", True))
        )
        return found[-1] if found else None

    async def sandboxes(self, *, session_id: str | None = None, live: bool = True) -> list[SandboxRecord]:
        """Read sandbox rows, of one session or of all."""

        def is_wanted(row: TableRow) -> bool:
            return (session_id is None or row["session_id"] == words(session_id)) and not (
                live and row["status"] == "destroyed"
            )

        return await self._records(SandboxRecord, "sandboxes", None, ("created_at", "id"), is_wanted)

    async def sandbox_destroyed(self, sandbox_id: str, *, why: str = "") -> None:
        """Record that a sandbox is gone, and its processes; without a fence: that is true whoever found it out."""

        def work(change: Transaction) -> None:
            row = change.tables.get("sandboxes", sandbox_id)
            if row is not None:
                if row["status"] != "destroyed":
                    change.set("sandboxes", sandbox_id, {"status": "destroyed", "ended": words(why)})
                change.drop("processes", sandbox_id)
                close_charges(change, str(row["session_id"]), lambda charge: charge["id"] == row["id"])

        await self._database.write(work)

    async def events(
        self, stream_id: str, *, after: int = 0, limit: int = 500, lasting: bool = False
    ) -> list[Envelope]:
        """Read events with ``seq > after`` in order, or only those not EPHEMERAL; returns at once, also with none."""

        def work(tables: Tables) -> list[Envelope]:
            rows = (row for row in tables.after(stream_id, after) if not (lasting and row["type"] in EPHEMERAL))
            return [event(row) for row in islice(rows, limit)]

        return await self._database.read(work)

    async def newest(self, stream_ids: Collection[str]) -> dict[str, Newest]:
        """Read the newest numbers of streams."""
        is_over: dict[str, Callable[[TableRow], bool]] = {
            "sessions": lambda row: not is_seen(row),
            "jobs": lambda row: row["status"] in ("succeeded", "failed", "cancelled"),
        }

        def work(tables: Tables) -> dict[str, Newest]:
            return {
                stream: Newest(cast("int", row["seq"]), over(row))
                for table, over in is_over.items()
                for stream in stream_ids
                if (row := tables.get(table, stream)) is not None
            }

        return await self._database.read(work)

    async def log_rest(self, stream_id: str, after: int) -> LogRest:
        """Say what there is of a stream after a number; see `Store.log_rest`."""

        def work(tables: Tables) -> LogRest:
            owner = tables.get("sessions", stream_id) or tables.get("jobs", stream_id)
            newest = 0 if owner is None else cast("int", owner["seq"])
            kept, lasting, last, whole_from = 0, 0, after, after + 1
            for row in tables.after(stream_id, after):
                seq = cast("int", row["seq"])
                whole_from = seq if seq != last + 1 else whole_from
                last, kept, lasting = seq, kept + 1, lasting + (row["type"] not in EPHEMERAL)
            return LogRest(
                newest=newest, kept=kept, lasting=lasting, whole_from=newest + 1 if last < newest else whole_from
            )

        return await self._database.read(work)

    async def _led_to(self, session_id: str, repeated: Repeated) -> list[Envelope]:
        """Read the events of a command that was applied before."""
        after, last = repeated.first_seq - 1, repeated.last_seq
        return await self.events(session_id, after=after, limit=last - after) if last > after else []

    async def prune_events(self, before: datetime) -> int:
        """Remove events that a later one has made worthless; return how many. Numbers of the others stay."""

        def work(change: Transaction) -> int:
            count = change.tables.ephemeral(before)
            if count:
                change.prune(before)
            return count

        return await self._database.write(work)

    async def _records(
        self,
        cls: type[R],
        table: str,
        owner: str | None,
        order: Sequence[str],
        is_wanted: Callable[[TableRow], bool] = lambda _: True,
    ) -> list[R]:
        def work(tables: Tables) -> list[R]:
            def place(row: TableRow) -> tuple[Any, ...]:
                return tuple(row[name] for name in order)

            return [decode(cls, row) for row in sorted(filter(is_wanted, tables.of(table, owner)), key=place)]

        return await self._database.read(work)


def put_events(change: Transaction, user_id: str, events: Sequence[Envelope]) -> None:
    """Insert numbered events."""
    for each in events:
        change.put("events", encode_event(each, words(user_id)))


def epoch_of(row: TableRow) -> int:
    """Return a row's epoch."""
    return cast("int", row["epoch"])
