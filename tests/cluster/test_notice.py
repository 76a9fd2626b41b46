"""A cloud's notice that it takes a machine away is heard, whatever else its metadata does meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from koda_ray.cli import app
from koda_ray.deploy.draining import drain_this_machine
from koda_ray.deploy.notice import find_metadata, metadata_client, wait_for_notice
from koda_ray.errors import InvalidInput, Missing
from tests.cluster.metadata import CloudKind, MetadataServer, serve

NOWHERE = "127.0.0.1:1"


@pytest_asyncio.fixture
async def client() -> AsyncGenerator[httpx.AsyncClient]:
    async with metadata_client() as client:
        yield client


def machine_of(cloud: CloudKind, server: MetadataServer, patch: pytest.MonkeyPatch) -> None:
    """Have this machine be a cloud's."""
    here = f"127.0.0.1:{server.server_port}"
    patch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{here if cloud == 'aws' else NOWHERE}")
    patch.setenv("GCE_METADATA_HOST", here if cloud == "gcp" else NOWHERE)


async def asked(server: MetadataServer, times: int) -> None:
    """Wait until it has been asked so often."""
    async with asyncio.timeout(60):
        while server.asked < times:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
async def test_a_notice_is_heard(
    cloud: CloudKind, tmp_path: Path, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(cloud, tmp_path / "notice") as server:
        machine_of(cloud, server, monkeypatch)
        metadata = await find_metadata(client)
        assert metadata.cloud == cloud
        waiting = asyncio.create_task(wait_for_notice(metadata))
        await asked(server, 2)
        assert not waiting.done()
        server.forget()  # a token has an end
        server.broken = 1
        (tmp_path / "notice").write_text((datetime.now(UTC) + timedelta(minutes=2)).isoformat())
        notice = await asyncio.wait_for(waiting, 60)
    assert notice.cloud == cloud
    assert 0 < notice.left_s <= (120 if cloud == "aws" else 30)


async def test_a_machine_of_no_cloud_is_told_so(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{NOWHERE}")
    monkeypatch.setenv("GCE_METADATA_HOST", NOWHERE)
    with pytest.raises(Missing, match="leave this command out"):
        await find_metadata(client, within_s=0)


async def test_what_is_asked_is_said_before_anybody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{NOWHERE}")
    monkeypatch.setenv("GCE_METADATA_HOST", NOWHERE)
    line = (sys.executable, "-m", "koda_ray", "cluster", "drain-on-notice")
    asking = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    try:
        assert asking.stdout is not None
        said = await asyncio.wait_for(asking.stdout.readline(), 60)
        assert b"asking AWS and Google Cloud for 30 s" in said and asking.returncode is None
    finally:
        asking.kill()
        await asking.wait()


@pytest.mark.parametrize(
    ("address", "error"), [("nowhere", InvalidInput), (f"{NOWHERE}:2", InvalidInput), ("local", Missing)]
)
def test_a_head_that_is_none(address: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        drain_this_machine("it goes", left_s=0, address=address)


def test_without_a_cluster_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notice").write_text(datetime.now(UTC).isoformat())
    with serve("aws", tmp_path / "notice") as server:
        machine_of("aws", server, monkeypatch)
        told = CliRunner().invoke(app, ["cluster", "drain-on-notice", "--address", "local"])
    assert isinstance(told.exception, Missing)
