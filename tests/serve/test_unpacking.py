"""What uploads hold unpacked: bounded for each user and for all, in turns."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import LimitReached
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.serve.unpacking import TooMuchAtOnce, Unpacking
from koda_ray.state.checkpoint import Manifest, read_files
from koda_ray.state.storage import Storage
from tests.sandbox.conftest import write_packages, write_template

from .world import reached, world

KEYS = "ada=" + "a" * 32 + ",bob=" + "b" * 32
MB = 1 << 20


async def test_a_user_holds_half_at_most_and_keeps_nobody_else_waiting() -> None:
    limit = Unpacking(100, wait_s=0.2)
    async with limit.holding("ada", 40):
        with pytest.raises(LimitReached, match="no room to hold 20 bytes"):
            await limit.holding("ada", 20).__aenter__()
        async with limit.holding("bob", 50), limit.holding("ada", 10):
            assert limit.held_bytes == 100
            with pytest.raises(LimitReached) as found:
                await limit.holding("cleo", 1).__aenter__()
            assert found.value.context["retryAfterS"] == 0.2
        with pytest.raises(TooMuchAtOnce, match=r"10,000 bytes, and one user .* 50 .*KODA_UNPACKED_MB"):
            await limit.holding("bob", 10_000).__aenter__()  # no waiting would help
    assert limit.held_bytes == 0


async def test_a_large_one_is_not_overtaken_for_ever() -> None:
    limit, order = Unpacking(100), list[str]()

    async def hold(user: str, size: int) -> None:
        async with limit.holding(user, size):
            order.append(user)

    async with AsyncExitStack() as held:
        for user in ("ada", "bob"):
            await held.enter_async_context(limit.holding(user, 45))
        large = asyncio.create_task(hold("large", 50))
        await asyncio.sleep(0)
        small = [asyncio.create_task(hold(f"small{index}", 5)) for index in range(5)]
        await asyncio.sleep(0.01)
        assert order == []
    await asyncio.gather(large, *small)
    assert order[0] == "large"


async def test_whoever_goes_away_while_waiting_leaves_nothing() -> None:
    limit = Unpacking(100)
    async with limit.holding("ada", 50):
        waiting = [asyncio.create_task(limit.holding("ada", 50).__aenter__()) for _ in range(32)]
        await asyncio.sleep(0.01)
        with pytest.raises(LimitReached, match="32 requests of yours"):
            await limit.holding("ada", 1).__aenter__()
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    async with limit.holding("ada", 50), limit.holding("bob", 50):
        assert limit.held_bytes == 100


def bomb(files: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("index.html", b"<p>")
        for index in range(files):
            archive.writestr(f"{index}.bin", bytes(4 * MB))
    return data.getvalue()


async def test_uploads_that_unpack_to_much_are_unpacked_one_after_the_other(tmp_path: Path) -> None:
    """Six small zips of 24 MB each, sent at once: no more than a user's share is ever held."""
    sent, most = bomb(6), list[int]()
    async with world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_MB=64) as koda:
        unpacking: Unpacking = koda.app.state.unpacking

        async def watch() -> None:
            while True:
                most.append(unpacking.held_bytes)
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:

            async def send(key: str) -> int:
                files = {"file": ("page.zip", sent, "application/zip")}
                head = {"Authorization": f"Bearer {key * 32}"}
                return (await http.post("/v1/renders", files=files, data={"options": "{}"}, headers=head)).status_code

            statuses = await asyncio.gather(*(send(key) for key in "aaabbb"))
        watching.cancel()
        await reached(lambda: unpacking.held_bytes == 0)
    assert statuses == [202] * 6
    assert 24 * MB <= max(most) <= 64 * MB


async def test_a_stored_page_is_not_loaded_while_it_waits_for_room(tmp_path: Path) -> None:
    async with world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_MB=64) as koda:
        unpacking: Unpacking = koda.app.state.unpacking
        page = Bundle({"index.html": b"<p>", "noise.bin": os.urandom(8 * MB)})  # as large packed as it is unpacked
        stored = await store_bundle(koda.storage, "ada", page)
        head = {"Authorization": f"Bearer {'a' * 32}"}
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60, headers=head) as http:
            async with unpacking.holding("ada", 32 * MB):
                tracemalloc.start()
                sent = [asyncio.create_task(http.post("/v1/renders", json={"bundle": stored})) for _ in range(4)]
                await reached(lambda: unpacking.waiting == 4)
                held, _ = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert statuses == [202] * 4
    assert held < 8 * MB


