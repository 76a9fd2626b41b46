"""PostgreSQL whose processes are all killed at once: what was committed is there, what was not is not."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import Connection, update

from koda_ray.errors import DatabaseAway
from koda_ray.state.records import Batch
from koda_ray.state.schema import sessions
from koda_ray.state.sql import SqlStore
from tests import postgres
from tests.state import records


@pytest.mark.full
@pytest.mark.needs("postgres")
async def test_what_was_committed_outlives_a_server_that_is_killed_and_nothing_else_does() -> None:
    with postgres.serve() as server:
        store = SqlStore(server.url(server.create()))
        await store.open()
        row = await records.active_session(store)
        await store.commit(row.id, row.epoch, Batch(events=[records.say("committed")]))
        held, killed = threading.Event(), threading.Event()

        def hold(connection: Connection) -> None:
            connection.execute(update(sessions).where(sessions.c.id == row.id).values(title="lost"))
            held.set()
            killed.wait(60)

        holding = asyncio.create_task(store.database.write(hold))
        await asyncio.to_thread(held.wait, 60)
        await asyncio.to_thread(server.crash)
        killed.set()
        with pytest.raises(DatabaseAway):
            await holding
        with pytest.raises(DatabaseAway, match="does not answer"):
            await store.get_session(row.id)
        await asyncio.to_thread(server.start)
        assert (await store.get_session(row.id)).title is None
        said = [event.data["text"] for event in await store.events(row.id) if event.type == "message"]
        assert said == ["committed"]
        await store.close()
