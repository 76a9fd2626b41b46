"""What every Store must do with events, and with work that is owed."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from koda_ray.errors import Fenced, NotFound
from koda_ray.events import NewEvent
from koda_ray.state import sql_parts
from koda_ray.state.records import Batch, SessionLabel
from koda_ray.state.store import Store
from koda_ray.types import now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, new_session, say

__all__ = ["EventConformance"]


class EventConformance:
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

    async def test_so_many_are_pruned_in_one_transaction(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_parts, "PRUNED_AT_ONCE", 2)
        mine = await active_session(store)
        chunk = NewEvent(type="code_chunk", data={"delta": "x"})
        await store.commit(mine.id, 1, Batch(events=[chunk, say("keep"), *[chunk] * 4]))
        assert await store.prune_events(now() + timedelta(minutes=1)) == 5
        assert [event.type for event in await store.events(mine.id, after=1)] == ["message"]

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
        assert [work.kind for work in await store.owed(at + SOON * 2, limit=1)] == ["session", "job"], "a share each"
        done = held.state.model_copy(update={"owes": None})
        await store.commit(held.id, 1, Batch(state=done))
        await store.release(held.id, 1)
        await store.commit(waiting.id, 0, Batch(status="closed"))
        assert {work.id for work in await store.owed(at + SOON * 2)} == {queued.id, running.id}

    async def test_owed_sessions_are_listed_round_and_round(self, store: Store) -> None:
        owing = [await new_session(store, owes="analyze") for _ in range(4)]
        asked = await new_session(store)
        await store.receive(records.command(asked), lambda _row, _waiting: {})
        every = [(work.updated_at, work.id) for work in await store.owed(now())]
        assert {name for _, name in every} == {session.id for session in (*owing, asked)} and every == sorted(every)
        seen: list[str] = []
        after = None
        for _ in range(5):
            found = await store.owed(now(), limit=2, after=after)
            seen += [work.id for work in found]
            after = (found[-1].updated_at, found[-1].id)
        assert seen == [name for _, name in every] * 2
        assert [work.id for work in await store.owed(now(), after=every[3])] == [
            name for _, name in every[4:] + every[:4]
        ]

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

    @pytest.mark.quick
    async def test_sessions_that_nobody_uses_are_closed_a_few_at_a_time(self, store: Store) -> None:
        unused = [await new_session(store) for _ in range(3)]
        asked, held, _ = await new_session(store), await active_session(store), await new_session(store, owes="plan")
        pinned = await new_session(store)
        await store.label_session(pinned.id, user_id=pinned.user_id, label=SessionLabel(pinned=True))
        await store.receive(records.command(asked), lambda row, waiting: {})
        assert await store.close_unused(now() - SOON) == []
        closed = await store.close_unused(now() + SOON, limit=2)
        assert [row.id for row in closed] == [row.id for row in unused[:2]]
        assert [row.id for row in await store.close_unused(now() + SOON)] == [unused[2].id]
        assert await store.close_unused(now() + SOON) == []
        assert {row.id for row in await store.closed_sessions()} == {row.id for row in unused}
        with pytest.raises(NotFound):
            await store.activate(unused[0].id, host="late", lease_until=now() + SOON)
        await store.commit(held.id, held.epoch, Batch(touch=True))  # who is at work is left alone

    async def test_a_session_is_closed_once_by_all_that_sweep_at_once(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        unused = [await new_session(stores[0]) for _ in range(6)]
        closed = await asyncio.gather(*(stores[n % 2].close_unused(now() + SOON, limit=4) for n in range(4)))
        found = [row.id for rows in closed for row in rows]
        found += [row.id for row in await stores[0].close_unused(now() + SOON)]
        assert sorted(found) == sorted(row.id for row in unused)
