"""What tests of the sweep share: a store, storage of every kind, a clock that is set by hand, and who counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from koda_ray.actors.sweep import Retention, Sweep
from koda_ray.metrics import SWEPT, UNREAD, Figure, MetricsSink
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import now
from tests.state.conftest import (
    disk_storage,
    s3_endpoint,
    s3_storage,
    seaweedfs,
    seaweedfs_storage,
    storage,
)

__all__ = [
    "ASSETS",
    "NEW",
    "OLD",
    "PAGES",
    "PREVIEWS",
    "SESSIONS",
    "UNITS",
    "SweepClock",
    "SweepCounts",
    "clock",
    "disk_storage",
    "in_a_bucket_too",
    "put",
    "s3_endpoint",
    "s3_storage",
    "seaweedfs",
    "seaweedfs_storage",
    "storage",
    "storage_kind",
    "store",
    "sweep_of",
]

_S3, _SEAWEEDFS = (pytest.param(kind, marks=pytest.mark.full) for kind in ("s3", "seaweedfs"))
in_a_bucket_too = pytest.mark.parametrize("storage_kind", ["disk", "s3", _SEAWEEDFS], indirect=True, scope="session")
"""With every change; the others go through a bucket with everything."""


@pytest.fixture(scope="session", params=["disk", _S3, _SEAWEEDFS])
def storage_kind(request: pytest.FixtureRequest) -> str:
    """For tests of every storage: which one, with what outlives a test started."""
    if request.param == "seaweedfs":
        request.getfixturevalue("seaweedfs")
    return request.param


UNITS, PAGES, ASSETS = timedelta(days=7), timedelta(days=30), timedelta(days=7)
PREVIEWS, SESSIONS = timedelta(days=1), timedelta(days=300)
OLD, NEW = "a" * 64, "b" * 64


class SweepCounts:
    """Counts what is swept, and hears how many checkpoints could not be read."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.unread: list[float] = []

    def note(self, figure: Figure, value: float, **labels: str) -> None:
        if figure is UNREAD:
            self.unread.append(value)
        else:
            assert figure is SWEPT
            self.of[labels["kind"]] += int(value)


@dataclass
class SweepClock:
    """A clock that is set by hand."""

    at: datetime

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> SweepClock:
    return SweepClock(now())


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    made = SqlStore(tmp_path / "koda.db")
    await made.open()
    yield made
    await made.close()


def sweep_of(
    store: SqlStore, storage: Storage, clock: SweepClock, *, size: int = 100_000, metrics: MetricsSink | None = None
) -> Sweep:
    kept = Retention(units=UNITS, pages=PAGES, assets=ASSETS, previews=PREVIEWS, sessions=SESSIONS)
    return Sweep(store=store, storage=storage, kept=kept, size=size, clock=clock, metrics=metrics)


async def put(storage: Storage, *keys: str) -> None:
    await storage.put_many(dict.fromkeys(keys, b"x"))
