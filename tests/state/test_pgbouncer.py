"""The store behind PgBouncer, which gives each transaction another connection of the server's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from koda_ray.state.sql import SqlStore
from tests import pgbouncer
from tests.state.conformance.connecting import connecting
from tests.state.records import active_session
from tests.state.store_conformance import Connect, StoreConformance


@pytest.mark.full(all=True)
class TestPgBouncer(StoreConformance):
    @pytest.fixture
    async def connect(self, pgbouncer_url: str) -> AsyncIterator[Connect]:
        async with connecting(pgbouncer_url) as connect:
            yield connect

    async def test_many_stores_share_a_few_connections(self, connect: Connect, postgres_url: str) -> None:
        stores = [await connect() for _ in range(10)]
        for _ in range(10):  # often enough for a driver to prepare what it says, on whatever connection it has then
            made = await asyncio.gather(*(active_session(store) for store in stores))
            read = await asyncio.gather(*(store.get_session(row.id) for store, row in zip(stores, made, strict=True)))
            assert [row.id for row in read] == [row.id for row in made]
        direct = SqlStore(postgres_url, connections=1)
        await direct.open()
        mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
        count = await direct.database.read(lambda connection: connection.execute(text(mine)).scalar_one())
        await direct.close()
        assert count <= pgbouncer.POOL_SIZE
