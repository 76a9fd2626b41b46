"""What work costs, in a folder of JSON: the rows go through the budget machine as on every other store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from koda_ray.budgets import Amounts
from koda_ray.events import NewEvent
from koda_ray.state.charges import (
    AccountRecord,
    Books,
    ChargedPart,
    ChargeEntry,
    ChargeRecord,
    entry_accounts,
    entry_ids,
    needs_open,
)
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode, moment, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.types import now

__all__ = ["JsonCharges", "close_charges", "enter_charges", "remove_charges"]

_ABANDONED = "nobody went on with it"


class JsonCharges:
    """The part of `JSONStore` that knows what work costs."""

    _database: JsonDatabase

    async def charges(self, work_id: str) -> list[ChargeRecord]:
        """Read what one session's or job's work costs, oldest first."""

        def work(tables: Tables) -> list[ChargeRecord]:
            rows = sorted(tables.of("charges", work_id), key=lambda row: (str(row["created_at"]), str(row["id"])))
            return [decode(ChargeRecord, row) for row in rows]

        return await self._database.read(work)

    async def charged(self, work_id: str, *, limit: int = 500) -> list[ChargedPart]:
        """Sum up what one session's or job's work has cost; see `Store.charged`."""

        def work(tables: Tables) -> list[ChargedPart]:
            sums: dict[tuple[str, str, str], ChargedPart] = {}
            for row in tables.of("charges", work_id):
                if row["spent"]:
                    charge = decode(ChargeRecord, row)
                    named = (charge.kind, charge.agent, charge.model)
                    part = sums.get(named) or ChargedPart(
                        kind=charge.kind, agent=charge.agent, model=charge.model, count=0, spent=Amounts()
                    )
                    spent = part.spent + Amounts.of(charge.spent)
                    sums[named] = replace(part, count=part.count + 1, spent=spent)
            return [sums[named] for named in sorted(sums)[:limit]]

        return await self._database.read(work)

    async def accounts(self, user_id: str, ids: Sequence[str] = ()) -> list[AccountRecord]:
        """Read a user's accounts, or those named; one that nothing was charged to is not there."""
        named = set(map(words, ids))

        def work(tables: Tables) -> list[AccountRecord]:
            rows = [row for row in tables.of("accounts", user_id) if not named or row["id"] in named]
            return [decode(AccountRecord, row) for row in sorted(rows, key=lambda row: str(row["id"]))]

        return await self._database.read(work)

    async def close_charges(self, before: datetime) -> int:
        """End open charges that nobody has touched since a time; return how many."""
        limit = moment(before)

        def work(change: Transaction) -> int:
            stale = [row for row in change.tables.everywhere("charges") if str(row["updated_at"]) < limit]
            works = {str(row["work_id"]) for row in stale if row["status"] == "reserved"}
            return sum(close_charges(change, name, lambda row: str(row["updated_at"]) < limit) for name in works)

        return await self._database.write(work)


def enter_charges(
    change: Transaction, entries: Sequence[ChargeEntry], *, work_id: str, user_id: str, epoch: int
) -> list[NewEvent]:
    """Enter entries in order; return the warnings that follow.

    Raises:
        BudgetExceeded: A reservation does not fit; the transaction must not go on.
    """
    rows = {name: change.tables.get("charges", name, work_id) for name in entry_ids(entries)}
    if needs_open(entries):
        rows |= {str(row["id"]): row for row in change.tables.of("charges", work_id) if row["status"] == "reserved"}
    charges = [decode(ChargeRecord, row) for row in rows.values() if row is not None]
    books = Books(
        work_id=work_id,
        user_id=user_id,
        epoch=epoch,
        at=now(),
        charges=charges,
        accounts=_accounts(change.tables, user_id, entry_accounts(entries, charges)),
    )
    for entry in entries:
        books.enter(entry)
    _write(change, books)
    return books.warnings


def close_charges(change: Transaction, work_id: str, which: Callable[[TableRow], bool]) -> int:
    """End open charges of one work whose work nobody goes on with; return how many."""
    charges = [
        decode(ChargeRecord, row)
        for row in change.tables.of("charges", work_id)
        if row["status"] == "reserved" and which(row)
    ]
    if charges:
        user_id, epoch = charges[0].user_id, charges[0].epoch
        accounts = _accounts(change.tables, user_id, entry_accounts((), charges))
        books = Books(work_id=work_id, user_id=user_id, epoch=epoch, at=now(), charges=charges, accounts=accounts)
        for charge in charges:
            books.close(charge.id, _ABANDONED)
        _write(change, books)
    return len(charges)


def remove_charges(change: Transaction, user_id: str, work_id: str) -> None:
    """Remove the charges of work that is deleted, and its own account; what was spent stays in the user's month."""
    close_charges(change, work_id, lambda _: True)
    change.drop("charges", work_id)
    if change.tables.get("accounts", work_id, user_id) is not None:
        change.remove("accounts", work_id, user_id)


def _accounts(tables: Tables, user_id: str, ids: Sequence[str]) -> list[AccountRecord]:
    rows = [tables.get("accounts", name, user_id) for name in ids]
    return [decode(AccountRecord, row) for row in rows if row is not None]


def _write(change: Transaction, books: Books) -> None:
    for charge in books.changed.values():
        change.put("charges", encode(charge))
    for account in books.changed_accounts.values():
        change.put("accounts", encode(account))
