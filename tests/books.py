"""The budget machine with a place to keep what it writes: a store in miniature."""

from __future__ import annotations

import asyncio

from koda_ray.budgets import Amounts
from koda_ray.state.charges import (
    AccountRecord,
    Books,
    ChargeEntry,
    ChargeRecord,
    entry_accounts,
    entry_ids,
    needs_open,
)
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["Ledger", "check_sums"]

_AT = now()


class Ledger:
    """Reads what the real stores read, and keeps what they keep."""

    def __init__(self) -> None:
        self.charges: dict[str, ChargeRecord] = {}
        self.accounts: dict[str, AccountRecord] = {}
        self.warnings: list[str] = []

    def enter(self, *entries: ChargeEntry, epoch: int = 1) -> None:
        is_open = needs_open(entries)
        known = [c for c in self.charges.values() if c.id in entry_ids(entries) or (is_open and c.status == "reserved")]
        accounts = [self.accounts[name] for name in entry_accounts(entries, known) if name in self.accounts]
        books = Books(work_id="w", user_id="ann", epoch=epoch, at=_AT, charges=known, accounts=accounts)
        for entry in entries:
            books.enter(entry)
        self.charges |= books.changed
        self.accounts |= books.changed_accounts
        self.warnings += [str(event.data["message"]) for event in books.warnings]

    def sums(self, account: str) -> tuple[Amounts, Amounts]:
        row = self.accounts.get(account)
        return (Amounts.of(row.held), Amounts.of(row.spent)) if row else (Amounts(), Amounts())


async def _at_one_moment(
    store: Store, user_id: str, works: tuple[str, ...]
) -> tuple[list[ChargeRecord], list[AccountRecord]]:
    """Read charges and accounts that belong together: while work goes on, again until nothing came in between."""
    async with asyncio.timeout(60):
        while True:
            before = [charge for work in works for charge in await store.charges(work)]
            accounts = list(await store.accounts(user_id))
            if before == [charge for work in works for charge in await store.charges(work)]:
                return before, accounts


async def check_sums(store: Store, user_id: str, *works: str) -> None:
    """What holds of every store at every time: an account is the sum of its charges, and nothing is below zero."""
    charges, accounts = await _at_one_moment(store, user_id, works)
    for account in accounts:
        mine = [charge for charge in charges if account.id in charge.accounts]
        for kept, amounts in ((account.held, [c.held for c in mine]), (account.spent, [c.spent for c in mine])):
            assert Amounts.of(kept) == sum(map(Amounts.of, amounts), Amounts()), account.id
            assert all(value >= 0 for value in kept.values()), account.id
    assert all(not charge.held for charge in charges if charge.status != "reserved")
    assert all(not charge.spent for charge in charges if charge.status == "refunded")
