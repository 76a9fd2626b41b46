"""What lies in storage by its content: counted once, held by whoever needs it, and gone with the last who does."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from koda_ray.errors import LimitReached, NotFound, Unavailable
from koda_ray.state.records import Batch, SessionQuota
from koda_ray.state.store import Store
from koda_ray.types import new_id
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.conformance.history import forked
from tests.state.records import active_session, new_session

__all__ = ["HoldingConformance"]


class HoldingConformance:
    @pytest.mark.quick
    async def test_what_is_stored_counts_once_until_it_is_gone(self, store: Store) -> None:
        one, two = await active_session(store), await active_session(store)
        await store.hold("ann", {"shared": 100, "first": 20}, holder=one.id)
        await store.hold("ann", {"shared": 100, "second": 3}, holder=two.id)
        await store.hold("ann", {"shared": 100, "first": 20}, holder=one.id)  # the same again
        await store.hold("ann", {"page": 4_000})
        assert await store.stored_bytes("ann") == 4_123 and await store.stored_bytes("bob") == 0
        assert (await store.quota_used("ann")).stored_bytes == 4_123
        await store.close_session(one.id, user_id="ann")
        assert await store.let_go("ann", holder=one.id) == ["first"]
        assert await store.let_go("ann", holder=one.id) == ["first"], "whoever is cut off comes again"
        assert await store.stored_bytes("ann") == 4_123, "it is there until it is removed"
        await store.forget("ann", ["first"])
        await store.delete_session(one.id, user_id="ann")
        assert await store.stored_bytes("ann") == 4_103 and await store.let_go("ann", holder=one.id) == []
        await store.forget("ann", ["page"])
        await store.close_session(two.id, user_id="ann")
        assert sorted(await store.let_go("ann", holder=two.id)) == ["second", "shared"]
        await store.forget("ann", None)
        assert await store.stored_bytes("ann") == 0

    async def test_of_two_sessions_that_are_deleted_the_last_takes_what_both_held(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        held = [await active_session(stores[0]) for _ in range(2)]
        for session in held:
            await stores[0].hold("ann", {"shared": 7}, holder=session.id)
            await stores[0].close_session(session.id, user_id="ann")
        marked = await asyncio.gather(
            *(store.let_go("ann", holder=session.id) for store, session in zip(stores, held, strict=True))
        )
        assert ["shared"] in marked

    async def test_a_fork_holds_what_it_was_made_of(self, store: Store) -> None:
        mine = await active_session(store)
        await store.hold("ann", {"file": 10, "list": 1}, holder=mine.id)
        pointer = dataclasses.replace(records.checkpoint(mine, 1), held=True)
        await store.commit(mine.id, mine.epoch, Batch(checkpoint=pointer))
        fork, _ = await store.fork(mine.id, user_id="ann", point=None, key="f", body={}, plan=forked)
        assert await store.stored_bytes("ann") == 11
        await store.close_session(mine.id, user_id="ann")
        assert await store.let_go("ann", holder=mine.id) == []
        await store.delete_session(mine.id, user_id="ann")
        await store.close_session(fork.id, user_id="ann")
        assert sorted(await store.let_go("ann", holder=fork.id)) == ["file", "list"]

    async def test_whoever_needs_what_is_being_removed_waits_until_it_is_gone(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("koda_ray.state.content._WAIT_S", 0.05)
        leaving, other = await active_session(store), await active_session(store)
        await store.hold("ann", {"file": 10}, holder=leaving.id)
        await store.close_session(leaving.id, user_id="ann")
        assert await store.let_go("ann", holder=leaving.id) == ["file"]
        with pytest.raises(Unavailable, match="is being removed"):
            await store.hold("ann", {"file": 10, "more": 1}, holder=other.id)
        await store.hold("bob", {"file": 10})
        monkeypatch.setattr("koda_ray.state.content._WAIT_S", 60.0)
        waiting = asyncio.create_task(store.hold("ann", {"file": 10, "more": 1}, holder=other.id))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await store.forget("ann", ["file"])
        await waiting
        assert await store.stored_bytes("ann") == 11

    async def test_nothing_goes_while_a_checkpoint_is_there_that_holds_nothing_yet(self, store: Store) -> None:
        leaving, older = await active_session(store), await active_session(store)
        await store.hold("ann", {"file": 10}, holder=leaving.id)
        pointer = records.checkpoint(older, 1)
        await store.commit(older.id, older.epoch, Batch(checkpoint=pointer))
        await store.close_session(leaving.id, user_id="ann")
        assert await store.let_go("ann", holder=leaving.id) == [], "it may be what that names"
        await store.delete_session(leaving.id, user_id="ann")
        assert await store.stored_bytes("ann") == 10
        assert [each.id for each in await store.unheld()] == [pointer.id]
        assert await store.unheld(after=pointer.id) == []
        await store.hold("ann", {"file": 10, "list": 1}, holder=older.id, checkpoint=pointer.id)
        assert await store.unheld() == [] and await store.stored_bytes("ann") == 11
        await store.close_session(older.id, user_id="ann")
        assert sorted(await store.let_go("ann", holder=older.id)) == ["file", "list"]

    async def test_what_a_checkpoint_may_hold_stays_for_its_session_and_what_comes_later_goes(
        self, store: Store
    ) -> None:
        leaving, older = await active_session(store), await active_session(store)
        await store.hold("ann", {"file": 10, "shared": 1}, holder=leaving.id)
        await store.hold("ann", {"shared": 1}, holder=older.id)
        pointer = records.checkpoint(older, 1)
        await store.commit(older.id, older.epoch, Batch(checkpoint=pointer))
        for user, session_id in (("bob", older.id), ("ann", "ses_none")):
            with pytest.raises(NotFound):
                await store.hold_all(user, holder=session_id, checkpoint=pointer.id)
        await store.hold_all("ann", holder=older.id, checkpoint=pointer.id)
        await store.hold_all("ann", holder=older.id, checkpoint=pointer.id)  # the same again
        assert await store.unheld() == [] and await store.stored_bytes("ann") == 11
        await store.hold("ann", {"later": 5}, holder=leaving.id)
        await store.close_session(leaving.id, user_id="ann")
        assert await store.let_go("ann", holder=leaving.id) == ["later"]
        await store.forget("ann", ["later"])
        await store.close_session(older.id, user_id="ann")
        assert sorted(await store.let_go("ann", holder=older.id)) == ["file", "shared"]

    @pytest.mark.quick
    async def test_rendered_parts_count_once_however_many_jobs_have_them(self, store: Store) -> None:
        mine = await active_session(store)
        one, two = [dataclasses.replace(records.job(of=mine), status="running") for _ in range(2)]
        await store.commit(mine.id, mine.epoch, Batch(jobs=[one, two]))
        part = dataclasses.replace(records.chunk(one, 0), key="users/ann/units/ab/abc/video")
        failed = dataclasses.replace(part, unit=1, key="users/ann/units/cd/cde/video", status="failed")
        await store.commit(mine.id, mine.epoch, Batch(chunks=[part, failed]))
        await store.update_job(two, chunks=[dataclasses.replace(part, job_id=two.id)])
        assert await store.stored_bytes("ann") == part.total_bytes > 0
        assert await store.counted("ann", below="users/ann/units") == [part.key]
        for user, below, after in (("ann", "users/ann/uni", ""), ("bob", "users/ann/units", ""),
                                   ("ann", "users/ann/units", part.key)):  # fmt: skip
            assert await store.counted(user, below=below, after=after) == []
        await store.forget("ann", [part.key])
        assert await store.stored_bytes("ann") == 0

    async def test_a_session_that_is_deleted_holds_nothing_more(self, store: Store) -> None:
        mine = await active_session(store)
        await store.close_session(mine.id, user_id="ann")
        for user, session_id in (("ann", mine.id), ("bob", (await new_session(store)).id), ("ann", "ses_none")):
            with pytest.raises(NotFound):
                await store.hold(user, {"file": 10}, holder=session_id)
        assert await store.stored_bytes("ann") == 0

    @pytest.mark.quick
    async def test_what_sessions_keep_counts_for_the_quota(self, store: Store) -> None:
        mine = await active_session(store)
        await store.hold("ann", {"file": 900}, holder=mine.id, most_bytes=1_000)
        await store.hold("ann", {"page": 100}, most_bytes=1_000)
        with pytest.raises(LimitReached, match=r"MB of videos.*KODA_USER_STORED_MB"):
            await store.hold("ann", {"another": 1}, most_bytes=1_000)
        with pytest.raises(LimitReached, match="KODA_USER_STORED_MB"):
            quota = SessionQuota(stored_bytes=1_000)
            await store.create_session(records.state(), key=new_id("cmd"), body={}, quota=quota)
        await store.hold("ann", {"saved": 5}, holder=mine.id)  # what is there already is kept, whatever it takes
        assert await store.stored_bytes("ann") == 1_005
        many = {f"file{index}": 1 for index in range(1_201)}
        await store.hold("ann", many, holder=mine.id)
        assert await store.stored_bytes("ann") == 2_206
