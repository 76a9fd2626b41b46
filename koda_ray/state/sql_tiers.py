"""Questions, health, figures and locks on the SQL database; see `tiers`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, cast

from sqlalchemy import Connection, func, literal, or_, select, text, update

from koda_ray.errors import Fenced, KodaError
from koda_ray.state import schema
from koda_ray.state.database import Database
from koda_ray.state.records import SessionRecord
from koda_ray.state.rows import record, session
from koda_ray.state.tiers import LockRecord, StoreHealth, StoreMetrics, TimeWindow
from koda_ray.types import now

__all__ = ["COUNTED", "SqlTiers"]

COUNTED = 10_000
"""So many rows of a table are counted; what more there are is estimated: whoever looks is not to wait for a count."""
_HEALTH_S = 5.0
_L = schema.locks.c
_S = schema.sessions.c


class SqlTiers:
    """The part of `SqlStore` that is not about keeping sessions."""

    _database: Database

    async def query_sessions(
        self, user_id: str, *, statuses: Sequence[Literal["active", "suspended"]] = (), window: TimeWindow | None = None
    ) -> list[SessionRecord]:
        """Read a user's sessions by when they were last used, newest first."""
        query = select(schema.sessions).where(_S.user_id == user_id, schema.IS_SEEN)
        if statuses:
            query = query.where(_S.status.in_(statuses))
        window = window or TimeWindow()
        if window.since is not None:
            query = query.where(_S.last_activity >= window.since)
        if window.until is not None:
            query = query.where(_S.last_activity < window.until)
        query = query.order_by(_S.last_activity.desc(), _S.id.desc()).limit(window.limit)
        return await self._database.read(lambda connection: [session(row) for row in connection.execute(query)])

    async def health(self) -> StoreHealth:
        """Try to read and to write, changing nothing; never raises."""
        began = time.perf_counter()
        schema_version, detail = None, ""
        try:
            async with asyncio.timeout(_HEALTH_S):
                version = text("SELECT version_num FROM alembic_version")
                schema_version = await self._database.read(lambda connection: connection.execute(version).scalar())
                await self._database.write(lambda _: None)
        except KodaError as error:
            detail = error.message
        except TimeoutError:
            detail = f"no answer within {_HEALTH_S:g} s"
        except RuntimeError as error:
            detail = str(error)
        took = 1000 * (time.perf_counter() - began)
        backend = self._database.url.get_backend_name()
        return StoreHealth(ok=not detail, backend=backend, schema=schema_version, latency_ms=took, detail=detail)

    async def metrics(self) -> StoreMetrics:
        """Count rows and bytes, beside what this process has asked; of large tables it is estimated."""

        def work(connection: Connection) -> tuple[dict[str, int], int]:
            return _rows(connection, self._database), _size(connection, self._database)

        rows, size_bytes = await self._database.read(work)
        return self._database.meter.metrics(self._database.url.get_backend_name(), rows, size_bytes)

    async def take_lock(self, name: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take a lock that nobody has, or whose lease has run out."""
        values = {"name": name, "holder": holder, "epoch": 1, "lease_until": lease_until}
        insert = self._database.insert(schema.locks).values(values)
        statement = insert.on_conflict_do_update(
            index_elements=["name"],
            set_={"holder": insert.excluded.holder, "lease_until": lease_until, "epoch": _L.epoch + 1},
            where=or_(_L.lease_until.is_(None), _L.lease_until <= now()),
        ).returning(schema.locks)
        row = await self._database.write(lambda connection: connection.execute(statement).one_or_none())
        return None if row is None else record(LockRecord, row)

    async def renew_lock(self, lock: LockRecord, *, lease_until: datetime) -> LockRecord:
        """Keep a lock longer; raises Fenced."""
        mine = update(schema.locks).where(_L.name == lock.name, _L.epoch == lock.epoch, _L.lease_until.is_not(None))
        statement = mine.values(lease_until=lease_until).returning(schema.locks)
        row = await self._database.write(lambda connection: connection.execute(statement).one_or_none())
        if row is None:
            raise Fenced(f"lock {lock.name!r} of {lock.holder!r} was given up or taken since: it must stop")
        return record(LockRecord, row)

    async def release_lock(self, lock: LockRecord) -> None:
        """Give a lock up."""
        statement = update(schema.locks).where(_L.name == lock.name, _L.epoch == lock.epoch).values(lease_until=None)
        await self._database.write(lambda connection: connection.execute(statement))


def _rows(connection: Connection, database: Database) -> dict[str, int]:
    """Count each table's rows, in one query; those beyond `COUNTED` are what the database takes them for."""
    tables = schema.metadata.sorted_tables
    some = (select(literal(1).label("one")).select_from(table).limit(COUNTED + 1).subquery() for table in tables)
    counts = [select(func.count()).select_from(few).scalar_subquery() for few in some]
    found = zip(tables, connection.execute(select(*counts)).one(), strict=True)
    counted = {table.name: int(count) for table, count in found}
    large = [name for name, count in counted.items() if count > COUNTED]
    return counted | {name: max(COUNTED, _estimated(connection, name, database)) for name in large}


def _estimated(connection: Connection, table: str, database: Database) -> int:
    """Say how many rows a table has, at the cost of one: as of its last analysis, or with what was deleted since."""
    if database.is_sqlite:
        return int(connection.exec_driver_sql(f'SELECT max(rowid) - min(rowid) + 1 FROM "{table}"').scalar_one())
    known = text("SELECT reltuples FROM pg_class WHERE oid = to_regclass(:name)")
    return int(connection.execute(known, {"name": table}).scalar_one())


def _size(connection: Connection, database: Database) -> int:
    if not database.is_sqlite:
        return cast("int", connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
    pages, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "page_size"))
    return int(pages) * int(size)
