from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from koda_ray.config import Settings
from koda_ray.errors import Fenced, Missing, StorageError
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.sql_inbox import queued_video_s
from koda_ray.types import now
from tests.state.child import start
from tests.state.conformance.connecting import connecting
from tests.state.records import SOON, active_session, new_session, say
from tests.state.store_conformance import Connect, StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    async def connect(self, tmp_path: Path) -> AsyncIterator[Connect]:
        async with connecting(tmp_path / "koda.db") as connect:
            yield connect


async def pragma(store: SqlStore, name: str) -> object:
    return await store.database.read(lambda connection: connection.exec_driver_sql(f"PRAGMA {name}").scalar())


async def test_sqlite_is_set_up_to_keep_its_promises(store: SqlStore, tmp_path: Path) -> None:
    assert await pragma(store, "journal_mode") == "wal"
    assert await pragma(store, "synchronous") == 2  # FULL
    assert await pragma(store, "foreign_keys") == 1
    assert await pragma(store, "busy_timeout") == 15_000
    assert {(tmp_path / name).stat().st_mode & 0o077 for name in ("koda.db", "koda.db-wal", "koda.db-shm")} == {0}


@pytest.mark.full
def test_opening_a_current_database_is_cheap(tmp_path: Path) -> None:
    path = tmp_path / "koda.db"
    for _ in range(2):
        child = start("cost", path)
        output, _ = child.communicate(timeout=120)
        assert child.returncode == 0, output
    cost = json.loads(output.splitlines()[-1])
    assert cost["alembic"] is False
    assert cost["orm"] is False
    assert cost["fsspec"] is False
    assert cost["own_mb"] < 25


async def test_readers_do_not_wait_for_a_writer(store: SqlStore, tmp_path: Path) -> None:
    mine = await new_session(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "koda.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE sessions SET epoch = 77")
        async with asyncio.timeout(60):
            assert (await store.get_session(mine.id)).epoch == 0
            assert len(await store.events(mine.id)) == 1
        commit = asyncio.create_task(store.activate(mine.id, host="h", lease_until=now() + SOON))
        writer.execute("COMMIT")
    assert (await commit).epoch == 78


async def test_nothing_but_a_lease_is_written_without_the_disk(store: SqlStore) -> None:
    def synced(connection: Connection) -> int:
        return connection.exec_driver_sql("PRAGMA synchronous").scalar_one()

    mine = await active_session(store)
    assert await store.database.write(synced, synced=False) == 1
    await store.renew(mine.id, mine.epoch, lease_until=now() + SOON)
    assert await store.database.write(synced) == 2
    with pytest.raises(Fenced):
        await store.renew(mine.id, mine.epoch + 1, lease_until=now() + SOON)
    assert await store.database.write(synced) == 2
    assert (await store.get_session(mine.id)).lease_until is not None


async def test_a_writer_that_never_ends_is_named(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koda_ray.state.database._BUSY_TIMEOUT_S", 0.2)
    mine = await active_session(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "koda.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"koda\.db failed: database is locked") as caught:
            await store.commit(mine.id, 1, Batch(events=[say("x")]))
        assert caught.value.retryable
    await store.commit(mine.id, 1, Batch(events=[say("x")]))


async def test_a_cancelled_caller_still_announces(store: SqlStore, tmp_path: Path) -> None:
    mine = await active_session(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "koda.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with store.notifier.subscribe(mine.id) as changed:
            commit = asyncio.create_task(store.commit(mine.id, 1, Batch(events=[say("x")])))
            while not commit.done():
                await asyncio.sleep(0)
                commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            writer.execute("COMMIT")
            # cancelled before its thread took it, nothing happened; after, it happened and was announced
            await store.close()
            await store.open()
            written = len(await store.events(mine.id)) == 2
            await asyncio.sleep(0)
            assert changed.is_set() == written


async def test_a_full_disk_is_named_and_loses_nothing(small_disk: Path) -> None:
    store = SqlStore(small_disk / "koda.db")
    await store.open()
    mine = await active_session(store)
    acknowledged = 1
    with pytest.raises(StorageError, match=r"koda\.db cannot grow: the disk is full") as caught:
        for index in range(200):
            await store.commit(mine.id, 1, Batch(events=[say("x" * 20_000, index=index)]))
            acknowledged += 1
    assert caught.value.code == "DISK_FULL"
    assert acknowledged > 5
    assert [event.seq for event in await store.events(mine.id, limit=1000)] == list(range(1, acknowledged + 1))
    await store.close()
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    await store.open()
    (made,) = await store.commit(mine.id, 1, Batch(events=[say("room again")]))
    assert made.seq == acknowledged + 1
    await store.close()


async def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken.db").write_bytes(b"this is not a database, however long it is" * 100)
    with pytest.raises(StorageError, match=r"file/koda\.db cannot be opened: "):
        await SqlStore(tmp_path / "file" / "koda.db").open()
    with pytest.raises(StorageError, match=r"broken\.db failed: file is not a database"):
        await SqlStore(tmp_path / "broken.db").open()
    with pytest.raises(RuntimeError, match="not open"):
        await SqlStore(tmp_path / "koda.db").list_sessions("ann")


async def test_a_missing_driver_is_named() -> None:
    with pytest.raises(Missing, match="nosuch"):
        await SqlStore("postgresql+nosuch://u:p4ssw0rd@h/d").open()


def test_it_travels_without_showing_its_password(tmp_path: Path) -> None:
    url = "postgresql+psycopg://koda:p4ssw0rd@db.example/koda"
    store = SqlStore.from_settings(
        Settings.model_validate({"database_provider": "postgres", "database_url": url, "database_path": tmp_path})
    )
    assert "p4ssw0rd" not in repr(store)
    copy = pickle.loads(pickle.dumps(store))
    assert copy.database.url.render_as_string(hide_password=False) == url
    turso = SqlStore.from_settings(
        Settings.model_validate(
            {"database_provider": "turso", "turso_url": "libsql://koda.example", "turso_token": "t0ken"}
        )
    )
    assert "t0ken" not in repr(turso)
    assert turso.database.url.host == "koda.example"
    local = SqlStore.from_settings(Settings.model_validate({"database_path": tmp_path / "a b.db"}))
    assert local.database.url.database == str(tmp_path / "a b.db")
    assert repr(pickle.loads(pickle.dumps(local))) == repr(local)


async def test_video_that_waits_is_added_up_in_one_statement_that_reads_no_whole_state(store: SqlStore) -> None:
    """Of two statements the second may see what was committed after the first: on Postgres a video twice, or never."""
    asked: list[str] = []

    def work(connection: Connection) -> float:
        event.listen(connection, "before_cursor_execute", lambda *given: asked.append(given[2]))
        return queued_video_s(connection, "ann")

    assert await store.database.read(work) == 0.0
    assert len(asked) == 1 and "json_extract" in asked[0]
    assert "body" not in asked[0] and "sessions.state," not in asked[0].replace("json_extract(sessions.state,", "")


async def test_keys_are_not_kept(store: SqlStore, tmp_path: Path) -> None:
    key = await store.create_api_key("ann")
    await store.close()
    assert key.encode() not in (tmp_path / "koda.db").read_bytes()
