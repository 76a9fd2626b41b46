"""What happens to a sandbox when the process that owns it is killed, and how the next one takes over."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.errors import SandboxError, SandboxNotFound
from koda_ray.sandbox import local
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.node import NodeRuntime, find_node
from koda_ray.sandbox.record import Owner, Record
from koda_ray.sandbox.service import SandboxService
from koda_ray.sandbox.strays import DOORWAY
from tests.sandbox.leftovers import Leftovers

pytestmark = pytest.mark.sandbox

_OWNER = """
import asyncio, json, sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conftest import small_limits

async def main():
    given = json.loads(sys.argv[1])
    provider = LocalProvider(
        root=Path(given["boxes"]),
        template=TemplateProject(folder=Path(given["template"]), node_modules=Path(given["node_modules"])),
        limits=replace(small_limits(), soft=given["soft"]),
    )
    sandbox = await provider.create(sandbox_id=given["id"], session_id="ses_a", user_id="usr_a")
    await sandbox.write_files({"src/kept.ts": b"kept"})
    await sandbox.start("daemon", ("sh", "-c", "(setsid sh -c 'while :; do sleep 0.05; done' &) ; exec sleep 600"))
    deaf = ("sh", "-c", "trap '' TERM; echo > src/running.ts; sleep 600")
    command = asyncio.create_task(sandbox.run(deaf, timeout_s=600))
    while True:
        names = [entry.path for entry in await sandbox.list_files("src")]
        if "src/running.ts" in names:
            break
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await command

asyncio.run(main())
"""


@pytest.fixture(params=[pytest.param(False, id="hard"), pytest.param(True, id="soft", marks=pytest.mark.full)])
def owner(
    request: pytest.FixtureRequest, boxes: Path, template: Path, node_modules: Path, leftovers: Leftovers
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process with a sandbox that runs a command and a background process with a daemon."""
    given = {
        "boxes": str(boxes), "template": str(template), "node_modules": str(node_modules),
        "id": leftovers.new_id(), "soft": request.param,
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER, json.dumps(given)], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield given["id"], process
    process.kill()
    process.wait()
    process.stdout.close()


async def test_a_killed_owner_leaves_files_and_no_process(
    owner: tuple[str, subprocess.Popen[str]], provider: LocalProvider, leftovers: Leftovers
) -> None:
    name, process = owner
    assert leftovers.processes(name)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while leftovers.processes(name) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert leftovers.processes(name) == []
    info = next(iter(await provider.list()))
    assert (info.id, info.alive, info.owner_alive) == (name, True, False)
    sandbox = await provider.connect(name)
    assert await sandbox.read_file("src/kept.ts") == b"kept"
    assert await sandbox.processes() == []
    assert (await sandbox.run(("cat", "src/kept.ts"))).stdout == "kept"
    assert next(iter(await provider.list())).owner_alive
    await sandbox.destroy()


@pytest.mark.full
async def test_one_that_another_process_runs_can_be_destroyed(
    owner: tuple[str, subprocess.Popen[str]], provider: LocalProvider, leftovers: Leftovers
) -> None:
    name, _ = owner
    assert leftovers.processes(name)
    await provider.destroy(name)
    deadline = time.monotonic() + 60  # what was killed is there until the machine gets round to it
    while (left := leftovers.processes(name)) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert left == []
    assert await provider.list() == []


async def test_the_reaper_takes_what_nobody_owns(
    owner: tuple[str, subprocess.Popen[str]], provider: LocalProvider, leftovers: Leftovers
) -> None:
    name, process = owner
    service = SandboxService(provider)
    mine = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_b", user_id="usr_b")
    assert await service.reap([]) == []  # both are young and their owners live
    process.kill()
    process.wait()
    assert await service.reap([name]) == []  # a row says that its session still wants it
    assert await service.reap([]) == [name]
    assert [info.id for info in await provider.list()] == [mine.id]
    await mine.destroy()


async def test_what_was_half_made_is_found_and_removed(
    provider: LocalProvider, boxes: Path, leftovers: Leftovers
) -> None:
    name = leftovers.new_id()
    (boxes / name / "disk" / "project").mkdir(parents=True)
    (boxes / "not-ours").mkdir()
    (boxes / "not-ours" / "file").touch()
    assert [(info.id, info.alive, info.owner_alive) for info in await provider.list()] == [(name, False, False)]
    sandbox = await provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a")
    assert (await sandbox.read_file("public/logo.svg")) == b"<svg/>\n"
    await sandbox.destroy()
    assert await SandboxService(provider).reap([]) == []
    assert (boxes / "not-ours" / "file").exists()
    (boxes / "not-ours" / "file").unlink()
    (boxes / "not-ours").rmdir()


