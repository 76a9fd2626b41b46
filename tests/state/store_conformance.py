"""What every Store must do. A store's test module makes a subclass of `StoreConformance` with a ``connect`` fixture.

``connect`` opens a store on the test's database; each call gives a store that shares nothing with the others but the
database, as one in another process would. A store for one process gives the same one while it is open.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone

import pytest

from koda_ray.budgets import Amounts, Exceeded
from koda_ray.errors import BudgetExceeded, Conflict, Fenced, NotFound, Unavailable
from koda_ray.events import NewEvent
from koda_ray.state.charges import Accrue, Bound, Refund, Release, Reserve, Settle
from koda_ray.state.locks import locked
from koda_ray.state.store import Batch, Store
from koda_ray.state.tiers import SessionStats, TimeWindow
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.history_conformance import HistoryConformance
from tests.state.records import SOON, active_session, new_session, say

Connect = Callable[[], Awaitable[Store]]
TOKENS = Amounts(tokens=500, cost_microusd=3_000)
NAIVE = now().replace(tzinfo=None)


class StoreConformance(HistoryConformance):
    @pytest.fixture
    async def store(self, connect: Connect) -> Store:
        return await connect()

    # --- users, projects, keys

    async def test_users_and_projects_are_made_once(self, store: Store) -> None:
        for _ in range(2):
            await store.ensure_user("ann")
            await store.ensure_project("ann", "p", "My project")

    async def test_each_user_has_projects_of_their_own_whatever_they_are_called(self, store: Store) -> None:
        await store.ensure_project("ann", "bob", "What a stranger calls theirs")
        for user in ("bob", "ann", "eve"):
            await store.ensure_project(user, "bob", "Mine")
            made = await records.new_session(store, user, project_id="bob")
            upload = dataclasses.replace(records.asset(user), project_id="bob")
            await store.add_asset(upload)
            assert (await store.get_session(made.id, user_id=user)).project_id == "bob"
            assert (await store.get_asset(upload.id, user_id=user)).project_id == "bob"
            (job,) = await store.create_jobs([dataclasses.replace(records.job(user), project_id="bob")])
            assert (await store.get_job(job.id, user_id=user)).project_id == "bob"

    async def test_that_there_were_keys_is_known_when_all_are_revoked(self, store: Store) -> None:
        assert [await store.has_api_keys(), await store.has_api_keys(revoked=True)] == [False, False]
        key = await store.create_api_key("ann")
        assert [await store.has_api_keys(), await store.has_api_keys(revoked=True)] == [True, True]
        await store.revoke_api_key(key)
        assert [await store.has_api_keys(), await store.has_api_keys(revoked=True)] == [False, True]

    async def test_api_keys_belong_to_users_until_revoked(self, store: Store) -> None:
        first, second = await store.create_api_key("ann", name="laptop"), await store.create_api_key("ann")
        other = await store.create_api_key("bob")
        assert len({first, second, other}) == 3
        assert [await store.user_for_key(key) for key in (first, second, other)] == ["ann", "ann", "bob"]
        assert await store.user_for_key("koda_nonsense") is None
        assert await store.user_for_key("") is None
        known = await store.api_keys()
        assert [(one.user_id, one.name, one.revoked_at) for one in known] == [
            ("ann", "laptop", None), ("ann", "", None), ("bob", "", None)
        ]  # fmt: skip
        assert len({one.id for one in known}) == 3 and first not in repr(known)
        assert await store.user_for_key(known[0].id) is None
        assert await store.revoke_api_key(first)
        assert not await store.revoke_api_key(first)
        assert not await store.revoke_api_key(known[0].id)
        assert [one.revoked_at is None for one in await store.api_keys()] == [False, True, True]
        assert [await store.user_for_key(key) for key in (first, second)] == [None, "ann"]

    # --- making and reading sessions

    @pytest.mark.quick
    async def test_a_new_session_has_a_row_and_its_first_event(self, store: Store) -> None:
        state = records.state(owes="analyze")
        made, created = await store.create_session(state, key="k", body={"prompt": "x"})
        assert created
        assert made.state == state
        assert (made.epoch, made.seq, made.owes, made.status) == (0, 1, "analyze", "active")
        assert made.lease_until is None
        assert await store.get_session(made.id) == await store.get_session(made.id, user_id="ann") == made
        (first,) = await store.events(made.id)
        assert (first.seq, first.type, first.channel, first.epoch) == (1, "state_change", "control", 0)
        assert first.data == {
            "phase": "idle",
            "owes": "analyze",
            "state": state.model_dump(mode="json", by_alias=True),
        }

    async def test_creating_again_with_the_same_key(self, store: Store) -> None:
        made, _ = await store.create_session(records.state(), key="k", body={"a": 1, "b": [2]})
        again, created = await store.create_session(records.state(), key="k", body={"b": [2], "a": 1})
        assert not created
        assert again.id == made.id
        with pytest.raises(Conflict, match="'k'"):
            await store.create_session(records.state(), key="k", body={"a": 2})
        _, created = await store.create_session(records.state("bob"), key="k", body={"a": 2})
        assert created
        assert len(await store.list_sessions("ann")) == 1

    @pytest.mark.quick
    async def test_many_creations_with_one_key_make_one_session(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        made = await asyncio.gather(
            *(stores[index % 2].create_session(records.state(), key="k", body={}) for index in range(8))
        )
        assert sum(created for _, created in made) == 1
        assert len({record.id for record, _ in made}) == 1

    async def test_a_taken_id_is_refused(self, store: Store) -> None:
        mine = await new_session(store)
        with pytest.raises(Conflict):
            await store.create_session(mine.state, key="another", body={})

    async def test_only_the_owner_sees_a_session(self, store: Store) -> None:
        mine = await new_session(store)
        with pytest.raises(NotFound, match=mine.id):
            await store.get_session(mine.id, user_id="bob")
        with pytest.raises(NotFound):
            await store.get_session(new_id("ses"))
        assert await store.list_sessions("bob") == []

    async def test_sessions_are_listed_newest_first_in_pages(self, store: Store) -> None:
        made = [(await new_session(store)).id for _ in range(5)][::-1]
        await new_session(store, "bob")
        pages: list[list[str]] = []
        before: str | None = None
        while page := [record.id for record in await store.list_sessions("ann", limit=2, before=before)]:
            pages.append(page)
            before = page[-1]
        assert pages == [made[:2], made[2:4], made[4:]]

    # --- the fence

    async def test_activation_takes_the_session(self, store: Store) -> None:
        made = await new_session(store)
        lease = now() + SOON
        first = await store.activate(made.id, host="one", lease_until=lease)
        assert (first.epoch, first.host, first.status) == (1, "one", "active")
        assert first.lease_until == lease
        second = await store.activate(made.id, host="two", lease_until=lease)
        assert (second.epoch, second.host) == (2, "two")
        assert await store.get_session(made.id) == second
        with pytest.raises(NotFound):
            await store.activate(new_id("ses"), host="one", lease_until=lease)

    @pytest.mark.quick
    async def test_a_replaced_activation_writes_nothing(self, connect: Connect) -> None:
        old, new = await connect(), await connect()
        mine = await active_session(old)
        await new.activate(mine.id, host="two", lease_until=now() + SOON)
        before = await new.get_session(mine.id)
        batch = Batch(
            state=records.working(mine.state),
            status="closed",
            touch=True,
            lease_until=now(),
            events=[say("late")],
            command=records.command(mine),
            messages=[records.message(mine, 0)],
            tool_calls=[records.tool_call(mine)],
            approvals=[records.approval(mine)],
            beads=[records.bead(mine, "1", 0)],
            checkpoint=records.checkpoint(mine, 1),
            sandboxes=[records.sandbox(mine)],
            jobs=[records.job(of=mine)],
        )
        for epoch in (mine.epoch, 0, 99):
            with pytest.raises(Fenced, match="epoch 2"):
                await old.commit(mine.id, epoch, batch)
        await old.release(mine.id, mine.epoch)
        assert await new.get_session(mine.id) == before
        assert len(await new.events(mine.id)) == 1
        assert await new.find_command(mine.id, "key-1") is None
        assert await new.messages(mine.id) == await new.tool_calls(mine.id) == await new.approvals(mine.id) == []
        assert await new.beads(mine.id) == await new.sandboxes(session_id=mine.id) == []
        assert await new.latest_checkpoint(mine.id) is None
        assert await new.list_jobs(session_id=mine.id) == []

    async def test_a_commit_to_no_session_says_so(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.commit(new_id("ses"), 1, Batch())

    async def test_release_gives_the_lease_up(self, store: Store) -> None:
        mine = await active_session(store)
        await store.release(mine.id, mine.epoch)
        after = await store.get_session(mine.id)
        assert (after.status, after.lease_until, after.host, after.epoch) == ("suspended", None, None, mine.epoch)

    # --- what a commit changes

    async def test_state_events_and_leases(self, store: Store) -> None:
        mine = await active_session(store)
        state, lease = records.working(mine.state), now() + timedelta(hours=1)
        made = await store.commit(mine.id, 1, Batch(state=state, lease_until=lease, events=[say("a"), say("b")]))
        assert [event.seq for event in made] == [2, 3]
        assert {event.epoch for event in made} == {1}
        after = await store.get_session(mine.id)
        assert (after.state, after.owes, after.seq, after.lease_until) == (state, "execute", 3, lease)
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

    # --- events

    @pytest.mark.quick
    async def test_events_are_numbered_without_a_gap_whoever_writes(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        mine = await active_session(stores[0])

        async def write(writer: int) -> list[tuple[int, str]]:
            seen: list[tuple[int, str]] = []
            for turn in range(12):
                texts = [f"{writer}-{turn}-{part}" for part in range(1 + turn % 3)]
                made = await stores[writer % 2].commit(mine.id, 1, Batch(events=[say(text) for text in texts]))
                assert [event.data["text"] for event in made] == texts
                seen += [(event.seq, text) for event, text in zip(made, texts, strict=True)]
            return seen

        acknowledged = [pair for pairs in await asyncio.gather(*map(write, range(8))) for pair in pairs]
        stored = await stores[1].events(mine.id, after=1, limit=10_000)
        assert [event.seq for event in stored] == list(range(2, len(acknowledged) + 2))
        assert {(event.seq, event.data["text"]) for event in stored} == set(acknowledged)
        assert (await stores[0].get_session(mine.id)).seq == stored[-1].seq

    async def test_events_are_read_in_pages_from_any_number(self, store: Store) -> None:
        mine = await active_session(store)
        await store.commit(mine.id, 1, Batch(events=[say(str(index)) for index in range(10)]))
        assert [event.seq for event in await store.events(mine.id, after=4, limit=3)] == [5, 6, 7]
        assert await store.events(mine.id, after=11) == []
        assert await store.events("no-such-stream") == []

    async def test_event_data_and_causes_come_back(self, store: Store) -> None:
        mine = await active_session(store)
        data = {"text": records.WORDS, "deep": {"a": [None, 1, 2.5, False, {"b": ""}]}}
        event = NewEvent.model_validate({"type": "tool_start", "data": data, "cause_id": "call_1"})
        made = await store.commit(mine.id, 1, Batch(events=[event]))
        (stored,) = await store.events(mine.id, after=1)
        assert stored == made[0]
        assert (stored.data, stored.cause_id, stored.channel, stored.stream_id) == (data, "call_1", "progress", mine.id)

    async def test_only_old_ephemeral_events_are_pruned(self, store: Store) -> None:
        mine = await active_session(store)
        chunk = NewEvent(type="code_chunk", data={"delta": "x"})
        await store.commit(mine.id, 1, Batch(events=[chunk, say("keep"), chunk]))
        assert await store.prune_events(now() - timedelta(minutes=1)) == 0
        assert await store.prune_events(now() + timedelta(minutes=1)) == 2
        assert [(event.seq, event.type) for event in await store.events(mine.id, after=1)] == [(3, "message")]
        made = await store.commit(mine.id, 1, Batch(events=[say("next")]))
        assert made[0].seq == 5

    async def test_the_rest_of_a_log_is_counted_and_its_last_gap_found(self, store: Store) -> None:
        async def rest(stream_id: str, after: int = 0) -> tuple[int, int, int, int]:
            return dataclasses.astuple(await store.log_rest(stream_id, after))

        mine, other = await active_session(store), await active_session(store)
        await store.commit(other.id, 1, Batch(events=[say("elsewhere")] * 9))
        chunk = NewEvent(type="code_chunk", data={"delta": "x"})
        await store.commit(mine.id, 1, Batch(events=[say("2"), chunk, say("4"), chunk, chunk, say("7"), say("8")]))
        assert await rest(mine.id) == (8, 8, 5, 1)
        assert await rest(mine.id, 4) == (8, 4, 2, 5)
        assert await rest(mine.id, 8) == (8, 0, 0, 9)
        assert await rest(mine.id, 30) == (8, 0, 0, 31)
        assert await rest("no-such-stream", 3) == (0, 0, 0, 4)
        lasting = await store.events(mine.id, after=2, limit=2, lasting=True)
        assert [event.seq for event in lasting] == [4, 7]
        await store.prune_events(now() + timedelta(minutes=1))
        assert await rest(mine.id) == (8, 5, 5, 7)
        assert await rest(mine.id, 2) == (8, 3, 3, 7)
        assert await rest(mine.id, 5) == (8, 2, 2, 7)
        assert await rest(mine.id, 6) == (8, 2, 2, 7)
        await store.commit(mine.id, 1, Batch(events=[chunk, say("10"), chunk]))
        assert await rest(mine.id, 6) == (11, 5, 3, 7)
        await store.prune_events(now() + timedelta(minutes=1))
        assert await rest(mine.id, 6) == (11, 3, 3, 12)
        job = await store.create_job(records.job())
        assert (await rest(job.id))[1:] == (0, 0, 1)

    async def test_a_commit_wakes_who_waits_in_this_process(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        with store.notifier.subscribe(mine.id) as changed, store.notifier.subscribe(other.id) as untouched:
            await store.commit(mine.id, 1, Batch(events=[say("x")]))
            async with asyncio.timeout(60):
                await changed.wait()
            assert not untouched.is_set()

    # --- owed work

    async def test_owed_work_is_what_nobody_holds(self, store: Store) -> None:
        waiting = await new_session(store, owes="analyze")
        held = await active_session(store, owes="plan")
        await new_session(store)
        queued = await store.create_job(records.job())
        running = await store.create_job(records.job())
        await store.claim_job(running.id, lease_until=now() + SOON)
        at = now()
        assert {(work.kind, work.id, work.epoch, work.user_id) for work in await store.owed(at)} == {
            ("session", waiting.id, 0, "ann"),
            ("job", queued.id, 0, "ann"),
        }
        assert {work.id for work in await store.owed(at + SOON * 2)} == {waiting.id, held.id, queued.id, running.id}
        assert len(await store.owed(at + SOON * 2, limit=2)) == 2
        done = held.state.model_copy(update={"owes": None})
        await store.commit(held.id, 1, Batch(state=done))
        await store.release(held.id, 1)
        await store.commit(waiting.id, 0, Batch(status="closed"))
        assert {work.id for work in await store.owed(at + SOON * 2)} == {queued.id, running.id}

    async def test_a_sessions_jobs_are_its_own_to_finish(self, store: Store) -> None:
        mine = await active_session(store)
        await store.commit(mine.id, 1, Batch(jobs=[records.job(of=mine)]))
        alone = await store.create_job(records.job())
        assert {work.id for work in await store.owed(now()) if work.kind == "job"} == {alone.id}

    async def test_a_job_is_written_with_what_announces_it(self, store: Store) -> None:
        made = await store.create_job(records.job())
        job = await store.claim_job(made.id, lease_until=now() + SOON)
        with store.notifier.subscribe(job.id) as changed:
            await store.update_job(dataclasses.replace(job, progress={"percent": 5.0}), events=[say("one"), say("two")])
            async with asyncio.timeout(60):
                await changed.wait()
        await store.append_job_events(job.id, job.epoch, [say("three")])
        await store.update_job(job, chunks=[records.chunk(job, 0)])
        await store.update_job(dataclasses.replace(job, status="succeeded"), events=[say("four")])
        told = await store.events(job.id)
        assert [(event.seq, event.data["text"]) for event in told] == [
            (1, "one"),
            (2, "two"),
            (3, "three"),
            (4, "four"),
        ]
        other = await store.claim_job((await store.create_job(records.job())).id, lease_until=now() + SOON)
        await store.cancel_job(other.id, user_id=other.user_id)
        with pytest.raises(Fenced):
            await store.update_job(dataclasses.replace(other, progress={"percent": 9.0}), events=[say("late")])
        assert await store.events(other.id) == [] and (await store.get_job(other.id)).progress == {}

    async def test_idle_sessions_are_those_unused_that_owe_nothing(self, store: Store) -> None:
        idle = await new_session(store)
        await new_session(store, owes="plan")
        assert await store.idle_sessions(now() - SOON) == []
        assert [record.id for record in await store.idle_sessions(now() + SOON)] == [idle.id]

    # --- jobs

    async def test_a_job_is_made_once(self, store: Store) -> None:
        job = records.job()
        assert await store.create_job(job) == job
        again = dataclasses.replace(job, spec={"fps": 1})
        assert await store.create_job(again) == job == await store.get_job(job.id, user_id="ann")
        for call in (store.get_job(job.id, user_id="bob"), store.get_job(new_id("job"))):
            with pytest.raises(NotFound):
                await call
        with pytest.raises(NotFound):
            await store.create_job(dataclasses.replace(job, user_id="bob", project_id="prj-bob"))
        later = await store.create_job(records.job())
        assert await store.list_jobs(user_id="ann") == [later, job]
        assert await store.list_jobs(user_id="bob") == []

    async def test_jobs_are_made_together_or_not_at_all(self, store: Store) -> None:
        jobs = [dataclasses.replace(records.job(), spec={"row": row}) for row in range(3)]
        assert await store.create_jobs(jobs[:2]) == jobs[:2]
        claimed = await store.claim_job(jobs[0].id, lease_until=now() + SOON)
        planned = dataclasses.replace(claimed, spec={**claimed.spec, "planned": True})
        await store.update_job(planned)
        assert await store.create_jobs(jobs) == [planned, *jobs[1:]]  # what was added to a row since is no difference
        assert await store.create_jobs([]) == []
        fresh = records.job()
        with pytest.raises(Conflict, match=jobs[1].id):
            await store.create_jobs([fresh, dataclasses.replace(jobs[1], spec={"row": 9})])
        with pytest.raises(NotFound):
            await store.create_jobs([fresh, dataclasses.replace(jobs[2], user_id="bob", project_id="prj-bob")])
        with pytest.raises(NotFound):
            await store.get_job(fresh.id)

    async def test_renders_come_a_page_at_a_time_and_go_with_everything(self, store: Store) -> None:
        mine = await active_session(store)
        await store.commit(mine.id, mine.epoch, Batch(jobs=[records.job(of=mine)]))
        at = now()
        made = [
            await store.create_job(dataclasses.replace(records.job(), kind="render", id=f"job_{name}", created_at=at))
            for name in ("a_1", "axb", "a_2")  # made at one moment
        ]
        await store.create_job(dataclasses.replace(records.job("bob"), kind="render"))
        await store.cancel_job("job_axb", user_id="ann")
        assert [row.id for row in await store.list_renders("ann", limit=2)] == ["job_axb", "job_a_2"]
        assert [row.id for row in await store.list_renders("ann", before=(at, "job_a_2"))] == ["job_a_1"]
        assert [row.id for row in await store.list_renders("ann", statuses=["cancelled"])] == ["job_axb"]
        assert [row.id for row in await store.list_renders("ann", id_prefix="job_a_")] == ["job_a_2", "job_a_1"]
        job = await store.claim_job("job_a_1", lease_until=now() + SOON)
        await store.update_job(job, chunks=[records.chunk(job, 0)], events=[say("x")])
        await store.delete_job(job.id, user_id="bob")
        assert await store.get_job(job.id) == job
        for _ in range(2):
            await store.delete_job(job.id, user_id="ann")
        assert await store.chunks(job.id) == [] and await store.events(job.id) == []
        with pytest.raises(NotFound):
            await store.update_job(job)
        assert [row.id for row in await store.list_renders("ann")] == [made[1].id, made[2].id]

    @pytest.mark.quick
    async def test_a_job_is_worked_on_by_one(self, store: Store) -> None:
        job = await store.create_job(records.job())
        first = await store.claim_job(job.id, lease_until=now() + SOON)
        assert (first.epoch, first.status) == (1, "running")
        moved = dataclasses.replace(first, progress={"percent": 50}, lease_until=now() + SOON * 2)
        chunks = [records.chunk(job, unit) for unit in (1, 0)]
        await store.update_job(moved, chunks=chunks)
        assert await store.get_job(job.id) == moved
        second = await store.claim_job(job.id, lease_until=now() + SOON)
        with pytest.raises(Fenced, match="epoch 2"):
            await store.update_job(moved, chunks=[records.chunk(job, 7)])
        with pytest.raises(Fenced):
            await store.append_job_events(job.id, 1, [say("late")])
        assert await store.chunks(job.id) == chunks[::-1]
        again = dataclasses.replace(chunks[0], attempts=2)
        done = dataclasses.replace(second, status="succeeded", result={"key": "v"}, lease_until=None)
        await store.update_job(done, chunks=[again])
        assert await store.get_job(job.id) == done
        assert await store.chunks(job.id) == [chunks[1], again]
        with pytest.raises(Conflict, match="succeeded"):
            await store.claim_job(job.id, lease_until=now() + SOON)
        for call in (
            store.claim_job("job_none", lease_until=now()),
            store.update_job(dataclasses.replace(done, id="job_none")),
        ):
            with pytest.raises(NotFound):
                await call

    async def test_a_job_has_a_stream_of_its_own(self, store: Store) -> None:
        job = await store.create_job(records.job())
        await store.claim_job(job.id, lease_until=now() + SOON)
        event = NewEvent(type="render_progress", data={"percent": 1})
        made = await asyncio.gather(*(store.append_job_events(job.id, 1, [event, event]) for _ in range(5)))
        assert sorted(item.seq for events in made for item in events) == list(range(1, 11))
        assert [item.seq for item in await store.events(job.id)] == list(range(1, 11))

    async def test_cancelling_fences_the_worker(self, store: Store) -> None:
        job = await store.create_job(records.job())
        mine = await store.claim_job(job.id, lease_until=now() + SOON)
        with pytest.raises(NotFound):
            await store.cancel_job(job.id, user_id="bob")
        cancelled = await store.cancel_job(job.id, user_id="ann")
        assert (cancelled.status, cancelled.lease_until) == ("cancelled", None)
        with pytest.raises(Fenced):
            await store.update_job(mine)
        assert await store.cancel_job(job.id, user_id="ann") == cancelled
        with pytest.raises(Conflict):
            await store.claim_job(job.id, lease_until=now())

    async def test_a_sessions_commit_does_not_undo_a_claimed_job(self, store: Store) -> None:
        mine = await active_session(store)
        job = records.job(of=mine)
        await store.commit(mine.id, 1, Batch(jobs=[job]))
        await store.commit(mine.id, 1, Batch(jobs=[dataclasses.replace(job, progress={"n": 1})]))
        assert (await store.get_job(job.id)).progress == {"n": 1}
        claimed = await store.claim_job(job.id, lease_until=now() + SOON)
        await store.commit(mine.id, 1, Batch(jobs=[job]))
        assert await store.get_job(job.id) == claimed
        with pytest.raises(Fenced):
            await store.commit(mine.id, 1, Batch(jobs=[dataclasses.replace(job, status="failed")], events=[say("x")]))
        assert len(await store.events(mine.id)) == 1

    # --- assets and sandboxes

    async def test_assets_are_given_to_a_session_together(self, store: Store) -> None:
        mine, other = await new_session(store), await new_session(store)
        assets = [records.asset() for _ in range(3)]
        for asset in [*assets, assets[0]]:
            await store.add_asset(asset)
        foreign = records.asset("bob")
        await store.add_asset(foreign)
        assert await store.get_asset(assets[0].id, user_id="ann") == assets[0]
        with pytest.raises(NotFound):
            await store.get_asset(foreign.id, user_id="ann")
        for ids in ([assets[0].id, foreign.id], [assets[0].id, "ast_none"]):
            with pytest.raises(NotFound, match=ids[1]):
                await store.attach_assets(ids, user_id="ann", session_id=mine.id)
        assert await store.assets(user_id="ann", session_id=mine.id) == []
        ids = [asset.id for asset in assets]
        for _ in range(2):
            await store.attach_assets(ids, user_id="ann", session_id=mine.id)
        assert [asset.id for asset in await store.assets(user_id="ann", session_id=mine.id)] == ids
        assert await store.assets(user_id="bob", session_id=mine.id) == []
        with pytest.raises(Conflict):
            await store.attach_assets(ids[:1], user_id="ann", session_id=other.id)
        with pytest.raises(NotFound):
            await store.attach_assets([foreign.id], user_id="bob", session_id=mine.id)
        await store.attach_assets([], user_id="ann", session_id=mine.id)

    async def test_a_session_is_made_with_its_assets_or_not_at_all(self, store: Store) -> None:
        assets = [records.asset() for _ in range(3)]
        for asset in assets:
            await store.add_asset(asset)
        ids = tuple(asset.id for asset in assets)
        made = await new_session(store, asset_ids=ids[:2])
        assert [asset.id for asset in await store.assets(user_id="ann", session_id=made.id)] == [*ids[:2]]
        with pytest.raises(Conflict, match=ids[1]):
            await new_session(store, asset_ids=(ids[2], ids[1]))
        with pytest.raises(NotFound, match=ids[2]):
            await new_session(store, "bob", asset_ids=(ids[2],))
        assert await store.list_sessions("bob") == []
        assert [row.id for row in await store.list_sessions("ann")] == [made.id]
        assert (await store.get_asset(ids[2], user_id="ann")).session_id is None

    async def test_sandboxes_live_until_somebody_says_otherwise(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        first, second = records.sandbox(mine), records.sandbox(other)
        await store.commit(mine.id, 1, Batch(sandboxes=[first]))
        await store.commit(other.id, 1, Batch(sandboxes=[second]))
        ready = dataclasses.replace(first, status="ready", provider_id="pid-1")
        await store.commit(mine.id, 1, Batch(sandboxes=[ready]))
        assert await store.sandboxes() == [ready, second]
        await store.sandbox_destroyed(first.id)
        await store.sandbox_destroyed("sbx_none")
        assert await store.sandboxes() == [second]
        assert await store.sandboxes(session_id=mine.id) == []
        gone = await store.sandboxes(session_id=mine.id, live=False)
        assert gone == [dataclasses.replace(ready, status="destroyed")]

    async def test_a_sandbox_without_a_session_is_its_users(self, store: Store) -> None:
        session = await active_session(store)
        of_session = records.sandbox(session)
        await store.commit(session.id, 1, Batch(sandboxes=[of_session]))
        first, second, foreign = records.own_sandbox(), records.own_sandbox(), records.own_sandbox("bob")
        for one in (first, second, foreign):
            await store.put_sandbox(one)
        ready = dataclasses.replace(first, status="ready", provider_id="pid-1")
        await store.put_sandbox(ready)
        assert await store.own_sandboxes(user_id="ann") == [ready, second]
        assert await store.own_sandboxes() == [ready, second, foreign]
        assert await store.sandboxes() == [of_session, ready, second, foreign]
        assert await store.get_sandbox(first.id, user_id="ann") == ready
        for sandbox_id, user_id in ((first.id, "bob"), (of_session.id, "ann"), ("sbx_none", "ann")):
            with pytest.raises(NotFound, match=sandbox_id):
                await store.get_sandbox(sandbox_id, user_id=user_id)
        await store.sandbox_destroyed(first.id, why="its memory was over")
        await store.sandbox_destroyed(first.id, why="it is not there")  # who comes later knows less
        gone = dataclasses.replace(ready, status="destroyed", ended="its memory was over")
        assert await store.own_sandboxes(user_id="ann") == [second]
        assert await store.own_sandboxes(user_id="ann", live=False) == [gone, second]
        assert await store.get_sandbox(first.id, user_id="ann") == gone
        await store.close_session(session.id, user_id="ann")
        await store.delete_session(session.id, user_id="ann")
        assert await store.sandboxes() == [second, foreign]

    async def test_a_database_has_one_name_whoever_asks_first(self, store: Store) -> None:
        names = set(await asyncio.gather(*(store.deployment() for _ in range(8))))
        (name,) = names
        assert re.fullmatch(r"dep_[0-9a-f]{12}", name)
        await store.close()
        await store.open()
        assert await store.deployment() == name

    async def test_what_has_ended_is_not_begun_again_by_whoever_was_slow(self, store: Store) -> None:
        box, image = records.own_sandbox(), records.image()
        assert await store.put_sandbox(box) and await store.put_image(image)
        assert await store.put_sandbox(dataclasses.replace(box, expires_at=now() + SOON))
        await store.sandbox_destroyed(box.id)
        assert await store.put_image(dataclasses.replace(image, status="removed"))
        assert not await store.put_sandbox(dataclasses.replace(box, status="ready"))
        assert not await store.put_image(dataclasses.replace(image, status="ready"))
        assert await store.own_sandboxes() == await store.images() == []

    async def test_of_many_made_at_once_no_more_begin_than_may_be(self, store: Store, connect: Connect) -> None:
        doors = store, await connect()
        session = await active_session(store)
        await store.commit(session.id, 1, Batch(sandboxes=[records.sandbox(session)]))  # a session's counts for itself
        boxes, images = [records.own_sandbox() for _ in range(10)], [records.image() for _ in range(10)]
        elsewhere, foreign = dataclasses.replace(records.own_sandbox(), place="89ab.cdef"), records.own_sandbox("bob")
        asked = enumerate((*boxes, elsewhere, foreign))
        added = await asyncio.gather(*(doors[turn % 2].add_sandbox(box, most=3) for turn, box in asked))
        made = [box.id for box, made in zip(boxes, added, strict=False) if made]
        assert len(made) == 3 and added[-2:] == [True, True]
        assert {row.id for row in await store.own_sandboxes()} == {*made, elsewhere.id, foreign.id}
        begun = await asyncio.gather(*(doors[turn % 2].add_image(one, most=3) for turn, one in enumerate(images)))
        assert sum(begun) == 3
        assert len(await store.images()) == 3
        await store.sandbox_destroyed(made[0])
        first, *_ = await store.images()
        await store.put_image(dataclasses.replace(first, status="removed"))
        again = [records.own_sandbox(), records.own_sandbox()], [records.image(), records.image()]
        assert [await store.add_sandbox(box, most=3) for box in again[0]] == [True, False]
        assert [await store.add_image(image, most=3) for image in again[1]] == [True, False]
        assert await store.get_image(again[1][0].id, user_id="ann") == again[1][0]

    async def test_an_image_is_its_users_until_it_is_removed(self, store: Store) -> None:
        first, second, foreign = records.image(), records.image(), records.image("bob")
        for one in (first, second, foreign):
            await store.put_image(one)
        ready = dataclasses.replace(first, status="ready", provider_id="/images/one")
        await store.put_image(dataclasses.replace(ready, user_id="bob"))  # whose it is stays
        assert await store.images(user_id="ann") == [ready, second]
        assert await store.images() == [ready, second, foreign]
        assert await store.get_image(first.id, user_id="ann") == ready
        await store.put_image(dataclasses.replace(second, status="removed"))
        assert await store.images(user_id="ann") == [ready]
        for image_id, user_id in ((first.id, "bob"), (second.id, "ann"), ("img_none", "ann")):
            with pytest.raises(NotFound, match=image_id):
                await store.get_image(image_id, user_id=user_id)

    async def test_a_process_has_one_row_in_its_sandbox(self, store: Store) -> None:
        mine, other = records.own_sandbox(), records.own_sandbox()
        for box in (mine, other):
            await store.put_sandbox(box)
        server, shell, elsewhere = records.process(mine), records.process(mine, "a-shell"), records.process(other)
        for one in (server, shell, elsewhere):
            await store.put_process(one)
        assert await store.sandbox_processes(mine.id) == [shell, server]
        again = dataclasses.replace(server, command="npm run dev", run="1e" * 16, ended_at=now(), exit_code=7)
        await store.put_process(again)
        assert await store.sandbox_processes(mine.id) == [shell, again]
        for _ in range(2):
            await store.forget_process(mine.id, "server")
        await store.forget_process("sbx_none", "server")
        assert await store.sandbox_processes(mine.id) == [shell]
        await store.sandbox_destroyed(mine.id)
        assert await store.sandbox_processes(mine.id) == []
        assert not await store.put_process(server)  # whoever launched it was slower than whoever ended all of it
        assert not await store.put_process(records.process(records.own_sandbox()))
        assert await store.sandbox_processes(mine.id) == []
        assert await store.sandbox_processes(other.id) == [elsewhere]

    # --- deleting

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

    # --- questions

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

    async def test_messages_and_calls_are_found_by_what_they_are(self, store: Store) -> None:
        mine, other, foreign = [await active_session(store, user) for user in ("ann", "ann", "bob")]
        messages = [records.message(mine, 0), records.message(mine, 1, "codegen"), records.message(mine, 2, "critic")]
        messages[2] = dataclasses.replace(messages[2], role="assistant")
        calls = [records.tool_call(mine), records.tool_call(mine), records.tool_call(other), records.tool_call(foreign)]
        calls[1] = dataclasses.replace(calls[1], name="render", status="failed")
        for session in (mine, other, foreign):
            batch = Batch(tool_calls=[call for call in calls if call.session_id == session.id])
            batch.messages = [message for message in messages if message.session_id == session.id]
            await store.commit(session.id, 1, batch)
        newest = messages[::-1]
        assert await store.query_messages(mine.id) == newest
        assert await store.query_messages(mine.id, agents=["codegen", "critic"]) == newest[:2]
        assert await store.query_messages(mine.id, role="user") == newest[1:]
        at = messages[1].created_at
        assert await store.query_messages(mine.id, window=TimeWindow(since=at)) == newest[:2]
        assert await store.query_messages(mine.id, window=TimeWindow(until=at)) == newest[2:]
        assert await store.query_messages(mine.id, window=TimeWindow(limit=1)) == newest[:1]
        assert await store.query_tool_calls("ann") == calls[2::-1]
        assert await store.query_tool_calls("ann", session_id=mine.id) == calls[1::-1]
        assert await store.query_tool_calls("ann", session_id=foreign.id) == []
        assert await store.query_tool_calls("ann", names=["render"]) == [calls[1]]
        assert await store.query_tool_calls("ann", statuses=["started"]) == [calls[2], calls[0]]

    async def test_a_session_is_counted(self, store: Store) -> None:
        mine = await active_session(store)
        done = dataclasses.replace(records.approval(mine), status="approved")
        batch = Batch(
            events=[say("a"), say("b")],
            messages=[records.message(mine, 0), records.message(mine, 1), records.message(mine, 2, "codegen")],
            tool_calls=[records.tool_call(mine), dataclasses.replace(records.tool_call(mine), status="succeeded")],
            approvals=[records.approval(mine), done],
            checkpoint=records.checkpoint(mine, 1),
        )
        await store.commit(mine.id, 1, batch)
        assert await store.session_stats(mine.id) == SessionStats(
            messages={"orchestrator": 2, "codegen": 1},
            tool_calls={"started": 1, "succeeded": 1},
            pending_approvals=1,
            checkpoints=1,
            events=3,
        )
        assert await store.session_stats(new_id("ses")) == SessionStats()

    # --- how it is

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

    # --- opening and closing

    # --- what work costs

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

    async def test_the_same_charge_again_changes_nothing(self, store: Store) -> None:
        mine = await active_session(store)
        bounds = records.bounds(mine)
        moves = [
            Reserve(id="c", kind="model", amounts=TOKENS, bounds=bounds),
            Settle(id="c", spent=Amounts(tokens=7), bounds=bounds),
            Settle(id="c", spent=Amounts(tokens=9), bounds=bounds),
            Refund(id="c", reason="late"),
        ]
        for move in [*moves, *moves]:
            await store.commit(mine.id, 1, Batch(charges=[move]))
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
            moves = [
                Settle(id="a", spent=Amounts(tokens=10), bounds=records.bounds(each)),
                Reserve(id="b", kind="model", amounts=TOKENS, bounds=records.bounds(each)),
            ]
            await store.commit(each.id, 1, Batch(charges=moves))
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
