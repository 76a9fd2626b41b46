"""Sandboxes of one's own by the Python client: real HTTP, real walls, real terminals."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from koda_ray.client import Koda, KodaClient
from koda_ray.errors import CommandBlocked, CommandTimeout, Conflict, InvalidPath, KodaError, NotFound
from tests.sandbox.conftest import write_packages, write_template
from tests.serve.world import world

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("tmux")]


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncGenerator[KodaClient]:
    settings: dict[str, Any] = {
        "SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_PROVIDER": "local",
        "KODA_TEMPLATE_PATH": write_template(tmp_path / "template"),
        "KODA_NODE_MODULES_PATH": write_packages(tmp_path / "node_modules"),
    }  # fmt: skip
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "start.sh").write_text("#!/bin/sh\necho grüße\nexit 4\n")
    (notes / "start.sh").chmod(0o755)
    (notes / "link").symlink_to("start.sh")
    async with world(tmp_path, **settings) as found, KodaClient(found.url) as client:
        yield client
        for one in (await client.sandboxes()).sandboxes:
            await client.terminate_sandbox(one.id)


async def test_the_whole_way_from_a_folder_to_nothing(koda: KodaClient, tmp_path: Path) -> None:
    image = await koda.create_image(tmp_path / "notes")
    assert (image.name, [one.id for one in (await koda.images()).images]) == ("notes", [image.id])
    box = (await koda.create_sandbox("notes", lifetime_s=600)).id
    assert (await koda.extend_sandbox(box, 3600)).expires_at == (await koda.sandbox(box)).expires_at

    await koda.write_sandbox_file(box, "src/a b.ts", b"one")
    assert await koda.read_sandbox_file(box, "src/a b.ts") == b"one"
    listed = await koda.sandbox_files(box, recursive=True)
    assert [one.path for one in listed.files] == ["link", "src", "src/a b.ts", "start.sh"]
    with pytest.raises(InvalidPath):
        await koda.write_sandbox_file(box, "../x", b"")
    done = await koda.run_command(box, "cat 'src/a b.ts'; ./link; echo no >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "onegrüße\n", "no\n")
    with pytest.raises(CommandTimeout):
        await koda.run_command(box, "sleep 60", timeout_s=0.5)
    with pytest.raises(CommandBlocked):
        await koda.run_command(box, "sudo true")

    assert await koda.snapshot_sandbox(box, tmp_path / "a.zip") == (tmp_path / "a.zip").stat().st_size
    async with asyncio.timeout(60), aclosing(koda.watch_sandbox(box)) as told:
        assert (await anext(told)).changes == ()
        await koda.remove_sandbox_file(box, "src/a b.ts")
        assert [(one.path, one.kind) for one in (await anext(told)).changes] == [("src/a b.ts", "removed")]
    await koda.restore_sandbox(box, tmp_path / "a.zip")
    assert await koda.read_sandbox_file(box, "src/a b.ts") == b"one"
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        assert opened.read("src/a b.ts") == b"one"

    assert (await koda.launch_process(box, "main", "./start.sh")).name == "main"
    heard = [one async for one in koda.follow_process(box, "main")]
    assert ("".join(one.text for one in heard), heard[-1].exit_code) == ("grüße\r\n", 4)
    assert await koda.process_output(box, "main") == "grüße\r\n".encode()
    assert (await koda.process(box, "main")).state == "ended" and (await koda.processes(box)).processes == ()
    await koda.launch_process(box, "idle", "sleep 600")
    with pytest.raises(Conflict):
        await koda.launch_process(box, "idle", "true")
    assert {one.name for one in (await koda.processes(box, everything=True)).processes} == {"idle", "main"}
    await koda.kill_process(box, "idle")
    with pytest.raises(NotFound):
        await koda.kill_process(box, "idle")
    with pytest.raises(KodaError) as caught:
        await koda.open_port(box, 3000)
    assert caught.value.code == "PORT_UNAVAILABLE"

    await koda.terminate_sandbox(box)
    assert [one.state for one in (await koda.sandboxes(everything=True)).sandboxes] == ["terminated"]
    await koda.remove_image("notes")
    with pytest.raises(NotFound):
        await koda.remove_image("notes")


async def test_the_plain_form_does_the_same(koda: KodaClient, tmp_path: Path) -> None:
    def script(url: str) -> list[str]:
        with Koda(url) as plain:
            plain.create_image(tmp_path / "notes", name="words")
            box = plain.create_sandbox("words").id
            plain.launch_process(box, "main", "./start.sh")
            told = [one.text for one in plain.follow_process(box, "main")]
            assert plain.run_command(box, "exit 5").exit_code == 5
            plain.terminate_sandbox(box)
            return told

    assert "".join(await asyncio.to_thread(script, koda.url)) == "grüße\r\n"
