"""Sockets that lead into a container: bounded, and gone once nobody looks; the other end is played by a dialler."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from koda_ray.errors import SandboxError, ServerFailed
from koda_ray.sandbox.frames import HELLO_BYTES, receive_object, send
from koda_ray.sandbox.link import Link
from koda_ray.sandbox.relay import Relays
from tests.sandbox.terminals import until

SECRET = "5e" * (HELLO_BYTES // 2)


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[Link]:
    """A link with a first process at its other end, whose every port repeats what it is sent."""
    link = Link(tmp_path, secret=SECRET)
    await link.open()
    (socket,) = tmp_path.glob("a-*.sock")

    async def serve() -> None:
        while True:
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                with suppress(OSError, EOFError):
                    await _repeat(reader, writer)
            finally:
                writer.close()

    serving = [asyncio.create_task(serve()) for _ in range(8)]
    yield link
    for task in serving:
        task.cancel()
    await asyncio.wait(serving)
    await link.close()


async def _repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SECRET.encode())
    port = (await receive_object(reader))["port"]
    await send(writer, {"connected": True})
    writer.write(f"{port} ".encode())
    while data := await reader.read(1024):
        writer.write(data)
        await writer.drain()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "doors").mkdir()
    return tmp_path / "doors"


async def said(path: str) -> tuple[bytes, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"hello")
    return await asyncio.wait_for(reader.readexactly(len(b"3000 hello")), 60), writer


async def gone(folder: Path, *ports: int) -> None:
    async def are_gone() -> bool:
        return not {int(name.partition(".")[0], 16) for name in os.listdir(folder)} & set(ports)

    await until(are_gone)


async def test_one_that_nobody_uses_goes_and_comes_back(link: Link, folder: Path) -> None:
    relays = Relays(str(folder), link, idle_s=1.0)
    path = await relays.path(3000)
    words, used = await said(path)
    assert words == b"3000 hello"
    await relays.path(3001)
    await gone(folder, 3001)
    assert os.listdir(folder) == [os.path.basename(path)]  # somebody is connected
    used.close()
    await gone(folder, 3000)
    words, used = await said(await relays.path(3000))
    assert words == b"3000 hello"
    used.close()
    await relays.close()
    await relays.close()
    assert os.listdir(folder) == []


async def test_there_are_no_more_at_once_than_may_be(link: Link, folder: Path) -> None:
    relays = Relays(str(folder), link, most=2)
    held = [(await said(await relays.path(port)))[1] for port in (3000, 3001)]
    with pytest.raises(ServerFailed, match=r"port 3002 .* the 2 that .*\(3000, 3001\); close one") as caught:
        await relays.path(3002)
    assert caught.value.code == "PORT_UNAVAILABLE"
    held.pop().close()

    async def has_room() -> bool:
        with suppress(ServerFailed):
            return bool(await relays.path(3002))
        return False

    await until(has_room)
    assert len(os.listdir(folder)) == 2
    words, again = await said(await relays.path(3002))
    assert words == b"3002 hello"
    for writer in (*held, again):
        writer.close()
    for port in range(4000, 4050):
        with suppress(ServerFailed):  # the ones before are still being seen to end
            await relays.path(port)
    assert len(os.listdir(folder)) <= 2
    await relays.close()
    assert os.listdir(folder) == []


async def test_where_there_can_be_no_socket_it_says_so_and_can_be_asked_again(link: Link, folder: Path) -> None:
    relays = Relays(str(folder), link)
    folder.rmdir()
    with pytest.raises(SandboxError, match=f"port 3000 .* {folder}/bb8.*connect to the sandbox again"):
        await relays.path(3000)
    folder.mkdir()
    assert os.path.exists(await relays.path(3000))
    await relays.close()


async def test_who_has_let_go_of_a_container_opens_nothing_more(tmp_path: Path, folder: Path) -> None:
    link = Link(tmp_path, secret=SECRET)
    await link.open()
    relays = Relays(str(folder), link)
    opening = [asyncio.create_task(relays.path(port)) for port in range(3000, 3008)]
    await asyncio.to_thread(lambda: None)  # some of them are about to
    await link.close()
    await relays.close()
    await asyncio.gather(*opening, return_exceptions=True)
    with pytest.raises(SandboxError, match="let go of the sandbox; connect to it again"):
        await relays.path(3000)
    assert os.listdir(folder) == []
