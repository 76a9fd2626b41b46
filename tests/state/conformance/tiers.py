"""What every Store must answer about what it holds and how it is, and do about locks and closing."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from koda_ray.budgets import Amounts
from koda_ray.errors import Fenced, Unavailable
from koda_ray.state import sql_tiers
from koda_ray.state.census import Census
from koda_ray.state.charges import Bound, Settle
from koda_ray.state.locks import locked
from koda_ray.state.records import Batch
from koda_ray.state.store import Store
from koda_ray.state.tiers import TimeWindow
from koda_ray.types import now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, say

__all__ = ["TierConformance"]


class TierConformance:
    async def test_sessions_are_found_by_when_they_were_used(self, store: Store) -> None:
        made = [await active_session(store) for _ in range(4)]
        await active_session(store, "bob")
        await store.commit(made[0].id, 1, Batch(touch=True))
        await store.release(made[1].id, 1)
        await store.close_session(made[2].id, user_id="ann")
        expected = [made[0].id, made[3].id, made[1].id]
        assert [row.id for row in await store.query_sessions("ann")] == expected
        assert [row.id for row in await store.query_sessions("ann", window=TimeWindow(limit=2))] == expected[:2]
        assert [row.id for row in await store.query_sessions("ann", statuses=["suspended"])] == [made[1].id]
        since = (await store.get_session(made[3].id)).last_activity
        assert [row.id for row in await store.query_sessions("ann", window=TimeWindow(since=since))] == expected[:2]
        assert [row.id for row in await store.query_sessions("ann", window=TimeWindow(until=since))] == [made[1].id]
        assert await store.query_sessions("nobody") == []

    async def test_everything_is_counted_over_all_users(self, store: Store) -> None:
        assert await store.census(now()) == Census()
        mine, bobs = await active_session(store), await active_session(store, "bob")
        owing = await records.new_session(store, owes="analyze")
        closed = await active_session(store)
        await store.release(bobs.id, bobs.epoch)
        await store.close_session(closed.id, user_id="ann")
        own = [await store.create_job(records.job()) for _ in range(3)]
        await store.claim_job(own[0].id, lease_until=now() + SOON)
        await store.claim_job(own[1].id, lease_until=now() - timedelta(seconds=1))  # whoever had it is gone
        await store.commit(mine.id, 1, Batch(jobs=[records.job("ann", mine)], sandboxes=[records.sandbox(mine)]))
        bounds = (Bound(account=mine.id), Bound(account="month:2026-11"))
        spent = Settle(id="c1", spent=Amounts(tokens=7, cost_microusd=30), bounds=bounds)
        older = Settle(id="c2", spent=Amounts(cost_microusd=5), bounds=(Bound(account="month:2025-02"),))
        await store.commit(mine.id, 1, Batch(charges=[spent, older]))
        counted = await store.census(now())
        left = min((await store.get_job(own[1].id)).updated_at, (await store.get_session(owing.id)).updated_at)
        assert counted.unheld_since == left
        assert dataclasses.replace(counted, unheld_since=None, spent_in_month=Amounts()) == Census(
            awake=1, asleep=2, owing=1, closing=1, unheld=3, queued=2, rendering=2, sandboxes=1,
            spent=Amounts(tokens=7, cost_microusd=35),
        )  # fmt: skip
        then = await store.census(datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
        assert then.spent_in_month == Amounts(tokens=7, cost_microusd=30)
        assert (await store.census(datetime(2027, 1, 1, tzinfo=UTC))).spent_in_month == Amounts()

    async def test_health_and_figures(self, store: Store) -> None:
        before = await store.metrics()
        mine = await active_session(store)
        with pytest.raises(Fenced):
            await store.commit(mine.id, 9, Batch(events=[say("x")]))
        await store.get_session(mine.id)
        health = await store.health()
        assert health.ok and not health.detail and health.schema and health.latency_ms > 0
        after = await store.metrics()
        assert after.backend == health.backend
        assert (after.rows["sessions"], after.rows["events"], after.rows["users"]) == (1, 1, 1)
        assert after.writes - before.writes >= 3 and after.reads > before.reads
        assert after.failures == 0 and after.slowest_write_ms >= after.write_ms > 0
        assert after.size_bytes is not None and after.size_bytes > 1000
        assert after.rows.keys() == before.rows.keys() >= {"messages", "jobs", "locks"}

    async def test_who_looks_at_figures_does_not_wait_for_a_count_of_everything(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = await active_session(store)
        await store.commit(mine.id, 1, Batch(events=[say(str(number)) for number in range(20)]))
        monkeypatch.setattr(sql_tiers, "COUNTED", 5)
        rows = (await store.metrics()).rows
        assert rows["sessions"] == 1 and 5 <= rows["events"] <= 30

    async def test_a_closed_store_says_that_it_is_not_well(self, store: Store) -> None:
        assert (await store.health()).ok
        await store.close()
        health = await store.health()
        assert not health.ok and "not open" in health.detail

    # --- locks

    async def test_a_lock_is_held_by_one(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        taken = await asyncio.gather(
            *(stores[i % 2].take_lock("sweep", holder=f"h{i}", lease_until=now() + SOON) for i in range(8))
        )
        (lock,) = [each for each in taken if each is not None]
        assert (lock.name, lock.epoch) == ("sweep", 1)
        assert await stores[0].take_lock("other", holder="x", lease_until=now() + SOON) is not None
        kept = await stores[1].renew_lock(lock, lease_until=lock.lease_until + SOON)
        assert kept == dataclasses.replace(lock, lease_until=lock.lease_until + SOON)
        assert await stores[0].take_lock("sweep", holder="y", lease_until=now() + SOON) is None
        await stores[1].release_lock(lock)
        again = await stores[0].take_lock("sweep", holder="y", lease_until=now() + SOON)
        assert again is not None and (again.holder, again.epoch) == ("y", 2)

    async def test_a_lock_whose_lease_ran_out_is_taken_and_its_holder_told(self, store: Store) -> None:
        late = await store.take_lock("sweep", holder="late", lease_until=now())
        assert late is not None
        new = await store.take_lock("sweep", holder="new", lease_until=now() + SOON)
        assert new is not None and new.epoch == 2
        with pytest.raises(Fenced, match="late"):
            await store.renew_lock(late, lease_until=now() + SOON)
        await store.release_lock(late)
        assert await store.take_lock("sweep", holder="third", lease_until=now() + SOON) is None
        await store.release_lock(new)
        with pytest.raises(Fenced):
            await store.renew_lock(new, lease_until=now() + SOON)

    @pytest.mark.full
    async def test_who_waits_for_a_lock_gets_it(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        inside = most = 0

        async def work(turn: int) -> int:
            nonlocal inside, most
            async with locked(stores[turn % 2], "build", holder=f"worker-{turn}", lease_s=60) as held:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.002)
                held.check()
                inside -= 1
                return held.record.epoch

        assert sorted(await asyncio.gather(*map(work, range(12)))) == list(range(1, 13))
        assert most == 1

    async def test_a_held_lock_is_renewed_until_it_is_lost(self, store: Store) -> None:
        async with locked(store, "build", holder="one", lease_s=3) as held:
            first = held.record.lease_until
            async with asyncio.timeout(60):
                while held.record.lease_until == first:
                    await asyncio.sleep(0.01)
            with pytest.raises(Unavailable, match="'build' was not free for 0 s"):
                async with locked(store, "build", holder="two", timeout_s=0):
                    pass
            await store.release_lock(held.record)  # as if another had taken it
            assert await store.take_lock("build", holder="two", lease_until=now() + SOON) is not None
            async with asyncio.timeout(60):
                await held.lost.wait()
            with pytest.raises(Fenced, match="'one' no longer"):
                held.check()
        assert await store.take_lock("build", holder="three", lease_until=now() + SOON) is None

    async def test_what_was_committed_is_there_for_the_next(self, connect: Connect) -> None:
        first = await connect()
        mine = await active_session(first)
        await first.commit(mine.id, 1, Batch(events=[say("x")]))
        await first.close()
        await first.close()
        second = await connect()
        assert (await second.get_session(mine.id)).seq == 2
        await second.close()
        await first.open()
        assert (await first.get_session(mine.id)).seq == 2
        await first.open()

    async def test_what_a_reader_does_with_what_it_read_changes_nothing(self, store: Store) -> None:
        mine = await active_session(store)
        event = say("x", deep={"a": [1]})
        message = records.message(mine, 0)
        whole = copy.deepcopy(message)
        (made,) = await store.commit(mine.id, 1, Batch(events=[event], messages=[message]))
        for data in (event.data, made.data, (await store.events(mine.id, after=1))[0].data):
            data["deep"]["a"].append(2)  # type: ignore[index, union-attr, call-overload]
        for read in (message, (await store.messages(mine.id))[0]):
            read.content.clear()
        assert (await store.events(mine.id, after=1))[0].data["deep"] == {"a": [1]}
        assert await store.messages(mine.id) == [whole]
