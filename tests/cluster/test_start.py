"""Starting on a cluster that runs: what several machines cannot share is refused, and Serve's file starts all."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
import yaml
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema
from ray.util import list_named_actors

from koda_ray.actors.directory import public_settings
from koda_ray.actors.host import NAMESPACE, await_session_slots
from koda_ray.actors.janitor_host import JANITOR
from koda_ray.client import Koda
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import InvalidInput
from koda_ray.resources import SESSION_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.serve.deployed import _Caretaker
from koda_ray.state.many_nodes import refuse_own_disk


def test_one_node_may_keep_its_state_on_its_disk() -> None:
    refuse_own_disk(database="sqlite", storage="local", nodes=1)


@pytest.mark.parametrize(
    ("database", "storage", "what"),
    [
        ("sqlite", "s3", "SQLite on one machine's disk, which the others do not see: set DATABASE_PROVIDER=postgres"),
        ("json", "r2", "a folder of JSON on one machine's disk"),
        (
            "postgres",
            "local",
            "the storage is one machine's disk, which the others do not see: set STORAGE_PROVIDER=s3",
        ),
    ],
)
def test_several_nodes_may_not(database: str, storage: str, what: str) -> None:
    with pytest.raises(InvalidInput, match="3 nodes") as refused:
        refuse_own_disk(database=database, storage=storage, nodes=3)
    assert what in refused.value.message


@pytest.mark.parametrize("database", ["postgres", "turso"])
def test_what_all_nodes_reach_is_taken(database: str) -> None:
    refuse_own_disk(database=database, storage="r2", nodes=3)


KEY = "fedcba9876543210fedcba9876543210"


@pytest.fixture
def folder() -> Iterator[str]:
    """Where a head keeps what it writes."""
    made = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where it writes its address down
    address.mkdir(exist_ok=True)
    yield made
    ray_folder.remove(made)
    shutil.rmtree(address)


@pytest.fixture
def cluster(folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A cluster whose nodes have this environment, with state on the disk."""
    for name, value in {
        "DATABASE_PATH": str(tmp_path / "koda.db"),
        "STORAGE_PATH": str(tmp_path / "storage"),
        "SANDBOX_PATH": str(tmp_path / "sandboxes"),
        "KODA_SIGNING_KEY": "0123456789abcdef0123456789abcdef",
        "KODA_API_KEYS": f"somebody={KEY}",
        "KODA_OPERATORS": "somebody",
        "KODA_PREVIEW_ORIGIN": "https://previews.example.com",
        "KODA_PREVIEW_PORT": "0",
        "PYTHONPATH": str(REPO_ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1, "resources": {SESSION_RESOURCE: 2}, "temp_dir": folder, "include_dashboard": False,
            "object_store_memory": 10**8,
        },
    )  # fmt: skip
    yield made
    made.shutdown()


@pytest.mark.full
@pytest.mark.ray
def test_a_server_refuses_its_own_disk_on_two_nodes(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1, object_store_memory=10**8)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "koda_ray.serve"],
        env={**os.environ, "KODA_RAY_ADDRESS": cluster.address, "KODA_PORT": "0", "KODA_PREVIEW_PORT": "0"},
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    told = done.stderr.strip().splitlines()[-1]
    assert told.startswith("koda serve: the Ray cluster has 2 nodes, and the database is SQLite")
    assert "DATABASE_PROVIDER=postgres" in told and "STORAGE_PROVIDER=s3" in told


@pytest.mark.full
@pytest.mark.ray
def test_a_cluster_that_grows_beyond_its_disk_is_not_healthy(cluster: Any) -> None:
    """As Serve asks, again and again; its log says why."""
    ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    try:
        caretaker = _Caretaker(public_settings(Settings()))
        cluster.add_node(num_cpus=0, object_store_memory=10**8)
        with pytest.raises(InvalidInput, match="the Ray cluster has 2 nodes, and the database is SQLite"):
            asyncio.run(caretaker.check_health())
    finally:
        ray.shutdown()


@pytest.mark.full
@pytest.mark.ray
def test_a_cluster_that_holds_no_sessions_is_waited_for_and_refused(folder: str) -> None:
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "temp_dir": folder, "include_dashboard": False, "object_store_memory": 10**8},
    )
    try:
        ray.init(address=made.address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        with pytest.raises(InvalidInput, match="offers the resource 'session'") as refused:
            await_session_slots(within_s=0)
        assert """--resources='{"session": 8}'""" in refused.value.message
        made.add_node(num_cpus=0, resources={SESSION_RESOURCE: 1}, object_store_memory=10**8)
        await_session_slots()
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.mark.full
@pytest.mark.ray
def test_the_serve_config_starts_the_api_and_the_janitor(cluster: Any) -> None:
    """The file as it is shipped, but for the number of replicas, a node each, and the port."""
    config = yaml.safe_load((REPO_ROOT / "cluster" / "serve.yaml").read_text())
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    config["http_options"] |= {"host": "127.0.0.1", "port": port}
    for application in config["applications"]:
        for deployment in application["deployments"]:
            deployment["num_replicas"] = 1
    ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    try:
        serve.start(proxy_location=config["proxy_location"], http_options=config["http_options"])
        _get_global_client().deploy_apps(ServeDeploySchema(**config))
        assert _comes_true(lambda: serve.status().applications["koda"].status == "RUNNING"), str(serve.status())
        assert httpx.get(f"http://127.0.0.1:{port}/-/healthz").text == "success"
        sessions = f"http://127.0.0.1:{port}/v1/sessions"
        assert httpx.get(sessions).status_code == 401
        assert httpx.get(sessions, headers={"Authorization": f"Bearer {KEY}"}).json()["sessions"] == []
        assert _comes_true(lambda: {"name": JANITOR, "namespace": NAMESPACE} in list_named_actors(all_namespaces=True))
        assert _comes_true(lambda: serve.status().applications["janitor"].status == "RUNNING"), str(serve.status())
        with Koda(f"http://127.0.0.1:{port}", key=KEY) as client:
            assert _comes_true(lambda: (said := client.cluster().janitor) is not None and said.cleared_at is not None)
            found = client.cluster()
        assert found.nodes is not None and len(found.nodes) == 1 and found.problem is None
        assert found.room is not None and found.room.total == 2 and found.owed.count == 0
    finally:
        serve.shutdown()
        ray.shutdown()


def _comes_true(what: Any, within_s: float = 120.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.3)
    return False
