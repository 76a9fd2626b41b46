"""A preview across two nodes, and its proxy where Serve's file starts everything."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.actors.passages import Passages
from koda_ray.actors.seeing import own_node, see_nodes
from koda_ray.actors.session_door import SessionDoor
from koda_ray.config import REPO_ROOT
from koda_ray.errors import InvalidInput
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.node_door import DoorAddress, door_key
from koda_ray.sandbox.preview import http_client
from koda_ray.serve import ray_folder
from koda_ray.serve.deployed import previews
from tests.serve.world import free_port

SIGNING = "0123456789abcdef0123456789abcdef"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhere"


def test_previews_behind_a_serve_file_need_an_origin_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODA_SIGNING_KEY", SIGNING)
    with pytest.raises(InvalidInput, match="KODA_PREVIEW_ORIGIN"):
        previews({})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    folder = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where a head writes its address down
    address.mkdir(exist_ok=True)
    for name, value in {
        "DATABASE_PATH": str(tmp_path / "koda.db"),
        "STORAGE_PATH": str(tmp_path / "storage"),
        "SANDBOX_PATH": str(tmp_path / "sandboxes"),
        "KODA_SIGNING_KEY": SIGNING,
        "KODA_PREVIEW_ORIGIN": "https://previews.example",
        "KODA_PREVIEW_PORT": str(free_port()),
        "PYTHONPATH": str(REPO_ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1, "temp_dir": folder, "include_dashboard": False, "object_store_memory": 10**8,
            "resources": {"session": 2},
        },
    )  # fmt: skip
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()
    ray_folder.remove(folder)
    shutil.rmtree(address)


class _Sandboxed:
    """A socket of another node, with something that answers behind it, and the door of a session's process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._door = SessionDoor()
        self._server: asyncio.Server | None = None

    async def seen_from(self, node: str) -> object:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
            writer.close()

        if self._server is None:
            self._server = await asyncio.start_unix_server(answer, self._path)
        return await self._door.seen_from(node, PreviewEndpoint(socket_path=self._path))


@pytest.mark.full
@pytest.mark.ray
@pytest.mark.timeout(600)
async def test_what_is_on_another_node_is_shown_here(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1, object_store_memory=10**8)
    async with asyncio.timeout(120):
        while len((await see_nodes()).nodes) < 2:
            await asyncio.sleep(0.2)
    (other,) = (node.id for node in (await see_nodes()).nodes if node.id != own_node())
    there = NodeAffinitySchedulingStrategy(node_id=other, soft=False)
    sandboxed: Any = ray.remote(num_cpus=0)(_Sandboxed)
    actor = sandboxed.options(scheduling_strategy=there).remote(str(tmp_path / "s.sock"))
    assert isinstance(await actor.seen_from.remote(other), PreviewEndpoint), "on its own node it is the socket"
    found = await actor.seen_from.remote(own_node())
    assert isinstance(found, DoorAddress)
    passages = Passages(door_key(SIGNING.encode()))
    try:
        async with http_client(await passages.to(found), timeout=httpx.Timeout(60)) as client:
            assert (await client.get("/")).text == "here"
    finally:
        await passages.close()


@pytest.mark.full
@pytest.mark.ray
@pytest.mark.timeout(600)
async def test_the_proxy_runs_where_serve_has_it_run(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(os.environ["KODA_PREVIEW_PORT"])
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": free_port()})
        serve.run(previews({}), name="previews", route_prefix=None, blocking=False)
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(300):
            while True:
                try:
                    answer = await client.get(f"http://127.0.0.1:{port}/p/forged/")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.3)
        assert answer.status_code == 403 and answer.json()["code"] == "FORBIDDEN"
        assert "forged" not in answer.text
    finally:
        serve.shutdown()
