"""What a unit costs those who do not capture it: its coordinator, and the database, which is all coordinators' one.

Both are what may hold up a thousand browsers, so both are measured here rather than guessed. A coordinator's part is
its processor time for a unit of thousands that are captured already (`benchmarks.scheduling`). The database's is what
one more unit takes it while several coordinators write at once, over PostgreSQL where that is here, else SQLite: the
clients' own work is in it, as they share this machine, and waiting for a disk is not (`fsync` is off in both).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

from benchmarks.scheduling import measure
from koda_ray.actors.job_owner import JobChange, JobOwner
from koda_ray.agent.purse import Purse
from koda_ray.render.protocol import UnitResult
from koda_ray.render.spec import RenderSpec, Unit, plan_units
from koda_ray.state.records import JobRecord
from koda_ray.state.store import Store
from koda_ray.state.stores import store_at
from koda_ray.types import new_id, now
from tests import postgres

__all__ = ["UnitCosts", "measure_unit_costs"]

USER, PROJECT = "ann", "prj-ann"
COORDINATED = 2_000
_JOBS, _UNITS = 8, 60
_LEASE = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class UnitCosts:
    """Seconds a unit, of a coordinator and of the database, and which database that was."""

    coordinate_s: float
    commit_s: float
    database: str


class _Row:
    """A job's row, written as `koda_ray.actors.leased_job` does."""

    def __init__(self, store: Store, row: JobRecord) -> None:
        self._store = store
        self._row = row

    @property
    def row(self) -> JobRecord:
        return self._row

    async def write(self, change: JobChange) -> None:
        new = replace(change.of(self._row), lease_until=now() + _LEASE)
        await self._store.update_job(new, chunks=change.chunks, events=change.events, charges=change.charges)
        self._row = new


async def measure_unit_costs(*, coordinated: int = COORDINATED) -> UnitCosts:
    """Measure both, one after the other.

    Args:
        coordinated: How many units to coordinate.
    """
    scheduled = await measure(units=coordinated, ray_tasks=0)
    with _database() as (name, where):
        store = store_at(where)
        await store.open()
        try:
            commit_s = await _commit_s(store)
        finally:
            await store.close()
    return UnitCosts(coordinate_s=scheduled["cpu_ms_per_unit"] / 1000, commit_s=commit_s, database=name)


async def _commit_s(store: Store) -> float:
    await store.ensure_user(USER)
    await store.ensure_project(PROJECT, USER, USER)
    spec = RenderSpec(bundle="0" * 64, duration_s=float(_UNITS), width=1920, height=1080, fps=Fraction(60))
    owners = [await _owner(store, spec) for _ in range(_JOBS)]

    async def write(owner: JobOwner, units: tuple[Unit, ...]) -> None:
        for unit in units:
            await owner.unit(_captured(unit))

    plan = tuple(plan_units(spec))
    half = len(plan) // 2  # the first half warms connections and statements
    await asyncio.gather(*(write(owner, plan[:half]) for owner in owners))
    began = time.perf_counter()
    await asyncio.gather(*(write(owner, plan[half:]) for owner in owners))
    return (time.perf_counter() - began) / (_JOBS * (len(plan) - half))


async def _owner(store: Store, spec: RenderSpec) -> JobOwner:
    queued = JobRecord(
        id=new_id("job"), user_id=USER, project_id=PROJECT, session_id=None, kind="render",
        spec={"spec": spec.to_json()}, status="queued", created_at=now(), updated_at=now(),
    )  # fmt: skip
    await store.create_job(queued)
    row = _Row(store, await store.claim_job(queued.id, lease_until=now() + _LEASE))
    owner = JobOwner(row, spec, store=store, purse=Purse(None), charges=())
    await owner.begin()
    return owner


def _captured(unit: Unit) -> UnitResult:
    hashes = tuple(f"{frame:032x}" for frame in range(unit.start, unit.stop))
    return UnitResult(
        unit=unit, key=f"{unit.index:064x}", mode="seek", frame_hashes=hashes, before_hash=None, sha256="0" * 64,
        size_bytes=1_000_000, worker="bench:1", timings_ms={"total": 1000.0, "capture": 900.0},
    )  # fmt: skip


@contextmanager
def _database() -> Generator[tuple[str, str | Path]]:
    if postgres.why_missing() is None:
        with postgres.serve() as server:
            yield "PostgreSQL", server.url(server.create())
        return
    with tempfile.TemporaryDirectory(prefix="koda-bench-database-") as folder:
        yield "SQLite", Path(folder, "koda.db")
