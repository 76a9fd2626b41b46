"""An internet of the test's own: a network namespace in which public addresses lead back to it, with a name server.

The test's thread moves into the namespace, and with it every socket, thread and process that it makes from there on.
There is nothing but loopback in it, so nothing ever leaves; public addresses are needed since others are refused.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from koda_ray.cancellation import end_all

__all__ = ["OK", "PUBLIC", "PUBLIC_6", "PUBLIC_TOO", "NameServer", "Upstream", "name_server", "own_network", "upstream"]

PUBLIC, PUBLIC_TOO = "93.184.215.14", "93.184.215.99"
PUBLIC_6 = "2606:2800:220::1"
_METADATA = "169.254.169.254"
_ROUTES = (f"{PUBLIC}/32", f"{PUBLIC_TOO}/32", f"{_METADATA}/32", "10.11.12.13/32")
_CLONE_NEWNET = 0x40000000

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
"""An answer of two letters."""


@contextmanager
def own_network() -> Iterator[None]:
    """Move this thread into a namespace of its own, and back."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(_CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        servers = [f"{server}/32" for server in _name_servers() if not server.startswith("127.")]
        for route in (*_ROUTES, *servers):
            # routed here, not an address of an interface: those are refused as the machine's own
            subprocess.run(["ip", "route", "add", "local", route, "dev", "lo"], check=True)
        subprocess.run(["ip", "-6", "route", "add", "local", f"{PUBLIC_6}/128", "dev", "lo"], check=True)
        yield
    finally:
        libc.setns(home, _CLONE_NEWNET)
        os.close(home)


def _name_servers() -> list[str]:
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    found = [line.split()[1] for line in lines if line.startswith("nameserver") and ":" not in line]
    return found or ["127.0.0.1"]


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers for the names that it has, one list of addresses after the other, the last one for good.

    Attributes:
        names: What each name is, look-up by look-up.
        asked: The names that were asked for, each once for a look-up.
    """

    names: dict[str, list[Sequence[str]]] = field(default_factory=dict[str, list[Sequence[str]]])
    asked: list[str] = field(default_factory=list[str])
    _sent: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._sent = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        end = data.index(b"\0", 12)
        labels, at = [], 12
        while at < end:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name = ".".join(labels)
        (kind,) = struct.unpack(">H", data[end + 1 : end + 3])
        known = self.names.get(name)
        addresses: list[bytes] = []
        if known:
            size = {1: 4, 28: 16}.get(kind)
            addresses = [packed for text in known[0] if len(packed := ip_address(text).packed) == size]
        if kind == 28:  # the second of the two questions of one look-up
            self.asked.append(name)
            if known and len(known) > 1:
                known.pop(0)
        head = data[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, len(addresses), 0, 0)
        records = [struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed for packed in addresses]
        assert self._sent is not None
        self._sent.sendto(head + data[12 : end + 5] + b"".join(records), addr)


@asynccontextmanager
async def name_server(names: dict[str, list[Sequence[str]]]) -> AsyncIterator[NameServer]:
    """Answer whoever asks the name server that this machine is set up with."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: NameServer(names), local_addr=("0.0.0.0", 53))
    try:
        yield server
    finally:
        transport.close()


@dataclass
class Upstream:
    """A server's ear: each connection's bytes, in the order of the connections."""

    heard: list[bytearray] = field(default_factory=list[bytearray])
    hosts: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def upstream(
    answer: bytes, *, host: str = PUBLIC, port: int = 80, after: bytes = b"\r\n\r\n", hold: bool = False
) -> AsyncIterator[Upstream]:
    """Listen, and give one fixed answer on each connection once some bytes have come.

    Args:
        answer: The bytes.
        host: Where to listen.
        port: The same.
        after: What has to have come.
        hold: Whether to keep the connection open afterwards, until the client ends it.
    """
    said = Upstream()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        serving.add(task)
        heard = bytearray()
        said.heard.append(heard)
        said.hosts.append(writer.get_extra_info("sockname")[0])
        try:
            while data := await reader.read(65536):
                heard += data
                if after in heard and answer:
                    writer.write(answer)
                    await writer.drain()
                    if not hold:
                        break
        except OSError:
            pass
        except asyncio.CancelledError:  # nobody asks any more
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            serving.discard(task)

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = await asyncio.start_server(serve, "::" if family == socket.AF_INET6 else host, port, family=family)
    try:
        yield said
    finally:
        server.close()
        await server.wait_closed()
        await end_all(serving)
