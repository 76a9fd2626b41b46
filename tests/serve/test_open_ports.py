"""A real server that listens everywhere, asked from another address of this machine by somebody who has no key."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import httpx
import psutil
import pytest
import pytest_asyncio

from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.serve.connections import MOST_CONNECTIONS
from koda_ray.serve.inflow import CALLBACK
from koda_ray.serve.web import is_page
from koda_ray.state.keys import video_key
from koda_ray.state.records import JobRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import new_id, now

from .test_own_cluster import TOKEN, started

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray, pytest.mark.timeout(400),
    pytest.mark.asyncio(loop_scope="module"),
]  # fmt: skip

KEY = "a" * 32
MB = 1 << 20
MOST_BYTES = 5 * MB
"""What an upload costs until it is asked for: what its server reads, and what waits in Serve's proxy, if there is one,
with copies; and what a server that was just started takes meanwhile for itself."""
ASKED = (
    "ray.rpc.NodeInfoGcsService/GetAllNodeInfo", "ray.rpc.InternalKVGcsService/InternalKVKeys",
    "ray.rpc.JobInfoGcsService/AddJob", "ray.rpc.ActorInfoGcsService/ListNamedActors",
    "ray.rpc.CoreWorkerService/PushTask", "ray.rpc.NodeManagerService/RequestWorkerLease",
    "ray.rpc.ObjectManagerService/Pull", "ray.rpc.ReporterService/GetTraceback", "ray.rpc.LogService/ListLogs",
    "ray.serve.ASGIService/Unary", "ray.serve.ASGIService/Streaming", "ray.serve.ASGIService/UnaryWithRejection",
)  # fmt: skip
"""Services of Ray's processes, and of Serve's replicas, which unpickle what they get."""
PATHS = ("/", "/api/job_agent/jobs/", "/get_or_create_runtime_env", "/api/actors", "/v1/sessions")


def other_address() -> str:
    """Return an address of this machine that is not loopback's."""
    found = [
        each.address
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    ]
    if not found:
        pytest.skip("this machine has no address but loopback's")
    return found[0]


class Open(NamedTuple):
    """A server, and the process that its Ray is under."""

    server: Server
    ray: int

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def processes(self) -> Iterator[psutil.Process]:
        for pid in {self.server.pid, self.ray}:
            yield from psutil.Process(pid).children(recursive=True)
            yield psutil.Process(pid)

    def accepting(self) -> psutil.Process:
        """Return the process that has the API's connections."""
        return next(each for each in self.processes() if "ray::" in each.name() and self.port in listens_at(each))


@asynccontextmanager
async def opened(folder: Path, **settings: str) -> AsyncGenerator[Server]:
    """A server whose keys stand in its file of settings alone."""
    (folder / "settings.env").write_text(f"KODA_API_KEYS=ann={KEY}\n")
    async with Server(folder, KODA_HOST="0.0.0.0", KODA_ENV_FILE=str(folder / "settings.env"), **settings) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["alone", "behind a proxy"])
async def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Open]:
    """A server with a Ray of its own, and one on a cluster, where Serve's proxy is before the API."""
    folder = tmp_path_factory.mktemp("server")
    if request.param == "alone":
        async with opened(folder) as found:
            yield Open(found, found.pid)
        return
    ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    nodes = {**ray, "KODA_ENV_FILE": str(folder / "settings.env"), CALLBACK[0]: CALLBACK[1]}
    # Serve ends a proxy that is not ready in 5 s and begins again: on a busy machine none gets ready then
    with started(**nodes, RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="60") as (address, head):
        async with opened(folder, KODA_RAY_ADDRESS=address, **ray) as found:
            yield Open(found, head)


ALONE = pytest.mark.parametrize("server", ["alone"], indirect=True, scope="module")


