from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from koda_ray.errors import InvalidInput, StorageError
from koda_ray.events import Envelope, NewEvent, Selection
from koda_ray.state import schema
from koda_ray.state.lookout import Lookout, Newest
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.stream import PAGE, Pace, Reached, follow, follow_all
from koda_ray.types import now
from tests.state import records
from tests.state.child import start
from tests.state.records import active_session, say


@pytest.fixture
async def mine(store: SqlStore) -> SessionRecord:
    return await active_session(store)


def is_last(event: Envelope) -> bool:
    return event.data.get("text") == "last"


async def numbers(store: SqlStore, stream_id: str, after: int = 0) -> list[int]:
    async with asyncio.timeout(60):
        return [
            event.seq async for event in follow(store, stream_id, after, until=is_last) if isinstance(event, Envelope)
        ]


async def test_replay_and_live_join_without_a_seam(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[say("old")] * (PAGE * 2 + 7)))
    readers = [asyncio.create_task(numbers(store, mine.id, after)) for after in (0, 0, 5, PAGE, PAGE * 2 + 8)]
    for count in range(60):
        await store.commit(mine.id, 1, Batch(events=[say(str(count))] * (count % 4)))
        if count % 7 == 0:
            readers.append(asyncio.create_task(numbers(store, mine.id, count)))
    await store.commit(mine.id, 1, Batch(events=[say("last")]))
    end = (await store.get_session(mine.id)).seq
    seen = await asyncio.gather(*readers)
    for got in seen:
        assert got == list(range(got[0], end + 1))
    assert [got[0] for got in seen[:5]] == [1, 1, 6, PAGE + 1, PAGE * 2 + 9]
    assert not store.notifier.streams


async def test_another_processs_events_arrive(store: SqlStore, mine: SessionRecord, tmp_path: Path) -> None:
    child = start("append", tmp_path / "koda.db", mine.id)
    try:
        got: list[int] = []
        async with asyncio.timeout(60), aclosing(follow(store, mine.id, 1)) as events:
            async for event in events:
                assert isinstance(event, Envelope)
                got.append(event.seq)
                if len(got) == 90:
                    break
    finally:
        child.kill()
        await asyncio.to_thread(child.communicate)
    assert got == list(range(2, 92))


async def test_a_commit_here_wakes_at_once(store: SqlStore, mine: SessionRecord) -> None:
    store._lookout = Lookout(store.newest, store.notifier, pause_min_s=20, pause_max_s=20)
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, 1)) as events:
        for count in range(20):
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            await store.commit(mine.id, 1, Batch(events=[say(str(count))]))
            event = await waiting
            assert isinstance(event, Envelope)
            assert event.data["text"] == str(count)


async def test_it_ends_when_cancelled_and_leaves_nothing(store: SqlStore, mine: SessionRecord) -> None:
    before = asyncio.all_tasks()
    task = asyncio.create_task(numbers(store, mine.id))
    while not store.notifier.streams:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not store.notifier.streams
    assert asyncio.all_tasks() == before


async def test_it_ends_on_its_conditions(store: SqlStore, mine: SessionRecord) -> None:
    async with asyncio.timeout(60):
        events = follow(store, mine.id, pace=Pace(timeout_s=0.1))
        assert [event.seq async for event in events if isinstance(event, Envelope)] == [1]
        assert [event async for event in follow(store, mine.id, 1, pace=Pace(done=lambda: True))] == []
    over = False

    async def finish() -> None:
        nonlocal over
        await store.commit(mine.id, 1, Batch(events=[say("x")] * (PAGE + 1)))
        over = True

    async with asyncio.timeout(60):
        task = asyncio.create_task(finish())
        got = [
            event.seq
            async for event in follow(store, mine.id, pace=Pace(done=lambda: over))
            if isinstance(event, Envelope)
        ]
        await task
    assert got == list(range(1, PAGE + 3))


async def test_heartbeats_come_between_events(store: SqlStore, mine: SessionRecord) -> None:
    kinds: list[str] = []
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, 1, pace=Pace(heartbeat_s=0.02))) as events:
        async for event in events:
            kinds.append("event" if isinstance(event, Envelope) else "beat")
            if kinds == ["beat", "beat"]:
                await store.commit(mine.id, 1, Batch(events=[say("x")]))
            if kinds[-2:] == ["event", "beat"]:
                break
    assert kinds.count("event") == 1


async def test_many_who_follow_ask_one_question(store: SqlStore, mine: SessionRecord) -> None:
    """As many as there are, followers to whom nothing happens ask the database no more than one does."""
    others = [await active_session(store) for _ in range(20)]

    async def quiet(stream_id: str) -> None:
        assert [event async for event in follow(store, stream_id, 1, pace=Pace(timeout_s=0.6, heartbeat_s=60))] == []

    before = (await store.metrics()).reads
    began = time.monotonic()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for session in [mine, *others] * 5:
            group.create_task(quiet(session.id))
    beginning = 3 * 5 * 21  # each looks once how much there is, and then reads it
    assert (await store.metrics()).reads - before <= beginning + 10 + (time.monotonic() - began) / 0.02


