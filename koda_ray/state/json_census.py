"""Counting everything in a folder of JSON; see `census`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from koda_ray.budgets import Amounts
from koda_ray.state.census import MONTH, Census
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_inbox import asked_of
from koda_ray.state.json_rows import is_seen, moment
from koda_ray.state.json_tables import TableRow, Tables
from koda_ray.state.records import OWED_STATUSES

__all__ = ["JsonCensus"]


class JsonCensus:
    """The part of `JSONStore` that counts."""

    _database: JsonDatabase

    async def census(self, at: datetime) -> Census:
        """Count everything."""
        now, month = moment(at), f"{MONTH}{at.astimezone(UTC):%Y-%m}"

        def is_held(row: TableRow) -> bool:
            return row["lease_until"] is not None and str(row["lease_until"]) >= now

        def work(tables: Tables) -> Census:
            sessions = [row for row in tables.of("sessions") if is_seen(row)]
            jobs = [row for row in tables.of("jobs") if row["status"] in OWED_STATUSES]
            unheld = [row for row in sessions if row["owes"] is not None and not is_held(row)]
            unheld += [row for row in jobs if row["session_id"] is None and not is_held(row)]
            accounts = [row for row in tables.everywhere("accounts") if str(row["id"]).startswith(MONTH)]
            asked = [str(row["id"]) for row in asked_of(tables, lambda row: not is_held(row))]
            moments = [str(row["updated_at"]) for row in unheld]
            moments += [str(row["created_at"]) for each in asked for row in tables.of("inbox", each)]
            since = min(moments, default=None)
            return Census(
                awake=sum(row["status"] != "closed" and is_held(row) for row in tables.of("sessions")),
                asleep=sum(not is_held(row) for row in sessions),
                owing=sum(row["owes"] is not None for row in sessions),
                closing=sum(row["status"] == "closed" for row in tables.of("sessions")),
                unheld=len(unheld) + len(asked),
                unheld_since=None if since is None else datetime.fromisoformat(since),
                queued=sum(row["status"] == "queued" for row in jobs),
                rendering=sum(row["status"] == "running" for row in jobs),
                sandboxes=sum(row["status"] != "destroyed" for row in tables.of("sandboxes")),
                spent_in_month=sum((_spent(row) for row in accounts if row["id"] == month), Amounts()),
                spent=sum(map(_spent, accounts), Amounts()),
            )

        return await self._database.read(work)


def _spent(row: TableRow) -> Amounts:
    return Amounts.of(cast("dict[str, int]", row["spent"]))
