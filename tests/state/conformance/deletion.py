"""What every Store must do when a session is deleted."""

from __future__ import annotations

import pytest

from koda_ray.errors import Fenced, NotFound
from koda_ray.state.records import Batch
from koda_ray.state.store import Store
from koda_ray.types import now
from tests.state import records
from tests.state.records import active_session, say

__all__ = ["DeletionConformance"]


class DeletionConformance:
    @pytest.mark.quick
    async def test_deleting_takes_everything_of_one_session(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        for session in (mine, other):
            job = records.job(of=session)
            batch = Batch(
                events=[say("x")],
                command=records.command(session),
                messages=[records.message(session, 0)],
                tool_calls=[records.tool_call(session)],
                approvals=[records.approval(session)],
                beads=[records.bead(session, "1", 0)],
                checkpoint=records.checkpoint(session, 1),
                sandboxes=[records.sandbox(session)],
                jobs=[job],
                chunks=[records.chunk(job, 0)],
            )
            await store.commit(session.id, 1, batch)
            await store.append_job_events(job.id, 0, [say("y")])
            await store.add_asset(records.asset(of=session))
        jobs = {session.id: (await store.list_jobs(session_id=session.id))[0] for session in (mine, other)}
        with pytest.raises(NotFound):
            await store.delete_session(mine.id, user_id="bob")
        for _ in range(2):
            await store.delete_session(mine.id, user_id="ann")
        for session, left in ((mine, 0), (other, 1)):
            assert len(await store.messages(session.id)) == left
            assert len(await store.tool_calls(session.id)) == left
            assert len(await store.approvals(session.id)) == left
            assert len(await store.beads(session.id)) == left
            assert len(await store.sandboxes(session_id=session.id)) == left
            assert len(await store.list_jobs(session_id=session.id)) == left
            assert len(await store.chunks(jobs[session.id].id)) == left
            assert len(await store.events(jobs[session.id].id)) == left
            assert len(await store.events(session.id)) == left * 2
            assert len(await store.assets(user_id="ann", session_id=session.id)) == left
            assert (await store.latest_checkpoint(session.id) is not None) == bool(left)
            assert (await store.find_command(session.id, "key-1") is not None) == bool(left)
        with pytest.raises(NotFound):
            await store.get_session(mine.id)
        with pytest.raises(NotFound):
            await store.commit(mine.id, 1, Batch(events=[say("late")]))
        assert await store.events(mine.id) == []

    async def test_a_closed_session_is_not_seen(self, store: Store) -> None:
        mine = await active_session(store)
        await store.commit(mine.id, 1, Batch(status="closed"))
        for call in (
            store.get_session(mine.id),
            store.activate(mine.id, host="h", lease_until=now()),
        ):
            with pytest.raises(NotFound):
                await call
        assert await store.list_sessions("ann") == []
        await store.delete_session(mine.id, user_id="ann")

    async def test_a_deletion_that_began_is_found_and_finished(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        for session_id, user_id in ((mine.id, "bob"), ("ses_unknown", "ann")):
            with pytest.raises(NotFound):
                await store.close_session(session_id, user_id=user_id)
        closed = await store.close_session(mine.id, user_id="ann")
        assert (closed.status, closed.epoch) == ("closed", 2)
        for call in (
            store.get_session(mine.id),
            store.activate(mine.id, host="h", lease_until=now()),
            store.commit(mine.id, 1, Batch(events=[say("late")])),
        ):
            with pytest.raises((NotFound, Fenced)):
                await call
        assert [row.id for row in await store.list_sessions("ann")] == [other.id]
        assert [row.id for row in await store.closed_sessions()] == [mine.id]
        assert (await store.close_session(mine.id, user_id="ann")).status == "closed"
        await store.delete_session(mine.id, user_id="ann")
        assert await store.closed_sessions() == []
        with pytest.raises(NotFound):
            await store.close_session(mine.id, user_id="ann")