async def test_what_names_a_projects_files_is_read_where_there_is_room(tmp_path: Path) -> None:
    """A project of empty files has no bytes to count; their names have."""
    async with world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_MB=64) as koda:
        unpacking: Unpacking = koda.app.state.unpacking
        head = {"Authorization": f"Bearer {'a' * 32}"}
        koda.directory.asks = False
        async with httpx.AsyncClient(base_url=f"{koda.url}/v1", trust_env=False, timeout=60, headers=head) as http:
            session = (await http.post("/sessions", json={"prompt": "a blue square"})).json()["sessionId"]
            paths = [f"/sessions/{session}/{path}" for path in ("files", "source.zip", "files/a")]
            await koda.directory.checkpoint(session, {"a": b"a"} | {f"{'x' * 200}{n}": b"" for n in range(1000)})
            async with unpacking.holding("ada", 32 * MB):
                waiting = [asyncio.create_task(http.get(path)) for path in paths]
                await reached(lambda: unpacking.waiting == 3)
            answers = [await each for each in waiting]
            assert [answer.status_code for answer in answers] == [200] * 3, answers[0].text
            assert len(answers[0].json()["files"]) == 1001 and answers[2].content == b"a"
            await koda.directory.checkpoint(session, {f"{'x' * 200}/{'y' * 200}{n}": b"" for n in range(5000)})
            refused = [await http.get(path) for path in paths]
            await reached(lambda: unpacking.held_bytes == 0)
    for answer in refused:
        told = answer.json()
        assert (answer.status_code, told["code"], told["retryable"]) == (413, "TOO_LARGE", False), answer.text
        assert "KODA_UNPACKED_MB" in told["detail"]


def temporary(monkeypatch: pytest.MonkeyPatch, path: Path) -> Path:
    """Have all temporary files lie in a folder of the test's."""
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def lies_there(folder: Path) -> int:
    """How many bytes the files of a folder have, however deep."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.sandbox
async def test_folders_of_images_are_unpacked_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, packages = bomb(6), write_packages(tmp_path / "node_modules")
    lies = temporary(monkeypatch, tmp_path / "tmp")
    async with world(
        tmp_path, SANDBOX_PATH=tmp_path / "boxes", SANDBOX_PROVIDER="local", KODA_API_KEYS=KEYS,
        KODA_UNPACKED_DISK_MB=64, KODA_TEMPLATE_PATH=write_template(tmp_path / "template"),
        KODA_NODE_MODULES_PATH=packages,
    ) as koda:  # fmt: skip
        disk: Unpacking = koda.app.state.bodies.disk

        async def send(key: str, body: bytes = sent) -> httpx.Response:
            head, named = {"Authorization": f"Bearer {key * 32}"}, {"name": f"of-{key}"}
            return await http.post("/v1/images", params=named, content=body, headers=head)

        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
            async with disk.holding("ada", 32 * MB - len(sent)):
                waiting = asyncio.create_task(send("a"))
                await reached(lambda: disk.waiting == 1 and lies_there(lies) > 0)
                assert lies_there(lies) == len(sent)  # nothing of it is unpacked yet
                assert (await send("b")).status_code == 201, "others are not kept waiting"
            assert (await waiting).status_code == 201
            large = await send("a", bomb(10))
            assert (large.status_code, large.json()["code"]) == (413, "TOO_LARGE")
            assert "KODA_UNPACKED_DISK_MB" in large.json()["detail"]
            koda.app.state.bodies.disk = disk = Unpacking(64 * MB, setting="KODA_UNPACKED_DISK_MB", wait_s=0.2)
            async with disk.holding("ada", 32 * MB):
                refused = await send("a")
            assert (refused.status_code, refused.json()["code"]) == (429, "LIMIT_REACHED")
            assert int(refused.headers["Retry-After"]) > 0 and "KODA_UNPACKED_DISK_MB" in refused.json()["detail"]
        assert disk.held_bytes == lies_there(lies) == 0


def begin(path: str, size: int | None, part: bytes) -> bytes:
    """An upload's head, and the first part of its body; chunked where it says nothing of its size."""
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {'a' * 32}\r\n{length}\r\n\r\n".encode()
    return head + (part if size is not None else b"%x\r\n%s\r\n" % (len(part), part))


FILE = "/v1/sandboxes/sbx_none/files/sent"


