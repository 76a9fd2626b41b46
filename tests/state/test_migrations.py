"""The schema, up and down, on SQLite, PostgreSQL and libSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect
from sqlalchemy.exc import DBAPIError

from koda_ray.errors import StorageError
from koda_ray.state import migrate, schema
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.types import now
from tests.state import records
from tests.state.child import start
from tests.state.conformance.history import back
from tests.state.conformance.versions import shown
from tests.state.records import SOON, active_session, new_session, say

config = Config()
config.set_main_option("script_location", str(Path(migrate.__file__).with_name("migrations")))
REVISIONS = [step.revision for step in ScriptDirectory.from_config(config).walk_revisions()][::-1]

LIBSQL = pytest.param("libsql", marks=pytest.mark.full)
step_by_step = pytest.mark.parametrize("database", ["sqlite", "postgres", LIBSQL], indirect=True, scope="session")
"""Through all versions, of which each takes libSQL a second."""
POSTGRES = pytest.param("postgres", marks=pytest.mark.full)
one_step = pytest.mark.parametrize("database", ["sqlite", POSTGRES, LIBSQL], indirect=True, scope="session")
"""What one of them did; that each of them runs on PostgreSQL is shown with every change."""


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if database != "sqlite":
        return request.getfixturevalue(f"new_{database}_url")
    return f"sqlite:///{tmp_path / 'new' / 'koda.db'}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(url)
    await store.open()
    yield store
    await store.close()


def writer_of(store: SqlStore) -> Engine:
    writer = store.database._writer
    assert writer is not None
    return writer


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def told(part: Mapping[str, Any]) -> str:
    """What is said of an inspected part, in one order."""
    return str(sorted((key, told(each) if key == "dialect_options" else str(each)) for key, each in part.items()))


def anatomy(engine: Engine) -> list[tuple[str, str, str]]:
    """Every table, column, key, index and condition with all that the database says of it, in one order."""
    with engine.connect() as connection:
        seen = inspect(connection)
        parts: list[tuple[str, str, str]] = []
        for table in seen.get_table_names():
            kinds: dict[str, Sequence[Mapping[str, Any]]] = {
                "column": seen.get_columns(table),
                "primary": [seen.get_pk_constraint(table)],
                "foreign": seen.get_foreign_keys(table),
                "index": seen.get_indexes(table),
                "unique": seen.get_unique_constraints(table),
                "check": seen.get_check_constraints(table),
            }
            for kind, found in kinds.items():
                parts += [(table, kind, told(each)) for each in found]
        return sorted(parts)


def test_the_stamp_is_the_newest_migration() -> None:
    assert REVISIONS[-1] == schema.SCHEMA_VERSION
    assert ScriptDirectory.from_config(config).get_heads() == [schema.SCHEMA_VERSION]


@step_by_step
async def test_the_migrations_make_the_schema(store: SqlStore) -> None:
    engine = writer_of(store)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        seen = inspect(connection)
        for table in schema.metadata.tables.values():
            there = {index["name"] for index in seen.get_indexes(table.name)}
            assert {index.name for index in table.indexes} <= there
            for index in table.indexes:  # the next migration is written from these
                where = index.dialect_options["sqlite"]["where"]
                assert index.dialect_options["postgresql"]["where"] is where
            assert seen.get_pk_constraint(table.name)["name"] == f"pk_{table.name}"
            keys = {key["name"] for key in seen.get_foreign_keys(table.name)}
            assert keys == {key.name for key in table.foreign_key_constraints}


@one_step
async def test_a_new_database_is_what_the_migrations_end_at(store: SqlStore) -> None:
    writer = writer_of(store)
    made = anatomy(writer)
    assert {table for table, *_ in made} == set(schema.metadata.tables) | {"alembic_version"}
    migrate.downgrade(writer, "base")
    assert {table for table, *_ in anatomy(writer)} == {"alembic_version"}
    migrate.upgrade(writer)
    assert set(anatomy(writer)) ^ set(made) == set()


async def test_foreign_keys_of_databases_made_before_are_called_as_all_others(store: SqlStore) -> None:
    engine = writer_of(store)
    if engine.dialect.name != "postgresql":
        pytest.skip("only there is a foreign key known by its name")
    mine = await active_session(store)
    migrate.downgrade(engine, "0006")
    with engine.begin() as connection:  # as they were made once
        for table in ("states", "heads", "charges", "accounts"):
            rename = f"ALTER TABLE {table} RENAME CONSTRAINT fk_{table}_user_id TO fk_{table}_user_id_users"
            connection.exec_driver_sql(rename)
    migrate.upgrade(engine)
    with engine.connect() as connection:
        for table in schema.metadata.tables.values():
            keys = {key["name"] for key in inspect(connection).get_foreign_keys(table.name)}
            assert keys == {key.name for key in table.foreign_key_constraints}
    assert await store.get_session(mine.id) == mine


@step_by_step
async def test_migrations_go_down_to_nothing_and_up_again(store: SqlStore) -> None:
    await new_session(store)
    writer = writer_of(store)
    for revision in [*REVISIONS[-2::-1], "base"]:
        migrate.downgrade(writer, revision)
    assert tables(writer) == {"alembic_version"}
    for revision in REVISIONS:
        migrate.upgrade(writer, revision)
    assert tables(writer) == {*schema.metadata.tables, "alembic_version"}
    await store.close()
    await store.open()
    assert await store.list_sessions("ann") == []
    await new_session(store)


@pytest.mark.full
@one_step
async def test_what_is_kept_outlives_every_step_down_and_up(store: SqlStore) -> None:
    mine = await active_session(store)
    (event,) = await store.commit(mine.id, 1, Batch(events=[say("x")]))
    before = await store.get_session(mine.id)
    writer = writer_of(store)
    epochs: list[int] = []
    for revision in REVISIONS[-2::-1]:
        migrate.downgrade(writer, revision)
        migrate.upgrade(writer)
        assert await store.get_session(mine.id) == before
        assert (await store.events(mine.id, after=1)) == [event]
        lock = await store.take_lock("l", holder="h", lease_until=now() + SOON)
        assert lock is not None
        await store.release_lock(lock)
        epochs.append(lock.epoch)
    assert epochs[-1] == 1, "what a step brought is gone with it, and comes back empty"


@one_step
async def test_what_hangs_on_rows_that_a_step_makes_anew_stays(store: SqlStore) -> None:
    mine = await active_session(store, project_id="p")
    box, own = records.sandbox(mine), records.own_sandbox()
    batch = Batch(
        messages=[records.message(mine, 0)],
        tool_calls=[records.tool_call(mine)],
        checkpoint=records.checkpoint(mine, 1),
        sandboxes=[box],
        jobs=[records.job("ann", mine)],
    )
    await store.commit(mine.id, 1, batch)
    await store.add_asset(records.asset("ann", mine))
    assert await store.add_sandbox(own, most=9)
    assert await store.put_process(records.process(own))
    await new_session(store, "bob", project_id="p")
    writer = writer_of(store)

    def counted() -> dict[str, int]:
        away = {
            "inbox",
            "contents",
            "holdings",
            "versions",
            "shares",
            "share_comments",
            "canvases",
        }  # by the steps down
        there = tables(writer) - away - {"alembic_version"}
        with writer.connect() as connection:
            return {name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in there}

    before = counted()
    assert before["projects"] == 2 and all(before[name] for name in ("messages", "checkpoints", "jobs", "processes"))
    migrate.downgrade(writer, "0009")
    assert counted() == {**before, "projects": 1}
    migrate.upgrade(writer)
    assert counted() == {**before, "projects": 2}
    for user in ("ann", "bob"):
        await new_session(store, user, project_id="p")
    assert await store.messages(mine.id) == batch.messages
    with writer.begin() as connection, pytest.raises(DBAPIError):  # foreign keys are on again
        connection.exec_driver_sql("INSERT INTO projects VALUES ('nobody', 'p', 'x', '2026-11-01 00:00:00')")


@one_step
async def test_an_older_database_is_brought_up_when_it_is_opened(store: SqlStore) -> None:
    mine = await active_session(store)
    migrate.downgrade(writer_of(store), REVISIONS[0])
    await store.close()
    await store.open()
    assert await store.get_session(mine.id) == mine
    assert (await store.health()).schema == schema.SCHEMA_VERSION


@one_step
async def test_takes_that_were_made_before_are_found_by_their_group(store: SqlStore) -> None:
    state = records.state().model_copy(update={"group": "grp_1"})
    mine, _ = await store.create_session(state, key="k", body={})
    await new_session(store)
    migrate.downgrade(writer_of(store), "0014")
    await store.close()
    await store.open()
    assert await store.list_sessions("ann", group="grp_1") == [mine]


@one_step
async def test_previews_that_were_shown_before_are_versions_and_can_be_gone_to(store: SqlStore) -> None:
    mine = await active_session(store)
    first = await shown(store, mine, 1)
    await store.commit(mine.id, mine.epoch, Batch(messages=[records.message(mine, 1)]))
    second = await shown(store, mine, 2, "red")
    migrate.downgrade(writer_of(store), "0016")
    await store.close()
    await store.open()
    found = await store.versions(mine.id, limit=9)
    assert [(each.number, each.job_id, each.asked, each.bundle) for each in found] == [
        (each.number, each.job_id, each.asked, each.bundle) for each in (second, first)
    ]
    assert [each.scenes for each in found] == [second.scenes, first.scenes], "of the states that were kept"
    await store.rewind(mine.id, mine.epoch, found[1].id, back)
    assert [each.live for each in await store.versions(mine.id, limit=9)] == [False, True]
    await store.rewind(mine.id, mine.epoch, found[0].id, back)
    state = (await store.get_session(mine.id)).state
    assert state.preview is not None and state.preview.job_id == "job_2"


@one_step
@pytest.mark.parametrize("made_by_it", [False, True], ids=["without", "with"])
async def test_the_index_of_a_users_uploads_is_there_whether_0015_made_it_or_not(
    store: SqlStore, made_by_it: bool
) -> None:
    writer = writer_of(store)
    whole = anatomy(writer)
    migrate.downgrade(writer, "0015")
    if made_by_it:  # as that revision did for a while
        with writer.begin() as connection:
            connection.exec_driver_sql("CREATE INDEX ix_assets_user_id ON assets (user_id)")
    await store.close()
    await store.open()
    assert anatomy(writer_of(store)) == whole
    migrate.downgrade(writer_of(store), "0014")
    assert "ix_assets_user_id" not in str(anatomy(writer_of(store)))


@one_step
async def test_what_was_uploaded_before_there_were_pictures_of_notes_is_a_file(store: SqlStore) -> None:
    asset = records.asset()
    await store.add_asset(replace(asset, purpose="note"))
    migrate.downgrade(writer_of(store), "0022")
    await store.close()
    await store.open()
    assert await store.own_assets("ann") == [asset]


async def test_a_newer_database_is_left_alone(store: SqlStore) -> None:
    with writer_of(store).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    await store.close()
    with pytest.raises(StorageError, match=r"schema 9999, newer than .* upgrade koda_ray") as caught:
        await store.open()
    assert caught.value.code == "SCHEMA_NEWER"
    assert not caught.value.retryable


@pytest.mark.full
async def test_many_processes_open_a_new_database_at_once(url: str) -> None:
    children = [start("open", url, index) for index in range(5)]
    for child in children:
        output, _ = child.communicate(timeout=120)
        assert child.returncode == 0, output
    store = SqlStore(url)
    await store.open()
    assert {session.user_id for index in range(5) for session in await store.list_sessions(f"user-{index}")} == {
        f"user-{index}" for index in range(5)
    }
    await store.close()
