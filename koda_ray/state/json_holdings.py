"""What lies in storage by its content, counted in a folder of JSON; see `holdings`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from koda_ray.state.content import after_removal, in_removal
from koda_ray.state.holdings import THE_USER
from koda_ray.state.json_accounts import count_stored, ensure_user
from koda_ray.state.json_content import may_begin
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.records import CheckpointRecord
from koda_ray.state.refusals import check_stored, no_such

__all__ = ["JsonHoldings", "hold_objects", "leave_holdings", "share_holdings"]


class JsonHoldings:
    """The part of `JSONStore` that counts what is stored by its content."""

    _database: JsonDatabase

    async def hold(
        self,
        user_id: str,
        sizes: Mapping[str, int],
        *,
        holder: str = THE_USER,
        checkpoint: str | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Count objects, and keep them for a holder; see `HoldingStore.hold`."""

        def work(change: Transaction) -> None:
            ensure_user(change, user_id)
            may_begin(change, user_id)
            if holder != THE_USER:
                _check_open(change, user_id, holder)
            if most_bytes is not None:
                check_stored(count_stored(change.tables, user_id), most_bytes)
            hold_objects(change, user_id, sizes, holder)
            if checkpoint is not None:
                _mark_held(change, checkpoint, holder)

        await after_removal(lambda: self._database.write(work))

    async def hold_all(self, user_id: str, *, holder: str, checkpoint: str) -> None:
        """Keep all that a user has for a session; see `HoldingStore.hold_all`."""

        def work(change: Transaction) -> None:
            may_begin(change, user_id)
            _check_open(change, user_id, holder)
            for row in change.tables.of("contents", user_id):
                if not row["going"] and words(holder) not in (held := _holders(row)):
                    change.set("contents", str(row["key"]), {"holders": [*held, words(holder)]}, owner=user_id)
            _mark_held(change, checkpoint, holder)

        await after_removal(lambda: self._database.write(work))

    async def let_go(self, user_id: str, *, holder: str) -> list[str]:
        """Hold nothing any more; see `HoldingStore.let_go`."""

        def work(change: Transaction) -> list[str]:
            leave_holdings(change, user_id, holder)
            if any(row["user_id"] == words(user_id) for row in _unheld(change.tables)):
                return []
            marked = [str(row["key"]) for row in change.tables.of("contents", user_id) if not row["holders"]]
            for key in marked:
                change.set("contents", key, {"going": True}, owner=user_id)
            return marked

        return await self._database.write(work)

    async def forget(self, user_id: str, keys: Collection[str] | None) -> None:
        """Count objects no more; see `HoldingStore.forget`."""

        def work(change: Transaction) -> None:
            if keys is None:
                change.drop("contents", user_id)
                return
            for key in keys:
                if change.tables.get("contents", key, user_id) is not None:
                    change.remove("contents", key, user_id)

        await self._database.write(work)

    async def stored_bytes(self, user_id: str) -> int:
        """Count the bytes of a user's videos, uploaded files, and of all that is held."""
        return await self._database.read(lambda tables: count_stored(tables, user_id))

    async def counted(self, user_id: str, *, below: str, after: str = "", limit: int = 500) -> list[str]:
        """Read the keys below a prefix that are counted; see `HoldingStore.counted`."""

        def work(tables: Tables) -> list[str]:
            keys = (str(row["key"]) for row in tables.of("contents", user_id))
            return sorted(key for key in keys if key.startswith(f"{below}/") and key > after)[:limit]

        return await self._database.read(work)

    async def unheld(self, *, after: str = "", limit: int = 100) -> list[CheckpointRecord]:
        """Read checkpoints that hold nothing yet; see `HoldingStore.unheld`."""

        def work(tables: Tables) -> list[CheckpointRecord]:
            rows = sorted(_unheld(tables), key=lambda row: str(row["id"]))
            return [decode(CheckpointRecord, row) for row in rows if str(row["id"]) > after][:limit]

        return await self._database.read(work)


def hold_objects(change: Transaction, user_id: str, sizes: Mapping[str, int], holder: str = THE_USER) -> None:
    """Count objects, and keep them for a holder."""
    for key, size in sizes.items():
        row = change.tables.get("contents", key, user_id)
        if row is None:
            made: TableRow = {"user_id": words(user_id), "key": key, "size_bytes": size, "going": False}
            change.put("contents", {**made, "holders": [words(holder)]})
        elif row["going"]:
            raise in_removal(user_id)
        elif words(holder) not in (held := _holders(row)):
            change.set("contents", key, {"holders": [*held, words(holder)]}, owner=user_id)


def leave_holdings(change: Transaction, user_id: str, holder: str) -> None:
    """Have a holder hold nothing; what nobody holds then is still there, and still counts."""
    for key, holders in _held(change.tables, user_id, holder):
        change.set("contents", key, {"holders": [each for each in holders if each != words(holder)]}, owner=user_id)


def share_holdings(change: Transaction, user_id: str, holder: str, *, of: str) -> None:
    """Have a session that was made of another one hold what that one does."""
    for key, holders in _held(change.tables, user_id, of):
        change.set("contents", key, {"holders": [*holders, words(holder)]}, owner=user_id)


def _check_open(change: Transaction, user_id: str, session_id: str) -> None:
    row = change.tables.get("sessions", session_id)
    if row is None or row["status"] == "closed" or row["user_id"] != words(user_id):
        raise no_such("session", session_id)


def _mark_held(change: Transaction, checkpoint: str, session_id: str) -> None:
    if change.tables.get("checkpoints", checkpoint, session_id) is not None:
        change.set("checkpoints", checkpoint, {"held": True}, owner=session_id)


def _held(tables: Tables, user_id: str, holder: str) -> list[tuple[str, list[str]]]:
    """Return what somebody holds, with all its holders."""
    rows = [(str(row["key"]), _holders(row)) for row in tables.of("contents", user_id)]
    return [(key, holders) for key, holders in rows if words(holder) in holders]


def _holders(row: TableRow) -> list[str]:
    return cast("list[str]", row["holders"])


def _unheld(tables: Tables) -> list[TableRow]:
    """Return the checkpoints of sessions that are not closed which hold nothing yet."""
    rows = [row for row in tables.everywhere("checkpoints") if not row.get("held", False)]
    sessions = ((row, tables.get("sessions", str(row["session_id"]))) for row in rows)
    return [row for row, session in sessions if session is not None and session["status"] != "closed"]
