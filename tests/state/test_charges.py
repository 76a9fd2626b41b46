"""The budget machine: whatever is entered, in whatever order and however often, the books add up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from koda_ray.budgets import Amounts, Exceeded, shown
from koda_ray.errors import BudgetExceeded
from koda_ray.state.charges import Accrue, Books, Bound, ChargeEntry, Refund, Release, Reserve, Settle
from koda_ray.types import Resource, now
from tests import tiers
from tests.books import Ledger

MONTH, SESSION = "month:2026-11", "ses_1"
AT = now()
LIMITS: dict[Resource, int] = {"tokens": 1000, "sandbox": 500}


def bounds(tokens: int | None = 1000) -> tuple[Bound, ...]:
    return (
        Bound(account=SESSION, limits={} if tokens is None else {**LIMITS, "tokens": tokens}),
        Bound(account=MONTH, limits={"tokens": 2500}),
    )


def reserve(call: str, tokens: int, *, limit: int | None = 1000, alone: bool = False) -> Reserve:
    return Reserve(id=call, kind="model", agent="a", amounts=Amounts(tokens=tokens), bounds=bounds(limit), alone=alone)


AMOUNTS = st.builds(
    Amounts, tokens=st.integers(0, 400), cost_microusd=st.integers(0, 10**7), sandbox_ms=st.integers(0, 200)
)
CALLS = st.sampled_from([f"c{n}" for n in range(6)])


class BooksAddUp(RuleBasedStateMachine):
    """Moves of every kind on few ids, so that they meet, repeat and come too late."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.paid: dict[str, Amounts] = {}
        self.epoch = 1

    def enter(self, entry: ChargeEntry) -> None:
        """Each entry twice: a process that is killed after its commit says it again."""
        self.ledger.enter(entry, epoch=self.epoch)
        once = dict(self.ledger.charges), dict(self.ledger.accounts)
        self.ledger.enter(entry, epoch=self.epoch)
        assert (self.ledger.charges, self.ledger.accounts) == once

    @rule(call=CALLS, amounts=AMOUNTS, alone=st.booleans(), kind=st.sampled_from(["model", "sandbox"]))
    def hold(self, call: str, amounts: Amounts, alone: bool, kind: str) -> None:
        held, spent = self.ledger.sums(SESSION)
        try:
            self.enter(Reserve(id=call, kind=kind, amounts=amounts, bounds=bounds(), alone=alone))  # type: ignore[arg-type]
        except BudgetExceeded as error:
            found = Exceeded.by(error)
            assert found.error().context == error.context
            assert found.spent + found.held + found.wanted > found.limit
            assert self.ledger.sums(SESSION) == (held, spent), "a refusal changed something"
        else:
            held, spent = self.ledger.sums(SESSION)
            status = self.ledger.charges[call].status
            if status == "reserved" and amounts.tokens:
                assert (held + spent).tokens <= 1000 or self.ledger.charges[call].held == amounts.stored()

    @rule(call=CALLS, spent=AMOUNTS, held=AMOUNTS)
    def go_on(self, call: str, spent: Amounts, held: Amounts) -> None:
        self.enter(Accrue(id=call, spent=spent, held=held, bounds=bounds()))

    @rule(call=CALLS, spent=st.none() | AMOUNTS)
    def settle(self, call: str, spent: Amounts | None) -> None:
        before = self.ledger.charges.get(call)
        self.enter(Settle(id=call, spent=spent, bounds=bounds()))
        charge = self.ledger.charges[call]
        if call in self.paid:
            assert Amounts.of(charge.spent) == self.paid[call], "charged again"
        elif charge.status == "settled" and charge.reason is None:
            accrued = Amounts.of(before.spent) if before is not None else Amounts()
            assert Amounts.of(charge.spent) == (accrued if spent is None else spent)
            self.paid[call] = Amounts.of(charge.spent)

    @rule(call=CALLS)
    def leave(self, call: str) -> None:
        before = self.ledger.charges.get(call)
        self.enter(Settle(id=call, reason="never finished", bounds=bounds()))
        if before is not None and before.status == "reserved":
            charge = self.ledger.charges[call]
            assert (charge.status, charge.spent, charge.reason) == ("settled", before.spent, "never finished")

    @rule(call=CALLS)
    def refund(self, call: str) -> None:
        before = self.ledger.charges.get(call)
        self.enter(Refund(id=call, reason="it failed"))
        charge = self.ledger.charges.get(call)
        if before is not None and charge is not None and before.status == "settled":
            assert charge == before
        elif charge is not None:
            assert charge.status == "refunded" and not charge.spent

    @rule()
    def another_activation(self) -> None:
        self.epoch += 1
        self.enter(Release(kinds=("model",), reason="its process ended"))
        left = [c for c in self.ledger.charges.values() if c.status == "reserved"]
        assert all(c.kind == "sandbox" for c in left)

    @invariant()
    def accounts_are_the_sums_of_their_charges(self) -> None:
        rows = self.ledger.charges.values()
        for account in (SESSION, MONTH):
            held = sum((Amounts.of(c.held) for c in rows if account in c.accounts), Amounts())
            spent = sum((Amounts.of(c.spent) for c in rows if account in c.accounts), Amounts())
            assert self.ledger.sums(account) == (held, spent)
            assert held.at_least(Amounts()) == held and spent.at_least(Amounts()) == spent, "below zero"
        assert all(not c.held for c in rows if c.status != "reserved")
        assert all(not c.spent for c in rows if c.status == "refunded")

    @invariant()
    def what_was_settled_stays(self) -> None:
        for call, paid in self.paid.items():
            assert self.ledger.charges[call].status == "settled"
            assert Amounts.of(self.ledger.charges[call].spent) == paid


