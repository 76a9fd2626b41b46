"""What every Store must do about sessions that were deleted and may be had back, and about the order of changes."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from koda_ray.errors import Conflict, Fenced, LimitReached, NotFound
from koda_ray.state.records import Batch, RendersSought, SessionLabel, SessionQuota
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, new_session, say

__all__ = ["DiscardingConformance"]


class DiscardingConformance:
    @pytest.mark.quick
    async def test_a_discarded_session_is_seen_by_nobody_and_comes_back_as_it_was(self, store: Store) -> None:
        kept, mine = await new_session(store), await new_session(store, owes="plan")
        before = await store.get_session(mine.id, user_id="ann")
        gone = await store.discard_session(mine.id, user_id="ann", delete_at=now() + SOON)
        assert gone.delete_at is not None and gone.delete_at > now()
        for read in (
            store.get_session(mine.id, user_id="ann"),
            store.activate(mine.id, host="late", lease_until=now() + SOON),
            store.label_session(mine.id, user_id="ann", label=SessionLabel(pinned=True)),
            store.admit_session(mine.id, user_id="ann", most=9, until=now() + SOON),
            store.receive(records.command(mine), lambda row, waiting: {}),
            store.see_point(mine.id, "msg_1", user_id="ann"),
            store.past(mine.id, user_id="ann"),
        ):
            with pytest.raises(NotFound, match="no session"):
                await read
        assert [row.id for row in await store.list_sessions("ann")] == [kept.id]
        assert [row.id for row in await store.query_sessions("ann")] == [kept.id]
        assert [row.id for row in await store.changed_sessions("ann")] == [kept.id]
        assert [row.id for row in await store.list_sessions("ann", discarded=True)] == [mine.id, kept.id]
        assert (await store.newest([mine.id, kept.id]))[mine.id].over
        assert await store.owed(now()) == [] and (await store.quota_used("ann")).sessions == 1
        assert await store.closed_sessions() == [] and (await store.get_session(mine.id)).delete_at == gone.delete_at
        assert await store.restore_session(mine.id, user_id="ann") == before
        assert await store.restore_session(mine.id, user_id="ann") == before
        assert await store.get_session(mine.id, user_id="ann") == before
        assert [work.id for work in await store.owed(now())] == [mine.id]
        assert not (await store.newest([mine.id]))[mine.id].over
        for user, session_id in (("bob", mine.id), ("ann", new_id("ses"))):
            with pytest.raises(NotFound):
                await store.discard_session(session_id, user_id=user, delete_at=now())
            with pytest.raises(NotFound):
                await store.restore_session(session_id, user_id=user)

    async def test_renders_of_a_discarded_session_are_not_listed(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        for row in (mine, other):
            await store.commit(row.id, row.epoch, Batch(jobs=[dataclasses.replace(records.job(of=row), kind="final")]))
        own = await store.create_job(records.job())
        every = RendersSought(kinds=())
        assert len(await store.list_renders("ann", every)) == 3
        await store.discard_session(mine.id, user_id="ann", delete_at=now() + SOON)
        left = await store.list_renders("ann", every)
        assert {job.session_id for job in left} == {other.id, None} and own.id in [job.id for job in left]
        assert await store.list_renders("ann", RendersSought(kinds=(), session_id=mine.id)) == []
        assert len(await store.list_jobs(session_id=mine.id)) == 1
        await store.restore_session(mine.id, user_id="ann")
        assert len(await store.list_renders("ann", every)) == 3

    async def test_whoever_has_a_discarded_session_still_saves_what_it_has(self, store: Store) -> None:
        held = await active_session(store)
        await store.discard_session(held.id, user_id="ann", delete_at=now() + SOON)
        await store.commit(held.id, held.epoch, Batch(events=[say("saved")], checkpoint=records.checkpoint(held, 1)))
        await store.release(held.id, held.epoch)
        back = await store.restore_session(held.id, user_id="ann")
        assert (back.status, back.host, back.seq) == ("suspended", None, 2)
        assert await store.latest_checkpoint(held.id) is not None

    @pytest.mark.quick
    async def test_a_discarded_session_is_awake_until_its_process_has_ended(self, store: Store) -> None:
        held, later, asleep = await active_session(store), await active_session(store), await new_session(store)
        other = await active_session(store)
        for row, delete_at in ((later, now() + 2 * SOON), (held, now() + SOON), (asleep, now() + SOON)):
            await store.discard_session(row.id, user_id="ann", delete_at=delete_at)
        assert await store.discarded_held(now()) == [held.id, later.id]
        assert await store.discarded_held(now(), limit=1) == [held.id]
        assert await store.discarded_held(now() + 9 * SOON) == []  # its lease has run out
        taken, counted = await store.quota_used("ann"), await store.census(now())
        assert (taken.sessions, taken.awake, counted.awake, counted.asleep) == (1, 3, 3, 0)
        await store.release(held.id, held.epoch)
        await store.close_session(later.id, user_id="ann")
        assert await store.discarded_held(now()) == []
        assert (await store.quota_used("ann")).awake == (await store.census(now())).awake == 1
        assert [row.id for row in await store.list_sessions("ann")] == [other.id]

    @pytest.mark.quick
    async def test_discarded_sessions_are_deleted_when_their_time_has_come(self, store: Store) -> None:
        first, second, third = [await active_session(store) for _ in range(3)]
        at = now()
        for row, delete_at in ((first, at + 9 * SOON), (second, at + 2 * SOON), (third, at + SOON)):
            await store.discard_session(row.id, user_id="ann", delete_at=delete_at)
        for again in (3 * SOON, 99 * SOON):  # said once more, it is no longer kept
            row = await store.discard_session(first.id, user_id="ann", delete_at=at + again)
            assert row.delete_at == at + 3 * SOON
        assert await store.close_discarded(at) == [] and await store.close_unused(at + 9 * SOON) == []
        assert [row.id for row in await store.close_discarded(at + 3 * SOON, limit=2)] == [third.id, second.id]
        assert [row.id for row in await store.close_discarded(at + 3 * SOON)] == [first.id]
        assert await store.close_discarded(at + 9 * SOON) == []
        assert {row.id for row in await store.closed_sessions()} == {first.id, second.id, third.id}
        with pytest.raises(Fenced):
            await store.commit(first.id, first.epoch, Batch(events=[say("late")]))
        with pytest.raises(NotFound):
            await store.restore_session(first.id, user_id="ann")
        with pytest.raises(NotFound):
            await store.discard_session(first.id, user_id="ann", delete_at=at)

    async def test_a_discarded_session_makes_room_and_takes_it_when_it_comes_back(self, store: Store) -> None:
        one, working = await new_session(store), await new_session(store, owes="plan")
        for row in (one, working):
            await store.discard_session(row.id, user_id="ann", delete_at=now() + SOON)
        quota = SessionQuota(sessions=2, awake=1)
        state = records.state(owes="plan")
        await store.create_session(state, key="next", body={}, quota=quota)
        with pytest.raises(LimitReached, match="awake"):
            await store.restore_session(working.id, user_id="ann", quota=quota)
        assert (await store.restore_session(one.id, user_id="ann", quota=quota)).delete_at is None
        with pytest.raises(LimitReached, match="KODA_MAX_SESSIONS_PER_USER"):
            await store.restore_session(working.id, user_id="ann", quota=SessionQuota(sessions=2))
        assert {row.id for row in await store.list_sessions("ann")} == {one.id, state.session_id}
        assert (await store.restore_session(working.id, user_id="ann")).owes == "plan"

    @pytest.mark.quick
    async def test_what_waits_for_a_discarded_session_takes_a_place_when_it_comes_back(self, store: Store) -> None:
        asked = await new_session(store)
        await store.receive(records.command(asked), lambda row, waiting: {})
        await store.discard_session(asked.id, user_id="ann", delete_at=now() + SOON)
        await new_session(store, owes="plan")
        with pytest.raises(LimitReached, match="awake"):
            await store.restore_session(asked.id, user_id="ann", quota=SessionQuota(sessions=9, awake=1))
        back = await store.restore_session(asked.id, user_id="ann", quota=SessionQuota(sessions=9, awake=2))
        assert back.delete_at is None and back.owes is None and len(await store.inbox(asked.id)) == 1

    @pytest.mark.quick
    async def test_the_key_of_a_session_that_was_deleted_makes_no_other_and_leads_to_none(self, store: Store) -> None:
        quota = SessionQuota(sessions=9)
        first, _ = await store.create_session(records.state(), key="k", body={"prompt": "a ball"}, quota=quota)
        await store.discard_session(first.id, user_id="ann", delete_at=now() + SOON)
        for closed in (False, True):
            if closed:
                await store.close_session(first.id, user_id="ann")
            with pytest.raises(Conflict, match="was deleted"):
                await store.create_session(records.state(), key="k", body={"prompt": "a ball"}, quota=quota)
            with pytest.raises(Conflict, match="another request"):
                await store.create_session(records.state(), key="k", body={"prompt": "a cube"}, quota=quota)
        await store.delete_session(first.id, user_id="ann")
        _, is_new = await store.create_session(records.state(), key="k", body={"prompt": "a ball"}, quota=quota)
        assert is_new

    @pytest.mark.quick
    async def test_files_of_a_discarded_session_are_not_seen_until_it_is_back(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        hidden, shown, loose = records.asset(of=mine), records.asset(of=other), records.asset()
        for asset in (hidden, shown, loose):
            await store.add_asset(asset)
        await store.discard_session(mine.id, user_id="ann", delete_at=now() + SOON)
        assert {asset.id for asset in await store.own_assets("ann")} == {shown.id, loose.id}
        with pytest.raises(NotFound, match="no asset"):
            await store.get_asset(hidden.id, user_id="ann")
        with pytest.raises(NotFound, match="no asset"):
            await store.remove_asset(hidden.id, user_id="ann")
        assert [asset.id for asset in await store.assets(user_id="ann", session_id=mine.id)] == [hidden.id]
        assert hidden.key in await store.asset_keys("ann") and len(await store.own_assets("ann", limit=2)) == 2
        await store.restore_session(mine.id, user_id="ann")
        assert {asset.id for asset in await store.own_assets("ann")} == {hidden.id, shown.id, loose.id}
        assert (await store.get_asset(hidden.id, user_id="ann")).session_id == mine.id

    async def test_what_a_discarded_session_needs_is_not_removed_with_others(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        await store.hold("ann", {"blob": 5}, holder=mine.id)
        await store.hold("ann", {"blob": 5}, holder=other.id)
        await store.discard_session(mine.id, user_id="ann", delete_at=now() + SOON)
        await store.close_session(other.id, user_id="ann")
        assert await store.let_go("ann", holder=other.id) == []
        assert await store.take_content("ann", holder=other.id, lease_until=now() + SOON) is None

    async def test_a_session_is_deleted_or_had_back_and_never_both(self, connect: Connect) -> None:
        one, other = await connect(), await connect()
        for _ in range(5):
            mine = await new_session(one)
            await one.discard_session(mine.id, user_id="ann", delete_at=now())
            closed, back = await asyncio.gather(
                one.close_discarded(now()), other.restore_session(mine.id, user_id="ann"), return_exceptions=True
            )
            assert isinstance(closed, list)
            assert isinstance(back, NotFound) == bool(closed)
            left = [row.id for row in await one.list_sessions("ann")]
            assert (mine.id in left) != bool(closed)

    @pytest.mark.quick
    async def test_sessions_are_listed_last_changed_first_in_pages(self, store: Store) -> None:
        made = [await active_session(store) for _ in range(5)]
        await new_session(store, "bob")
        for row in (made[2], made[0]):
            changed = row.state.model_copy(update={"prompt": "another"})
            await store.commit(row.id, row.epoch, Batch(state=changed))
        await store.label_session(made[3].id, user_id="ann", label=SessionLabel(pinned=True))
        wanted = [made[number].id for number in (0, 2, 4, 3, 1)]
        pages: list[list[str]] = []
        before = None
        while page := await store.changed_sessions("ann", limit=2, before=before):
            pages.append([row.id for row in page])
            before = page[-1].updated_at, page[-1].id
        assert pages == [wanted[:2], wanted[2:4], wanted[4:]]
        assert [row.id for row in await store.changed_sessions("ann", pinned=True)] == [made[3].id]
        assert [row.id for row in await store.changed_sessions("ann", pinned=False)] == [*wanted[:3], wanted[4]]
        assert await store.changed_sessions("ann", group="grp_1") == []
