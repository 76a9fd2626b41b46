"""Questions, health, figures and locks in a folder of JSON; see `tiers`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from koda_ray.errors import Fenced, KodaError
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_parts import epoch_of
from koda_ray.state.json_recovery import FORMAT_VERSION
from koda_ray.state.json_rows import decode, encode, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.records import MessageRecord, SessionRecord, ToolCallRecord, ToolCallStatus
from koda_ray.state.tiers import LockRecord, SessionStats, StoreHealth, StoreMetrics, TimeWindow
from koda_ray.types import now

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["JsonTiers"]

R = TypeVar("R", bound="DataclassInstance")

_BACKEND = "json"
_HEALTH_S = 5.0


class JsonTiers:
    """The part of `JSONStore` that is not about keeping sessions."""

    _database: JsonDatabase

    async def query_sessions(
        self, user_id: str, *, statuses: Sequence[Literal["active", "suspended"]] = (), window: TimeWindow | None = None
    ) -> list[SessionRecord]:
        """Read a user's sessions by when they were last used, newest first."""
        wanted = statuses or ("active", "suspended")

        def work(tables: Tables) -> list[SessionRecord]:
            mine = (row for row in tables.of("sessions") if row["user_id"] == words(user_id))
            return _newest(SessionRecord, (row for row in mine if row["status"] in wanted), "last_activity", window)

        return await self._database.read(work)

    async def query_messages(
        self,
        session_id: str,
        *,
        agents: Sequence[str] = (),
        role: Literal["user", "assistant"] | None = None,
        window: TimeWindow | None = None,
    ) -> list[MessageRecord]:
        """Read a session's messages by when they were made, newest first."""
        named = set(map(words, agents))

        def work(tables: Tables) -> list[MessageRecord]:
            found = (
                row
                for row in tables.of("messages", session_id)
                if row.get("live", True) and (not named or row["agent"] in named) and role in (None, row["role"])
            )
            return _newest(MessageRecord, found, "created_at", window)

        return await self._database.read(work)

    async def query_tool_calls(
        self,
        user_id: str,
        *,
        session_id: str | None = None,
        names: Sequence[str] = (),
        statuses: Sequence[ToolCallStatus] = (),
        window: TimeWindow | None = None,
    ) -> list[ToolCallRecord]:
        """Read a user's tool calls by when they began, newest first."""
        named = set(map(words, names))

        def work(tables: Tables) -> list[ToolCallRecord]:
            rows = tables.everywhere("tool_calls") if session_id is None else tables.of("tool_calls", session_id)
            found = (
                row
                for row in rows
                if row["user_id"] == words(user_id)
                and (not named or row["name"] in named)
                and (not statuses or row["status"] in statuses)
            )
            return _newest(ToolCallRecord, found, "started_at", window)

        return await self._database.read(work)

    async def session_stats(self, session_id: str) -> SessionStats:
        """Count what a session has."""

        def work(tables: Tables) -> SessionStats:
            def of(table: str) -> Iterable[TableRow]:
                return (row for row in tables.of(table, session_id) if row.get("live", True))

            return SessionStats(
                messages=dict(Counter(str(row["agent"]) for row in of("messages"))),
                tool_calls=dict(Counter(str(row["status"]) for row in of("tool_calls"))),
                pending_approvals=sum(row["status"] == "pending" for row in of("approvals")),
                checkpoints=sum(1 for _ in of("checkpoints")),
                events=sum(1 for _ in of("events")),
            )

        return await self._database.read(work)

    async def health(self) -> StoreHealth:
        """Ask the disk for an answer, changing nothing; never raises."""
        began = time.perf_counter()
        detail = ""
        try:
            async with asyncio.timeout(_HEALTH_S):
                await self._database.check()
        except KodaError as error:
            detail = error.message
        except TimeoutError:
            detail = f"no answer within {_HEALTH_S:g} s"
        except RuntimeError as error:
            detail = str(error)
        took = 1000 * (time.perf_counter() - began)
        return StoreHealth(ok=not detail, backend=_BACKEND, schema=str(FORMAT_VERSION), latency_ms=took, detail=detail)

    async def metrics(self) -> StoreMetrics:
        """Count rows and bytes, beside what this process has asked."""
        rows = await self._database.read(lambda tables: tables.count())
        return self._database.meter.metrics(_BACKEND, rows, await self._database.size_bytes())

    async def take_lock(self, name: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take a lock that nobody has, or whose lease has run out."""

        def work(change: Transaction) -> LockRecord | None:
            row = change.tables.get("locks", name)
            if row is not None and row["lease_until"] is not None and str(row["lease_until"]) > moment(now()):
                return None
            epoch = 1 if row is None else epoch_of(row) + 1
            change.put("locks", encode(LockRecord(name=name, holder=holder, epoch=epoch, lease_until=lease_until)))
            return _lock(change.tables, name)

        return await self._database.write(work)

    async def renew_lock(self, lock: LockRecord, *, lease_until: datetime) -> LockRecord:
        """Keep a lock longer; raises Fenced."""

        def work(change: Transaction) -> LockRecord:
            row = change.tables.get("locks", lock.name)
            if row is None or row["epoch"] != lock.epoch or row["lease_until"] is None:
                raise Fenced(f"lock {lock.name!r} of {lock.holder!r} was given up or taken since: it must stop")
            change.set("locks", lock.name, {"lease_until": moment(lease_until)})
            return _lock(change.tables, lock.name)

        return await self._database.write(work)

    async def release_lock(self, lock: LockRecord) -> None:
        """Give a lock up."""

        def work(change: Transaction) -> None:
            row = change.tables.get("locks", lock.name)
            if row is not None and row["epoch"] == lock.epoch:
                change.set("locks", lock.name, {"lease_until": None})

        await self._database.write(work)


def _lock(tables: Tables, name: str) -> LockRecord:
    row = tables.get("locks", name)
    assert row is not None
    return decode(LockRecord, row)


def _newest(cls: type[R], rows: Iterable[TableRow], at: str, window: TimeWindow | None) -> list[R]:
    window = window or TimeWindow()
    since = None if window.since is None else moment(window.since)
    until = None if window.until is None else moment(window.until)
    found = [
        row for row in rows if (since is None or str(row[at]) >= since) and (until is None or str(row[at]) < until)
    ]
    found.sort(key=lambda row: (str(row[at]), str(row["id"])), reverse=True)
    return [decode(cls, row) for row in found[: window.limit]]
