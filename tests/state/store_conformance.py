"""What every Store must do. A store's test module makes a subclass of `StoreConformance` with a ``connect`` fixture.

``connect`` opens a store on the test's database; each call gives a store that shares nothing with the others but the
database, as one in another process would.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone

import pytest

from koda_ray.errors import Conflict, Fenced, NotFound
from koda_ray.events import NewEvent
from koda_ray.state.store import Batch, Store
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.records import SOON, active_session, new_session, say

Connect = Callable[[], Awaitable[Store]]
NAIVE = now().replace(tzinfo=None)


class StoreConformance:
    @pytest.fixture
    async def store(self, connect: Connect) -> Store:
        return await connect()

    # --- users, projects, keys

    async def test_users_and_projects_are_made_once(self, store: Store) -> None:
        for _ in range(2):
            await store.ensure_user("ann")
            await store.ensure_project("ann", "p", "My project")
        with pytest.raises(NotFound):
            await store.ensure_project("bob", "p", "Mine now")
        await store.ensure_project("ann", "p", "My project")

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

    async def test_many_creations_with_one_key_make_one_session(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        made = await asyncio.gather(
            *(stores[index % 2].create_session(records.state(), key="k", body={}) for index in range(8))
        )
        assert sum(created for _, created in made) == 1
        assert len({record.id for record, _ in made}) == 1

    async def test_a_taken_id_or_project_is_refused(self, store: Store) -> None:
        mine = await new_session(store)
        with pytest.raises(Conflict):
            await store.create_session(mine.state, key="another", body={})
        with pytest.raises(NotFound):
            await store.create_session(records.state("bob", project_id=mine.project_id), key="k", body={})

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

    async def test_two_commits_of_one_command_at_once(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        mine = await active_session(stores[0])
        batches = [Batch(command=records.command(mine, text="x"), events=[say("once")]) for _ in range(8)]
        made = await asyncio.gather(*(stores[i % 2].commit(mine.id, 1, batch) for i, batch in enumerate(batches)))
        assert all(events == made[0] for events in made)
        assert len(await stores[0].events(mine.id)) == 2

    # --- events

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
        assert (stored.data, stored.cause_id, stored.channel, stored.stream_id) == (data, "call_1", "monitor", mine.id)

    async def test_only_old_ephemeral_events_are_pruned(self, store: Store) -> None:
        mine = await active_session(store)
        chunk = NewEvent(type="code_chunk", data={"delta": "x"})
        await store.commit(mine.id, 1, Batch(events=[chunk, say("keep"), chunk]))
        assert await store.prune_events(now() - timedelta(minutes=1)) == 0
        assert await store.prune_events(now() + timedelta(minutes=1)) == 2
        assert [(event.seq, event.type) for event in await store.events(mine.id, after=1)] == [(3, "message")]
        made = await store.commit(mine.id, 1, Batch(events=[say("next")]))
        assert made[0].seq == 5

    async def test_a_commit_wakes_who_waits_in_this_process(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        with store.notifier.subscribe(mine.id) as changed, store.notifier.subscribe(other.id) as untouched:
            await store.commit(mine.id, 1, Batch(events=[say("x")]))
            async with asyncio.timeout(5):
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
            async with asyncio.timeout(5):
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

    # --- deleting

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

    # --- opening and closing

    async def test_what_was_committed_is_there_for_the_next(self, connect: Connect) -> None:
        first = await connect()
        mine = await active_session(first)
        await first.commit(mine.id, 1, Batch(events=[say("x")]))
        await first.close()
        await first.close()
        second = await connect()
        assert (await second.get_session(mine.id)).seq == 2
        await first.open()
        assert (await first.get_session(mine.id)).seq == 2
        await first.open()