async def test_what_is_received_takes_room_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lies = temporary(monkeypatch, tmp_path / "tmp")
    async with world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_DISK_MB=64, KODA_MAX_BODY_MB=12) as koda:
        disk: Unpacking = koda.app.state.bodies.disk
        port = urlsplit(koda.url).port

        async def send(size: int | None, part: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begin(FILE, size, part))
            return reader, writer

        async with disk.holding("ada", 28 * MB):
            _, waits = await send(8 * MB, b"x" * MB)
            await reached(lambda: disk.waiting == 1)
            assert lies_there(lies) == 0, "nothing is received for which there is no room"
        await reached(lambda: disk.held_bytes == 8 * MB and lies_there(lies) == MB)
        _, grows = await send(None, b"x" * 3 * MB)
        await reached(lambda: lies_there(lies) == 4 * MB)
        assert disk.held_bytes == 20 * MB, "what does not say how long it is takes as much as may be sent"
        for writer in (waits, grows):  # who hangs up leaves nothing
            writer.close()
        await reached(lambda: disk.held_bytes == lies_there(lies) == 0)
    assert "a bug" not in capsys.readouterr().out


async def test_what_was_taken_too_much_is_given_back() -> None:
    limit = Unpacking(100)
    async with limit.holding("ada", 40) as held:
        await held.keep(60)
        assert limit.held_bytes == 40
        waits = asyncio.create_task(limit.holding("ada", 30).__aenter__())
        await reached(lambda: limit.waiting == 1)
        await held.keep(10)
        await waits
        assert limit.held_bytes == 40
    assert limit.held_bytes == 30


async def test_uploads_of_one_user_at_once_all_find_room(tmp_path: Path) -> None:
    """Twelve of 20 and 6 MB where a user has 32: whoever has begun has all that it needs, so none waits for ever."""
    png = b"\x89PNG\r\n\x1a\n"
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_DISK_MB=64, KODA_MAX_BODY_MB=24) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        disk: Unpacking = koda.app.state.bodies.disk
        head = {"Authorization": f"Bearer {'a' * 32}"}
        most = list[int]()

        async def send(size: int, said: bool) -> int:
            form = {"file": ("a.png", png + bytes(size * MB), "image/png")}
            asked = http.build_request("POST", "/v1/assets", files=form, headers=head)
            if said:
                return (await http.send(asked)).status_code
            kind = {**head, "Content-Type": asked.headers["content-type"]}
            return (await http.post("/v1/assets", content=parts(await asked.aread()), headers=kind)).status_code

        async def parts(body: bytes) -> AsyncIterator[bytes]:
            for start in range(0, len(body), MB):
                most.append(disk.held_bytes)
                yield body[start : start + MB]

        sending = [send(size, said) for size in (20, 6) for said in (True, False) for _ in range(3)]
        assert await asyncio.gather(*sending) == [201] * 12
        await reached(lambda: disk.held_bytes == 0)
    assert max(most) <= 32 * MB


async def test_folders_leave_room_for_what_they_hold(tmp_path: Path) -> None:
    """What lies there packed, and waits for as much again, never has all there is."""
    async with world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_DISK_MB=64) as koda:
        folders, disk = koda.app.state.bodies.folders, koda.app.state.bodies.disk

        async def folder(user: str) -> None:
            async with folders.holding(user, 8 * MB), disk.holding(user, 8 * MB):
                await asyncio.sleep(0.01)
                async with disk.holding(user, 16 * MB):
                    await asyncio.sleep(0)

        await asyncio.gather(*(folder(user) for user in ("ada", "bob", "cleo") for _ in range(8)))
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
            head = {"Authorization": f"Bearer {'a' * 32}"}
            large = await http.post("/v1/images", params={"name": "a"}, content=bytes(17 * MB), headers=head)
    assert (large.status_code, large.json()["code"]) == (413, "TOO_LARGE")
    assert "a quarter of KODA_UNPACKED_DISK_MB" in large.json()["detail"]


async def test_what_finds_no_room_on_the_disk_is_refused_in_words(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_UNPACKED_DISK_MB=64) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        koda.app.state.bodies.disk = disk = Unpacking(64 * MB, setting="KODA_UNPACKED_DISK_MB", wait_s=0.2)

        async def chunks(count: int) -> AsyncIterator[bytes]:
            for _ in range(count):
                yield b"x" * MB

        async def answers(size: int) -> list[httpx.Response]:
            head = {"Authorization": f"Bearer {'a' * 32}"}
            form = {"file": ("page.zip", b"x" * size * MB, "application/zip")}
            return [
                await http.put(FILE, content=b"x" * size * MB, headers=head),
                await http.put(FILE, content=chunks(size), headers=head),
                await http.post("/v1/renders", files=form, headers=head),
                await http.post("/v1/assets", files=form, headers=head),
            ]

        async with disk.holding("ada", 31 * MB):
            for answer in await answers(3):
                assert (answer.status_code, answer.json()["code"]) == (429, "LIMIT_REACHED"), answer.text
                assert int(answer.headers["Retry-After"]) > 0 and "KODA_UNPACKED_DISK_MB" in answer.json()["detail"]
        for answer in await answers(34):
            assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE"), answer.text
            assert "KODA_UNPACKED_DISK_MB" in answer.json()["detail"]
        assert [answer.status_code for answer in await answers(3)] == [404, 404, 422, 415], "there is room again"
        await reached(lambda: disk.held_bytes == 0)


