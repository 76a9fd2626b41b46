"""What every Store must do with what work costs."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from koda_ray.budgets import Amounts, Exceeded
from koda_ray.errors import BudgetExceeded, Fenced
from koda_ray.state import sql_charges
from koda_ray.state.charges import Accrue, Bound, ChargedPart, Refund, Release, Reserve, Settle
from koda_ray.state.records import Batch
from koda_ray.state.store import Store
from koda_ray.types import now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, say

__all__ = ["ChargeConformance"]

TOKENS = Amounts(tokens=500, cost_microusd=3_000)


class ChargeConformance:
    async def test_a_charge_is_entered_with_what_it_belongs_to(self, store: Store) -> None:
        mine = await active_session(store)
        held = Reserve(id="msg_1", kind="model", agent=records.NAME, amounts=TOKENS, bounds=records.bounds(mine))
        await store.commit(mine.id, 1, Batch(charges=[held]))
        (charge,) = await store.charges(mine.id)
        assert (charge.id, charge.work_id, charge.user_id, charge.status) == ("msg_1", mine.id, "ann", "reserved")
        assert (charge.kind, charge.agent, charge.epoch) == ("model", records.NAME, 1)
        assert charge.held == TOKENS.stored() and not charge.spent
        spent = Amounts(tokens=70, cost_microusd=5_000_000_000)
        paid = Settle(id="msg_1", spent=spent, bounds=records.bounds(mine), model="m")
        first = records.message(mine, 1)
        (told,) = await store.commit(mine.id, 1, Batch(messages=[first], events=[say("x")], charges=[paid]))
        assert told.seq == 2
        (charge,) = await store.charges(mine.id)
        assert (charge.status, charge.spent, charge.held, charge.model) == ("settled", spent.stored(), {}, "m")
        assert {one.id: one.spent for one in await store.accounts("ann")} == {
            mine.id: spent.stored(),
            "month:2026-11": spent.stored(),
        }
        assert [one.id for one in await store.accounts("ann", [mine.id, "none"])] == [mine.id]
        assert await store.accounts("bob") == [] and await store.charges("none") == []

    @pytest.mark.quick
    async def test_what_was_charged_is_summed_up_where_it_lies(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        bounds, much = records.bounds(mine), Amounts(tokens=5_000_000_000, cost_microusd=1)
        entries = [
            *(Settle(id=f"m{n}", spent=much, agent="a", model="m", bounds=bounds) for n in range(3)),
            Settle(id="b", spent=Amounts(unpriced_tokens=2, tokens=2), agent="b", model=records.NAME, bounds=bounds),
            Settle(id="sbx", kind="sandbox", spent=Amounts(sandbox_ms=90), bounds=bounds),
            Reserve(id="open", kind="model", agent="c", amounts=TOKENS, bounds=bounds),
            Settle(id="free", spent=Amounts(), agent="d", bounds=bounds),
        ]
        await store.commit(mine.id, 1, Batch(charges=entries))
        paid = Settle(id="m0", spent=TOKENS, agent="a", model="m", bounds=records.bounds(other))
        await store.commit(other.id, 1, Batch(charges=[paid]))
        sandbox = ChargedPart(kind="sandbox", agent="", model="", count=1, spent=Amounts(sandbox_ms=90))
        assert await store.charged(mine.id) == [
            ChargedPart(
                kind="model",
                agent="a",
                model="m",
                count=3,
                spent=Amounts(tokens=15_000_000_000, cost_microusd=3),
            ),
            ChargedPart(
                kind="model", agent="b", model=records.NAME, count=1, spent=Amounts(unpriced_tokens=2, tokens=2)
            ),
            sandbox,
        ]
        assert len(await store.charged(mine.id, limit=2)) == 2 and await store.charged("none") == []

    async def test_the_same_charge_again_changes_nothing(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = records.bounds(mine)
        entries = [
            Reserve(id="c", kind="model", amounts=TOKENS, bounds=bounds),
            Settle(id="c", spent=Amounts(tokens=7), bounds=bounds),
            Settle(id="c", spent=Amounts(tokens=9), bounds=bounds),
            Refund(id="c", reason="late"),
        ]
        for entry in [*entries, *entries]:
            await store.commit(mine.id, 1, Batch(charges=[entry]))
        (charge,) = await store.charges(mine.id)
        assert (charge.status, charge.spent, charge.held) == ("settled", {"tokens": 7}, {})
        assert all((one.spent, one.held) == ({"tokens": 7}, {}) for one in await store.accounts("ann"))

    async def test_what_does_not_fit_is_refused_with_all_of_its_batch(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = records.bounds(mine, tokens=100)
        await store.commit(mine.id, 1, Batch(charges=[Settle(id="a", spent=Amounts(tokens=60), bounds=bounds)]))
        wanted = [Reserve(id=name, kind="model", amounts=Amounts(tokens=30), bounds=bounds) for name in "bc"]
        with pytest.raises(BudgetExceeded, match="100 tokens does not cover") as caught:
            await store.commit(
                mine.id, 1, Batch(messages=[records.message(mine, 1)], events=[say("x")], charges=wanted)
            )
        assert Exceeded.by(caught.value).left == 10
        assert [one.id for one in await store.charges(mine.id)] == ["a"] and not await store.messages(mine.id)
        (event,) = await store.commit(mine.id, 1, Batch(events=[say("y")], charges=wanted[:1]))
        assert event.seq == 2

    @pytest.mark.quick
    async def test_two_who_reserve_at_once_do_not_hold_more_than_there_is(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        sessions = [await active_session(stores[0]) for _ in range(6)]

        async def hold(index: int) -> bool:
            bounds = (Bound(account="month:2026-12", limits={"tokens": 100}),)
            reserve = Reserve(id=f"c{index}", kind="model", amounts=Amounts(tokens=40), bounds=bounds)
            try:
                await stores[index % 2].commit(sessions[index].id, 1, Batch(charges=[reserve]))
            except BudgetExceeded:
                return False
            return True

        assert sum(await asyncio.gather(*map(hold, range(6)))) == 2
        (month,) = await stores[1].accounts("ann")
        assert month.held == {"tokens": 80}

    async def test_charges_of_many_add_up_whoever_enters_them(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        sessions = [await active_session(stores[0]) for _ in range(4)]

        async def work(index: int) -> None:
            mine, store = sessions[index], stores[index % 2]
            for number in range(8):
                settle = Settle(id=f"c{number}", spent=Amounts(tokens=1 + index), bounds=records.bounds(mine))
                await store.commit(mine.id, 1, Batch(charges=[settle]))

        await asyncio.gather(*map(work, range(4)))
        month = next(one for one in await stores[0].accounts("ann") if one.id == "month:2026-11")
        assert month.spent == {"tokens": 8 * (1 + 2 + 3 + 4)}

    async def test_a_warning_is_numbered_with_the_events(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = records.bounds(mine, tokens=100)
        settle = Settle(id="a", spent=Amounts(tokens=81), bounds=bounds)
        first, warning = await store.commit(mine.id, 1, Batch(events=[say("x")], charges=[settle]))
        assert (first.seq, warning.seq, warning.type, warning.channel) == (2, 3, "budget_warning", "control")
        assert warning.data["message"] == "81 % of 100 tokens are used"
        (third,) = await store.commit(mine.id, 1, Batch(events=[say("y")], charges=[settle]))
        assert third.seq == 4 and (await store.get_session(mine.id)).seq == 4
        assert [one.seq for one in await store.events(mine.id)] == [1, 2, 3, 4]

    async def test_a_fenced_activation_charges_nothing_and_the_next_frees_what_it_held(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = records.bounds(mine, tokens=100)
        reserve = Reserve(id="a", kind="model", amounts=Amounts(tokens=100), bounds=bounds)
        await store.commit(mine.id, 1, Batch(charges=[reserve]))
        await store.activate(mine.id, host="other", lease_until=now() + SOON)
        with pytest.raises(Fenced):
            await store.commit(mine.id, 1, Batch(charges=[Settle(id="a", spent=Amounts(tokens=9), bounds=bounds)]))
        with pytest.raises(BudgetExceeded):
            await store.commit(mine.id, 2, Batch(charges=[dataclasses.replace(reserve, id="b")]))
        release = Release(kinds=("model",), reason="its process ended")
        await store.commit(mine.id, 2, Batch(charges=[release, dataclasses.replace(reserve, id="b")]))
        assert {one.id: (one.status, one.reason) for one in await store.charges(mine.id)} == {
            "a": ("refunded", "its process ended"),
            "b": ("reserved", None),
        }

    async def test_what_nobody_touches_any_more_is_closed(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = records.bounds(mine)
        box = records.sandbox(mine)
        going = [
            Reserve(id="a", kind="model", amounts=TOKENS, bounds=bounds),
            Reserve(id=box.id, kind="sandbox", amounts=Amounts(sandbox_ms=60_000), bounds=bounds),
            Accrue(id=box.id, spent=Amounts(sandbox_ms=5_000), held=Amounts(sandbox_ms=60_000)),
        ]
        await store.commit(mine.id, 1, Batch(sandboxes=[box], charges=going))
        assert await store.close_charges(now() - timedelta(hours=1)) == 0
        await store.sandbox_destroyed(box.id)
        assert {one.id: one.status for one in await store.charges(mine.id)} == {"a": "reserved", box.id: "settled"}
        assert await store.close_charges(now() + timedelta(seconds=1)) == 1
        assert await store.close_charges(now() + timedelta(seconds=1)) == 0
        assert {one.id: one.status for one in await store.charges(mine.id)} == {"a": "refunded", box.id: "settled"}
        assert all((one.held, one.spent) == ({}, {"sandbox_ms": 5_000}) for one in await store.accounts("ann"))

    async def test_so_much_is_closed_in_one_transaction(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_charges, "CLOSED_AT_ONCE", 2)
        sessions = [await active_session(store) for _ in range(5)]
        for mine in sessions:
            begin = Reserve(id=f"of-{mine.id}", kind="model", amounts=TOKENS, bounds=records.bounds(mine))
            await store.commit(mine.id, 1, Batch(charges=[begin]))
        assert await store.close_charges(now() + timedelta(seconds=1)) == 5
        assert {one.status for mine in sessions for one in await store.charges(mine.id)} == {"refunded"}

    async def test_what_nobody_went_on_with_is_opened_again_by_whoever_does(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = (Bound(account=mine.id, limits={"render": 1_000}), Bound(account="month:2026-11"))
        begin = Reserve(id="job_1", kind="render", amounts=Amounts(render_ms=900), bounds=bounds)
        going = Accrue(id="job_1", spent=Amounts(render_ms=400), held=Amounts(), bounds=bounds)
        await store.commit(mine.id, 1, Batch(charges=[begin, going]))
        assert await store.close_charges(now() + timedelta(seconds=1)) == 1
        (closed,) = await store.charges(mine.id)
        assert (closed.status, closed.spent) == ("settled", {"render_ms": 400}) and closed.reason
        with pytest.raises(BudgetExceeded):  # what it had used counts
            await store.commit(mine.id, 1, Batch(charges=[begin]))
        later = (bounds[0], Bound(account="month:2026-12"))
        more = dataclasses.replace(begin, amounts=Amounts(render_ms=500), bounds=later)
        on = Accrue(id="job_1", spent=Amounts(render_ms=700), held=Amounts(render_ms=200), bounds=later)
        await store.commit(mine.id, 1, Batch(charges=[more, on]))
        (again,) = await store.charges(mine.id)
        assert (again.status, again.reason, again.spent) == ("reserved", None, {"render_ms": 700})
        left = Settle(id="job_1", reason="never finished")  # left by one, taken up by another
        rest = dataclasses.replace(more, amounts=Amounts(render_ms=300))
        await store.commit(mine.id, 1, Batch(charges=[left, rest]))
        end = Settle(id="job_1", spent=Amounts(render_ms=900), bounds=later)
        await store.commit(mine.id, 1, Batch(charges=[end, more]))  # what is done stays done
        (paid,) = await store.charges(mine.id)
        assert (paid.status, paid.held, paid.spent) == ("settled", {}, {"render_ms": 900})
        sums = {one.id: (one.held, one.spent) for one in await store.accounts("ann") if one.spent}
        assert sums == {name: ({}, {"render_ms": 900}) for name in (mine.id, "month:2026-11")}

    async def test_what_was_spent_outlives_the_session(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        for each in (mine, other):
            entries = [
                Settle(id="a", spent=Amounts(tokens=10), bounds=records.bounds(each)),
                Reserve(id="b", kind="model", amounts=TOKENS, bounds=records.bounds(each)),
            ]
            await store.commit(each.id, 1, Batch(charges=entries))
        await store.delete_session(mine.id, user_id="ann")
        assert await store.charges(mine.id) == [] and len(await store.charges(other.id)) == 2
        assert {one.id: (one.spent, one.held) for one in await store.accounts("ann")} == {
            "month:2026-11": ({"tokens": 20}, TOKENS.stored()),
            other.id: ({"tokens": 10}, TOKENS.stored()),
        }

    async def test_a_job_of_its_own_is_charged_under_its_fence(self, store: Store) -> None:
        made = await store.create_job(records.job())
        taken = await store.claim_job(made.id, lease_until=now() + SOON)
        bounds = (Bound(account="month:2026-11", limits={"render": 1000}),)
        held = Reserve(id=made.id, kind="render", amounts=Amounts(render_ms=600), bounds=bounds)
        await store.update_job(taken, charges=[held])
        with pytest.raises(BudgetExceeded):
            await store.update_job(taken, events=[say("x")], charges=[dataclasses.replace(held, id="more")])
        going = Accrue(id=made.id, spent=Amounts(render_ms=850), held=Amounts(), bounds=bounds)
        await store.update_job(taken, events=[say("x")], charges=[going])
        assert [(one.seq, one.type) for one in await store.events(made.id)] == [(1, "message"), (2, "budget_warning")]
        await store.cancel_job(made.id, user_id="ann")
        with pytest.raises(Fenced):
            await store.update_job(taken, charges=[Refund(id=made.id, reason="late")])
        (charge,) = await store.charges(made.id)
        assert (charge.status, charge.spent) == ("settled", {"render_ms": 850})
        await store.delete_job(made.id, user_id="ann")
        assert await store.charges(made.id) == []
        assert [one.spent for one in await store.accounts("ann")] == [{"render_ms": 850}]
