"""Fixtures of real database servers: one PostgreSQL for all tests, a libSQL server for each that asks for one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.state.sql import SqlStore
from tests import pgbouncer, postgres, services, sqld
from tests.postgres import Postgres

__all__ = [
    "libsql_template",
    "libsql_url",
    "new_libsql_url",
    "new_postgres_url",
    "pgbouncer_home",
    "pgbouncer_url",
    "postgres_server",
    "postgres_template",
    "postgres_url",
]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    services.need("postgres")
    with postgres.serve() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Postgres) -> str:
    """A database with the newest schema, and nobody in it."""
    name = postgres_server.create()

    async def migrate() -> None:
        store = SqlStore(postgres_server.url(name))
        await store.open()
        await store.close()

    asyncio.run(migrate())
    return name


@pytest.fixture(scope="session")
def libsql_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a libSQL server whose database has the newest schema."""
    services.need("libsql")
    template = tmp_path_factory.mktemp("sqld") / "data"

    async def migrate(url: str) -> None:
        store = SqlStore(url)
        await store.open()
        await store.close()

    with sqld.serve() as server:
        asyncio.run(migrate(server.url))
        shutil.copytree(server.data, template)
    return template


@pytest.fixture
def libsql_url(libsql_template: Path) -> Iterator[str]:
    """A server of its own for one test."""
    with sqld.serve(libsql_template) as server:
        yield server.url


@pytest.fixture
def new_libsql_url() -> Iterator[str]:
    """A server of its own for one test, without tables."""
    services.need("libsql")
    with sqld.serve() as server:
        yield server.url


@pytest.fixture
def postgres_url(postgres_server: Postgres, postgres_template: str) -> Iterator[str]:
    """A database of its own for one test."""
    name = postgres_server.create(postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.fixture(scope="session")
def pgbouncer_home(postgres_server: Postgres) -> Iterator[Path]:
    services.need("pgbouncer")
    with pgbouncer.serve(postgres_server.url()) as home:
        yield home


@pytest.fixture
def pgbouncer_url(pgbouncer_home: Path, postgres_url: str) -> str:
    """The way through PgBouncer to a database of its own for one test."""
    return pgbouncer.behind(postgres_url, pgbouncer_home)


@pytest.fixture
def new_postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """A database of its own for one test, without tables."""
    name = postgres_server.create()
    yield postgres_server.url(name)
    postgres_server.drop(name)
