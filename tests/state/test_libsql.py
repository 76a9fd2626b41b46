"""The store on a real libSQL server, and the driver that speaks to it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from koda_ray.config import Settings
from koda_ray.errors import StorageError
from koda_ray.state import hrana
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from tests import services, sqld
from tests.state.conformance.connecting import connecting
from tests.state.records import active_session, say
from tests.state.store_conformance import Connect, StoreConformance


@pytest.mark.full(all=True)
class TestLibsql(StoreConformance):
    @pytest.fixture
    async def connect(self, libsql_url: str) -> AsyncIterator[Connect]:
        async with connecting(libsql_url) as connect:
            yield connect


@pytest.fixture
def connection(libsql_url: str) -> Iterator[hrana.HranaConnection]:
    connection = hrana.connect(libsql_url.replace("sqlite+libsql", "http"))
    connection.cursor().execute("CREATE TABLE things (id TEXT PRIMARY KEY, n INTEGER, data BLOB, part REAL)")
    yield connection
    connection.close()


def rows(connection: hrana.HranaConnection, sql: str = "SELECT id FROM things ORDER BY id") -> list[object]:
    return [row[0] if len(row) == 1 else row for row in connection.cursor().execute(sql).fetchall()]


def test_values_come_back_as_they_were(connection: hrana.HranaConnection) -> None:
    given = [("a", 2**62, b"\0\xff", 0.5), ("\u00fc\U0001f973", -1, b"", -0.0), ("n", None, None, None)]
    cursor = connection.cursor().executemany("INSERT INTO things VALUES (?, ?, ?, ?)", given)
    assert cursor.rowcount == 3
    assert rows(connection, "SELECT * FROM things ORDER BY n") == [given[2], given[1], given[0]]
    with pytest.raises(hrana.InterfaceError, match="a parameter is a list"):
        connection.cursor().execute("SELECT ?", ([],))  # type: ignore[arg-type]


def test_a_cursor_gives_its_rows_once(connection: hrana.HranaConnection) -> None:
    connection.cursor().executemany("INSERT INTO things (id) VALUES (?)", [(name,) for name in "abcde"])
    cursor = connection.cursor().execute("SELECT id FROM things ORDER BY id")
    assert cursor.description is not None and cursor.description[0][0] == "id"
    assert cursor.fetchone() == ("a",) and cursor.fetchmany(2) == [("b",), ("c",)]
    assert cursor.fetchall() == [("d",), ("e",)] and cursor.fetchone() is None
    done = connection.cursor().execute("UPDATE things SET n = 1 WHERE id > 'c'")
    assert (done.rowcount, done.description) == (2, None)


def test_a_transaction_is_seen_whole_or_not_at_all(connection: hrana.HranaConnection, libsql_url: str) -> None:
    other = hrana.connect(libsql_url.replace("sqlite+libsql", "http"))
    for end, there in ((connection.rollback, []), (connection.commit, ["a", "b"])):
        connection.cursor().execute("BEGIN IMMEDIATE")
        connection.cursor().executemany("INSERT INTO things (id) VALUES (?)", [("a",), ("b",)])
        assert rows(connection) == ["a", "b"] and rows(other) == []
        end()
        assert rows(other) == there and not connection.in_transaction
    other.close()


def test_refusals_have_their_names(connection: hrana.HranaConnection) -> None:
    cursor = connection.cursor()
    cursor.execute("INSERT INTO things (id) VALUES ('a')")
    with pytest.raises(hrana.IntegrityError, match=r"UNIQUE constraint failed: things\.id"):
        cursor.execute("INSERT INTO things (id) VALUES ('a')")
    cursor.execute("BEGIN")
    with pytest.raises(hrana.IntegrityError, match="UNIQUE"):
        cursor.executemany("INSERT INTO things (id) VALUES (?)", [("b",), ("a",), ("c",)])
    connection.commit()
    assert rows(connection) == ["a", "b"]  # what came after the one that failed was not tried
    for wrong in ("nonsense", "SELECT nope"):
        with pytest.raises(hrana.ProgrammingError):
            cursor.execute(wrong)


def test_what_was_begun_at_a_server_that_is_gone_is_never_taken_for_done() -> None:
    services.need("libsql")
    with sqld.serve() as server:
        connection = hrana.connect(server.address)
        connection.cursor().execute("CREATE TABLE things (id TEXT)")
        connection.cursor().execute("BEGIN IMMEDIATE")
    with pytest.raises(hrana.OperationalError, match="no answer"):
        connection.cursor().execute("INSERT INTO things VALUES ('a')")
    for late in (lambda: connection.cursor().execute("INSERT INTO things VALUES ('b')"), connection.commit):
        with pytest.raises(hrana.OperationalError, match="the transaction was lost"):
            late()
    connection.rollback()
    connection.close()


async def test_who_waits_for_another_writer_stops_nobody_else(libsql_url: str) -> None:
    store = SqlStore(libsql_url)
    await store.open()
    mine = await active_session(store)
    writer = hrana.connect(libsql_url.replace("sqlite+libsql", "http"))
    writer.cursor().execute("BEGIN IMMEDIATE")
    commit = asyncio.create_task(store.commit(mine.id, 1, Batch(events=[say("later")])))
    for _ in range(20):
        assert len(await store.events(mine.id)) == 1  # the loop goes on, and readers read
    assert not commit.done()
    await asyncio.to_thread(writer.commit)
    assert [event.seq for event in await commit] == [2]
    writer.close()
    await store.close()


async def test_a_server_wants_its_token_and_nobody_is_shown_it(tmp_path: Path) -> None:
    services.need("libsql")
    key, stranger = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(public)
    with sqld.serve(None, "--auth-jwt-key-file", str(tmp_path / "key.pem")) as server:
        for signer, fits in ((stranger, False), (key, True)):
            token = _token(signer)
            settings = {"database_provider": "turso", "turso_url": server.address, "turso_token": token}
            store = SqlStore.from_settings(Settings.model_validate(settings))
            if fits:
                await store.open()
                assert (await store.health()).ok
                await store.close()
                continue
            with pytest.raises(StorageError, match="HTTP 401") as caught:
                await store.open()
            assert token not in caught.value.message and "127.0.0.1" in caught.value.message


def _token(key: Ed25519PrivateKey) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "EdDSA"}, {})]
    signature = base64.urlsafe_b64encode(key.sign(b".".join(parts))).rstrip(b"=")
    return b".".join([*parts, signature]).decode()


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(StorageError, match=r"sqlite\+libsql://127\.0\.0\.1/ does not answer: no answer: ConnectError"):
        await SqlStore("sqlite+libsql://127.0.0.1:9").open()


@pytest.mark.parametrize(
    ("url", "token", "made"),
    [
        ("libsql://koda.example", "t", "sqlite+libsql://koda.example?authToken=t&secure=true"),
        ("https://koda.example/", None, "sqlite+libsql://koda.example?secure=true"),
        ("http://127.0.0.1:8080", None, "sqlite+libsql://127.0.0.1:8080"),
        ("ws://localhost:8080", "t", "sqlite+libsql://localhost:8080?authToken=t"),
    ],
)
def test_an_address_of_turso_is_taken_as_turso_writes_it(url: str, token: str | None, made: str) -> None:
    settings = Settings.model_validate({"database_provider": "turso", "turso_url": url, "turso_token": token})
    store = SqlStore.from_settings(settings)
    assert store.database.url.render_as_string(hide_password=False) == made
