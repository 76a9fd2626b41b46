"""What users share, and how much of it each may have: content, looks at the log, queues and uploads."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest
from pydantic import JsonValue

from koda_ray.errors import Conflict, LimitReached, NotFound, Unavailable
from koda_ray.state.lookout import Newest
from koda_ray.state.past import ForkedSession, Past
from koda_ray.state.records import Batch, CommandRecord, JobRecord, RenderQuota, SessionQuota, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import Output, Preview, new_id, now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.conformance.history import forked
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
        assert await store.take_content("ann", holder="h", lease_until=until) is None, "a page render"
        await store.delete_job(alone.id, user_id="ann")
        lock = await store.take_content("ann", holder="h", lease_until=until)
        assert lock is not None and lock.holder == "h" and job.session_id == session.id
        with pytest.raises(Unavailable):
            await store.take_content("ann", holder="other", lease_until=until)
        assert await new_session(store, "bob") is not None, "others begin"
        assert (await store.renew_lock(lock, lease_until=until)).epoch == lock.epoch
        await store.release_lock(lock)
        assert await new_session(store) is not None

    async def test_a_bundle_is_taken_only_where_nobody_names_it_or_may_be_about_to(self, store: Store) -> None:
        leaving, other = await active_session(store), await active_session(store)
        until, bundle = now() + SOON, "ab" * 32
        spec: dict[str, JsonValue] = {"bundle": bundle}
        await store.create_job(dataclasses.replace(records.job(), session_id=leaving.id, spec=spec))
        alone = await store.create_job(dataclasses.replace(records.job(), spec=spec, status="succeeded"))
        await store.close_session(leaving.id, user_id="ann")

        async def taken(user_id: str = "ann", named: str = bundle, *, finished: bool = True) -> bool:
            lock = await store.take_bundle(user_id, named, holder="h", lease_until=until, finished=finished)
            if lock is not None:
                with pytest.raises(Unavailable):
                    await store.take_bundle(user_id, named, holder="other", lease_until=until)
                await store.release_lock(lock)
            return lock is not None

        assert [await taken(), await taken(finished=False), await taken("bob"), await taken(named="cd" * 32)] == [
            False,
            True,
            True,
            True,
        ]
        await store.delete_job(alone.id, user_id="ann")
        assert await taken()
        working = await store.activate(other.id, host="here", lease_until=until)
        await store.commit(other.id, working.epoch, Batch(state=working.state.model_copy(update={"owes": "execute"})))
        assert not await taken() and not await taken(named="cd" * 32, finished=False), "it may be about to name any"
        await store.commit(other.id, working.epoch, Batch(state=working.state.model_copy(update={"owes": None})))
        running = dataclasses.replace(records.job(), spec=spec, session_id=other.id, status="running")
        await store.commit(other.id, working.epoch, Batch(jobs=[running]))
        assert not await taken(finished=False)

    async def test_who_works_waits_until_nothing_is_removed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("koda_ray.state.content._WAIT_S", 0.05)
        await store.ensure_user("ann")
        await store.use_content("ann")
        lock = await store.take_bundle("ann", "ab" * 32, holder="h", lease_until=now() + SOON)
        assert lock is not None
        with pytest.raises(Unavailable, match="is being removed"):
            await store.use_content("ann")
        await store.use_content("bob")
        monkeypatch.setattr("koda_ray.state.content._WAIT_S", 60.0)
        waiting = asyncio.create_task(store.use_content("ann"))
        await store.release_lock(lock)
        await waiting

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

    async def test_users_take_turns_with_their_renders(self, store: Store) -> None:
        at = now() - timedelta(hours=1)

        async def queue(user_id: str, minutes: int) -> str:
            early = at + timedelta(minutes=minutes)
            job = dataclasses.replace(records.job(user_id), created_at=early, updated_at=early)
            return (await store.create_job(job)).id

        ann = [await queue("ann", minute) for minute in range(4)]
        bob = [await queue("bob", 10 + minute) for minute in range(2)]
        cleo = [await queue("cleo", 20)]
        in_turn = [work.id for work in await store.owed(now())]
        assert in_turn == [ann[0], bob[0], cleo[0], ann[1], bob[1], ann[2], ann[3]]
        for job_id in (ann[0], ann[1]):
            await store.claim_job(job_id, lease_until=now() + SOON)
        # what is under way is a turn that was had
        assert [work.id for work in await store.owed(now())] == [bob[0], cleo[0], bob[1], ann[2], ann[3]]
        assert [work.id for work in await store.owed(now(), limit=2)] == [bob[0], cleo[0]]
        assert [work.id for work in await store.owed(now() + SOON * 2)][:3] == [bob[0], cleo[0], ann[0]], "a lease over"

    async def test_a_user_has_so_many_renders_and_no_more(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        old = dataclasses.replace(records.job(), kind="render")
        assert await stores[0].create_job(old, quota=RenderQuota(renders=1)) == old
        many = [dataclasses.replace(records.job(), kind="render") for _ in range(6)]
        made = await asyncio.gather(
            *(stores[index % 2].create_job(job, quota=RenderQuota(renders=4)) for index, job in enumerate(many)),
            return_exceptions=True,
        )
        refused = [each for each in made if isinstance(each, LimitReached)]
        assert len(refused) == 3 and refused[0].status == 429 and "KODA_USER_RENDERS" in refused[0].message
        assert await stores[0].create_job(old, quota=RenderQuota(renders=1)) == old, "one that is there is no new one"
        with pytest.raises(LimitReached):
            await stores[0].create_jobs(
                [many[0], many[1], dataclasses.replace(many[2], id=new_id("job"))], quota=RenderQuota(renders=4)
            )
        assert sum((await stores[0].count_renders("ann")).values()) == 4, "all or none"
        other = dataclasses.replace(records.job("bob"), kind="render")
        assert await stores[1].create_jobs([other], quota=RenderQuota(renders=1)) == [other]
        await stores[0].cancel_job(old.id, user_id="ann")
        assert await stores[0].create_job(
            dataclasses.replace(records.job(), kind="render"), quota=RenderQuota(renders=4)
        )

    async def test_a_user_has_so_many_seconds_of_video_waiting_and_no_more(self, connect: Connect) -> None:
        stores, quota = [await connect(), await connect()], RenderQuota(video_s=30.0)

        def video(user_id: str = "ann", seconds: float = 10.0) -> JobRecord:
            return dataclasses.replace(records.job(user_id), kind="render", video_s=seconds)

        many = [video() for _ in range(6)]
        made = await asyncio.gather(
            *(stores[index % 2].create_job(job, quota=quota) for index, job in enumerate(many)), return_exceptions=True
        )
        refused = [each for each in made if isinstance(each, LimitReached)]
        assert len(refused) == 3 and "KODA_USER_RENDER_S" in refused[0].message
        with pytest.raises(LimitReached):
            await stores[0].create_jobs([video(seconds=0.5), video(seconds=0.5)], quota=quota)
        await stores[1].create_jobs([video("bob", 15.0), video("bob", 15.0)], quota=quota)
        first = next(job for job, each in zip(many, made, strict=True) if each == job)
        running = await stores[0].claim_job(first.id, lease_until=now() + SOON)
        await stores[0].update_job(dataclasses.replace(running, video_s=4.0))
        assert (await stores[0].create_job(video(seconds=6.0), quota=quota)).video_s == 6.0, (
            "it is shorter than was said"
        )
        with pytest.raises(LimitReached):
            await stores[0].create_job(video(seconds=0.1), quota=quota)

    @pytest.mark.quick
    async def test_final_videos_that_sessions_are_asked_for_are_among_them(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        shown = Preview(video_url="v", job_id="job-p", bundle="b", duration=10.0)
        sessions = [await new_session(stores[0], phase="preview", preview=shown) for _ in range(4)]

        def judge(row: SessionRecord, waiting: object) -> dict[str, JsonValue]:
            return {"owes": "render_final"}

        async def accept(index: int, most_s: float = 25.0) -> CommandRecord:
            asked = records.command(sessions[index], name="accept")
            return (await stores[index % 2].receive(asked, judge, most_video_s=most_s))[0]

        made = await asyncio.gather(*(accept(index) for index in range(4)), return_exceptions=True)
        refused = [each for each in made if isinstance(each, LimitReached)]
        assert len(refused) == 2 and refused[0].status == 429 and "KODA_USER_RENDER_S" in refused[0].message, made
        (one, two), (out, _) = (
            [index for index, each in enumerate(made) if isinstance(each, LimitReached) is no] for no in (False, True)
        )
        assert await accept(one) == made[one], "a repeat is no other"
        assert await stores[0].inbox(sessions[out].id) == [], "nothing of what is refused is left"
        plain, _ = await stores[0].receive(
            records.command(sessions[out], "plain"), lambda row, waiting: {"owes": None}, most_video_s=1.0
        )
        assert plain.key == "plain", "what asks for no video is taken"
        page = dataclasses.replace(records.job(), kind="render", video_s=6.0)
        with pytest.raises(LimitReached):
            await stores[1].create_job(page, quota=RenderQuota(video_s=25.0))
        owing = sessions[one].state.model_copy(update={"owes": "render_final", "output": Output(job_id="job-f")})
        row = await stores[0].activate(sessions[one].id, host="h", lease_until=now() + SOON)
        await stores[0].commit(row.id, row.epoch, Batch(command=made[one], state=owing))
        with pytest.raises(LimitReached):
            await accept(out)
        final = dataclasses.replace(
            records.job(), id="job-f", session_id=row.id, kind="final", status="running", video_s=10.0
        )
        await stores[0].commit(row.id, row.epoch, Batch(jobs=[final]))
        assert (await accept(out, 30.0)).name == "accept", "what was begun is not counted a second time"
        assert two != one

    @pytest.mark.quick
    async def test_a_session_counts_once_and_by_the_last_that_waits_for_it(self, store: Store) -> None:
        words = 'so \x00 "preview":{"duration":90} \\'
        shown = Preview(video_url=words, job_id="job-p", bundle="b", duration=40.0)
        mine, other = [await new_session(store, phase="preview", prompt=words, preview=shown) for _ in range(2)]

        async def ask(of: SessionRecord, name: str, owes: str | None) -> None:
            asked = records.command(of, new_id("cmd"), name=name)
            await store.receive(asked, lambda row, waiting: {"owes": owes}, most_video_s=50.0)

        await ask(mine, "accept", "render_final")
        await ask(mine, "permissions", "render_final")  # asks for no video, with one that waits
        await store.create_job(dataclasses.replace(records.job(), kind="render"), quota=RenderQuota(video_s=40.0))
        with pytest.raises(LimitReached):
            await ask(other, "accept", "render_final")
        await ask(mine, "cancel", None)
        await ask(other, "accept", "render_final")
        with pytest.raises(LimitReached):
            await ask(mine, "accept", "render_final")
        assert [each.name for each in await store.inbox(mine.id)] == ["accept", "permissions", "cancel"]

    async def test_a_final_that_takes_the_place_of_one_counts_alone(self, store: Store) -> None:
        shown = Preview(video_url="v", job_id="job-p", bundle="b", duration=40.0)
        row = await records.active_session(store, phase="preview", preview=shown)
        final = dataclasses.replace(
            records.job(), id="job-f", session_id=row.id, kind="final", status="running", video_s=40.0
        )
        owing = row.state.model_copy(update={"owes": "render_final", "output": Output(job_id="job-f")})
        await store.commit(row.id, row.epoch, Batch(jobs=[final], state=owing))

        async def ask(name: str, result: dict[str, JsonValue], most_s: float = 50.0) -> None:
            asked = records.command(row, new_id("cmd"), name=name)
            await store.receive(asked, lambda row, waiting: result, most_video_s=most_s)

        await ask("budget", {"owes": "render_final"}, most_s=1.0)
        await ask("cancel", {"owes": None})
        with pytest.raises(LimitReached):
            await ask("accept", {"owes": "render_final"}, most_s=39.0)
        await ask("accept", {"owes": "render_final"})
        await ask("rewind", {})  # where that leads nobody knows yet: it counts as what the row owes
        with pytest.raises(LimitReached):
            await store.create_job(
                dataclasses.replace(records.job(), kind="render", video_s=1.0), quota=RenderQuota(video_s=40.0)
            )

    @pytest.mark.quick
    async def test_who_has_stored_as_much_as_one_may_begins_nothing_more(self, store: Store) -> None:
        made = await store.create_job(dataclasses.replace(records.job(), kind="render"))
        running = await store.claim_job(made.id, lease_until=now() + SOON)
        await store.update_job(dataclasses.replace(running, status="succeeded", stored_bytes=900))
        quota = RenderQuota(stored_bytes=1000)
        await store.create_job(dataclasses.replace(records.job(), kind="render"), quota=quota)
        asset = dataclasses.replace(records.asset(), size_bytes=100)
        await store.add_asset(asset)
        with pytest.raises(LimitReached, match="KODA_USER_STORED_MB"):
            await store.create_job(dataclasses.replace(records.job(), kind="render"), quota=quota)
        with pytest.raises(LimitReached, match="KODA_USER_STORED_MB"):
            await store.create_session(records.state(), key="full", body={}, quota=SessionQuota(stored_bytes=1000))
        assert await store.list_sessions("ann") == [] and await store.create_job(made, quota=quota)
        await store.create_session(records.state("bob"), key="other", body={}, quota=SessionQuota(stored_bytes=1000))
        await store.delete_job(made.id, user_id="ann")
        await store.create_session(records.state(), key="full", body={}, quota=SessionQuota(stored_bytes=1000))

    async def test_a_user_has_so_many_sessions_awake_and_no_more(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]

        async def make(index: int) -> SessionRecord:
            state, quota = records.state(owes="analyze"), SessionQuota(awake=3)
            return (await stores[index % 2].create_session(state, key=f"k{index}", body={}, quota=quota))[0]

        made = await asyncio.gather(*(make(index) for index in range(6)), return_exceptions=True)
        awake = [each for each in made if not isinstance(each, BaseException)]
        assert len(awake) == 3 and all(isinstance(each, LimitReached) for each in made if each not in awake)
        assert (await stores[0].quota_used("ann")).awake == 3 and (await stores[0].quota_used("bob")).awake == 0
        there, fresh = await stores[0].create_session(
            awake[0].state, key=f"k{made.index(awake[0])}", body={}, quota=SessionQuota(awake=1)
        )
        assert not fresh and there.id == awake[0].id
        await stores[0].close_session(awake[0].id, user_id="ann")
        asleep = await new_session(stores[0])
        held = await active_session(stores[0])
        assert (await stores[1].quota_used("ann")).awake == 3 and asleep.id != held.id
        await stores[0].release(held.id, held.epoch)
        assert (await stores[1].quota_used("ann")).awake == 2

    @pytest.mark.quick
    async def test_a_user_has_so_many_sessions_and_no_more(self, connect: Connect) -> None:
        stores, quota = [await connect(), await connect()], SessionQuota(sessions=3)

        async def make(index: int, user: str = "ann", *, more: int = 0) -> SessionRecord:
            wanted = dataclasses.replace(quota, more=more)
            state = records.state(user)
            return (await stores[index % 2].create_session(state, key=f"k{index}", body={}, quota=wanted))[0]

        async def fork(index: int, of: SessionRecord) -> SessionRecord:
            def plan(past: Past) -> ForkedSession:
                return dataclasses.replace(forked(past), quota=quota)

            asked = {"user_id": "ann", "point": None, "key": f"f{index}", "body": {}, "plan": plan}
            return (await stores[index % 2].fork(of.id, **asked))[0]

        first = await make(0)
        made = await asyncio.gather(
            *(make(index) for index in range(1, 4)), *(fork(index, first) for index in range(3)), return_exceptions=True
        )
        there = [each for each in made if isinstance(each, SessionRecord)]
        refused = [each for each in made if isinstance(each, LimitReached)]
        assert (len(there), len(refused)) == (2, 4), made
        assert "more than 3 sessions" in refused[0].message and "KODA_MAX_SESSIONS_PER_USER" in refused[0].message
        assert len(await stores[0].list_sessions("ann")) == 3, "nothing is left of what was refused"
        assert (await make(0)).id == first.id, "a repeat is no other"
        await make(0, "bob")
        taken = await stores[0].quota_used("ann")
        assert (taken.sessions, taken.awake, taken.stored_bytes) == (3, 0, 0)
        await stores[0].close_session(first.id, user_id="ann")
        with pytest.raises(LimitReached):
            await make(7, more=1)
        assert (await make(7)).user_id == "ann", "one whose deletion has begun does not count"

    async def test_of_sessions_that_are_woken_at_once_so_many_are_and_no_more(self, connect: Connect) -> None:
        stores, until = [await connect(), await connect()], now() + timedelta(seconds=60)
        asleep = [await new_session(stores[0]) for _ in range(6)]

        async def wake(index: int) -> None:
            await stores[index % 2].admit_session(asleep[index].id, user_id="ann", most=3, until=until)

        woken = await asyncio.gather(*(wake(index) for index in range(6)), return_exceptions=True)
        assert sum(isinstance(each, LimitReached) for each in woken) == 3 and woken.count(None) == 3
        assert (await stores[0].quota_used("ann")).awake == 3
        again = woken.index(None)
        await stores[0].admit_session(asleep[again].id, user_id="ann", most=1, until=until)  # it has its place
        for index, each in enumerate(woken):
            if each is not None:  # nothing is left of what was refused
                assert (await stores[1].get_session(asleep[index].id)).lease_until is None
        held = await stores[0].activate(asleep[again].id, host="here", lease_until=until)
        await stores[0].release(held.id, held.epoch)
        await wake(next(index for index, each in enumerate(woken) if each is not None))
        for session_id, user in ((asleep[0].id, "bob"), ("ses_nowhere", "ann")):
            with pytest.raises(NotFound):
                await stores[0].admit_session(session_id, user_id=user, most=9, until=until)

    async def test_a_user_keeps_so_many_assets_and_bytes_and_no_more(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        many = [records.asset() for _ in range(6)]
        limits = {"most": 4, "most_bytes": 10_000}
        made = await asyncio.gather(
            *(stores[index % 2].add_asset(asset, **limits) for index, asset in enumerate(many)), return_exceptions=True
        )
        refused = [each for each in made if isinstance(each, BaseException)]
        assert len(refused) == 2 and all(isinstance(each, LimitReached) for each in refused)
        kept = await stores[0].own_assets("ann")
        assert len(kept) == 4
        await stores[0].add_asset(kept[0], **limits)  # the same again
        with pytest.raises(LimitReached, match=r"MB of uploaded files.*KODA_USER_ASSET_MB"):
            await stores[0].add_asset(records.asset(), most=9, most_bytes=4 * 123 + 1)
        await stores[0].add_asset(records.asset("bob"), most=1, most_bytes=123)

    async def test_what_takes_and_forks_share_counts_once(self, store: Store) -> None:
        first = await new_session(store, group="grp_1")
        picture = records.asset(of=first)
        await store.add_asset(picture)
        for number in range(3):
            copies = {new_id("ast"): picture.id}
            take = records.state(group="grp_1", asset_ids=tuple(copies))
            await store.create_session(take, key=f"k{number}", body={}, copies=copies)
            assert [each.key for each in await store.assets(user_id="ann", session_id=take.session_id)] == [picture.key]
        assert await store.stored_bytes("ann") == picture.size_bytes
        with pytest.raises(LimitReached, match="KODA_USER_ASSETS"):
            await store.add_asset(records.asset(), most=1, most_bytes=10_000)
        await store.add_asset(records.asset(), most=2, most_bytes=2 * 123)

    async def test_pictures_that_went_with_notes_count_by_their_size_alone(self, store: Store) -> None:
        mine = await new_session(store)
        sent = dataclasses.replace(records.asset(of=mine), purpose="note")
        unsent = dataclasses.replace(records.asset(), purpose="note")
        for asset in (sent, unsent):
            await store.add_asset(asset)
        await store.add_asset(records.asset(), most=2, most_bytes=3 * 123)
        with pytest.raises(LimitReached, match="KODA_USER_ASSETS"):
            await store.add_asset(records.asset(), most=2, most_bytes=10_000)
        with pytest.raises(LimitReached, match="KODA_USER_ASSET_MB"):
            await store.add_asset(records.asset(), most=9, most_bytes=4 * 123 - 1)

    @pytest.mark.quick
    async def test_an_asset_is_stored_once_where_its_id_ends_alike_whoever_is_at_it(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        many = [dataclasses.replace(records.asset(), id=f"{new_id('ast')[:-8]}5_%aaaaa") for _ in range(6)]
        limits = {"most": 1, "most_bytes": 10_000}
        made = await asyncio.gather(
            *(stores[index % 2].add_asset(each, **limits, once="5_%aaaaa") for index, each in enumerate(many))
        )
        assert len({each.id for each in made}) == 1
        assert await stores[0].own_assets("ann") == [made[0]]
        assert await stores[1].asset_alike("ann", once="5_%aaaaa") == made[0]
        assert await stores[1].asset_alike("bob", once="5_%aaaaa") is None
        others = [
            dataclasses.replace(records.asset(), id=f"{new_id('ast')[:-8]}5xyaaaaa"),
            dataclasses.replace(records.asset("bob"), id=f"{new_id('ast')[:-8]}5_%aaaaa"),
        ]
        for other in others:
            assert await stores[0].add_asset(other, once=other.id[-8:]) == other
        await stores[0].remove_asset(made[0].id, user_id="ann")
        assert await stores[1].add_asset(many[-1], once="5_%aaaaa") == many[-1]

    async def test_an_asset_that_no_session_has_is_removed(self, store: Store) -> None:
        mine = await active_session(store)
        first, second, held = records.asset(), records.asset(), records.asset(of=mine)
        for asset in (first, second, held):
            await store.add_asset(dataclasses.replace(asset, key=f"k/{asset.id}"))
        ids = sorted((first.id, second.id, held.id), reverse=True)
        assert [asset.id for asset in await store.own_assets("ann", limit=2)] == ids[:2]
        assert [asset.id for asset in await store.own_assets("ann", before=ids[1])] == ids[2:]
        assert {asset.id for asset in await store.loose_assets(now() + SOON)} == {first.id, second.id}
        assert await store.loose_assets(now() - SOON) == []
        with pytest.raises(Conflict, match=mine.id):
            await store.remove_asset(held.id, user_id="ann")
        for asset_id, user_id in ((first.id, "bob"), ("ast_none", "ann")):
            with pytest.raises(NotFound):
                await store.remove_asset(asset_id, user_id=user_id)
        assert (await store.remove_asset(first.id, user_id="ann")).key == f"k/{first.id}"
        with pytest.raises(NotFound):
            await new_session(store, asset_ids=(first.id,))
        assert await store.asset_keys("ann") == {f"k/{second.id}", f"k/{held.id}"}
