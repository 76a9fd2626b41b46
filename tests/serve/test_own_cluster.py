"""A server on a cluster of somebody's own: it has the cluster's token, and no node serves without the keys."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from koda_ray.config import Settings
from koda_ray.console import server
from koda_ray.console.server import OwnServer, ServerNotStarted
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE, URGENT_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.state.sql import SqlStore

from .test_renders import SMALL, events, post
from .world import free_port

pytestmark = [pytest.mark.ray, pytest.mark.full]
KEY = "k" * 32
TOKEN = "0123456789abcdef" * 4


@pytest.fixture
def cluster() -> Iterator[str]:
    """A cluster that takes in whoever has its token, and knows nothing of our settings; its address."""
    with started(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN) as (address, _):
        yield address


@contextmanager
def started(**settings: str) -> Generator[tuple[str, int]]:
    """Start a cluster with nothing else of Ray's in its environment; yields its address and its process."""
    folder, port = ray_folder.make(), free_port()
    resources = json.dumps({CHROMIUM_RESOURCE: 1, URGENT_RESOURCE: 1, SESSION_RESOURCE: 8})
    line = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}", "--num-cpus=2"]
    line += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", f"--temp-dir={folder}"]
    line += [f"--resources={resources}", f"--object-store-memory={10**8}", "--disable-usage-stats"]
    with tempfile.TemporaryFile("w+") as said:
        head = subprocess.Popen(
            line,
            env={name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")} | settings,
            stdout=said,
            stderr=said,
        )
        deadline = time.monotonic() + 200
        while not is_heard(port) and time.monotonic() < deadline:
            said.seek(0)
            assert head.poll() is None, said.read()
            time.sleep(0.1)
    try:
        yield f"127.0.0.1:{port}", head.pid
    finally:
        tree = [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]
        head.terminate()
        _, left = psutil.wait_procs(tree, timeout=20)
        for process in left:
            process.kill()
        head.wait()
        ray_folder.remove(folder)


def is_heard(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def own(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServer]:
    """A server that is to join it, with its token and everything of its own in a folder."""
    for name, value in {
        "KODA_RAY_ADDRESS": cluster,
        "KODA_RUNFILE": tmp_path / "server.json",
        "DATABASE_PATH": tmp_path / "koda.db",
        "STORAGE_PATH": tmp_path / "storage",
        "SANDBOX_PATH": tmp_path / "sandboxes",
        "RAY_AUTH_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    made = OwnServer(tmp_path / "server.log")
    yield made
    made.stop()


def test_it_joins_with_the_token_and_no_node_serves_without_the_keys(
    own: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KODA_HOST", "0.0.0.0")
    with pytest.MonkeyPatch.context() as mine:
        mine.setenv("KODA_API_KEYS", KEY)  # here, and on no node
        with pytest.raises(ServerNotStarted, match="this node knows none"):
            own.start()
    own.stop()
    key = asyncio.run(made_key(tmp_path))
    url = own.start().replace("0.0.0.0", "127.0.0.1")
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        assert http.get("/v1/sessions", headers={"Host": "localhost"}).status_code == 401
        assert http.get("/v1/sessions", headers={"Authorization": f"Bearer {key}"}).status_code == 200


JOINS = """
import os, sys
from koda_ray.serve.ray_auth import choose_ray_auth
choose_ray_auth(os.environ, address=sys.argv[1])
import ray
ray.init(address=sys.argv[1], log_to_driver=False)
print(len(ray.nodes()))
"""


def test_it_joins_with_the_file_that_ray_itself_keeps_a_token_in(tmp_path: Path) -> None:
    """Nothing else says so: `ray start` asks for a token where there is this file, and lets nobody in without."""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)

    def join(address: str, home: Path) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
        line = [sys.executable, "-c", JOINS, address]
        return subprocess.run(line, env=env | {"HOME": str(home)}, capture_output=True, text=True, check=False)

    with started(HOME=str(tmp_path)) as (address, _):
        deadline = time.monotonic() + 200
        while (joined := join(address, tmp_path)).returncode and time.monotonic() < deadline:
            pass  # it is being started
        assert joined.stdout.strip() == "1", joined.stderr
        stranger = join(address, tmp_path / "nowhere")
        assert stranger.returncode and "token" in stranger.stderr.lower(), stranger.stderr


@pytest.mark.browser
@pytest.mark.timeout(900)
async def test_a_whole_server_with_that_file_takes_requests_and_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is in no environment: server, replicas, coordinators and workers each read it from the file."""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    places = {
        "DATABASE_PATH": str(tmp_path / "koda.db"),
        "STORAGE_PATH": str(tmp_path / "storage"),
        "SANDBOX_PATH": str(tmp_path / "sandboxes"),
        "HOME": str(tmp_path),
        "RAY_AUTH_MODE": "token",
    }
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setattr(server, "START_S", 600.0)  # a Serve that is new on its cluster, on a busy machine
    with started(**places) as (address, _):
        for name, value in {**places, "KODA_RAY_ADDRESS": address, "KODA_RUNFILE": tmp_path / "server.json"}.items():
            monkeypatch.setenv(name, str(value))
        own = OwnServer(tmp_path / "server.log")
        try:
            url = await asyncio.to_thread(own.start)
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
                assert (await http.get("/v1/sessions")).status_code == 200
                made = (await post(http, **SMALL)).json()
                assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
                assert b"ftyp" in (await http.get(f"/v1/renders/{made['id']}/video")).content[:16]
        finally:
            await asyncio.to_thread(own.stop)


THEIRS = """
import ray, sys
from ray import serve
ray.init(address=sys.argv[1], namespace="theirs", log_to_driver=False)
serve.start(http_options={"host": "0.0.0.0", "port": int(sys.argv[2])})
@serve.deployment
class Theirs:
    def __call__(self, request): return "theirs"
serve.run(Theirs.bind(), name="theirs", route_prefix="/theirs")
"""


def test_a_serve_that_listens_elsewhere_and_serves_others_is_neither_joined_nor_ended(
    cluster: str, own: OwnServer
) -> None:
    """Without keys, since it is asked to listen on loopback; that Serve would let everybody in."""
    theirs = free_port()
    env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    subprocess.run([sys.executable, "-c", THEIRS, cluster, str(theirs)], env=env, check=True, capture_output=True)
    with pytest.raises(ServerNotStarted, match=f"for theirs, and listens on 0.0.0.0:{theirs}"):
        own.start()
    with httpx.Client(trust_env=False, timeout=60) as http:
        assert http.get(f"http://127.0.0.1:{theirs}/theirs").text == "theirs"


def test_keys_that_only_a_file_of_settings_has_are_known_to_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "koda.env").write_text(
        f"KODA_HOST=0.0.0.0\nKODA_API_KEYS=ada={KEY}\nDATABASE_PATH={tmp_path}/koda.db\n"
    )
    for name, value in {
        "KODA_ENV_FILE": "koda.env",  # as one stands beside it; Ray's processes stand elsewhere
        "KODA_RUNFILE": tmp_path / "server.json",
        "STORAGE_PATH": tmp_path / "storage",
        "SANDBOX_PATH": tmp_path / "sandboxes",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    own = OwnServer(tmp_path / "server.log")
    try:
        url = own.start().replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
            assert http.get("/v1/sessions", headers={"Host": "localhost"}).status_code == 401
            assert http.get("/v1/sessions", headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
    finally:
        own.stop()


async def made_key(folder: Path) -> str:
    store = SqlStore.from_settings(Settings.model_validate({"DATABASE_PATH": folder / "koda.db"}))
    await store.open()
    try:
        return await store.create_api_key("ada")
    finally:
        await store.close()