def listens_at(process: psutil.Process) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [each.laddr.port for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    return []


def ports(server: Open) -> dict[int, str]:
    """Return every port that is open to more than loopback, with who has it."""
    found: dict[int, str] = {}
    for process in server.processes():
        with contextlib.suppress(psutil.Error):
            for each in process.net_connections("inet"):
                if each.status == psutil.CONN_LISTEN and "127.0.0.1" not in each.laddr.ip:
                    found[each.laddr.port] = process.name()
    return found


@ALONE
async def test_keys_that_only_a_file_has_are_required_by_every_replica(server: Open) -> None:
    address = f"http://{other_address()}:{server.port}/v1/sessions"
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        assert (await http.get(address)).status_code == 401
        assert (await http.get(address, headers={"Host": "localhost"})).status_code == 401
        assert (await http.get(address, headers={"Authorization": f"Bearer {KEY}"})).status_code == 200


@ALONE
async def test_no_port_of_rays_does_anything_without_its_token(server: Open) -> None:
    async with KodaClient(server.url, key=KEY) as client:
        session_id = (await client.create("a dot crosses, smooth")).session_id
        open_ports, answered = ports(server), list[str]()
        async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
            for port, who in open_ports.items():
                answered += [f"{who} {port}: {each}" for each in await over_grpc(port)]
                answered += [
                    f"{who} {port}: {each}"
                    for each in await over_http(http, port, session_id, has_page=port == server.port)
                ]
        await client.delete(session_id)
    assert answered == []
    # the preview's, the API's, and one that Serve's replicas open whatever address the cluster has
    assert sorted(open_ports.values()) == ["python", *["ray::ServeReplica:koda:api"] * 2], open_ports


async def over_grpc(port: int) -> list[str]:
    """Return the methods that answered anything but that a token is missing, or that there is no such method."""
    answered: list[str] = []
    async with grpc.aio.insecure_channel(f"{other_address()}:{port}") as channel:
        for method in ASKED:
            try:
                await channel.unary_unary(f"/{method}")(b"", timeout=10)
                answered.append(f"{method} answered")
            except grpc.aio.AioRpcError as error:
                refused = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE)
                if error.code() not in refused:
                    answered.append(f"{method}: {error.code().name} {error.details()}")
                if error.code() == grpc.StatusCode.UNAVAILABLE:  # nothing there speaks gRPC
                    break
    return answered


async def over_http(http: httpx.AsyncClient, port: int, session_id: str, *, has_page: bool) -> list[str]:
    """Return what was answered to anybody, but figures and our own page, in which nothing of a session's may stand."""
    answered: list[str] = []
    for path in PATHS:
        for method in ("GET", "POST"):
            try:
                response = await http.request(method, f"http://{other_address()}:{port}{path}", json={})
            except httpx.TransportError:  # nothing there speaks HTTP
                return answered
            is_public = response.text.startswith("# H") or (has_page and method == "GET" and is_page(path))
            if response.status_code < 400 and (not is_public or session_id in response.text):
                answered.append(f"{method} {path}: {response.status_code} {response.text[:100]!r}")
    return answered


async def endless(port: int, sent: dict[int, int], number: int) -> str:
    """Send a body of 5 GB in chunks, without a key, while somebody takes it; return the answer's first line."""
    loop = asyncio.get_running_loop()
    head = f"POST /v1/assets HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + bytes(MB) + b"\r\n"
    with socket.socket() as connection:  # of a stream, what was answered is lost with a connection that was cut off
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        answer = asyncio.create_task(loop.sock_recv(connection, 4096))
        with contextlib.suppress(OSError):
            await loop.sock_sendall(connection, head.encode())
            while sent[number] < 5 << 30:
                await asyncio.wait_for(loop.sock_sendall(connection, chunk), 200)
                sent[number] += MB
        return (await asyncio.wait_for(answer, 60)).decode()


@contextlib.contextmanager
def stopped(server: Open) -> Generator[None]:
    """Have the replicas do nothing: no refusal could come later."""
    replicas = [process for process in server.processes() if "ServeReplica:koda:api" in process.name()]
    assert replicas
    for replica in replicas:
        replica.suspend()
    try:
        yield
    finally:
        for replica in replicas:
            replica.resume()