def test_an_owner_is_told_apart_from_a_later_process_of_its_number() -> None:
    mine = Owner.this_process()
    assert mine.alive
    assert not Owner(mine.pid, mine.start_ticks - 1, mine.boot_id).alive
    assert not Owner(mine.pid, mine.start_ticks, "another-boot").alive
    assert not Owner(2**22 + 1, 0, mine.boot_id).alive


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.003, 0.01])
async def test_a_creation_that_is_cancelled_leaves_nothing(
    provider: LocalProvider, boxes: Path, leftovers: Leftovers, after_s: float
) -> None:
    name = leftovers.new_id()
    creating = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
    await asyncio.sleep(after_s)
    creating.cancel()
    try:
        await creating
    except asyncio.CancelledError:
        assert await provider.list() == []
        assert not (boxes / name).exists()
    else:  # it was there before the word to stop it
        await provider.destroy(name)


async def test_a_creation_that_is_cancelled_as_its_last_step_begins_leaves_nothing(
    provider: LocalProvider, boxes: Path, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = leftovers.new_id()
    made = threading.Event()

    def slow() -> NodeRuntime:
        if Record.read(boxes / name) is not None:
            made.set()
            time.sleep(0.3)
        return find_node()

    monkeypatch.setattr(local, "find_node", slow)
    creating = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
    assert await asyncio.to_thread(made.wait, 60)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert await provider.list() == [] and not (boxes / name).exists()


async def test_a_creation_that_is_cancelled_again_as_it_clears_away_leaves_nothing(
    provider: LocalProvider, boxes: Path, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = leftovers.new_id()
    making, go, clearing = threading.Event(), threading.Event(), threading.Event()
    make, clear = provider._make, provider._clear

    def slowly_made(*given: Any) -> Record:
        making.set()
        go.wait(60)
        return make(*given)

    def slowly_cleared(directory: Path) -> None:
        clearing.set()
        time.sleep(0.3)
        clear(directory)

    monkeypatch.setattr(provider, "_make", slowly_made)
    creating = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
    assert await asyncio.to_thread(making.wait, 60)
    monkeypatch.setattr(provider, "_clear", slowly_cleared)  # now: it cleared an earlier attempt's rest away before
    creating.cancel()
    go.set()
    assert await asyncio.to_thread(clearing.wait, 60)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert await provider.list() == [] and not (boxes / name).exists()


async def test_one_whose_folder_went_away_takes_its_processes_and_socket_along(
    provider: LocalProvider, leftovers: Leftovers
) -> None:
    sandbox = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_w", user_id="usr_w")
    await sandbox.start("sleep", ("sleep", "600"))
    directory = provider._root / sandbox.id
    record = Record.read(directory)
    assert record is not None
    Record.forget(directory)  # as gone as anybody can tell
    with pytest.raises(SandboxNotFound):
        await provider.connect(sandbox.id)
    deadline = time.monotonic() + 60
    while leftovers.processes(sandbox.id) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert leftovers.processes(sandbox.id) == []
    outside = Path(record.preview_socket).parent
    assert outside == directory or directory in outside.parents or not outside.exists()
    await provider.destroy(sandbox.id)


@pytest.mark.full
async def test_whoever_destroys_one_shuts_the_doors_of_its_owner(
    owner: tuple[str, subprocess.Popen[str]], provider: LocalProvider, leftovers: Leftovers
) -> None:
    name, _ = owner
    other = pickle.loads(pickle.dumps(provider))
    box = await provider.connect(name)
    await box.start("idle", ("sleep", "600"))
    await box.reach(8000, of="idle")
    assert [line for line in leftovers.processes(name) if DOORWAY in line]
    await other.destroy(name)
    deadline = time.monotonic() + 60  # what was killed is there until the machine gets round to it
    while (left := leftovers.processes(name)) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert left == []
    with pytest.raises(SandboxNotFound):
        await box.reach(8000, of="idle")
    await provider.close()


async def test_who_has_let_go_of_one_starts_nothing_more_in_it(sandbox: LocalSandbox, provider: LocalProvider) -> None:
    line = ("sleep", "600.012345")
    starting = [asyncio.create_task(sandbox.start(f"one-{turn}", line)) for turn in range(4)]
    await asyncio.sleep(0)
    await provider.close()
    await asyncio.gather(*starting, return_exceptions=True)
    for begin in (
        lambda: sandbox.run(("true",)),
        lambda: sandbox.start("two", line),
        lambda: sandbox.terminal(line),
        lambda: sandbox.reach(3000, of="one-0"),
        sandbox.start_preview,
    ):
        with pytest.raises(SandboxError, match=r"let go of the sandbox .*; connect to it again"):
            await begin()
    own = [process.cmdline() for process in psutil.Process().children(recursive=True)]
    assert not [words for words in own if line[1] in words]
    again = await provider.connect(sandbox.id)
    assert (await again.run(("true",))).exit_code == 0


async def test_one_that_is_destroyed_while_another_takes_it_over_stays_gone(
    provider: LocalProvider, leftovers: Leftovers
) -> None:
    """Its record is not written again, nor its groups made, by whoever read of it just before."""
    for turn in range(12):
        box = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
        others = [pickle.loads(pickle.dumps(provider)) for _ in range(2)]
        connecting = [asyncio.create_task(other.connect(box.id)) for other in others]
        await asyncio.sleep(turn * 0.0005)
        await provider.destroy(box.id)
        for task in connecting:
            with suppress(SandboxNotFound):
                assert not await (await task).is_alive()
        assert leftovers.find() == []