async def test_what_is_over_ends_who_asks_for_that(store: SqlStore, mine: SessionRecord) -> None:
    job = await store.create_job(records.job())
    ids = [mine.id, job.id, "ses_none"]
    readers = [asyncio.create_task(_all(follow(store, each, pace=Pace(done=lambda: False)))) for each in ids]
    await asyncio.sleep(0.05)
    await store.commit(mine.id, 1, Batch(events=[say("x")]))
    await store.close_session(mine.id, user_id=mine.user_id)
    await store.cancel_job(job.id, user_id="ann")
    async with asyncio.timeout(60):
        seen = await asyncio.gather(*readers)
    assert [len(each) for each in seen] == [2, 0, 0]


async def test_a_database_that_fails_is_told_to_everybody(store: SqlStore, mine: SessionRecord) -> None:
    async def away(_: Collection[str]) -> dict[str, Newest]:
        raise StorageError("the database is away")

    store._lookout = Lookout(away, store.notifier)
    for _ in range(2):
        readers = [_all(follow(store, mine.id, 1)) for _ in range(3)]
        async with asyncio.timeout(60):
            failed = await asyncio.gather(*readers, return_exceptions=True)
        assert [type(each) for each in failed] == [StorageError] * 3


async def _all(events: AsyncGenerator[Envelope | int]) -> list[int]:
    return [event.seq async for event in events if isinstance(event, Envelope)]


async def test_a_slow_reader_loses_nothing(store: SqlStore, mine: SessionRecord) -> None:
    got: list[int] = []
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, until=is_last)) as events:
        async for event in events:
            assert isinstance(event, Envelope)
            got.append(event.seq)
            if len(got) < 20:
                await store.commit(mine.id, 1, Batch(events=[say("x")] * 40))
            elif len(got) == 20:
                await store.commit(mine.id, 1, Batch(events=[say("last")]))
    assert got == list(range(1, 19 * 40 + 3))


CHUNK = NewEvent(type="code_chunk", data={"delta": "x"})


def seen(events: list[Envelope]) -> list[int | dict[str, object]]:
    """Write a stream down: numbers of events, what a resync says in its place."""
    return [dict(event.data) if event.type == "resync" else event.seq for event in events]


async def all_of(store: SqlStore, stream_id: str, after: int = 0) -> list[Envelope]:
    async with asyncio.timeout(60):
        return [event async for event in follow(store, stream_id, after, until=is_last) if isinstance(event, Envelope)]


async def sweep(store: SqlStore) -> None:
    await store.prune_events(now() + timedelta(minutes=1))


async def test_who_comes_for_what_was_swept_is_told_once(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[say("2"), CHUNK, say("4"), CHUNK, CHUNK, say("7")]))
    await sweep(store)
    await store.commit(mine.id, 1, Batch(events=[CHUNK, say("last")]))
    told = {"reason": "swept", "after": 0, "wholeFrom": 7, "leftOut": 3}
    whole = await all_of(store, mine.id)
    assert seen(whole) == [told, 1, 2, 4, 7, 8, 9]
    assert (whole[0].seq, whole[0].channel) == (0, "control")  # who hangs up here comes back for everything
    assert seen(await all_of(store, mine.id, 4)) == [{**told, "after": 4, "leftOut": 2}, 7, 8, 9]
    assert seen(await all_of(store, mine.id, 7)) == [8, 9]


async def test_what_is_swept_while_it_is_read_is_told_too(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[say("x")] * PAGE))
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, until=is_last)) as events:
        got = [await anext(events) for _ in range(PAGE)]
        await store.commit(mine.id, 1, Batch(events=[CHUNK, say("x"), CHUNK]))
        await sweep(store)
        await store.commit(mine.id, 1, Batch(events=[CHUNK, say("last")]))
        got += [event async for event in events]
    whole = [event for event in got if isinstance(event, Envelope)]
    told = {"reason": "swept", "after": PAGE, "wholeFrom": PAGE + 5, "leftOut": 2}
    assert seen(whole)[PAGE:] == [told, PAGE + 1, PAGE + 3, PAGE + 5, PAGE + 6]


async def test_a_log_that_ends_before_the_readers_number_is_another_one(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[say("2")]))
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, 40, until=is_last)) as events:
        (told,) = [await anext(events)]
        assert isinstance(told, Envelope) and told.seq == 2
        assert told.data == {"reason": "ahead", "after": 40, "wholeFrom": 3, "leftOut": 0}
        await store.commit(mine.id, 1, Batch(events=[say("last")]))
        assert [event.seq async for event in events if isinstance(event, Envelope)] == [3]


