"""Discarded sessions, and sessions by their last change, in a folder of JSON; see `discarding`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import cast

from koda_ray.state.discarding import quota_on_return
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_inbox import quota_used
from koda_ray.state.json_parts import epoch_of
from koda_ray.state.json_rows import decode, is_seen, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.notify import Notifier
from koda_ray.state.records import SessionQuota, SessionRecord
from koda_ray.state.refusals import check_sessions, no_such
from koda_ray.types import now

__all__ = ["JsonDiscarding", "labelled"]


class JsonDiscarding:
    """The part of `JSONStore` that deletes what can be had back."""

    _database: JsonDatabase
    _notifier: Notifier

    async def discard_session(self, session_id: str, *, user_id: str, delete_at: datetime) -> SessionRecord:
        """Have a session deleted at a time; see `DiscardingStore.discard_session`."""

        def work(change: Transaction) -> SessionRecord:
            before = _mine(change.tables, session_id, user_id).get("delete_at")
            earlier = min(str(before or "~"), moment(delete_at))
            change.set("sessions", session_id, {"delete_at": earlier})
            return decode(SessionRecord, _mine(change.tables, session_id, user_id))

        return await self._database.write(work, lambda _: self._notifier.notify(session_id))

    async def restore_session(
        self, session_id: str, *, user_id: str, quota: SessionQuota | None = None
    ) -> SessionRecord:
        """Have a session back; see `DiscardingStore.restore_session`."""

        def work(change: Transaction) -> SessionRecord:
            row = _mine(change.tables, session_id, user_id)
            if is_seen(row):
                return decode(SessionRecord, row)
            change.set("sessions", session_id, {"delete_at": None})
            found = decode(SessionRecord, _mine(change.tables, session_id, user_id))
            if quota is not None:
                wanted = quota_on_return(found, quota, asked=any(change.tables.of("inbox", session_id)))
                check_sessions(wanted, quota_used(change.tables, user_id))
            return found

        return await self._database.write(work)

    async def discarded_held(self, at: datetime, *, limit: int = 1_000) -> list[str]:
        """Find discarded sessions that some process still holds; see `DiscardingStore.discarded_held`."""

        def work(tables: Tables) -> list[str]:
            rows = [row for row in tables.of("sessions") if row.get("delete_at") and row["status"] != "closed"]
            held = [row for row in rows if str(row["lease_until"] or "") > moment(at)]
            held.sort(key=lambda row: (str(row["delete_at"]), str(row["id"])))
            return [str(row["id"]) for row in held[:limit]]

        return await self._database.read(work)

    async def close_discarded(self, at: datetime, *, limit: int = 100) -> list[SessionRecord]:
        """Begin to delete discarded sessions whose time has come; see `DiscardingStore.close_discarded`."""

        def work(change: Transaction) -> list[SessionRecord]:
            due = [
                row
                for row in change.tables.of("sessions")
                if row["status"] != "closed" and str(row.get("delete_at") or "~") <= moment(at)
            ]
            due.sort(key=lambda row: (str(row["delete_at"]), str(row["id"])))
            for row in due[:limit]:
                closed: TableRow = {"epoch": epoch_of(row) + 1, "status": "closed", "lease_until": None}
                change.set("sessions", str(row["id"]), {**closed, "updated_at": moment(now())})
            return [decode(SessionRecord, row) for row in due[:limit]]

        return await self._database.write(work)

    async def changed_sessions(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
        pinned: bool | None = None,
        group: str | None = None,
    ) -> list[SessionRecord]:
        """Read a user's sessions, last changed first."""
        mark = None if before is None else (moment(before[0]), before[1])

        def place(row: TableRow) -> tuple[str, str]:
            return str(row["updated_at"]), str(row["id"])

        def work(tables: Tables) -> list[SessionRecord]:
            rows = labelled(tables, user_id, pinned=pinned, group=group)
            mine = [row for row in rows if is_seen(row) and (mark is None or place(row) < mark)]
            mine.sort(key=place, reverse=True)
            return [decode(SessionRecord, row) for row in mine[:limit]]

        return await self._database.read(work)


def labelled(tables: Tables, user_id: str, *, pinned: bool | None, group: str | None) -> Iterator[TableRow]:
    """Find a user's sessions that are not being deleted, by how they stand in lists; all where nothing is said."""
    for row in tables.of("sessions"):
        if (
            row["user_id"] == words(user_id)
            and row["status"] != "closed"
            and (pinned is None or row.get("pinned", False) == pinned)
            and (group is None or cast("TableRow", row["state"]).get("group") == words(group))
        ):
            yield row


def _mine(tables: Tables, session_id: str, user_id: str) -> TableRow:
    row = tables.get("sessions", session_id)
    if row is None or row["user_id"] != words(user_id) or row["status"] == "closed":
        raise no_such("session", session_id)
    return row
