"""Whether a user works on anything, in a folder of JSON; see `content`."""

from __future__ import annotations

from datetime import datetime

from koda_ray.state.content import content_lock, in_removal
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_parts import epoch_of
from koda_ray.state.json_rows import encode, moment, words
from koda_ray.state.json_tables import Transaction
from koda_ray.state.tiers import LockRecord
from koda_ray.types import now

__all__ = ["JsonContent", "may_begin"]


class JsonContent:
    """The part of `JSONStore` that lets what is stored by its content be removed."""

    _database: JsonDatabase

    async def take_content(self, user_id: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take all that a user stored by its content, unless there is work that may need it."""
        name, mine = content_lock(user_id), words(user_id)

        def work(change: Transaction) -> LockRecord | None:
            may_begin(change, user_id)
            sessions = [row for row in change.tables.of("sessions") if row["user_id"] == mine]
            leaving = {str(row["id"]) for row in sessions if row["status"] == "closed"}
            if len(leaving) < len(sessions) or any(
                row["user_id"] == mine and str(row["session_id"]) not in leaving for row in change.tables.of("jobs")
            ):
                return None
            row = change.tables.get("locks", name)
            epoch = 1 if row is None else epoch_of(row) + 1
            made = LockRecord(name=name, holder=holder, epoch=epoch, lease_until=lease_until)
            change.put("locks", encode(made))
            return made

        return await self._database.write(work)


def may_begin(change: Transaction, user_id: str) -> None:
    """Raise Unavailable where what a user stored by its content is being removed."""
    row = change.tables.get("locks", content_lock(user_id))
    if row is not None and row["lease_until"] is not None and str(row["lease_until"]) > moment(now()):
        raise in_removal(user_id)
