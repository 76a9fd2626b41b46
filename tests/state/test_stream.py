from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from koda_ray.events import Envelope
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Batch, SessionRecord
from koda_ray.state.stream import PAGE, follow
from tests.state.child import start
from tests.state.records import active_session, say


@pytest.fixture
async def mine(store: SqlStore) -> SessionRecord:
    return await active_session(store)


def is_last(event: Envelope) -> bool:
    return event.data.get("text") == "last"


async def numbers(store: SqlStore, stream_id: str, after: int = 0) -> list[int]:
    async with asyncio.timeout(30):
        return [event.seq async for event in follow(store, stream_id, after, until=is_last) if event is not None]


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
    assert store.notifier._waiting == {}


async def test_another_processs_events_arrive(store: SqlStore, mine: SessionRecord, tmp_path: Path) -> None:
    child = start("append", tmp_path / "koda.db", mine.id)
    try:
        got: list[int] = []
        async with asyncio.timeout(60), aclosing(follow(store, mine.id, 1)) as events:
            async for event in events:
                assert event is not None
                got.append(event.seq)
                if len(got) == 90:
                    break
    finally:
        child.kill()
        await asyncio.to_thread(child.communicate)
    assert got == list(range(2, 92))


async def test_a_commit_here_wakes_at_once(store: SqlStore, mine: SessionRecord) -> None:
    async with asyncio.timeout(30), aclosing(follow(store, mine.id, 1, poll_min_s=20, poll_max_s=20)) as events:
        for count in range(20):
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            await store.commit(mine.id, 1, Batch(events=[say(str(count))]))
            event = await waiting
            assert event is not None
            assert event.data["text"] == str(count)


async def test_it_ends_when_cancelled_and_leaves_nothing(store: SqlStore, mine: SessionRecord) -> None:
    before = asyncio.all_tasks()
    task = asyncio.create_task(numbers(store, mine.id))
    while not store.notifier._waiting:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.notifier._waiting == {}
    assert asyncio.all_tasks() == before


async def test_it_ends_on_its_conditions(store: SqlStore, mine: SessionRecord) -> None:
    async with asyncio.timeout(30):
        assert [event.seq async for event in follow(store, mine.id, timeout_s=0.1) if event is not None] == [1]
        assert [event async for event in follow(store, mine.id, 1, done=lambda: True)] == []
    over = False

    async def finish() -> None:
        nonlocal over
        await store.commit(mine.id, 1, Batch(events=[say("x")] * (PAGE + 1)))
        over = True

    async with asyncio.timeout(30):
        task = asyncio.create_task(finish())
        got = [event.seq async for event in follow(store, mine.id, done=lambda: over) if event is not None]
        await task
    assert got == list(range(1, PAGE + 3))


async def test_heartbeats_come_between_events(store: SqlStore, mine: SessionRecord) -> None:
    kinds: list[str] = []
    async with asyncio.timeout(30), aclosing(follow(store, mine.id, 1, heartbeat_s=0.02)) as events:
        async for event in events:
            kinds.append("beat" if event is None else "event")
            if kinds == ["beat", "beat"]:
                await store.commit(mine.id, 1, Batch(events=[say("x")]))
            if kinds[-2:] == ["event", "beat"]:
                break
    assert kinds.count("event") == 1


async def test_it_looks_seldom_when_nothing_happens(store: SqlStore, mine: SessionRecord) -> None:
    looks = 0
    read = store.events

    async def counted(stream_id: str, *, after: int = 0, limit: int = 500) -> list[Envelope]:
        nonlocal looks
        looks += 1
        return await read(stream_id, after=after, limit=limit)

    store.events = counted  # type: ignore[method-assign]
    began = time.monotonic()
    async with asyncio.timeout(30):
        assert [event async for event in follow(store, mine.id, 1, timeout_s=0.6)] == []
    assert looks <= 6 + (time.monotonic() - began) / 0.25


async def test_a_slow_reader_loses_nothing(store: SqlStore, mine: SessionRecord) -> None:
    got: list[int] = []
    async with asyncio.timeout(30), aclosing(follow(store, mine.id, until=is_last)) as events:
        async for event in events:
            assert event is not None
            got.append(event.seq)
            if len(got) < 20:
                await store.commit(mine.id, 1, Batch(events=[say("x")] * 40))
            elif len(got) == 20:
                await store.commit(mine.id, 1, Batch(events=[say("last")]))
    assert got == list(range(1, 19 * 40 + 3))