BooksAddUp.TestCase.settings = settings(max_examples=tiers.examples(120), stateful_step_count=30, deadline=None)
TestBooksAddUp = BooksAddUp.TestCase


def test_a_reservation_that_does_not_fit_says_what_there_was() -> None:
    ledger = Ledger()
    ledger.enter(Settle(id="c1", spent=Amounts(tokens=600), bounds=bounds()), reserve("c2", 300))
    with pytest.raises(
        BudgetExceeded, match=r"1,000 tokens does not cover what comes next: 600 tokens spent, 300 tokens held"
    ) as caught:
        ledger.enter(reserve("c3", 101))
    found = Exceeded.by(caught.value)
    assert (found.account, found.resource, found.left, found.is_monthly) == (SESSION, "tokens", 100, False)
    ledger.enter(reserve("c3", 100))
    ledger.enter(Refund(id="c2", reason="broken off"), reserve("c4", 300))


def test_a_users_month_is_shared_by_all_of_their_work() -> None:
    ledger = Ledger()
    for number in range(25):
        ledger.enter(Settle(id=f"c{number}", spent=Amounts(tokens=100), bounds=bounds(None)))
    with pytest.raises(BudgetExceeded, match="the user's budget for 2026-11 of 2,500 tokens") as caught:
        ledger.enter(reserve("c99", 1, limit=None))
    assert Exceeded.by(caught.value).is_monthly


def test_what_is_used_up_stops_also_what_does_not_take_of_it() -> None:
    ledger = Ledger()
    ledger.enter(Settle(id="s1", kind="sandbox", spent=Amounts(sandbox_ms=499), bounds=bounds()))
    call = Reserve(id="c1", kind="model", amounts=Amounts(tokens=1), bounds=bounds(), unless_used_up=("sandbox",))
    ledger.enter(call)
    ledger.enter(Settle(id="s2", kind="sandbox", spent=Amounts(sandbox_ms=1), bounds=bounds()))
    ledger.enter(Refund(id="c1", reason="again"))
    with pytest.raises(BudgetExceeded, match="min of sandbox"):
        ledger.enter(call)