async def test_a_zip_keeps_its_room_until_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lies = temporary(monkeypatch, tmp_path / "tmp")
    read: list[str] = []

    async def watched(storage: Storage, manifest: Manifest) -> dict[str, bytes]:
        read.append(manifest.id)
        return await read_files(storage, manifest)

    monkeypatch.setattr("koda_ray.serve.routes.files.read_files", watched)
    async with world(tmp_path) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        session_id = (await client.create("a red ball")).session_id
        await koda.directory.checkpoint(session_id, {"noise.bin": os.urandom(24 * MB)})
        disk, memory = koda.app.state.bodies.disk, koda.app.state.unpacking
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(koda.url).port, limit=1024)
        asked = f"GET /v1/sessions/{session_id}/source.zip HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        writer.write(asked.encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await reached(lambda: memory.held_bytes == 0)
        assert 24 * MB < lies_there(lies) <= disk.held_bytes
        async with asyncio.timeout(60):
            assert len(await reader.read(-1)) > 24 * MB
        assert len(read) == 1, "it is known before how much room it needs"
        await reached(lambda: disk.held_bytes == lies_there(lies) == 0)
        writer.close()


@pytest.mark.sandbox
@pytest.mark.needs("tmux")
async def test_what_comes_out_of_a_sandbox_is_read_in_turns(tmp_path: Path) -> None:
    """Files with holes, which cost a sandbox nothing, taken out at once in three ways: each is counted in full.

    What is put in is counted as well.
    """
    lay = "mkdir -p dist; touch dist/index.html; truncate -s 24M big dist/big; truncate -s 40M dist/larger"
    most = list[int]()
    template, packages = write_template(tmp_path / "template"), write_packages(tmp_path / "node_modules")
    async with world(
        tmp_path, SANDBOX_PATH=tmp_path / "boxes", SANDBOX_PROVIDER="local", KODA_UNPACKED_MB=64,
        KODA_TEMPLATE_PATH=template, KODA_NODE_MODULES_PATH=packages,
    ) as koda:  # fmt: skip
        unpacking: Unpacking = koda.app.state.unpacking

        async def watch() -> None:
            while True:
                most.append(unpacking.held_bytes)
                await asyncio.sleep(0.001)

        async with httpx.AsyncClient(base_url=f"{koda.url}/v1", trust_env=False, timeout=60) as http:
            box = f"/sandboxes/{(await http.post('/sandboxes', json={})).json()['id']}"
            laid = await http.post(f"{box}/commands", json={"command": lay})
            large = [await http.get(f"{box}/{path}") for path in ("files/dist/larger", "bundle")]
            await http.post(f"{box}/commands", json={"command": "rm dist/larger"})
            watching = asyncio.create_task(watch())
            out = await asyncio.gather(*(http.get(f"{box}/{path}") for path in ("files/big", "snapshot", "bundle") * 2))
            watching.cancel()
            await reached(lambda: unpacking.held_bytes == 0)
            async with unpacking.holding("local", 32 * MB):
                put = asyncio.create_task(http.put(f"{box}/files/sent", content=b"x" * MB))
                await reached(lambda: unpacking.waiting == 1)
            assert (await put).status_code == 204
            assert (await http.get(f"{box}/files/sent")).content == b"x" * MB
            assert (await http.delete(box)).status_code == 204
    assert laid.json()["exitCode"] == 0, laid.text
    for answer, size in zip(large, (40 * MB, 64 * MB), strict=True):
        told = answer.json()
        assert (answer.status_code, told["code"], told["retryable"]) == (413, "TOO_LARGE", False), answer.text
        assert f"{size:,}" in told["detail"] and f"{32 * MB:,}" in told["detail"]
        assert "KODA_UNPACKED_MB" in told["detail"]
    assert [answer.status_code for answer in out] == [200] * 6
    assert len(out[0].content) == 24 * MB
    assert 24 * MB <= max(most) <= 32 * MB
