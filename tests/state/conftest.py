from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from tests import services

pytest.register_assert_rewrite("tests.state.store_conformance")

BUCKET = "koda-test"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    services.need("s3")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    yield endpoint
    server.stop()


@pytest.fixture
def disk_storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "storage"))


@pytest.fixture
def s3_storage(s3_endpoint: str) -> Storage:
    return Storage(
        f"s3://{BUCKET}/{uuid.uuid4().hex}",
        {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": s3_endpoint}},
    )


@pytest.fixture(params=["disk", "s3"])
def storage(request: pytest.FixtureRequest) -> Storage:
    return request.getfixturevalue(f"{request.param}_storage")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB that can be filled."""
    import subprocess

    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        reason = f"no small disk can be mounted here: {mounted.stderr.strip()}"
        if "mount" in os.environ.get("KODA_TEST_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
