"""Whether a user works on anything, in a folder of JSON; see `content`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import cast

from koda_ray.state.content import after_removal, content_lock, in_removal
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_parts import epoch_of
from koda_ray.state.json_rows import encode, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.records import OWED_STATUSES
from koda_ray.state.tiers import LockRecord
from koda_ray.types import now

__all__ = ["JsonContent", "may_begin"]


class JsonContent:
    """The part of `JSONStore` that lets what is stored by its content be removed."""

    _database: JsonDatabase

    async def take_content(self, user_id: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take all that a user stored by its content, unless there is work that may need it."""
        return await self._take(
            user_id,
            holder,
            lease_until,
            free=lambda tables: not _open(tables, user_id) and not _staying(tables, user_id),
        )

    async def take_bundle(
        self, user_id: str, bundle: str, *, holder: str, lease_until: datetime, finished: bool = True
    ) -> LockRecord | None:
        """Take a bundle, unless a job names it or a session is at work."""

        def free(tables: Tables) -> bool:
            naming = [row for row in _staying(tables, user_id) if cast("TableRow", row["spec"]).get("bundle") == bundle]
            return all(row["owes"] is None for row in _open(tables, user_id)) and not any(
                finished or row["status"] in OWED_STATUSES for row in naming
            )

        return await self._take(user_id, holder, lease_until, free=free)

    async def use_content(self, user_id: str) -> None:
        """Wait until nothing is being removed."""
        await after_removal(lambda: self._database.write(lambda change: may_begin(change, user_id)))

    async def _take(
        self, user_id: str, holder: str, lease_until: datetime, *, free: Callable[[Tables], bool]
    ) -> LockRecord | None:
        name = content_lock(user_id)

        def work(change: Transaction) -> LockRecord | None:
            may_begin(change, user_id)
            if not free(change.tables):
                return None
            row = change.tables.get("locks", name)
            epoch = 1 if row is None else epoch_of(row) + 1
            made = LockRecord(name=name, holder=holder, epoch=epoch, lease_until=lease_until)
            change.put("locks", encode(made))
            return made

        return await self._database.write(work)


def _open(tables: Tables, user_id: str) -> list[TableRow]:
    """Return a user's sessions that are not closed."""
    return [row for row in tables.of("sessions") if row["user_id"] == words(user_id) and row["status"] != "closed"]


def _staying(tables: Tables, user_id: str) -> list[TableRow]:
    """Return a user's jobs that are not of a closed session."""
    mine = words(user_id)
    closed = {str(row["id"]) for row in tables.of("sessions") if row["user_id"] == mine and row["status"] == "closed"}
    return [row for row in tables.of("jobs") if row["user_id"] == mine and str(row["session_id"]) not in closed]


def may_begin(change: Transaction, user_id: str) -> None:
    """Raise Unavailable where what a user stored by its content is being removed."""
    row = change.tables.get("locks", content_lock(user_id))
    if row is not None and row["lease_until"] is not None and str(row["lease_until"]) > moment(now()):
        raise in_removal(user_id)
