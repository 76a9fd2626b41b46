from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import pytest

from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from tests import seaweed, services
from tests.buckets import bucket_server
from tests.disks import small

BUCKET = "koda-test"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with bucket_server(BUCKET) as endpoint:
        yield endpoint


@pytest.fixture
def disk_storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "storage"))


@pytest.fixture
def s3_storage(s3_endpoint: str) -> Storage:
    return Storage(
        f"s3://{BUCKET}/{uuid.uuid4().hex}",
        {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": s3_endpoint}},
    )


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[seaweed.SeaweedFS]:
    services.need("s3", "seaweedfs")
    with seaweed.serve() as server:
        yield server


@pytest.fixture
def seaweedfs_storage(seaweedfs: seaweed.SeaweedFS) -> Storage:
    return Storage(
        f"s3://{seaweed.BUCKET}/{uuid.uuid4().hex}",
        {"key": seaweedfs.key, "secret": seaweedfs.secret, "client_kwargs": {"endpoint_url": seaweedfs.endpoint}},
    )


@pytest.fixture(scope="session", params=["disk", "s3", pytest.param("seaweedfs", marks=pytest.mark.full)])
def storage_kind(request: pytest.FixtureRequest) -> str:
    """For tests of every storage: which one, with what outlives a test started."""
    if request.param == "seaweedfs":  # as in `database`
        request.getfixturevalue("seaweedfs")
    return request.param


@pytest.fixture
def storage(request: pytest.FixtureRequest, storage_kind: str) -> Storage:
    return request.getfixturevalue(f"{storage_kind}_storage")


@pytest.fixture(scope="session", params=["sqlite", "postgres", "libsql"])
def database(request: pytest.FixtureRequest) -> Literal["sqlite", "postgres", "libsql"]:
    """For tests of every database: which one, with what outlives a test started."""
    # asked for in a fixture of the session: what a test starts on its own has to end with it
    if request.param != "sqlite":
        request.getfixturevalue(f"{request.param}_template")
    return request.param


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB that can be filled."""
    with small(tmp_path / "small", 1) as folder:
        yield folder
