"""What every Store must do with render jobs."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from pydantic import JsonValue

from koda_ray.budgets import Amounts
from koda_ray.errors import Conflict, Fenced, NotFound
from koda_ray.events import NewEvent
from koda_ray.state.charges import Bound, Reserve
from koda_ray.state.keys import video_key
from koda_ray.state.records import OWED_STATUSES, VIDEO_SWEPT, Batch, JobRecord, RendersSought, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.records import SOON, active_session, say

__all__ = ["JobConformance"]


class JobConformance:
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
        assert await store.list_jobs(user_id="ann", limit=1) == [later]
        assert await store.list_jobs(user_id="ann", limit=5, before=(later.created_at, later.id)) == [job]
        assert await store.list_jobs(user_id="bob") == []
        assert sorted(await store.job_ids("ann")) == sorted([job.id, later.id]) and await store.job_ids("bob") == []
        assert await store.job_ids("ann", among=[job.id, "job_none"]) == [job.id]
        assert await store.job_ids("ann", among=[]) == await store.job_ids("bob", among=[job.id]) == []
        assert await store.list_jobs(ids=[job.id, later.id, "job_unknown"]) == [later, job]
        assert await store.list_jobs(ids=[job.id]) == [job] and await store.list_jobs(ids=[]) == []

    @pytest.mark.quick
    async def test_who_shows_what_a_job_made_is_found_and_counts_it_once_the_job_is_gone(self, store: Store) -> None:
        mine, fork, another = [await active_session(store) for _ in range(3)]

        def done(of: SessionRecord, name: str, made_by: str, *, kept: bool = True, size: int = 0) -> JobRecord:
            told: dict[str, JsonValue] = {"videoKey": video_key("ann", made_by, "mp4")}
            told |= {} if kept else {VIDEO_SWEPT: True}
            job = dataclasses.replace(records.job(of=of), id=name, status="succeeded", result=told)
            return dataclasses.replace(job, stored_bytes=size)

        own = done(mine, "job_own", "job_own", size=70)
        longer = done(mine, "job-own", "job-own", kept=False, size=5)  # which a pattern of the other one would fit
        copies = [done(of, f"job_of_{of.id}", "job_own") for of in (fork, another)]
        for session, jobs in ((mine, [own, longer]), (fork, copies[:1]), (another, copies[1:])):
            await store.commit(session.id, session.epoch, Batch(jobs=jobs))
        shown = {own.id, *(copy.id for copy in copies)}
        assert set(await store.job_ids("ann", showing=own.id)) == shown
        assert set(await store.job_ids("ann", unswept=True)) == shown
        assert await store.job_ids("ann", showing=longer.id) == [longer.id]
        assert await store.job_ids("bob", showing=own.id) == []
        assert await store.copies("ann") == {own.id: sorted(copy.id for copy in copies)}
        assert await store.copies("bob") == {}
        assert await store.stored_bytes("ann") == 75
        await store.delete_job(own.id, user_id="ann")
        assert await store.stored_bytes("ann") == 75, "whoever shows it has it"
        assert set(await store.job_ids("ann", showing=own.id)) == shown - {own.id}
        assert set((await store.copies("ann"))[own.id]) == shown - {own.id}, "whose maker is gone"
        for session, left in ((mine, 70), (fork, 70), (another, 0)):
            await store.delete_session(session.id, user_id="ann")
            assert await store.stored_bytes("ann") == left

    async def test_how_much_it_takes_is_noted_of_the_row_that_was_looked_at_alone(self, store: Store) -> None:
        job = await store.create_job(records.job())
        await store.note_stored(job, 7)
        assert await store.get_job(job.id) == dataclasses.replace(job, stored_bytes=7)
        claimed = await store.claim_job(job.id, lease_until=now() + SOON)
        await store.note_stored(job, 9)
        assert await store.get_job(job.id) == claimed and claimed.stored_bytes == 7

    async def test_that_a_video_was_removed_is_noted_and_nothing_else_of_its_job(self, store: Store) -> None:
        mine, fork = [await active_session(store) for _ in range(2)]
        own, copy = [dataclasses.replace(records.job(of=of), status="succeeded") for of in (mine, fork)]
        result: dict[str, JsonValue] = {"videoKey": video_key("ann", own.id, "mp4"), "fileSize": 9}
        own = dataclasses.replace(own, result=result, stored_bytes=70)
        for session, job in ((mine, own), (fork, dataclasses.replace(copy, result=result))):
            await store.commit(session.id, session.epoch, Batch(jobs=[job]))
        bare = await store.create_job(records.job())
        ids = await store.job_ids("ann", showing=own.id)
        await store.delete_job(own.id, user_id="ann")  # what it took comes to count for its copy meanwhile
        for _ in range(2):
            await store.note_swept([*ids, bare.id, "job_none"])
        noted = dataclasses.replace(copy, result=result | {VIDEO_SWEPT: True}, stored_bytes=70)
        assert await store.get_job(copy.id) == noted and await store.stored_bytes("ann") == 70
        assert await store.get_job(bare.id) == dataclasses.replace(bare, result={VIDEO_SWEPT: True})
        await store.note_swept([])

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
        assert [row.id for row in await store.list_renders("ann", RendersSought(statuses=("cancelled",)))] == [
            "job_axb"
        ]
        assert [row.id for row in await store.list_renders("ann", RendersSought(id_prefix="job_a_"))] == [
            "job_a_2",
            "job_a_1",
        ]
        for sought, wanted in (
            (RendersSought(kinds=(), session_id=mine.id), 1),
            (RendersSought(session_id=mine.id), 0),
            (RendersSought(kinds=()), 4),
            (RendersSought(kinds=("preview", "final")), 1),
            (RendersSought(since=at - SOON), 3),
            (RendersSought(until=at - SOON), 0),
        ):
            assert len(await store.list_renders("ann", sought)) == wanted, sought
        job = await store.claim_job("job_a_1", lease_until=now() + SOON)
        await store.update_job(job, chunks=[records.chunk(job, 0)], events=[say("x")])
        assert not await store.delete_job(job.id, user_id="bob")
        assert not await store.delete_job(job.id, user_id="ann", unless=OWED_STATUSES)
        assert await store.get_job(job.id) == job and len(await store.chunks(job.id)) == 1
        assert [await store.delete_job(job.id, user_id="ann", unless=("queued",)) for _ in range(2)] == [True, False]
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

    @pytest.mark.quick
    async def test_no_more_renders_begin_than_there_is_room_for(self, store: Store) -> None:
        jobs = [await store.create_job(records.job()) for _ in range(6)]
        began = await asyncio.gather(
            *(store.admit_job(job.id, most=2, lease_until=now() + SOON) for job in jobs)  # all at once
        )
        first, second = (row for row in began if row is not None)
        assert (first.status, first.epoch) == ("running", 0) and first == await store.get_job(first.id)
        waiting = [job for job in jobs if job.id not in (first.id, second.id)]
        assert [await store.get_job(job.id) for job in waiting] == waiting
        # whoever works on it claims it: it is one, and nobody else may begin it
        claimed = await store.claim_job(first.id, lease_until=now() + SOON)
        assert await store.admit_job(first.id, most=9, lease_until=now() + SOON) is None
        assert await store.admit_job(waiting[0].id, most=2, lease_until=now() + SOON) is None
        await store.update_job(dataclasses.replace(claimed, status="succeeded", lease_until=None))
        assert await store.admit_job(waiting[0].id, most=2, lease_until=now() + SOON) is not None
        # one whose process is gone leaves its room, and takes one again
        await store.claim_job(second.id, lease_until=now())
        assert await store.admit_job(waiting[1].id, most=2, lease_until=now() + SOON) is not None
        assert await store.admit_job(second.id, most=2, lease_until=now() + SOON) is None
        assert await store.admit_job(second.id, most=3, lease_until=now() + SOON) is not None
        with pytest.raises(Conflict, match="succeeded"):
            await store.admit_job(first.id, most=9, lease_until=now() + SOON)
        with pytest.raises(NotFound):
            await store.admit_job(new_id("job"), most=9, lease_until=now() + SOON)

    async def test_a_sessions_renders_take_no_room(self, store: Store) -> None:
        mine = await active_session(store)
        of_it, own = records.job(of=mine), await store.create_job(records.job())
        await store.commit(mine.id, mine.epoch, Batch(jobs=[of_it]))
        await store.claim_job(of_it.id, lease_until=now() + SOON)
        assert await store.admit_job(own.id, most=1, lease_until=now() + SOON) is not None

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

    @pytest.mark.quick
    async def test_renders_whose_ids_begin_alike_are_cancelled_at_once_with_all_that_they_hold(
        self, store: Store
    ) -> None:
        def render(name: str, user_id: str = "ann") -> JobRecord:
            return dataclasses.replace(records.job(user_id), id=name, kind="render")

        mine = [await store.create_job(render(f"job_1_{name}")) for name in "dacb"]
        others = [
            await store.create_job(each) for each in (render("job_2_a"), render("job-1_a"), render("job_1_x", "bob"))
        ]
        session = await active_session(store)
        of_it = dataclasses.replace(records.job(of=session), id="job_1_of_a_session", status="running")
        await store.commit(session.id, session.epoch, Batch(jobs=[of_it]))
        done, worked, admitted, waiting = mine
        over = dataclasses.replace(await store.claim_job(done.id, lease_until=now() + SOON), status="succeeded")
        await store.update_job(over)
        claimed = await store.claim_job(worked.id, lease_until=now() + SOON)
        await store.update_job(claimed, events=[say("begun")])
        await store.admit_job(admitted.id, most=9, lease_until=now() + SOON)
        for number, job in enumerate((claimed, await store.get_job(admitted.id))):
            bounds = (Bound(account=job.id), Bound(account="month:2026-11"))
            held = Reserve(id=f"chg_{number}", kind="render", amounts=Amounts(render_ms=5), bounds=bounds)
            await store.update_job(job, charges=[held])
        ended = NewEvent(type="state_change", data={"status": "cancelled"})
        under_way = await store.cancel_renders("ann", id_prefix="job_1_", events=[ended])
        assert under_way == sorted([worked.id, admitted.id])
        for job, epoch, told in ((worked, 2, 2), (admitted, 1, 1), (waiting, 1, 1)):
            row = await store.get_job(job.id)
            assert (row.status, row.epoch, row.lease_until) == ("cancelled", epoch, None)
            events = await store.events(job.id)
            assert [each.seq for each in events] == list(range(1, told + 1))
            assert (events[-1].type, events[-1].epoch, events[-1].data) == (ended.type, epoch, ended.data)
            with pytest.raises(Conflict):
                await store.claim_job(job.id, lease_until=now())
        with pytest.raises(Fenced):
            await store.update_job(claimed)
        for job in (worked, admitted):
            assert [(charge.status, charge.held) for charge in await store.charges(job.id)] == [("refunded", {})]
        assert {account.id: account.held for account in await store.accounts("ann")} == {
            worked.id: {}, admitted.id: {}, "month:2026-11": {}
        }  # fmt: skip
        assert await store.get_job(done.id) == over and await store.events(done.id) == []
        assert [await store.get_job(each.id) for each in (*others, of_it)] == [*others, of_it]
        assert await store.cancel_renders("ann", id_prefix="job_1_", events=[ended]) == []
        assert len(await store.events(waiting.id)) == 1
        assert await store.cancel_renders("ann", id_prefix="job_none") == []

    @pytest.mark.quick
    async def test_a_sessions_render_is_ended_where_the_session_owes_nothing_and_under_its_fence(
        self, store: Store
    ) -> None:
        mine = await active_session(store)
        job = dataclasses.replace(records.job(of=mine), status="running")
        working = records.working(mine.state)
        await store.commit(mine.id, 1, Batch(jobs=[job], state=working))
        assert await store.cancel_job(job.id, user_id="ann") == job
        await store.commit(mine.id, 1, Batch(state=working.model_copy(update={"owes": None})))
        with pytest.raises(NotFound):
            await store.cancel_job(job.id, user_id="bob")
        assert (await store.cancel_job(job.id, user_id="ann")).status == "cancelled"
        await store.commit(mine.id, 1, Batch(jobs=[job]))  # it goes on with it later, as with any of its own
        assert (await store.get_job(job.id)).status == "running"

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
