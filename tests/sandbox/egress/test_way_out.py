"""A way out that is tended: closed whenever its proxy is not there, and open again on the same socket."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from koda_ray.sandbox.egress.process import EgressSocket
from koda_ray.sandbox.egress.rules import Egress, EgressLimits, EgressRules
from koda_ray.sandbox.way_out import WayOut
from tests.sandbox.egress.conftest import ProxyWay, until
from tests.sandbox.egress.network import OK, NameServer, upstream

pytestmark = pytest.mark.needs("netns")


class _Launcher:
    """Starts the proxy, or what cannot be one."""

    def __init__(self) -> None:
        self.broken = False
        self.times = 0

    def __call__(self, line: Sequence[str]) -> Sequence[str]:
        self.times += 1
        return ["/no-such-program"] if self.broken else line


@pytest.fixture
def launcher() -> _Launcher:
    return _Launcher()


@pytest.fixture
async def way_out(folder: Path, launcher: _Launcher) -> AsyncIterator[WayOut]:
    made = WayOut(
        "sbx_tended",
        at=EgressSocket(path=str(folder / "out.sock")),
        egress=Egress(rules=EgressRules.parse(["site.test"])),
        launch=launcher,
    )
    made.tend()
    yield made
    await made.close()
    await made.close()
    assert os.listdir(folder) == []


def _end(way_out: WayOut) -> int:
    assert way_out.process is not None
    os.kill(way_out.process.pid, signal.SIGKILL)
    return way_out.process.pid


async def test_whoever_has_its_socket_has_the_next_proxy(way_out: WayOut, names: NameServer) -> None:
    way = ProxyWay(await way_out.open())
    socket = os.stat(way.path).st_ino
    async with upstream(OK):
        assert (await way.get("http://site.test/")).endswith(b"hi")
        ended = _end(way_out)
        assert (await way.get("http://site.test/")).endswith(b"hi")  # it waited
    assert way_out.process is not None and way_out.process.pid != ended
    assert os.stat(way.path).st_ino == socket


@pytest.mark.parametrize("sends", [True, pytest.param(False, marks=pytest.mark.full)], ids=["sent", "received"])
async def test_a_killed_proxy_takes_no_count_with_it(folder: Path, names: NameServer, sends: bool) -> None:
    """Not of a connection that was open, as often as it is done."""
    limit, piece = 1_000_000, 300_000
    made = WayOut(
        "sbx_killed",
        at=EgressSocket(path=str(folder / "out.sock")),
        egress=Egress(
            rules=EgressRules.parse(["site.test"]), limits=EgressLimits(sent_bytes=limit, received_bytes=limit)
        ),
        launch=list,
    )
    asked = b"%b http://site.test/ HTTP/1.1\r\nHost: site.test\r\n" % (b"POST" if sends else b"GET")
    asked += b"Content-Length: 9000000\r\n\r\n" + bytes(piece) if sends else b"\r\n"
    answer = b"" if sends else b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + bytes(piece)
    told: list[bytearray] = []
    try:
        async with upstream(answer, hold=True) as server:
            arrived = server.heard if sends else told
            for _ in range(6):
                await _move(made, asked, arrived, told, piece)
            moved = [len(one) for one in arrived]
    finally:
        await made.close()
    assert moved[0] >= piece and sum(moved) < limit + 10_000
    assert b" 403 BYTES_SPENT" in told[-1]


async def _move(way_out: WayOut, asked: bytes, arrived: list[bytearray], told: list[bytearray], piece: int) -> None:
    """Ask until as much has arrived as there is, or it was refused; then kill the proxy, over an open connection."""
    before = len(arrived)
    reader, writer = await asyncio.open_unix_connection(await way_out.open())
    told.append(bytearray())
    writer.write(asked)
    reading = asyncio.create_task(_read(reader, told[-1]))
    await until(lambda: reading.done() or any(len(one) >= piece for one in arrived[before:]))
    process = way_out.process
    _end(way_out)
    assert process is not None
    await process.ended()
    await reading
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, into: bytearray) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            into += data


@pytest.mark.full
async def test_it_stays_closed_while_none_can_be_started_and_says_so(
    way_out: WayOut, launcher: _Launcher, names: NameServer, capsys: pytest.CaptureFixture[str]
) -> None:
    way = ProxyWay(await way_out.open())
    async with upstream(OK) as server:
        assert (await way.get("http://site.test/")).endswith(b"hi")
        launcher.broken = True
        _end(way_out)
        await until(lambda: launcher.times >= 3)
        asking = asyncio.create_task(way.get("http://site.test/"))
        await until(lambda: launcher.times >= 4)
        assert not asking.done() and len(server.heard) == 1
        launcher.broken = False
        assert (await asking).endswith(b"hi")
    said = "".join(capsys.readouterr())  # logs go where the tests before this one left them
    assert "could not be started again" in said and "no-such-program" in said and "sbx_tended" in said


async def test_what_is_let_go_of_is_not_started_again(way_out: WayOut, launcher: _Launcher, names: NameServer) -> None:
    async with way_out.held() as path:
        _end(way_out)
    assert way_out.process is None and not os.path.exists(path)
    times = launcher.times
    with pytest.raises(FileNotFoundError):
        await ProxyWay(path).get("http://site.test/")
    async with way_out.held(), upstream(OK):
        assert (await ProxyWay(path).get("http://site.test/")).endswith(b"hi")
    assert launcher.times == times + 1
