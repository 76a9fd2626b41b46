"""The dev server of the real template, through its Unix socket: pages, modules, the HMR socket, restarts."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import unix_connect
from websockets.typing import Subprotocol

from koda_ray.errors import ServerFailed
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.preview import listen, socket_path
from tests.sandbox.conftest import AnySandbox
from tests.sandbox.leftovers import Leftovers

pytestmark = [pytest.mark.sandbox]


@pytest.fixture
def studio(kind: str, request: pytest.FixtureRequest) -> AnySandbox:
    return request.getfixturevalue("docker_studio" if kind == "docker" else "studio")


def client(endpoint: PreviewEndpoint) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=endpoint.socket_path)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:5173", timeout=60)


async def test_the_dev_server_answers_and_reloads(studio: AnySandbox) -> None:
    endpoint = await studio.start_preview()
    assert stat.S_IMODE(os.stat(endpoint.socket_path).st_mode) == 0o600
    async with client(endpoint) as http:
        page = await http.get(endpoint.base)
        assert page.status_code == 200 and "/src/main.tsx" in page.text
        assert f'"{endpoint.base}' in page.text
        module = await http.get(f"{endpoint.base}src/main.tsx")
        assert module.status_code == 200 and "javascript" in module.headers["content-type"]
        script = (await http.get(f"{endpoint.base}@vite/client")).text
    token = script.split('wsToken = "')[1].split('"')[0]
    async with unix_connect(
        endpoint.socket_path,
        f"ws://localhost:5173{endpoint.base}?token={token}",
        subprotocols=[Subprotocol("vite-hmr")],
        open_timeout=30,
    ) as hmr:
        assert '"connected"' in str(await asyncio.wait_for(hmr.recv(), 60))
        async with client(endpoint) as http:
            await http.get(f"{endpoint.base}src/App.tsx")
        source = await studio.read_file("src/App.tsx")
        await studio.write_files({"src/App.tsx": source + b"\n// changed\n"})
        async with asyncio.timeout(60):
            while True:
                message = str(await hmr.recv())
                if '"update"' in message or "full-reload" in message:
                    break


async def test_one_server_serves_all_and_is_started_again_when_it_is_gone(studio: AnySandbox) -> None:
    first, second = await asyncio.gather(studio.start_preview(), studio.start_preview())
    assert first == second
    server = next(process for process in await studio.processes() if process.name == "preview")
    assert server.running
    assert await studio.start_preview() == first
    assert (await studio.processes())[0].pid == server.pid
    await studio.stop("preview")
    with pytest.raises(httpx.ConnectError):
        async with client(first) as http:
            await http.get("/")
    again = await studio.start_preview()
    async with client(again) as http:
        assert (await http.get(again.base)).status_code == 200


async def test_a_server_that_ends_says_why(studio: AnySandbox) -> None:
    await studio.write_files({"vite.config.ts": b"throw new Error('this configuration is broken');\n"})
    with pytest.raises(ServerFailed) as caught:
        await studio.start_preview()
    assert "this configuration is broken" in caught.value.message
    assert not any(process.running for process in await studio.processes())


@pytest.mark.full
async def test_a_server_that_never_answers_is_ended(studio: AnySandbox) -> None:
    await studio.write_files(
        {"vite.config.ts": b"export default async () => new Promise(() => setTimeout(() => 0, 1e9));\n"}
    )
    with pytest.raises(ServerFailed) as caught:
        await studio.start_preview(timeout_s=2)
    assert "2 s" in caught.value.message
    assert await studio.processes() == []


@pytest.mark.full
async def test_what_the_project_puts_in_place_of_the_socket_is_never_connected_to(
    studio: AnySandbox, tmp_path: Path
) -> None:
    """The socket's directory cannot be seen from inside, so nothing in it can be replaced by a link."""
    endpoint = await studio.start_preview()
    found = await studio.run(("sh", "-c", "find / -name 'preview.sock' -o -type s 2>/dev/null"))
    # a container sees the socket that it dials, in a folder that it cannot change
    assert re.fullmatch(r"/run/koda/a-[0-9a-f]{6}\.sock\n" if studio.provider == "docker" else "", found.stdout)
    assert not Path(endpoint.socket_path).is_relative_to(tmp_path / "boxes" / studio.id / "disk")


def test_a_long_path_gets_a_short_socket(tmp_path: Path, leftovers: Leftovers) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    path = socket_path(deep)
    assert len(path) < 100 and not path.startswith(str(tmp_path))
    with listen(path), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
    with listen(path):  # in place of the dead one
        pass
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