async def test_a_reader_too_far_behind_gets_everything_but_progress(store: SqlStore, mine: SessionRecord) -> None:
    behind, lasting, left_out = PAGE * 2, [*range(1, PAGE + 2)], 0
    got: list[Envelope] = []
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, until=is_last, pace=Pace(behind=behind))) as events:
        await store.commit(mine.id, 1, Batch(events=[CHUNK] * PAGE))  # before it began: replayed in full
        for _ in range(PAGE + 1):
            event = await anext(events)
            assert isinstance(event, Envelope)
            got.append(event)
        seq = PAGE + 1
        for count in range(4):  # while it looks away
            await store.commit(mine.id, 1, Batch(events=[*[CHUNK] * (PAGE - 1), say(str(count))]))
            seq, left_out = seq + PAGE, left_out + PAGE - 1
            lasting.append(seq)
        async for event in events:
            assert isinstance(event, Envelope)
            got.append(event)
            if event.seq == seq:  # near again: progress comes too
                await store.commit(mine.id, 1, Batch(events=[CHUNK, say("last")]))
    told = {"reason": "slow", "after": PAGE + 1, "wholeFrom": seq + 1, "leftOut": left_out}
    assert [event.data for event in got if event.type == "resync"] == [told]
    assert [event.seq for event in got if event.type != "resync"] == [*lasting, seq + 1, seq + 2]
    assert seen(got)[PAGE + 1] == told


async def test_a_slow_reader_of_what_must_not_be_lost_gets_all_of_it(store: SqlStore, mine: SessionRecord) -> None:
    async with asyncio.timeout(60), aclosing(follow(store, mine.id, until=is_last, pace=Pace(behind=PAGE))) as events:
        assert (await anext(events)) is not None
        await store.commit(mine.id, 1, Batch(events=[*[say("x")] * PAGE * 3, say("last")]))
        assert [event.seq async for event in events if isinstance(event, Envelope)] == [*range(2, PAGE * 3 + 3)]


# --- some channels ------------------------------------------------------------------------------------------------

NOTE = NewEvent(type="usage", data={})
ALARM = NewEvent(type="budget_warning", data={})


async def test_who_follows_some_channels_gets_all_that_is_on_them(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[say("2"), NOTE, ALARM, NewEvent(type="tool_start", data={}), NOTE]))
    got: dict[str, list[int]] = {}
    for name in ("progress", "control", "monitor"):
        events = follow(store, mine.id, wanted=Selection.named(name), pace=Pace(done=lambda: True))
        got[name] = [event.seq async for event in events if isinstance(event, Envelope)]
    assert got == {"progress": [2, 5], "control": [1, 4], "monitor": [3, 6]}
    two = follow(store, mine.id, 1, wanted=Selection.named(["monitor", "control"]), pace=Pace(done=lambda: True))
    assert [event.seq async for event in two if isinstance(event, Envelope)] == [3, 4, 6]


async def test_what_is_on_other_channels_moves_the_number_on(store: SqlStore, mine: SessionRecord) -> None:
    """Also where there is no pause between them: who comes back with it does not go through them again."""

    async def chatter() -> None:
        while True:
            await store.commit(mine.id, 1, Batch(events=[NOTE]))
            await asyncio.sleep(0.001)

    reached: list[int] = []
    chatting = asyncio.create_task(chatter())
    try:
        async with (
            asyncio.timeout(60),
            aclosing(follow(store, mine.id, 1, wanted=Selection.named("control"), pace=Pace(heartbeat_s=0.05))) as it,
        ):
            async for number in it:
                assert isinstance(number, int)
                reached.append(number)
                if len(set(reached)) == 3:  # on a slow day nothing is said between two of them
                    break
    finally:
        chatting.cancel()
    assert reached[0] > 1 and reached == sorted(reached)
    assert reached[-1] <= (await store.get_session(mine.id)).seq


async def test_the_end_is_seen_on_any_channel(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[NOTE, say("last"), NOTE]))
    async with asyncio.timeout(60):
        events = follow(store, mine.id, wanted=Selection.named("monitor"), until=is_last)
        assert [event.seq async for event in events if isinstance(event, Envelope)] == [2]


async def test_a_resync_reaches_who_follows_other_channels(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[CHUNK, NOTE, ALARM]))
    await sweep(store)
    events = follow(store, mine.id, wanted=Selection.named("monitor"), pace=Pace(done=lambda: True))
    whole = [event async for event in events if isinstance(event, Envelope)]
    assert seen(whole) == [{"reason": "swept", "after": 0, "wholeFrom": 3, "leftOut": 1}, 3]


