"""A SQL database as two calls: ``read`` and ``write``, each in a thread, each one transaction.

Writers on SQLite begin with ``BEGIN IMMEDIATE``, so that a transaction that has read never fails to become a writer;
in WAL mode readers are never blocked. Every commit is synced to disk (``synchronous=FULL``): a stored START of a tool
call must outlive a power cut as well as a killed process, because what the tool did outlives both. A lease need not:
who has it does not outlive a power cut either. Threads are the store's own: a render that fills the loop's default pool
does not delay the reading of a state.

A server that has fallen silent is noticed in seconds (`silence`), by the few that have a connection; whoever waited for
one of these meanwhile is told the same, and does not find it out anew, one after the other.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table, create_engine, event
from sqlalchemy.dialects import registry, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError, OperationalError, ProgrammingError

from koda_ray.clock import CLOCK
from koda_ray.errors import DatabaseAway, Missing, StorageError
from koda_ray.state.creation import create, stamp_of
from koda_ray.state.meter import Meter
from koda_ray.state.rows import record
from koda_ray.state.schema import SCHEMA_VERSION
from koda_ray.state.silence import CONNECT_S, postgres_arguments, postgres_request

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlalchemy.dialects import postgresql

__all__ = ["Database"]

T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")

_BUSY_TIMEOUT_S = 15.0
_TURN_MIN_S, _TURN_MAX_S = 0.0005, 0.01
_OPEN_TIMEOUT_S = 60.0
_WAL_LIMIT_BYTES = 64 << 20
_CACHE_KB = 256
"""Pages that a connection keeps: its own 2 MB would be forgotten with the next commit of another process anyhow."""
_LIBSQL = "sqlite+libsql"
_TIME = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
}
"""What asks a server for its time, in seconds since 1970."""
_SILENT_S = CONNECT_S / 2
"""A server that is away and said nothing for so long, in seconds, would keep others waiting as well."""
_ENDS = ("08", "57P01", "57P02", "57P03", "57P05", "25P03")
"""How the states begin with which PostgreSQL ends a connection or takes none: lost, shut down, starting, idle too long.

