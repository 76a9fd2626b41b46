"""A connection to the database that breaks after COMMIT and before its answer: memory and database stay one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from koda_ray.actors.core import SessionCore
from koda_ray.errors import Fenced, StorageError
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import now
from tests.cutting import Cutting
from tests.state import records


def core_of(store: SqlStore, row: SessionRecord) -> SessionCore:
    return SessionCore(
        store=store, record=row, after=lambda _: None, changed=lambda: None, fenced=lambda: None
    )  # fmt: skip


@pytest.fixture
async def cutting(postgres_url: str) -> AsyncIterator[Cutting]:
    async with Cutting(postgres_url) as made:
        yield made


@pytest.fixture
async def store(cutting: Cutting) -> AsyncIterator[SqlStore]:
    made = SqlStore(cutting.url)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def beside(postgres_url: str) -> AsyncIterator[SqlStore]:
    """The same database, by a way that nobody cuts."""
    made = SqlStore(postgres_url)
    await made.open()
    yield made
    await made.close()


async def test_what_was_stored_though_it_failed_is_not_overwritten(cutting: Cutting, store: SqlStore) -> None:
    core = core_of(store, await records.active_session(store))
    cutting.arm()
    with pytest.raises(StorageError):
        await core.commit(Batch(events=[NewEvent(type="message", data={"text": "x"})]), patch={"style": "neon"})
    assert cutting.cuts == 1
    row = await store.get_session(core.session_id)
    assert (row.state.style, core.state.style, core.seq) == ("neon", "neon", row.seq)
    await core.commit(Batch(), patch={"sandbox_id": "sbx_1"})
    row = await store.get_session(core.session_id)
    assert (row.state.style, row.state.sandbox_id) == ("neon", "sbx_1") and row.state == core.state


async def test_a_database_that_stays_away_is_asked_before_the_next_write(
    cutting: Cutting, store: SqlStore, beside: SqlStore
) -> None:
    core = core_of(store, await records.active_session(store))
    cutting.arm(then="refuses")
    for style in ("neon", "calm"):
        with pytest.raises(StorageError):
            await core.commit(Batch(), patch={"style": style})
        assert (await beside.get_session(core.session_id)).state.style == "neon" and core.state.style is None
    await cutting.passes()
    await core.commit(Batch(), patch={"sandbox_id": "sbx_1"})
    assert (core.state.style, core.state.sandbox_id) == ("neon", "sbx_1")
    assert (await beside.get_session(core.session_id)).state == core.state and cutting.cuts == 1


async def test_who_was_replaced_meanwhile_finds_out(cutting: Cutting, store: SqlStore, beside: SqlStore) -> None:
    core = core_of(store, await records.active_session(store))
    cutting.arm(then="waits")
    writing = asyncio.create_task(core.commit(Batch(), patch={"style": "neon"}))
    await cutting.until_cut()
    heir = await beside.activate(core.session_id, host="next", lease_until=now())
    assert heir.state.style == "neon"
    await cutting.passes()
    with pytest.raises(Fenced):
        await writing
    assert core.lost


@pytest.mark.full
async def test_postgres_has_what_it_committed_and_nothing_twice(cutting: Cutting, store: SqlStore) -> None:
    state, job = records.state(), records.job()
    await store.ensure_user("ann")  # whose connection the next ones use
    cutting.armed = True
    with pytest.raises(StorageError):
        await store.create_session(state, key="k", body={"a": 1})
    made, is_new = await store.create_session(state, key="k", body={"a": 1})
    assert not is_new and made.id == state.session_id
    cutting.armed = True
    with pytest.raises(StorageError):
        await store.create_job(job)
    assert await store.create_job(job) == job
    core = core_of(store, await store.activate(state.session_id, host="x", lease_until=now() + records.SOON))
    said = NewEvent(type="message", data={"text": "once"})
    batch = {"command": records.command(await store.get_session(state.session_id))}
    cutting.armed = True
    with pytest.raises(StorageError):
        await core.commit(Batch(events=[said], **batch), patch={"style": "neon"})
    assert core.state.style == "neon"
    sent = await store.commit(core.session_id, core.epoch, Batch(events=[said], **batch))
    assert [event.data for event in sent] == [{"text": "once"}]
    told = [event for event in await store.events(core.session_id) if event.type == "message"]
    assert len(told) == 1 and cutting.cuts == 3
