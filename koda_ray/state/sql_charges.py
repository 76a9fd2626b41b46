"""What work costs, on the SQL database: rows are read and locked, moved by the budget machine, and written back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    and_,
    cast,
    delete,
    func,
    or_,
    select,
    type_coerce,
)

from koda_ray.budgets import Amounts
from koda_ray.events import NewEvent
from koda_ray.state import schema
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
from koda_ray.state.database import Database
from koda_ray.state.rows import columns, record
from koda_ray.types import now

__all__ = ["CLOSED_AT_ONCE", "SqlCharges", "close_all_charges", "close_charges", "enter_charges", "remove_charges"]

_C = schema.charges.c
_A = schema.accounts.c
_ABANDONED = "nobody went on with it"
CLOSED_AT_ONCE = 100
"""Of how many works charges are ended in one transaction."""


class SqlCharges:
    """The part of `SqlStore` that knows what work costs."""

    _database: Database

    async def charges(self, work_id: str) -> list[ChargeRecord]:
        """Read what one session's or job's work costs, oldest first."""
        query = select(schema.charges).where(_C.work_id == work_id).order_by(_C.created_at, _C.id)
        return await self._database.records(ChargeRecord, query)

    async def charged(self, work_id: str, *, limit: int = 500) -> list[ChargedPart]:
        """Sum up what one session's or job's work has cost; see `Store.charged`."""
        spent = type_coerce(_C.spent, Text)
        sums = [func.sum(self._amount(spent, each.name)).label(each.name) for each in fields(Amounts)]
        named = (_C.kind, _C.agent, _C.model)
        query = select(*named, func.count().label("times"), *sums).where(_C.work_id == work_id, spent != "{}")
        query = query.group_by(*named).order_by(*named).limit(limit)

        def work(connection: Connection) -> list[ChargedPart]:
            return [
                ChargedPart(
                    kind=row.kind,
                    agent=row.agent,
                    model=row.model,
                    count=row.times,
                    spent=Amounts.of({each.name: int(getattr(row, each.name) or 0) for each in fields(Amounts)}),
                )
                for row in connection.execute(query)
            ]

        return await self._database.read(work)

    def _amount(self, stored: ColumnElement[str], name: str) -> ColumnElement[int]:
        """Read one amount of those that a charge has stored as JSON; NULL where it has none of it."""
        if self._database.is_sqlite:
            return func.json_extract(stored, f"$.{name}", type_=BigInteger)
        return cast(func.json_extract_path_text(cast(stored, JSON), name), BigInteger)

    async def accounts(self, user_id: str, ids: Sequence[str] = ()) -> list[AccountRecord]:
        """Read a user's accounts, or those named; one that nothing was charged to is not there."""
        query = select(schema.accounts).where(_A.user_id == user_id)
        if ids:
            query = query.where(_A.id.in_(ids))
        return await self._database.records(AccountRecord, query.order_by(_A.id))

    async def close_charges(self, before: datetime) -> int:
        """End open charges that nobody has touched since a time; return how many."""
        stale = select(_C.work_id).where(schema.IS_OPEN, _C.updated_at < before).distinct().limit(CLOSED_AT_ONCE)

        def work(connection: Connection) -> tuple[int, int]:
            works = list(connection.execute(stale).scalars())
            closed = sum(
                close_charges(self._database, connection, and_(_C.work_id == work_id, _C.updated_at < before))
                for work_id in works
            )
            return closed, len(works)

        count, last = 0, CLOSED_AT_ONCE
        while last == CLOSED_AT_ONCE:  # others write between one piece and the next
            closed, last = await self._database.write(work)
            count += closed
        return count


def enter_charges(
    database: Database,
    connection: Connection,
    entries: Sequence[ChargeEntry],
    *,
    work_id: str,
    user_id: str,
    epoch: int,
) -> list[NewEvent]:
    """Enter entries in order; return the warnings that follow.

    Raises:
        BudgetExceeded: A reservation does not fit; the transaction must not go on.
    """
    wanted: ColumnElement[bool] = _C.id.in_(entry_ids(entries))
    if needs_open(entries):
        wanted = or_(wanted, schema.IS_OPEN)
    charges, accounts = _read_locked(
        database, connection, and_(_C.work_id == work_id, wanted), entries, user_id=user_id
    )
    books = Books(
        work_id=work_id,
        user_id=user_id,
        epoch=epoch,
        at=now(),
        charges=charges,
        accounts=accounts,
    )
    for entry in entries:
        books.enter(entry)
    _write(database, connection, books)
    return books.warnings