@pytest.mark.parametrize("late", [False, True])
async def test_bodies_without_an_end_are_not_kept_in_memory(server: Open, late: bool) -> None:
    """Sixty uploads of 5 GB each, without a key: none is taken, each is told why once somebody can, and cut off."""
    watched = {process.pid: process for process in server.processes() if "ray::" in process.name()}
    before = most = sum(process.memory_info().rss for process in watched.values())

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, sum(process.memory_info().rss for process in watched.values() if process.is_running()))
            await asyncio.sleep(0.05)

    watching, sent = asyncio.create_task(watch()), dict.fromkeys(range(60), 0)
    with stopped(server) if late else contextlib.nullcontext():
        answers = [asyncio.create_task(endless(server.port, sent, number)) for number in sent]
        if late:
            was = 0
            while not all(sent.values()) or was != (was := sum(sent.values())):  # until nobody can send any more
                await asyncio.sleep(3)
            assert not any(answer.done() for answer in answers)
    assert {(await answer).split()[1] for answer in answers} == {"401"}, "each is told why"
    watching.cancel()
    assert max(sent.values()) < 5 << 30, "each was cut off"
    assert most - before < len(sent) * MOST_BYTES


async def test_connections_that_say_nothing_keep_nobody_out(server: Open) -> None:
    """There are more than a server has at most, each with the beginning of a request at best."""
    count, soft = MOST_CONNECTIONS + 500, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < count + 500:
        pytest.skip(f"this process may have {soft} files open, which are too few to connect so often")
    accepting = server.accepting()
    before, connections = accepting.memory_info().rss, list[socket.socket]()

    def connect() -> None:
        for number in range(count):
            connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            if number % 2:
                connections[-1].sendall(b"GET / HT")

    try:
        await asyncio.to_thread(connect)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            for _ in range(5):
                assert (await http.get(f"{server.url}/v1/health", headers={"Connection": "close"})).status_code == 200
        assert connections[0].recv(1) == b"", "the first had to go"
        assert len(accepting.net_connections("tcp")) < MOST_CONNECTIONS + 200
        assert accepting.memory_info().rss - before < 200 * MB
    finally:
        for each in connections:
            each.close()


async def test_what_a_slow_client_has_not_read_is_not_in_our_memory(server: Open) -> None:
    """It is on the disk, where it was, or behind a proxy in Ray's object store, which has a size, and on the disk."""
    data = server.server.data
    storage, store, at = Storage(str(data / "storage")), SqlStore(data / "koda.db"), now()
    job_id, size = new_id("job"), 768 * MB
    await storage.put(video_key("ann", job_id, "mp4"), bytes(size))
    render = JobRecord(
        id=job_id,
        user_id="ann",
        project_id="ann",
        session_id=None,
        kind="render",
        spec={},
        status="succeeded",
        result={"videoKey": video_key("ann", job_id, "mp4")},
        created_at=at,
        updated_at=at,
    )
    await store.open()
    await store.create_job(render)
    await store.close()
    watched = [process.pid for process in server.processes() if "ray::" in process.name()]

    def own_memory() -> int:
        """Return what is theirs alone, in bytes: what is mapped of the object store is not."""
        found = [re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()) for pid in watched]
        return sum(int(each[1]) for each in found if each is not None) * 1024

    def read_bytes() -> int:
        """Return how far the video has been read: whole, where nobody has it open any more."""
        files = (file for pid in watched for file in psutil.Process(pid).open_files() if job_id in file.path)
        return max((file.position for file in files), default=size)

    async with (
        asyncio.timeout(300),
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http,
        http.stream("GET", f"/v1/renders/{job_id}/video", headers={"Authorization": f"Bearer {KEY}"}) as answer,
    ):
        blocks = answer.aiter_raw()
        before = own_memory()
        assert await anext(blocks)
        was = 0
        if server.ray == server.server.pid:
            while was != (was := await asyncio.to_thread(read_bytes)):  # until nothing more can be sent
                await asyncio.sleep(1)
            assert was < size / 2
        else:
            while await asyncio.to_thread(read_bytes) < size:  # as fast as the object store takes it
                await anext(blocks)
                await asyncio.sleep(0.1)
            assert answer.num_bytes_downloaded < size / 2
        assert own_memory() - before < 200 * MB