async def test_a_channel_that_is_none_is_refused(store: SqlStore, mine: SessionRecord) -> None:
    with pytest.raises(InvalidInput, match="there is no channel 'news'; the channels are progress, control, monitor"):
        await anext(follow(store, mine.id, wanted=Selection.named(["control", "news"])))  # type: ignore[list-item]


async def test_events_are_on_the_channel_that_their_type_has_now(store: SqlStore, mine: SessionRecord) -> None:
    """Those of tools were on another one in logs of before."""
    await store.commit(mine.id, 1, Batch(events=[NewEvent(type="tool_end", data={})]))
    old = update(schema.events).values(channel="monitor")
    await store.database.write(lambda connection: connection.execute(old))
    assert [event.channel for event in await store.events(mine.id)] == ["control", "progress"]


# --- many at once -------------------------------------------------------------------------------------------------


async def test_many_streams_come_as_each_by_itself(store: SqlStore, mine: SessionRecord) -> None:
    others = [await active_session(store) for _ in range(4)]
    ids = [mine.id, *(other.id for other in others)]
    for count, session_id in enumerate(ids):
        await store.commit(session_id, 1, Batch(events=[say("old")] * (PAGE * count)))
    got: dict[str, list[int]] = {session_id: [] for session_id in ids}

    async def write() -> None:
        for count in range(40):
            for session_id in ids[count % 3 :]:
                await store.commit(session_id, 1, Batch(events=[say(str(count))] * (count % 3)))
        for session_id in ids:
            await store.commit(session_id, 1, Batch(events=[say("last")]))

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(write())
        async for event in follow_all(store, dict.fromkeys(ids, 1), until=is_last):
            assert isinstance(event, Envelope)
            got[event.stream_id].append(event.seq)
    for session_id in ids:
        assert got[session_id] == list(range(2, (await store.get_session(session_id)).seq + 1))
    assert not store.notifier.streams


async def test_a_long_stream_holds_up_no_other(store: SqlStore, mine: SessionRecord) -> None:
    other = await active_session(store)
    await store.commit(mine.id, 1, Batch(events=[say("old")] * (PAGE * 4)))
    async with asyncio.timeout(60), aclosing(follow_all(store, {mine.id: 0, other.id: 0})) as events:
        before = 0
        async for event in events:
            assert isinstance(event, Envelope)
            if event.stream_id == other.id:
                break
            before += 1
    assert before == PAGE


async def test_of_many_one_that_is_over_is_told_and_the_others_go_on(store: SqlStore, mine: SessionRecord) -> None:
    other = await active_session(store)
    numbers = {"ses_none": 3, mine.id: 1, other.id: 0}
    async with asyncio.timeout(60), aclosing(follow_all(store, numbers, pace=Pace(done=lambda: False))) as events:
        first = [await anext(events) for _ in range(2)]
        assert {(event.stream_id, event.type, event.seq) for event in first if isinstance(event, Envelope)} == {
            ("ses_none", "gone", 3),
            (other.id, "state_change", 1),
        }
        await store.close_session(mine.id, user_id=mine.user_id)
        closed = await anext(events)
        assert isinstance(closed, Envelope) and (closed.stream_id, closed.type) == (mine.id, "gone")
        await store.commit(other.id, 1, Batch(events=[say("x")]))
        assert getattr(await anext(events), "seq", None) == 2
        await store.close_session(other.id, user_id=other.user_id)
        rest = [event async for event in events]
    assert [(event.stream_id, event.type) for event in rest if isinstance(event, Envelope)] == [(other.id, "gone")]


async def test_a_heartbeat_has_the_number_of_every_stream(store: SqlStore, mine: SessionRecord) -> None:
    other = await active_session(store)
    await store.commit(mine.id, 1, Batch(events=[NOTE, NOTE]))
    wanted = Selection.named(types=["message"])
    events = follow_all(store, {mine.id: 0, other.id: 1}, wanted=wanted, pace=Pace(heartbeat_s=0.02))
    async with asyncio.timeout(60), aclosing(events):
        async for reached in events:
            assert isinstance(reached, Reached)
            if reached.numbers == {mine.id: 3, other.id: 1}:
                break


async def test_some_types_alone_are_followed(store: SqlStore, mine: SessionRecord) -> None:
    await store.commit(mine.id, 1, Batch(events=[say("2"), NOTE, CHUNK, say("5")]))
    await sweep(store)
    events = follow(store, mine.id, wanted=Selection.named(types=["message"]), pace=Pace(done=lambda: True))
    whole = [event async for event in events if isinstance(event, Envelope)]
    assert [event.type for event in whole] == ["resync", "message", "message"]
    with pytest.raises(InvalidInput, match="there is no type 'news'; the types are state_change, "):
        Selection.named(types=["news"])