def close_charges(database: Database, connection: Connection, which: ColumnElement[bool]) -> int:
    """End open charges of one work whose work nobody goes on with; return how many."""
    charges, accounts = _read_locked(database, connection, and_(schema.IS_OPEN, which))
    if charges:
        one = charges[0]
        books = Books(
            work_id=one.work_id, user_id=one.user_id, epoch=one.epoch, at=now(), charges=charges, accounts=accounts
        )
        for charge in charges:
            books.close(charge.id, _ABANDONED)
        _write(database, connection, books)
    return len(charges)


def close_all_charges(database: Database, connection: Connection, user_id: str, works: Collection[str]) -> None:
    """End the open charges of many works of a user, which nobody goes on with.

    All their accounts are locked at once, in the order in which everybody locks them.
    """
    query = select(schema.charges).where(schema.IS_OPEN, _C.work_id.in_(works))
    charges = [record(ChargeRecord, row) for row in connection.execute(query)]
    _locked(database, connection, user_id, entry_accounts((), charges))
    for work_id in {charge.work_id: None for charge in charges}:
        close_charges(database, connection, _C.work_id == work_id)


def remove_charges(database: Database, connection: Connection, user_id: str, work_id: str) -> None:
    """Remove the charges of work that is deleted, and its own account; what was spent stays in the user's month."""
    close_charges(database, connection, _C.work_id == work_id)
    connection.execute(delete(schema.charges).where(_C.work_id == work_id))
    connection.execute(delete(schema.accounts).where(_A.user_id == user_id, _A.id == work_id))


def _read_locked(
    database: Database,
    connection: Connection,
    which: ColumnElement[bool],
    entries: Sequence[ChargeEntry] = (),
    *,
    user_id: str | None = None,
) -> tuple[list[ChargeRecord], list[AccountRecord]]:
    """Read charges, and the accounts of them and of some entries, which nobody else changes until this is committed.

    Whoever had the accounts before may have changed the charges, so they are read again once the accounts are locked;
    in SQLite there is one writer at a time.
    """
    query = select(schema.charges).where(which)
    charges = [record(ChargeRecord, row) for row in connection.execute(query)]
    owner = user_id if user_id is not None or not charges else charges[0].user_id
    if owner is None:
        return [], []
    accounts = _locked(database, connection, owner, entry_accounts(entries, charges))
    if charges and not database.is_sqlite:
        charges = [record(ChargeRecord, row) for row in connection.execute(query)]
    return charges, accounts


def _locked(database: Database, connection: Connection, user_id: str, ids: Sequence[str]) -> list[AccountRecord]:
    """Read accounts for change, making those that are not there, so that two who begin one wait for each other."""
    if not ids:
        return []
    query = select(schema.accounts).where(_A.user_id == user_id, _A.id.in_(ids)).order_by(_A.id).with_for_update()
    found = [record(AccountRecord, row) for row in connection.execute(query)]
    if missing := set(ids) - {account.id for account in found}:
        at = now()
        new = [
            AccountRecord(id=name, user_id=user_id, held={}, spent={}, warned={}, updated_at=at)
            for name in sorted(missing)
        ]
        insert = database.insert(schema.accounts).on_conflict_do_nothing()
        connection.execute(insert, [columns(account) for account in new])
        found = [record(AccountRecord, row) for row in connection.execute(query)]
    return found


def _write(database: Database, connection: Connection, books: Books) -> None:
    changes: Iterable[tuple[schema.Table, list[dict[str, object]]]] = (
        (schema.charges, [columns(charge) for charge in books.changed.values()]),
        (schema.accounts, [columns(account) for account in books.changed_accounts.values()]),
    )
    for table, rows in changes:
        if rows:
            connection.execute(database.upsert(table), rows)
