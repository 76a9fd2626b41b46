"""Questions, health, figures and locks in a folder of JSON; see `tiers`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from koda_ray.errors import Fenced, KodaError
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_parts import epoch_of
from koda_ray.state.json_recovery import FORMAT_VERSION
from koda_ray.state.json_rows import decode, encode, is_seen, moment, words
from koda_ray.state.json_tables import Tables, Transaction
from koda_ray.state.records import SessionRecord
from koda_ray.state.tiers import LockRecord, StoreHealth, StoreMetrics, TimeWindow
from koda_ray.types import now

__all__ = ["JsonTiers"]

_BACKEND = "json"
_HEALTH_S = 5.0


class JsonTiers:
    """The part of `JSONStore` that is not about keeping sessions."""

    _database: JsonDatabase

    async def query_sessions(
        self, user_id: str, *, statuses: Sequence[Literal["active", "suspended"]] = (), window: TimeWindow | None = None
    ) -> list[SessionRecord]:
        """Read a user's sessions by when they were last used, newest first."""
        wanted, part = statuses or ("active", "suspended"), window or TimeWindow()
        since = None if part.since is None else moment(part.since)
        until = None if part.until is None else moment(part.until)

        def work(tables: Tables) -> list[SessionRecord]:
            found = [
                row
                for row in tables.of("sessions")
                if row["user_id"] == words(user_id)
                and is_seen(row)
                and row["status"] in wanted
                and (since is None or str(row["last_activity"]) >= since)
                and (until is None or str(row["last_activity"]) < until)
            ]
            found.sort(key=lambda row: (str(row["last_activity"]), str(row["id"])), reverse=True)
            return [decode(SessionRecord, row) for row in found[: part.limit]]

        return await self._database.read(work)

    async def health(self) -> StoreHealth:
        """Ask the disk for an answer, changing nothing; never raises."""
        began = time.perf_counter()
        detail = ""
        try:
            async with asyncio.timeout(_HEALTH_S):
                await self._database.check()
        except KodaError as error:
            detail = error.message
        except TimeoutError:
            detail = f"no answer within {_HEALTH_S:g} s"
        except RuntimeError as error:
            detail = str(error)
        took = 1000 * (time.perf_counter() - began)
        return StoreHealth(ok=not detail, backend=_BACKEND, schema=str(FORMAT_VERSION), latency_ms=took, detail=detail)

    async def metrics(self) -> StoreMetrics:
        """Count rows and bytes, beside what this process has asked."""
        rows = await self._database.read(lambda tables: tables.count())
        return self._database.meter.metrics(_BACKEND, rows, await self._database.size_bytes())

    async def take_lock(self, name: str, *, holder: str, lease_until: datetime) -> LockRecord | None:
        """Take a lock that nobody has, or whose lease has run out."""

        def work(change: Transaction) -> LockRecord | None:
            row = change.tables.get("locks", name)
            if row is not None and row["lease_until"] is not None and str(row["lease_until"]) > moment(now()):
                return None
            epoch = 1 if row is None else epoch_of(row) + 1
            change.put("locks", encode(LockRecord(name=name, holder=holder, epoch=epoch, lease_until=lease_until)))
            return _lock(change.tables, name)

        return await self._database.write(work)

    async def renew_lock(self, lock: LockRecord, *, lease_until: datetime) -> LockRecord:
        """Keep a lock longer; raises Fenced."""

        def work(change: Transaction) -> LockRecord:
            row = change.tables.get("locks", lock.name)
            if row is None or row["epoch"] != lock.epoch or row["lease_until"] is None:
                raise Fenced(f"lock {lock.name!r} of {lock.holder!r} was given up or taken since: it must stop")
            change.set("locks", lock.name, {"lease_until": moment(lease_until)})
            return _lock(change.tables, lock.name)

        return await self._database.write(work)

    async def release_lock(self, lock: LockRecord) -> None:
        """Give a lock up."""

        def work(change: Transaction) -> None:
            row = change.tables.get("locks", lock.name)
            if row is not None and row["epoch"] == lock.epoch:
                change.set("locks", lock.name, {"lease_until": None})

        await self._database.write(work)


def _lock(tables: Tables, name: str) -> LockRecord:
    row = tables.get("locks", name)
    assert row is not None
    return decode(LockRecord, row)
