"""The budget machine: what is reserved, settled and refunded, in which account, and what no longer fits. Pure.

A charge is a row of one model call, sandbox or render, by its id, and it ends once: settled at what was used, or
refunded; one that was closed because nobody went on with it is opened again by whoever does. Writing the same entry
again changes nothing, so whoever repeats one after a crash charges nobody twice. Each charge stands in accounts (a
session's, a user's month) whose sums are kept with it, in the same transaction.

    nothing --reserve--> reserved --settle--> settled          (the first end stays)
    nothing --settle---> settled
                         reserved --accrue--> reserved          (used so far, and held for what comes)
                         reserved --close---> settled, with a reason --reserve--> reserved    (somebody goes on)
                         reserved --refund--> refunded --reserve--> reserved      (the same job again)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

from koda_ray.budgets import RESOURCES, WARN_AT, Amounts, Exceeded, shown
from koda_ray.events import NewEvent
from koda_ray.types import Resource

__all__ = [
    "AccountRecord",
    "Accrue",
    "Books",
    "Bound",
    "ChargeEntry",
    "ChargeKind",
    "ChargeRecord",
    "ChargeStatus",
    "ChargedPart",
    "Refund",
    "Release",
    "Reserve",
    "Settle",
    "entry_accounts",
    "entry_ids",
    "exceeded",
    "needs_open",
]

ChargeKind = Literal["model", "sandbox", "render"]
ChargeStatus = Literal["reserved", "settled", "refunded"]


@dataclass(frozen=True, kw_only=True)
class ChargeRecord:
    """What one model call, sandbox or render costs; ``id`` is its id, ``work_id`` the session or job that it is for.

    ``held`` and ``spent`` are `Amounts` as stored. ``reason`` says why it was refunded, or settled
    although its work was not done.
    """

    id: str
    work_id: str
    user_id: str
    kind: ChargeKind
    agent: str
    model: str
    status: ChargeStatus
    accounts: list[str]
    held: dict[str, int]
    spent: dict[str, int]
    epoch: int
    reason: str | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class ChargedPart:
    """What one agent was charged for one model, or what sandboxes or renders were, in so many charges."""

    kind: ChargeKind
    agent: str
    model: str
    count: int
    spent: Amounts


@dataclass(frozen=True, kw_only=True)
class AccountRecord:
    """The sums of an account's charges; ``warned`` are the limits of which people have been warned, by resource."""

    id: str
    user_id: str
    held: dict[str, int]
    spent: dict[str, int]
    warned: dict[str, int]
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Bound:
    """An account that a charge stands in, and how far it may go."""

    account: str
    limits: Mapping[Resource, int] = field(default_factory=dict[Resource, int])
    warn_at: float = WARN_AT


