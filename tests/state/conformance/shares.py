"""What users share, and how much of it each may have: content, looks at the log, queues and uploads."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from koda_ray.errors import Unavailable
from koda_ray.state.lookout import Newest
from koda_ray.state.store import Batch, Store
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, new_session, say

__all__ = ["ShareConformance"]


class ShareConformance:
    async def test_content_is_taken_only_where_nobody_works(self, store: Store) -> None:
        session = await active_session(store)
        job = await store.create_job(dataclasses.replace(records.job(), session_id=session.id))
        until = now() + SOON
        assert await store.take_content("ann", holder="h", lease_until=until) is None
        await store.close_session(session.id, user_id="ann")
        alone = await store.create_job(records.job())
        assert await store.take_content("ann", holder="h", lease_until=until) is None, "a render of one's own"
        await store.delete_job(alone.id, user_id="ann")
        lock = await store.take_content("ann", holder="h", lease_until=until)
        assert lock is not None and lock.holder == "h" and job.session_id == session.id
        with pytest.raises(Unavailable):
            await store.take_content("ann", holder="other", lease_until=until)
        assert await new_session(store, "bob") is not None, "others begin"
        assert (await store.renew_lock(lock, lease_until=until)).epoch == lock.epoch
        await store.release_lock(lock)
        assert await new_session(store) is not None

    async def test_nothing_begins_while_content_is_removed(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("koda_ray.state.content._WAIT_S", 0.05)
        await store.ensure_user("ann")
        lock = await store.take_content("ann", holder="h", lease_until=now() + SOON)
        assert lock is not None
        for begin in (
            lambda: store.create_session(records.state(), key=new_id("cmd"), body={}),
            lambda: store.create_job(records.job()),
            lambda: store.create_jobs([records.job()]),
        ):
            with pytest.raises(Unavailable, match="is being removed"):
                await begin()
        monkeypatch.setattr("koda_ray.state.content._WAIT_S", 60.0)
        waiting = asyncio.create_task(store.create_job(records.job()))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await store.release_lock(lock)
        assert (await waiting).status == "queued"

    async def test_one_of_two_comes_first_beginning_or_removing(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        for round_ in range(8):
            user = f"user{round_}"
            await stores[0].ensure_user(user)
            lock, made = await asyncio.gather(
                stores[0].take_content(user, holder="h", lease_until=now() + timedelta(seconds=0.2)),
                stores[1].create_session(records.state(user), key="k", body={}),
            )
            assert made[1]
            if lock is not None:  # the session waited until the lease was over
                assert made[0].created_at >= lock.lease_until

    async def test_the_newest_numbers_of_many_streams_are_read_at_once(self, store: Store) -> None:
        sessions = [await active_session(store) for _ in range(3)]
        jobs = [await store.create_job(records.job()) for _ in range(2)]
        await store.commit(sessions[0].id, 1, Batch(events=[say("x")] * 4))
        await store.close_session(sessions[1].id, user_id="ann")
        await store.close_session(sessions[2].id, user_id="ann")
        await store.delete_session(sessions[2].id, user_id="ann")
        await store.cancel_job(jobs[1].id, user_id="ann")
        asked = [each.id for each in (*sessions, *jobs)]
        assert await store.newest([*asked, "ses_none", *(f"ses_{number}" for number in range(600))]) == {
            sessions[0].id: Newest(5, over=False),
            sessions[1].id: Newest(1, over=True),
            jobs[0].id: Newest(0, over=False),
            jobs[1].id: Newest(0, over=True),
        }
        assert await store.newest([]) == {}
