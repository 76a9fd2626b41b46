"""The proxy as a process of its own: what it may, and that the way out is closed with it, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.sandbox.egress.process import EgressProcess, EgressSocket
from koda_ray.sandbox.egress.rules import Egress, EgressLimits, EgressRules
from koda_ray.sandbox.isolation import GUEST
from koda_ray.sandbox.node import find_node
from tests.sandbox.egress.conftest import ProxyWay, until
from tests.sandbox.egress.network import OK, PUBLIC, PUBLIC_6, PUBLIC_TOO, NameServer, upstream

pytestmark = pytest.mark.needs("netns")

_USER = 1_699_999_999


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def started(
    stack: AsyncExitStack, folder: Path, *, limits: EgressLimits | None = None
) -> tuple[EgressProcess, ProxyWay]:
    way = ProxyWay(str(folder / "egress.sock"))
    process = await EgressProcess.start(
        EgressSocket(path=way.path, owner=_USER),
        egress=Egress(rules=EgressRules.parse(["site.test"]), limits=limits or EgressLimits()),
        audit=way.events.append,
    )
    stack.push_async_callback(process.close)
    return process, way


async def test_it_looks_up_connects_and_reports(stack: AsyncExitStack, folder: Path, names: NameServer) -> None:
    process, way = await started(stack, folder)
    async with upstream(OK):
        assert (await way.get("http://site.test/?q=secret")).endswith(b"hi")
        assert b" 403 HOST_NOT_ALLOWED" in await way.get("http://evil.test/")
        await until(lambda: len(way.events) == 3)
    assert [event.verdict for event in way.events] == ["allowed", "ended", "refused"]
    assert names.asked == ["site.test"]
    await process.close()
    await process.close()
    assert not process.running and not os.path.exists(way.path) and process.last_lines == ""


async def test_addresses_can_be_listed_and_networks_denied(
    stack: AsyncExitStack, folder: Path, names: NameServer
) -> None:
    way = ProxyWay(str(folder / "egress.sock"))
    rules = EgressRules.parse([f"[{PUBLIC_6}]", PUBLIC, PUBLIC_TOO], [f"{PUBLIC_TOO}/32"])
    process = await EgressProcess.start(
        EgressSocket(path=way.path), egress=Egress(rules=rules), audit=way.events.append
    )
    stack.push_async_callback(process.close)
    async with upstream(OK), upstream(OK, host=PUBLIC_6) as six, upstream(OK, host=PUBLIC_TOO) as denied:
        assert (await way.get(f"http://[{PUBLIC_6}]/")).endswith(b"hi")
        assert (await way.get(f"http://{PUBLIC}/")).endswith(b"hi")
        assert b"this installation's own" in await way.get(f"http://{PUBLIC_TOO}/")
    assert denied.heard == [] and f"host: [{PUBLIC_6}]".encode() in six.heard[0]


async def test_it_has_no_rights_no_environment_and_no_file_but_its_socket(
    stack: AsyncExitStack, folder: Path, names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    with (folder / "secret").open("w"):
        process, way = await started(stack, folder)
        await way.get("http://evil.test/")
        about = psutil.Process(process.pid)
        assert about.uids().effective == about.uids().real == about.gids().saved == _USER
        assert set(about.environ()) <= {"PATH", "PYTHONPATH", "LC_CTYPE"}
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
        assert about.open_files() == []
        sockets = [
            about_fd
            for fd in os.listdir(f"/proc/{process.pid}/fd")
            if (about_fd := _link(process.pid, fd)).startswith("socket:")
        ]
        assert len(sockets) <= 4  # the listener, the connection that just ended, and the loop's own two


def _link(pid: int, fd: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


async def test_its_machines_own_public_address_is_out_of_reach(
    stack: AsyncExitStack, folder: Path, names: NameServer
) -> None:
    """A service that listens on all addresses can be reached by the public one as well, from inside."""
    names.names["site.test"] = [[own := "93.184.216.1"]]
    subprocess.run(["ip", "address", "add", f"{own}/32", "dev", "lo"], check=True)
    _, way = await started(stack, folder)
    async with upstream(OK, host="0.0.0.0") as server:
        assert b"this installation's own" in await way.get("http://site.test/")
    assert server.heard == []


async def test_a_name_is_not_looked_for_in_the_machines_own_domain(
    stack: AsyncExitStack, folder: Path, names: NameServer
) -> None:
    """As a cluster's machines have one: what is no name in the world would become the name of a service."""
    way = ProxyWay(str(folder / "egress.sock"))
    process = await EgressProcess.start(
        EgressSocket(path=way.path),
        egress=Egress(rules=EgressRules.parse(["none.test"])),
        audit=way.events.append,
        launch=lambda line: ["env", "LOCALDOMAIN=svc.cluster.test", *line],
    )
    stack.push_async_callback(process.close)
    names.names["none.test.svc.cluster.test"] = [[PUBLIC]]
    assert b" 502 RESOLVE_FAILED" in await way.get("http://none.test/")
    assert names.asked == ["none.test"]