def test_a_warning_comes_once_for_each_limit() -> None:
    ledger = Ledger()
    for number in range(8):
        ledger.enter(Settle(id=f"c{number}", spent=Amounts(tokens=100), bounds=bounds()))
        assert bool(ledger.warnings) == (number == 7)
    ledger.enter(Settle(id="c8", spent=Amounts(tokens=100), bounds=bounds()))
    assert ledger.warnings == ["80 % of 1,000 tokens are used"]
    ledger.enter(Settle(id="c9", spent=Amounts(tokens=100), bounds=bounds(1200)))
    assert ledger.warnings[1:] == ["83 % of 1,200 tokens are used"]


def test_an_agent_that_begins_another_call_gives_up_the_one_before() -> None:
    ledger = Ledger()
    ledger.enter(reserve("c1", 400, alone=True), reserve("c2", 900, alone=True))
    assert ledger.charges["c1"].status == "refunded"
    ledger.enter(reserve("c2", 900, alone=True))
    assert ledger.sums(SESSION)[0] == Amounts(tokens=900)


def test_a_job_that_was_refunded_may_begin_again_and_one_that_was_settled_may_not() -> None:
    ledger = Ledger()
    ledger.enter(reserve("j", 100), Refund(id="j", reason="crashed"), reserve("j", 200))
    assert ledger.sums(MONTH) == (Amounts(tokens=200), Amounts())
    ledger.enter(Settle(id="j", spent=Amounts(tokens=150)), reserve("j", 200), Settle(id="j", spent=Amounts(tokens=1)))
    assert ledger.sums(MONTH) == (Amounts(), Amounts(tokens=150))
    assert ledger.sums(SESSION) == (Amounts(), Amounts(tokens=150))


def test_what_was_left_is_opened_again_with_what_it_has_spent() -> None:
    ledger = Ledger()
    ledger.enter(reserve("j", 600), Accrue(id="j", spent=Amounts(tokens=400), held=Amounts()))
    ledger.enter(Settle(id="j", reason="never finished"), Accrue(id="j", spent=Amounts(tokens=900), held=Amounts()))
    assert ledger.sums(SESSION) == (Amounts(), Amounts(tokens=400))
    with pytest.raises(BudgetExceeded, match="400 tokens spent, 601 tokens more"):
        ledger.enter(reserve("j", 601))
    ledger.enter(reserve("j", 600), Accrue(id="j", spent=Amounts(tokens=500), held=Amounts(tokens=500)))
    assert ledger.sums(SESSION) == (Amounts(tokens=500), Amounts(tokens=500))
    ledger.enter(Settle(id="j", spent=Amounts(tokens=700)), reserve("j", 1))
    assert ledger.sums(MONTH) == (Amounts(), Amounts(tokens=700)) and ledger.charges["j"].reason is None


def test_what_nobody_goes_on_with_costs_what_it_used() -> None:
    ledger = Ledger()
    ledger.enter(reserve("c1", 10), reserve("c2", 10))
    ledger.enter(Accrue(id="c2", spent=Amounts(tokens=4), held=Amounts()))
    books = Books(
        work_id="w", user_id="ann", epoch=1, at=AT + timedelta(days=1),
        charges=ledger.charges.values(), accounts=ledger.accounts.values(),
    )  # fmt: skip
    books.close("c1", "gone")
    books.close("c2", "gone")
    books.close("c2", "gone")
    assert {c.id: (c.status, c.spent) for c in books.changed.values()} == {
        "c1": ("refunded", {}),
        "c2": ("settled", {"tokens": 4}),
    }
    assert books.accounts[SESSION].spent == {"tokens": 4} and not books.accounts[SESSION].held


def test_amounts_are_read_by_people() -> None:
    told = [shown("tokens", 1234567), shown("cost", 5_000_000), shown("cost", 12_345), shown("render", 90_000)]
    assert told == ["1,234,567 tokens", "$5.00", "$0.0123", "1.5 min of rendering"]