Source: PostgreSQL's documentation, appendix A.
"""
_PACKAGES = {"psycopg": "psycopg[binary]"}


class _Cursor(Protocol):
    def execute(self, sql: str, /) -> object: ...
    def close(self) -> None: ...


class _Driver(Protocol):
    def cursor(self) -> _Cursor: ...
    def commit(self) -> None: ...


class Database:
    """Connections, threads and error names for one database.

    Args:
        url: A SQLAlchemy URL; its password is never shown.
        connections: How many calls are made at once at most, each on a connection of its own.
    """

    def __init__(self, url: str, *, connections: int = 4) -> None:
        self.url: URL = make_url(url)
        self.meter = Meter()
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._connections = connections
        self._is_remote = self.url.drivername == _LIBSQL
        self._has_clock = self._is_remote or not self.is_sqlite  # a file is on this machine
        self._engine: Engine | None = None
        self._writer: Engine | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._silent: tuple[float, DatabaseAway] | None = None  # when that was found, and what was said then
        self._upserts: dict[tuple[Table, tuple[str, ...]], sqlite.Insert | postgresql.Insert] = {}
        # SQLite has one writer: queueing here is fair, queueing on its file lock is sleeping
        self._turn = threading.Lock() if self.is_sqlite else nullcontext()

    def __repr__(self) -> str:
        return f"Database({self._where()!r})"

    async def open(self) -> None:
        """Connect, and bring the schema up to date; nothing happens when it is open.

        Raises:
            Missing: The driver's package is not installed.
            StorageError: The database cannot be opened, or is newer than this program (code SCHEMA_NEWER).
        """
        if self._engine is None:
            await asyncio.to_thread(self._open)

    async def close(self) -> None:
        """Finish what is running and release every connection; may be called twice."""
        engine, writer, threads = self._engine, self._writer, self._threads
        self._engine = self._writer = self._threads = None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        for each in (engine, writer):
            if each is not None:
                each.dispose()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run queries. Raises StorageError."""
        with self.meter.timed("read"):
            return await self._in_thread(lambda: self._work(self._require(self._engine), work, nullcontext()))

    async def records(self, cls: type[R], query: Select[*tuple[Any, ...]]) -> list[R]:
        """Run a query for one kind of record."""
        return await self.read(lambda connection: [record(cls, row) for row in connection.execute(query)])

    async def write(
        self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None, *, synced: bool = True
    ) -> T:
        """Run one write transaction; it is rolled back when ``work`` raises.

        Args:
            work: What to do on the connection.
            then: Called with the result once it is durable, in the same thread: it runs also when the caller was
                cancelled meanwhile.
            synced: Whether it outlives a power cut; else, in a file of this machine, it outlives a killed process alone
                and does not keep the file's other writers waiting for the disk.

        Raises:
            DatabaseAway: It may be written all the same.
            StorageError: Code DISK_FULL where that is why.
        """

        def run() -> T:
            how = nullcontext if synced or self._has_clock else _unsynced
            result = self._work(self._require(self._writer), work, self._turn, how)
            if then is not None:
                then(result)
            return result

        with self.meter.timed("write"):
            return await self._in_thread(run)

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Start an INSERT that knows ``ON CONFLICT`` (the same words in both dialects)."""
        if self.is_sqlite:
            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # 2 MB that only a session whose rows are there pays

        return postgresql.insert(table)

    def upsert(
        self, table: Table, *, keep: tuple[str, ...] = (), where: ColumnElement[bool] | None = None
    ) -> sqlite.Insert | postgresql.Insert:
        """Start an INSERT that replaces a row of the same primary key, but for its key and the columns to keep.

        Args:
            table: Where.
            keep: Columns that stay as they are.
            where: What must hold of the row that is there; else nothing is written.
        """
        if where is None and (known := self._upserts.get((table, keep))) is not None:
            return known  # making one takes longer than most transactions
        statement = self.insert(table)
        keys = [column.name for column in table.primary_key]
        made = statement.on_conflict_do_update(
            index_elements=keys,
            set_={
                column.name: statement.excluded[column.name]
                for column in table.columns
                if column.name not in keys and column.name not in keep
            },
            where=where,
        )
        if where is None:
            self._upserts[table, keep] = made
        return made

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._threads is None:
            raise RuntimeError(f"{self!r} is not open: await open() first")
        asked_at = time.monotonic()

        def run() -> T:
            if (silent := self._silent) is not None and asked_at < silent[0]:
                raise DatabaseAway(silent[1].message, context=silent[1].context)
            return call()

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _require(self, engine: Engine | None) -> Engine:
        if engine is None:
            raise RuntimeError(f"{self!r} was closed")
        return engine

    def _work(
        self,
        engine: Engine,
        work: Callable[[Connection], T],
        turn: threading.Lock | nullcontext[None],
        how: Callable[[Connection], AbstractContextManager[object]] = nullcontext,
    ) -> T:
        began = time.monotonic()
        try:
            with turn, engine.connect() as connection, how(connection), connection.begin():
                if self._has_clock and CLOCK.is_due:
                    self._hear_clock(connection)
                return work(connection)
        except (IntegrityError, ProgrammingError):
            raise  # a mistake of ours, not the database's state
        except DBAPIError as error:
            failed, at = self._failed(error), time.monotonic()
            if isinstance(failed, DatabaseAway) and at - began >= _SILENT_S:
                self._silent = at, failed
            raise failed from error

    def _is_away(self, error: DBAPIError) -> bool:
        """Whether a server was not reached, or has ended the connection: that is not about what was asked."""
        if not self._has_clock:
            return False
        if self._is_remote:
            from koda_ray.state.hrana import NoAnswer

            return isinstance(error.orig, NoAnswer)
        state = getattr(error.orig, "sqlstate", None)
        return isinstance(error, OperationalError) if state is None else state.startswith(_ENDS)

    def _hear_clock(self, connection: Connection) -> None:
        asked = _TIME[connection.dialect.name]
        CLOCK.hear(lambda: float(connection.exec_driver_sql(asked).scalar_one()))

    def _failed(self, error: DBAPIError) -> StorageError:
        why = str(error.orig)
        if "disk is full" in why or "No space left" in why:
            return StorageError(
                f"the database {self._where()} cannot grow: the disk is full; free some space and try again",
                code="DISK_FULL",
            )
        if self._is_away(error):
            return DatabaseAway(f"the database {self._where()} does not answer: {why}")
        return StorageError(f"the database {self._where()} failed: {why}")

    def _where(self) -> str:
        if self.is_sqlite and not self.url.host:
            return str(self.url.database)
        # built from parts: a URL hides its password, but not a token among its options
        return f"{self.url.drivername}://{self.url.host or ''}/{self.url.database or ''}"

    def _open(self) -> None:
        if self.is_sqlite and self.url.database and not self.url.host:
            path = Path(self.url.database)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                # prompts and key hashes: for this user only; SQLite gives its side files the same mode
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise StorageError(f"the database {path} cannot be opened: {error.strerror}") from error
        engine, writer = self._engines()
        try:
            self._migrate(engine, writer)
            if self._has_clock:  # before anything is written that another machine judges
                with engine.connect() as connection:
                    self._hear_clock(connection)
        except BaseException as error:
            engine.dispose()
            writer.dispose()
            if isinstance(error, DBAPIError):
                raise self._failed(error) from error
            raise
        self._engine, self._writer = engine, writer
        self._threads = ThreadPoolExecutor(self._connections, thread_name_prefix="koda-store")

    def _engines(self) -> tuple[Engine, Engine]:
        """Build the engine that reads and the one that writes."""
        try:
            if not self.is_sqlite:
                # nothing is prepared: behind PgBouncer the next transaction may be on a connection that lacks it
                arguments = {"prepare_threshold": None} if self.url.get_driver_name() == "psycopg" else {}
                engine = create_engine(
                    self.url,
                    connect_args={**arguments, **postgres_arguments(self.url)},
                    pool_size=self._connections,
                    max_overflow=0,
                    pool_pre_ping=True,
                    hide_parameters=True,
                )
                event.listen(engine, "connect", _ask_to_notice)
                return engine.execution_options(isolation_level="AUTOCOMMIT"), engine
            if self._is_remote:
                registry.register("sqlite.libsql", "koda_ray.state.libsql", "LibsqlDialect")
                # two pools, as for a file: readers do not wait behind a writer
                engine, writer = (
                    create_engine(self.url, pool_size=size, max_overflow=0, hide_parameters=True)
                    for size in (self._connections, 1)
                )
                event.listen(writer, "begin", _begin)
                return engine, writer
            # isolation_level None: the driver begins nothing by itself; parameters are people's prompts, so an error
            # does not show them
            arguments = {"check_same_thread": False, "isolation_level": None, "timeout": _BUSY_TIMEOUT_S}
            engine, writer = (
                create_engine(self.url, connect_args=arguments, pool_size=size, max_overflow=0, hide_parameters=True)
                for size in (self._connections, 1)
            )
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            driver = self.url.drivername.partition("+")[2]
            package = _PACKAGES.get(driver, driver or self.url.drivername)
            raise Missing(f"{self!r} needs a package: pip install {package!r}") from error
        for each in (engine, writer):
            event.listen(each, "connect", _set_up)
        event.listen(writer, "connect", _never_sleep)
        event.listen(writer, "begin", _begin)
        return engine, writer

    def _migrate(self, engine: Engine, writer: Engine) -> None:
        while (version := self._stamp(engine)) is None:
            create(writer)
        if version > SCHEMA_VERSION:
            raise StorageError(
                f"the database {self._where()} has schema {version}, newer than {SCHEMA_VERSION} of this koda_ray: "
                "upgrade koda_ray",
                code="SCHEMA_NEWER",
                retryable=False,
            )
        if version != SCHEMA_VERSION:
            from koda_ray.state.migrate import upgrade  # Alembic: 11 MB that only who opens an older database pays

            upgrade(writer)

    def _stamp(self, engine: Engine) -> str | None:
        deadline = time.monotonic() + _OPEN_TIMEOUT_S
        while True:
            try:
                with engine.connect() as connection:
                    return stamp_of(connection)
            except DBAPIError as error:
                # turning a new file to WAL is the one step that does not wait for another process doing the same
                if "locked" not in str(error.orig) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _ask_to_notice(driver: _Driver, _record: object) -> None:
    cursor = driver.cursor()
    cursor.execute(postgres_request())
    cursor.close()
    driver.commit()


def _set_up(driver: _Driver, _record: object) -> None:
    cursor = driver.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    cursor.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
    cursor.close()


@contextmanager
def _unsynced(connection: Connection) -> Generator[None]:
    """Have the transactions of a connection wait for no disk meanwhile; it never stays so."""
    _say(connection, "PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        try:
            _say(connection, "PRAGMA synchronous = FULL")
        except BaseException:
            connection.invalidate()
            raise


def _say(connection: Connection, sql: str) -> None:
    """Run what must not be in a transaction: SQLAlchemy would begin one."""
    cursor = cast("_Driver", connection.connection).cursor()
    try:
        cursor.execute(sql)
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(sql, None, error) from error
    finally:
        cursor.close()


def _never_sleep(driver: _Driver, _record: object) -> None:
    cursor = driver.cursor()
    cursor.execute("PRAGMA busy_timeout = 0")  # `_begin` does the waiting
    cursor.close()


def _begin(connection: Connection) -> None:
    """Become the one writer of the file.

    SQLite's own waiting sleeps longer and longer and so starves whoever came late, for seconds beside a busy writer;
    this keeps looking, every few milliseconds, and takes its turn between two commits of the other.
    """
    driver = cast("_Driver", connection.connection)
    deadline, pause = time.monotonic() + _BUSY_TIMEOUT_S, _TURN_MIN_S
    while time.monotonic() < deadline:
        cursor = driver.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            return
        except connection.dialect.loaded_dbapi.OperationalError as error:
            if "locked" not in str(error):
                break
        finally:
            cursor.close()
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 1.5, _TURN_MAX_S)
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # once more, where SQLAlchemy gives the error its class