async def test_killed_it_lets_nothing_out(stack: AsyncExitStack, folder: Path, names: NameServer) -> None:
    process, way = await started(stack, folder)
    async with upstream(b"", port=80) as server:
        reader, writer = await asyncio.open_unix_connection(way.path)
        writer.write(b"POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1000\r\n\r\nbefore")
        await until(lambda: bool(server.heard) and server.heard[0].endswith(b"before"))
        os.kill(process.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.write(b"after")
        await until(lambda: not process.running)
        with pytest.raises(ConnectionRefusedError):
            await way.get("http://site.test/")
        assert [bytes(heard[-6:]) for heard in server.heard] == [b"before"]
        writer.close()
        with pytest.raises(OSError):
            await writer.wait_closed()
    await process.close()
    again, way = await started(stack, folder)
    async with upstream(OK):
        assert (await way.get("http://site.test/")).endswith(b"hi")
    assert again.pid != process.pid


@pytest.mark.full
async def test_it_holds_against_a_thousand_connections(stack: AsyncExitStack, folder: Path, names: NameServer) -> None:
    process, way = await started(stack, folder, limits=EgressLimits(connections=8))
    about = psutil.Process(process.pid)
    await way.get("http://evil.test/")
    descriptors, memory = about.num_fds(), about.memory_info().rss
    for _ in range(10):
        told = await asyncio.gather(*(way.get("http://evil.test/") for _ in range(100)))
        assert {answer.split(b" ")[2].split(b"\r")[0] for answer in told} <= {
            b"HOST_NOT_ALLOWED",
            b"TOO_MANY_CONNECTIONS",
        }
    await until(lambda: about.num_fds() <= descriptors)
    assert about.memory_info().rss - memory < 16 * 1024 * 1024
    await until(lambda: len(way.events) == 1001)


@pytest.fixture
async def forwarder(folder: Path, net: None) -> AsyncIterator[asyncio.subprocess.Process]:
    """The guest's forwarder by itself, as a container has it for its whole life."""
    process = await asyncio.create_subprocess_exec(
        find_node().host_path, GUEST / "egress.mjs", folder / "egress.sock", "3128", stderr=asyncio.subprocess.PIPE
    )
    yield process
    if process.returncode is None:
        process.kill()
    await process.communicate()


@pytest.mark.needs("node")
async def test_a_forwarder_outlives_its_proxy_and_finds_the_next(
    stack: AsyncExitStack, folder: Path, names: NameServer, forwarder: asyncio.subprocess.Process
) -> None:
    first, _ = await started(stack, folder)
    async with upstream(OK), httpx.AsyncClient(proxy="http://127.0.0.1:3128", trust_env=False, timeout=60) as client:
        assert await _page(client) == "hi"
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: not first.running)
        with pytest.raises(httpx.TransportError):
            await client.get("http://site.test/")
        await first.close()
        await started(stack, folder)
        assert await _page(client) == "hi"
        refused = await client.get("http://evil.test/")
        assert (refused.status_code, refused.headers["x-koda-egress"]) == (403, "HOST_NOT_ALLOWED")
        with pytest.raises(httpx.ProxyError, match="403 HOST_NOT_ALLOWED"):
            await client.get("https://evil.test/")
    assert forwarder.returncode is None


@pytest.mark.needs("node")
async def test_a_refusal_comes_through_while_the_client_still_sends(
    stack: AsyncExitStack, folder: Path, names: NameServer, forwarder: asyncio.subprocess.Process
) -> None:
    await started(stack, folder, limits=EgressLimits(sent_bytes=100_000))
    async with upstream(b""), httpx.AsyncClient(proxy="http://127.0.0.1:3128", trust_env=False, timeout=60) as client:
        await _page(client, "http://evil.test/")  # the port is there
        told = await client.post("http://site.test/", content=b"x" * 1_000_000)
    assert (told.status_code, told.headers["x-koda-egress"]) == (403, "BYTES_SPENT")


async def _page(client: httpx.AsyncClient, url: str = "http://site.test/") -> str:
    async with asyncio.timeout(60):
        while True:
            try:
                return (await client.get(url)).text
            except httpx.ConnectError:
                await asyncio.sleep(0.02)


_OWNER = """
import asyncio, sys
from koda_ray.sandbox.egress.process import EgressProcess, EgressSocket
from koda_ray.sandbox.egress.rules import Egress, EgressRules

async def main():
    egress = Egress(rules=EgressRules.parse(["site.test"]))
    at = EgressSocket(path=sys.argv[1])
    process = await EgressProcess.start(at, egress=egress, audit=lambda event: None)
    print(process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def owner(folder: Path, net: None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder / "egress.sock")], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.full
async def test_it_ends_with_its_owner(
    owner: tuple[subprocess.Popen[str], int], folder: Path, names: NameServer, how: signal.Signals
) -> None:
    process, pid = owner
    way = ProxyWay(str(folder / "egress.sock"))
    async with upstream(OK):
        assert (await way.get("http://site.test/")).endswith(b"hi")
        process.send_signal(how)
        process.wait()
        await until(lambda: not psutil.pid_exists(pid))
        with pytest.raises(ConnectionRefusedError):
            await way.get("http://site.test/")


async def test_one_that_cannot_start_says_why_and_stays_closed(stack: AsyncExitStack, folder: Path, net: None) -> None:
    way = ProxyWay(str(folder / "egress.sock"))
    process = await EgressProcess.start(
        EgressSocket(path=way.path),
        egress=Egress(rules=EgressRules.parse(["site.test"])),
        audit=way.events.append,
        launch=lambda line: ["/bin/sh", "-c", "echo out of order >&2; exit 3"],
    )
    stack.push_async_callback(process.close)
    await until(lambda: not process.running)
    with pytest.raises(OSError):
        await way.get(f"http://{PUBLIC}/")
    await process.close()
    assert process.last_lines == "out of order"