@dataclass(frozen=True, kw_only=True)
class Reserve:
    """Hold amounts for something that is about to begin, or refuse.

    ``alone`` says that its agent does one such thing at a time, so that another that is still open belongs to a dead
    process. ``unless_used_up`` are resources that it does not take, and yet must not be used up.
    """

    id: str
    kind: ChargeKind
    amounts: Amounts
    bounds: tuple[Bound, ...]
    agent: str = ""
    model: str = ""
    alone: bool = False
    unless_used_up: tuple[Resource, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Accrue:
    """Say what something that goes on has used so far, in all, and hold what it may use until it says so again."""

    id: str
    spent: Amounts
    held: Amounts
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Settle:
    """End something with what it used; None for what was accrued. What was never reserved is charged as it is.

    ``reason`` says why it is ended although its work is not done; whoever does it after all reserves it again.
    """

    id: str
    spent: Amounts | None = None
    reason: str | None = None
    bounds: tuple[Bound, ...] = ()
    kind: ChargeKind = "model"
    agent: str = ""
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class Refund:
    """End something that failed, or that nobody got anything of: it costs nothing."""

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """End what dead processes left: of these kinds, reserved by an activation before this one."""

    kinds: tuple[ChargeKind, ...]
    reason: str


ChargeEntry: TypeAlias = Reserve | Accrue | Settle | Refund | Release


def entry_ids(entries: Iterable[ChargeEntry]) -> list[str]:
    """Return the charges that some entries name."""
    return list(dict.fromkeys(entry.id for entry in entries if not isinstance(entry, Release)))


def needs_open(entries: Iterable[ChargeEntry]) -> bool:
    """Whether some entries may end charges that they do not name: then all that are open must be known."""
    return any(isinstance(entry, Release) or (isinstance(entry, Reserve) and entry.alone) for entry in entries)


def entry_accounts(entries: Iterable[ChargeEntry], charges: Iterable[ChargeRecord]) -> list[str]:
    """Return the accounts that some entries, and the charges that they may change, stand in; always in one order."""
    named = {
        bound.account for entry in entries if isinstance(entry, Reserve | Accrue | Settle) for bound in entry.bounds
    }
    return sorted(named.union(*(charge.accounts for charge in charges)))


def exceeded(
    bound: Bound, account: AccountRecord | None, wanted: Amounts, *, unless_used_up: Sequence[Resource] = ()
) -> Exceeded | None:
    """Find what does not fit an account any more; None when all does."""
    spent = Amounts.of(account.spent) if account is not None else Amounts()
    held = Amounts.of(account.held) if account is not None else Amounts()
    for resource in RESOURCES:
        if (limit := bound.limits.get(resource)) is None:
            continue
        more = wanted.get(resource)
        used = spent.get(resource)
        if (more > 0 and used + held.get(resource) + more > limit) or (resource in unless_used_up and used >= limit):
            return Exceeded(
                account=bound.account,
                resource=resource,
                limit=limit,
                spent=used,
                held=held.get(resource),
                wanted=more,
            )
    return None


class Books:
    """The charges and accounts that some entries concern.

    Args:
        work_id: The session or job whose work it is.
        user_id: Whose.
        epoch: The activation that enters.
        at: The present time.
        charges: Those that the entries name, and every open one of this work where `needs_open`.
        accounts: Those of `entry_accounts`, where they exist.
    """

    def __init__(
        self,
        *,
        work_id: str,
        user_id: str,
        epoch: int,
        at: datetime,
        charges: Iterable[ChargeRecord] = (),
        accounts: Iterable[AccountRecord] = (),
    ) -> None:
        self._work_id = work_id
        self._user_id = user_id
        self._epoch = epoch
        self._at = at
        self.charges = {charge.id: charge for charge in charges}
        self.accounts = {account.id: account for account in accounts}
        self.changed: dict[str, ChargeRecord] = {}
        self.changed_accounts: dict[str, AccountRecord] = {}
        self.warnings: list[NewEvent] = []

    def enter(self, entry: ChargeEntry) -> None:
        """Enter one change.

        Raises:
            BudgetExceeded: A reservation does not fit; nothing of it is entered.
        """
        match entry:
            case Reserve():
                self._reserve(entry)
            case Accrue():
                if (charge := self._open(entry.id)) is not None:
                    spent = entry.spent.at_least(Amounts.of(charge.spent))
                    self._put(replace(charge, held=entry.held.stored(), spent=spent.stored()))
                    self._warn(entry.bounds)
            case Settle():
                self._settle(entry)
            case Refund():
                if (charge := self._open(entry.id)) is not None:
                    self._end(charge, entry.reason)
            case Release():
                for charge in list(self.charges.values()):
                    if charge.status == "reserved" and charge.kind in entry.kinds and charge.epoch < self._epoch:
                        self._end(charge, entry.reason)

    def close(self, charge_id: str, reason: str) -> None:
        """End an open charge whose work nobody goes on with: at what it has used, or refunded where that is nothing."""
        charge = self._open(charge_id)
        if charge is None:
            return
        if charge.spent:
            self._put(replace(charge, status="settled", held={}, reason=reason))
        else:
            self._end(charge, reason)

    def _reserve(self, entry: Reserve) -> None:
        if entry.alone:
            for other in list(self.charges.values()):
                dead = other.status == "reserved" and (other.kind, other.agent) == (entry.kind, entry.agent)
                if dead and other.id != entry.id:
                    self._end(other, "never finished")
        charge = self.charges.get(entry.id)
        if charge is not None and charge.status == "settled" and charge.reason is None:
            return
        before = Amounts.of(charge.held) if charge is not None else Amounts()
        for bound in entry.bounds:
            account = self.accounts.get(bound.account)
            found = exceeded(bound, account, entry.amounts - before, unless_used_up=entry.unless_used_up)
            if found is not None:
                raise found.error()
        # what it has spent stands in the accounts that it has
        accounts = charge.accounts if charge is not None and charge.status != "refunded" else _names(entry.bounds)
        made = charge or self._new(entry.id, entry.kind, entry.agent, entry.model, accounts)
        self._put(
            replace(
                made,
                status="reserved",
                accounts=accounts,
                held=entry.amounts.stored(),
                epoch=self._epoch,
                reason=None,
            )
        )

    def _settle(self, entry: Settle) -> None:
        charge = self.charges.get(entry.id)
        if charge is None:
            charge = self._new(entry.id, entry.kind, entry.agent, entry.model, _names(entry.bounds))
        elif charge.status != "reserved":
            return
        spent = charge.spent if entry.spent is None else entry.spent.stored()
        model = entry.model or charge.model
        self._put(replace(charge, status="settled", held={}, spent=spent, model=model, reason=entry.reason))
        self._warn(entry.bounds)

    def _end(self, charge: ChargeRecord, reason: str) -> None:
        self._put(replace(charge, status="refunded", held={}, spent={}, reason=reason))

    def _open(self, charge_id: str) -> ChargeRecord | None:
        charge = self.charges.get(charge_id)
        return charge if charge is not None and charge.status == "reserved" else None

    def _new(self, charge_id: str, kind: ChargeKind, agent: str, model: str, accounts: list[str]) -> ChargeRecord:
        return ChargeRecord(
            id=charge_id,
            work_id=self._work_id,
            user_id=self._user_id,
            kind=kind,
            agent=agent,
            model=model,
            status="reserved",
            accounts=accounts,
            held={},
            spent={},
            epoch=self._epoch,
            created_at=self._at,
            updated_at=self._at,
        )

    def _put(self, charge: ChargeRecord) -> None:
        """Write a charge, and move its accounts' sums by what it differs from before."""
        before = self.charges.get(charge.id)
        held, spent = Amounts.of(charge.held), Amounts.of(charge.spent)
        if before is not None:
            held, spent = held - Amounts.of(before.held), spent - Amounts.of(before.spent)
        for name in charge.accounts:
            account = self.accounts.get(name) or AccountRecord(
                id=name, user_id=self._user_id, held={}, spent={}, warned={}, updated_at=self._at
            )
            self.accounts[name] = self.changed_accounts[name] = replace(
                account,
                held=(Amounts.of(account.held) + held).stored(),
                spent=(Amounts.of(account.spent) + spent).stored(),
                updated_at=self._at,
            )
        self.charges[charge.id] = self.changed[charge.id] = replace(charge, updated_at=self._at)

    def _warn(self, bounds: Sequence[Bound]) -> None:
        """Warn of each limit that is nearly used up, once."""
        for bound in bounds:
            account = self.accounts.get(bound.account)
            if account is None:
                continue
            spent = Amounts.of(account.spent)
            for resource, limit in bound.limits.items():
                used = spent.get(resource)
                if limit <= 0 or used < bound.warn_at * limit or account.warned.get(resource) == limit:
                    continue
                account = replace(account, warned={**account.warned, resource: limit})
                self.accounts[account.id] = self.changed_accounts[account.id] = account
                self.warnings.append(_warning(bound, resource, used, limit))


def _names(bounds: Sequence[Bound]) -> list[str]:
    return [bound.account for bound in bounds]


def _warning(bound: Bound, resource: Resource, used: int, limit: int) -> NewEvent:
    words = f"{100 * used / limit:.0f} % of {shown(resource, limit)} are used"
    return NewEvent(
        type="budget_warning",
        data={
            "account": bound.account,
            "resource": resource,
            "used": used,
            "limit": limit,
            "message": words,
        },
    )
