"""Proxies on short sockets, with what they noted, and an internet of their own to let things out to."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from koda_ray.sandbox.egress.audit import EgressEvent
from koda_ray.sandbox.egress.proxy import EgressProxy
from koda_ray.sandbox.egress.resolve import Resolver
from koda_ray.sandbox.egress.rules import EgressLimits, EgressRules
from koda_ray.sandbox.way_out import WayOut
from tests import services
from tests.sandbox.egress.network import PUBLIC, PUBLIC_6, NameServer, name_server, own_network


@dataclass
class ProxyWay:
    """A proxy's socket, and what it noted."""

    path: str
    events: list[EgressEvent] = field(default_factory=list[EgressEvent])

    async def ask(self, data: bytes, *, eof: bool = False, timeout_s: float = 60.0) -> bytes:
        """Send bytes on a connection of their own and return all that comes back."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(client, self.path)
                sending = loop.create_task(self._say(client, data, eof=eof))
                heard = bytearray()
                with suppress(ConnectionResetError):  # with what was said and not read
                    while piece := await loop.sock_recv(client, 65536):
                        heard += piece
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        return bytes(heard)

    async def _say(self, client: socket.socket, data: bytes, *, eof: bool) -> None:
        await asyncio.get_running_loop().sock_sendall(client, data)
        if eof:
            client.shutdown(socket.SHUT_WR)

    async def get(self, url: str) -> bytes:
        """Ask for a page by its whole address, as a client asks a proxy."""
        host = url.split("/")[2]
        return await self.ask(f"GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())

    async def connect(self, authority: str) -> bytes:
        """Ask for a tunnel, and for nothing in it."""
        return await self.ask(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode(), eof=True)

    def codes(self, verdict: str = "refused") -> list[str]:
        """Why things were refused, or how they ended."""
        return [event.code for event in self.events if event.verdict == verdict]


Open = Callable[..., Awaitable[ProxyWay]]
DEFAULT_HOSTS = ("site.test", "*.wild.test")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets, and that other users may walk through."""
    with tempfile.TemporaryDirectory(prefix="eg-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key, and a certificate for ``site.test`` and ``registry.test`` that signs itself."""
    services.need("openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, found = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", key, "-out", found, "-subj", "/CN=site.test", "-addext",
         "subjectAltName=DNS:site.test,DNS:registry.test"],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, found


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[EgressEvent]:
    """What the log would hold."""
    events: list[EgressEvent] = []
    keep = WayOut._note

    def note(self: WayOut, event: EgressEvent) -> None:
        events.append(event)
        keep(self, event)

    monkeypatch.setattr(WayOut, "_note", note)
    return events


@pytest.fixture
async def way(folder: Path) -> AsyncIterator[Open]:
    """Opens proxies in this process."""
    async with AsyncExitStack() as stack:

        async def open_way(
            hosts: Sequence[str] = DEFAULT_HOSTS,
            *,
            denied: Sequence[str] = (),
            limits: EgressLimits | None = None,
            resolver: Resolver | None = None,
        ) -> ProxyWay:
            listener = socket.socket(socket.AF_UNIX)
            opened = ProxyWay(str(folder / f"{len(list(folder.iterdir()))}.sock"))
            listener.bind(opened.path)
            listener.listen(2048)
            proxy = EgressProxy(
                listener,
                rules=EgressRules.parse(hosts, denied),
                limits=limits,
                resolver=resolver,
                audit=opened.events.append,
            )
            proxy.start()
            stack.push_async_callback(proxy.close)
            return opened

        yield open_way


@pytest.fixture
def net() -> Iterator[None]:
    """This thread in a network of its own."""
    with own_network():
        yield


@pytest.fixture
async def names(net: None) -> AsyncIterator[NameServer]:
    """The name server of that network; ``site.test`` is there."""
    async with name_server({"site.test": [[PUBLIC]], "six.wild.test": [[PUBLIC_6]]}) as server:
        yield server


async def until(done: Callable[[], bool]) -> None:
    """Wait for what is about to happen."""
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.01)
