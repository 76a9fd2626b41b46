"""What every Store must do with a commit: all kinds of records, whole or not at all, and a command once."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime, timedelta, timezone

import pytest

from koda_ray.errors import Conflict
from koda_ray.state.records import ApprovalRecord, Batch
from koda_ray.state.store import Store
from koda_ray.types import now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import active_session, new_session, say

__all__ = ["CommitConformance"]

NAIVE = now().replace(tzinfo=None)


class CommitConformance:
    async def test_state_and_events(self, store: Store) -> None:
        mine = await active_session(store)
        state = records.working(mine.state)
        made = await store.commit(mine.id, 1, Batch(state=state, events=[say("a"), say("b")]))
        assert [event.seq for event in made] == [2, 3]
        assert {event.epoch for event in made} == {1}
        after = await store.get_session(mine.id)
        assert (after.state, after.owes, after.seq, after.lease_until) == (state, "execute", 3, mine.lease_until)
        assert after.last_activity == mine.last_activity
        assert after.updated_at > mine.updated_at
        assert await store.events(mine.id, after=1) == made
        assert await store.commit(mine.id, 1, Batch(touch=True)) == []
        touched = await store.get_session(mine.id)
        assert touched.last_activity > mine.last_activity
        assert (touched.seq, touched.state) == (3, state)

    @pytest.mark.quick
    async def test_every_kind_of_record_comes_back_as_it_was(self, store: Store) -> None:
        mine = await active_session(store)
        batch = Batch(
            command=records.command(mine, text=records.WORDS),
            messages=[records.message(mine, index) for index in range(3)],
            tool_calls=[records.tool_call(mine) for _ in range(5)],
            approvals=[records.approval(mine) for _ in range(3)],
            beads=[records.bead(mine, "2", 1), records.bead(mine, "1", 0)],
            checkpoint=records.checkpoint(mine, 1),
            sandboxes=[records.sandbox(mine)],
            jobs=[records.job(of=mine)],
        )
        batch.chunks = [records.chunk(batch.jobs[0], 1), records.chunk(batch.jobs[0], 0)]
        await store.commit(mine.id, 1, batch)
        assert await store.find_command(mine.id, "key-1") == batch.command
        assert await store.find_command(mine.id, "key-2") is None
        assert await store.messages(mine.id) == batch.messages
        assert await store.tool_calls(mine.id) == batch.tool_calls
        assert await store.approvals(mine.id) == batch.approvals
        assert await store.beads(mine.id) == batch.beads[::-1]
        assert await store.latest_checkpoint(mine.id) == batch.checkpoint
        assert await store.sandboxes(session_id=mine.id) == batch.sandboxes
        assert await store.list_jobs(session_id=mine.id) == batch.jobs
        assert await store.chunks(batch.jobs[0].id) == batch.chunks[::-1]

    async def test_names_that_no_database_takes_are_mended(self, store: Store) -> None:
        mine = await active_session(store)
        call = records.tool_call(mine, "call\0\ud83d")
        odd = dataclasses.replace(records.bead(mine, "1\0", 0), title="half \ud83d and \0", data={"t": "\ud83d\0"})
        for _ in range(2):
            await store.commit(mine.id, 1, Batch(beads=[odd], tool_calls=[call]))
        (bead,) = await store.beads(mine.id)
        assert (bead.id, bead.title, bead.data) == ("1\ufffd", "half ? and \ufffd", odd.data)
        assert [item.id for item in await store.tool_calls(mine.id)] == ["call\ufffd?"]

    async def test_records_are_replaced_by_id_and_keep_their_place(self, store: Store) -> None:
        mine = await active_session(store)
        calls = [records.tool_call(mine, call_id) for call_id in ("c", "b", "a")]
        started = calls[0].started_at
        calls = [dataclasses.replace(call, started_at=started) for call in calls]
        asked = records.approval(mine)
        await store.commit(mine.id, 1, Batch(tool_calls=calls, approvals=[asked]))
        ended = dataclasses.replace(calls[1], status="succeeded", result={"files": [1]}, ended_at=now())
        said = dataclasses.replace(asked, status="approved", answer={"text": "yes"}, resolved_at=now())
        await store.commit(mine.id, 1, Batch(tool_calls=[ended], approvals=[said]))
        assert await store.tool_calls(mine.id) == [calls[0], ended, calls[2]]
        assert await store.tool_calls(mine.id, status=("succeeded",)) == [ended]
        assert await store.tool_calls(mine.id, status=("started", "succeeded")) == [calls[0], ended, calls[2]]
        assert await store.approvals(mine.id) == [said]
        assert await store.approvals(mine.id, pending=True) == []

    async def test_approvals_come_in_pages_that_are_not_too_large(self, store: Store) -> None:
        mine = await active_session(store)
        asked = [
            dataclasses.replace(
                records.approval(mine), payload={"shown": "x" * size}, created_at=now() + timedelta(seconds=n)
            )
            for n, size in enumerate((9, 1_500_000, 9, 700_000))
        ]
        asked[0] = dataclasses.replace(asked[0], status="approved", answer={"approved": {}}, resolved_at=now())
        await store.commit(mine.id, mine.epoch, Batch(approvals=asked))
        newest = asked[::-1]

        async def pages(limit: int, *, pending: bool = False) -> list[list[ApprovalRecord]]:
            found: list[list[ApprovalRecord]] = []
            more = True
            while more:
                before = (found[-1][-1].created_at, found[-1][-1].id) if found else None
                page, more = await store.approvals_page(mine.id, pending=pending, limit=limit, before=before)
                found.append(page)
            return found

        assert await pages(3) == [newest[:2], newest[2:]]
        assert await pages(1) == [[each] for each in newest]
        assert await pages(3, pending=True) == [newest[:2], newest[2:3]]
        assert await store.approvals_page("ses_none", limit=3) == ([], False)

    async def test_ids_are_a_sessions_own(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store, "bob")
        for session in (mine, other):
            batch = Batch(beads=[records.bead(session, "1", 0)], tool_calls=[records.tool_call(session, "call_1")])
            await store.commit(session.id, 1, batch)
        closed = dataclasses.replace(records.bead(other, "1", 0), status="closed")
        await store.commit(other.id, 1, Batch(beads=[closed]))
        assert [bead.status for bead in await store.beads(mine.id)] == ["open"]
        assert [call.user_id for call in await store.tool_calls(mine.id)] == ["ann"]

    @pytest.mark.quick
    async def test_a_batch_happens_whole_or_not_at_all(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store, "bob")
        for batch in (
            Batch(events=[say("x")], messages=[records.message(mine, 0), records.message(other, 1)]),
            Batch(events=[say("x")], beads=[dataclasses.replace(records.bead(mine, "1", 0), user_id="bob")]),
            Batch(events=[say("x")], state=other.state),
            Batch(events=[say("x")], jobs=[records.job("bob", other)]),
            Batch(events=[say("x")], messages=[dataclasses.replace(records.message(mine, 0), created_at=NAIVE)]),
        ):
            with pytest.raises(Exception, match=r"in a commit to|no zone"):
                await store.commit(mine.id, 1, batch)
        assert await store.get_session(mine.id) == mine
        assert len(await store.events(mine.id)) == 1
        assert await store.messages(mine.id) == []

    async def test_messages_of_agents(self, store: Store) -> None:
        mine = await active_session(store)
        await store.commit(mine.id, 1, Batch(messages=[records.message(mine, 1), records.message(mine, 0)]))
        await store.commit(mine.id, 1, Batch(messages=[records.message(mine, 0, "codegen")]))
        assert [item.position for item in await store.messages(mine.id, agent="orchestrator")] == [0, 1]
        assert [item.agent for item in await store.messages(mine.id)][-1] == "codegen"
        assert await store.messages(mine.id, agent="nobody") == []

    async def test_the_newest_checkpoint_is_the_one_with_the_most_events(self, store: Store) -> None:
        mine = await active_session(store)
        for seq in (3, 9, 7):
            await store.commit(mine.id, 1, Batch(checkpoint=records.checkpoint(mine, seq)))
        latest = await store.latest_checkpoint(mine.id)
        assert latest is not None
        assert latest.manifest_key == "m/9"

    async def test_times_keep_their_moment(self, store: Store) -> None:
        mine = await new_session(store)
        east = timezone(timedelta(hours=5, minutes=30))
        lease = datetime(2031, 3, 4, 5, 6, 7, 123456, tzinfo=east)
        after = await store.activate(mine.id, host="h", lease_until=lease)
        assert after.lease_until == lease
        assert after.lease_until is not None
        assert after.lease_until.utcoffset() == timedelta(0)

    # --- commands

    async def test_a_command_is_applied_once(self, connect: Connect) -> None:
        store = await connect()
        mine = await active_session(store)
        first = await store.commit(mine.id, 1, Batch(command=records.command(mine, text="x"), events=[say("once")]))
        await store.commit(mine.id, 1, Batch(events=[say("later")]))
        again = Batch(
            command=records.command(mine, text="x"), events=[say("twice")], beads=[records.bead(mine, "1", 0)]
        )
        assert await store.commit(mine.id, 1, again) == first
        assert [event.data["text"] for event in await store.events(mine.id, after=1)] == ["once", "later"]
        assert await store.beads(mine.id) == []
        for other in (records.command(mine, text="y"), records.command(mine, name="accept", text="x")):
            with pytest.raises(Conflict, match="key-1"):
                await store.commit(mine.id, 1, Batch(command=other, events=[say("no")]))
        assert len(await store.events(mine.id)) == 3
        silent = Batch(command=records.command(mine, "key-2"))
        assert await store.commit(mine.id, 1, silent) == await store.commit(mine.id, 1, silent) == []

    @pytest.mark.quick
    async def test_two_commits_of_one_command_at_once(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        mine = await active_session(stores[0])
        batches = [Batch(command=records.command(mine, text="x"), events=[say("once")]) for _ in range(8)]
        made = await asyncio.gather(*(stores[i % 2].commit(mine.id, 1, batch) for i, batch in enumerate(batches)))
        assert all(events == made[0] for events in made)
        assert len(await stores[0].events(mine.id)) == 2
