from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Literal

import pytest
from sqlalchemy import Connection, text

from koda_ray.actors.parts import CONNECTIONS_EACH, open_store
from koda_ray.budgets import Amounts
from koda_ray.config import Settings
from koda_ray.errors import DatabaseAway
from koda_ray.state import schema
from koda_ray.state.charges import Accrue, Reserve, Settle
from koda_ray.state.past import ForkedSession, Past
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.sql_charges import close_charges, enter_charges
from koda_ray.state.store import Store
from tests.books import check_sums
from tests.state import records
from tests.state.conformance.connecting import connecting
from tests.state.conformance.history import forked
from tests.state.store_conformance import Connect, StoreConformance, active_session


@pytest.mark.full
async def test_an_actor_has_two_connections_however_much_it_asks_at_once(postgres_url: str) -> None:
    settings = Settings.model_validate({"DATABASE_PROVIDER": "postgres", "DATABASE_URL": postgres_url})
    mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    look = SqlStore(postgres_url, connections=1)
    await look.open()
    store = await open_store(settings)
    try:
        sessions = await asyncio.gather(*(active_session(store) for _ in range(20)))
        await asyncio.gather(*(store.get_session(each.id) for each in sessions * 5))
        count = await look.database.read(lambda connection: connection.execute(text(mine)).scalar_one())
        assert count == CONNECTIONS_EACH
    finally:
        await store.close()
        await look.close()


@pytest.mark.parametrize(
    "ends",
    [
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "SET idle_in_transaction_session_timeout = 1; SELECT 1",
    ],
)
async def test_a_connection_that_the_server_ended_is_no_fault_of_the_work(postgres_url: str, ends: str) -> None:
    store = SqlStore(postgres_url, connections=1)
    await store.open()

    def work(connection: Connection) -> None:
        connection.execute(text(ends))
        time.sleep(0.5)
        connection.execute(text("SELECT 1"))

    try:
        with pytest.raises(DatabaseAway):
            await store.database.write(work)
        assert await store.database.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one()) == 1
    finally:
        await store.close()


@pytest.mark.full
class TestPostgres(StoreConformance):
    @pytest.fixture
    async def connect(self, postgres_url: str) -> AsyncIterator[Connect]:
        async with connecting(postgres_url) as connect:
            yield connect

    @pytest.mark.parametrize("first", ["settles", "closes"])
    async def test_a_charge_that_two_end_at_once_is_ended_once(
        self, connect: Connect, first: Literal["settles", "closes"]
    ) -> None:
        one, two = await connect(), await connect()
        assert isinstance(one, SqlStore) and isinstance(two, SqlStore)
        mine = await active_session(one)
        bounds = records.bounds(mine)
        begin = Reserve(id="job_1", kind="render", amounts=Amounts(render_ms=900), bounds=bounds)
        going = Accrue(id="job_1", spent=Amounts(render_ms=400), held=Amounts(render_ms=500), bounds=bounds)
        await one.commit(mine.id, 1, Batch(charges=[begin, going]))
        end = Settle(id="job_1", spent=Amounts(render_ms=700), bounds=bounds)
        mine_only = schema.charges.c.work_id == mine.id

        def settles(connection: Connection) -> None:
            enter_charges(two.database, connection, [end], work_id=mine.id, user_id="ann", epoch=1)

        def closes(connection: Connection) -> None:
            close_charges(two.database, connection, mine_only)

        here = "datname = current_database() AND wait_event_type = 'Lock'"
        written, waits = threading.Event(), text(f"SELECT count(*) FROM pg_stat_activity WHERE {here}")

        def before(connection: Connection) -> None:
            (settles if first == "settles" else closes)(connection)
            written.set()
            deadline = time.monotonic() + 60
            while not connection.execute(waits).scalar_one():  # the other has read, and waits for the accounts
                assert time.monotonic() < deadline, "nobody waits"
                connection.execute(text("SELECT pg_stat_clear_snapshot(), pg_sleep(0.02)"))

        earlier = asyncio.create_task(one.database.write(before))
        assert await asyncio.to_thread(written.wait, 60)
        await two.database.write(closes if first == "settles" else settles)
        await earlier
        (charge,) = await one.charges(mine.id)
        assert charge.status == "settled"
        assert charge.spent == {"render_ms": 700 if first == "settles" else 400}
        await check_sums(one, "ann", mine.id)

    async def test_a_job_is_not_deleted_amid_a_fork_that_has_read_it(self, connect: Connect) -> None:
        one, two = await connect(), await connect()
        mine = await active_session(one)
        job = records.job(of=mine)
        await one.commit(mine.id, mine.epoch, Batch(jobs=[job]))
        read, may_go_on = threading.Event(), threading.Event()

        def plan(past: Past) -> ForkedSession:
            read.set()
            assert may_go_on.wait(60)
            return forked(past)

        fork = asyncio.create_task(one.fork(mine.id, user_id="ann", point=None, key="f", body={}, plan=plan))
        assert await asyncio.to_thread(read.wait, 60)

        async def deleted() -> list[str]:
            assert await two.delete_job(job.id, user_id="ann")
            return await two.job_ids("ann")

        deletion = asyncio.create_task(deleted())
        await _somebody_waits(two)
        may_go_on.set()
        made, _ = await fork
        (copy,) = await one.list_jobs(session_id=made.id)
        assert await deletion == [copy.id]


async def _somebody_waits(store: Store) -> None:
    assert isinstance(store, SqlStore)
    here = "datname = current_database() AND wait_event_type = 'Lock'"
    waits, deadline = text(f"SELECT count(*) FROM pg_stat_activity WHERE {here}"), time.monotonic() + 60
    while not await store.database.read(lambda connection: connection.execute(waits).scalar_one()):
        assert time.monotonic() < deadline, "nobody waits"
        await asyncio.sleep(0.02)
