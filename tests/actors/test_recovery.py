"""What goes wrong between two steps of a session, done on purpose: nothing is lost, nothing spins, nothing sticks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import psutil
import pytest

from koda_ray.actors.session import Session
from koda_ray.errors import StorageError
from koda_ray.sandbox.base import Sandbox
from koda_ray.state import checkpoint
from koda_ray.state.disk import TEMP_FOLDER
from koda_ray.state.keys import asset_key
from koda_ray.state.records import Batch
from tests import leaks
from tests.actors.conftest import SessionWorld
from tests.actors.saver import AWAKE, RESTS
from tests.actors.script import APP, GOOD_FILES, good_code, scripted_model
from tests.barriers import held_file, until_waiting
from tests.llm.server import Say, reply
from tests.state import records

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]


async def write(session: Session, files: Mapping[str, str]) -> None:
    """Write files as the code generator's tool does."""
    await session.core.commit(await session.workbench.keep(files))


async def accepted(world: SessionWorld, session: Any) -> None:
    await world.until(session, "plan")
    await world.say(session, "accept")


async def test_a_sandbox_whose_restore_was_cut_off_is_never_taken_for_the_project(world: SessionWorld) -> None:
    session = await world.at_rest()
    await write(session, GOOD_FILES)
    await session.close()

    class CutOff:
        """The real provider, whose new sandboxes are reported and then lost to a cancelled restore."""

        name = world.sandboxes.name
        close = world.sandboxes.close
        connect = world.sandboxes.connect
        destroy = world.sandboxes.destroy
        list = world.sandboxes.list
        location = world.sandboxes.location

        def __init__(self) -> None:
            self.cut = True

        async def create(self, *, sandbox_id: str, session_id: str, user_id: str, image: str | None = None) -> Sandbox:
            made = await own_sandboxes.create(
                sandbox_id=sandbox_id, session_id=session_id, user_id=user_id, image=image
            )
            if self.cut:
                self.cut = False
                raise asyncio.CancelledError
            return made

    own_sandboxes = world.sandboxes
    world.sandboxes = CutOff()
    again = await world.activate(session.session_id, world.model(scripted_model()))
    with pytest.raises(asyncio.CancelledError):
        await again.project.sandbox()
    assert again.state.sandbox_status == "creating"
    sandbox = await again.project.sandbox()
    assert await sandbox.read_file("src/App.tsx") == APP.encode()
    assert len(await world.sandboxes.list()) == 1


async def test_last_words_that_were_not_said_are_said_by_whoever_takes_the_session_up_and_once(
    world: SessionWorld,
) -> None:
    shown = {"videoUrl": "/v1/video", "jobId": "job_1", "bundle": "b1", "duration": 2}
    row = await world.row(phase="preview", owes=None, execution={}, plan_accepted=True, preview=shown)
    model = world.model(lambda _: reply(Say("Here is your preview.")))
    session = await world.activate(row, model)
    await session.agents.add_user("the preview is ready")
    await session.core.commit(Batch(), patch={"closing": True})
    await session.close()
    for _ in range(2):
        session = await world.activate(row, model)
        async with asyncio.timeout(60):
            while session.state.closing or session.working:
                await asyncio.sleep(0.02)
        said = [event["content"] for event in await world.events(session, "message")]
        assert said == ["Here is your preview."] and (session.state.phase, session.state.owes) == ("preview", None)
        await session.close()


@pytest.mark.full
async def test_a_sandbox_lost_between_writing_and_saving_gets_the_files_again(world: SessionWorld) -> None:
    session = await world.open()
    await accepted(world, session)
    await world.event(session, "file_written")
    sandbox, lost = await session.project.sandbox(), list[str]()
    usual = sandbox.snapshot

    async def lose_once(**given: Any) -> Any:
        if not lost:
            lost.append(sandbox.id)
            await world.sandboxes.destroy(sandbox.id)
        return await usual(**given)

    sandbox.snapshot = lose_once  # type: ignore[method-assign]
    await world.until(session, "preview")
    assert lost
    pointer = await world.store.latest_checkpoint(session.session_id)
    assert pointer is not None and session.state.execution is not None
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    assert set(session.state.execution.files) <= set(manifest.files)


async def test_a_checkpoint_counts_only_once_its_pointer_is_stored(world: SessionWorld) -> None:
    session = await world.at_rest()
    await write(session, GOOD_FILES)
    await session.project.keep({"src/components/Late.tsx": b"export {};"}, "files")  # its batch is never committed
    await session.close()
    pointer = await world.store.latest_checkpoint(session.session_id)
    assert pointer is not None
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    assert "src/components/Late.tsx" in manifest.files


@pytest.mark.full
async def test_cancelling_a_render_at_once_leaves_the_session_alive(world: SessionWorld) -> None:
    session = await world.open()
    await accepted(world, session)
    await world.until(session, "preview")
    await world.say(session, "accept")
    await world.say(session, "cancel")
    await world.until(session, "preview")
    async with asyncio.timeout(60):
        while any(job.status == "running" for job in await world.store.list_jobs(session_id=session.session_id)):
            await asyncio.sleep(0.02)
    assert not session.closed
    await world.say(session, "render", resolution="720p", fps=30)
    await world.until(session, "complete")
    jobs = await world.store.list_jobs(session_id=session.session_id)
    assert {job.status for job in jobs} <= {"succeeded", "cancelled"}


async def test_a_heartbeat_outlives_a_database_that_is_away(world: SessionWorld) -> None:
    session = await world.activate(await world.row(), world.model(scripted_model()), lease_s=0.3)
    await world.until(session, "plan")
    usual, failures = world.store.renew, 3

    async def away(session_id: str, epoch: int, *, lease_until: datetime) -> bool:
        nonlocal failures
        if failures:
            failures -= 1
            raise StorageError("database is locked")
        return await usual(session_id, epoch, lease_until=lease_until)

    world.store.renew = away  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        while failures:
            await asyncio.sleep(0.02)
    before = (await world.store.get_session(session.session_id)).lease_until
    async with asyncio.timeout(60):
        while (await world.store.get_session(session.session_id)).lease_until == before:
            await asyncio.sleep(0.02)


@pytest.mark.full
async def test_work_that_cannot_even_record_its_failure_waits_between_tries(world: SessionWorld) -> None:
    tries: list[float] = []
    session_id = await world.row()
    usual, away = world.store.commit, True

    async def commit(session_id: str, epoch: int, batch: Batch) -> Any:
        if away and (batch.messages or batch.phase_commands or batch.state):
            if batch.state is not None and batch.state.phase == "error":
                tries.append(time.monotonic())
            raise StorageError("database is full", code="DISK_FULL")
        return await usual(session_id, epoch, batch)

    world.store.commit = commit  # type: ignore[method-assign]
    session = await world.activate(session_id, world.model(scripted_model()))
    async with asyncio.timeout(60):
        while len(tries) < 3:
            await asyncio.sleep(0.02)
    first, second, third = tries[:3]
    assert second - first >= 0.5 and third - second >= 1.0
    away = False
    await world.until(session, "plan", limit_s=60)


@pytest.mark.full
async def test_a_file_that_a_correction_adds_is_known_from_then_on(world: SessionWorld) -> None:
    broken = APP.replace("import { Layer", "import './components/dot';\nimport { Layer")

    def code(request: dict[str, Any]) -> dict[str, str]:
        if request.get("errors"):
            return {"src/components/dot.ts": "export const dot = 1;\n"}
        return {**GOOD_FILES, "src/App.tsx": broken} if request["task"] == "initial_setup" else good_code(request)

    session = await world.open("a dot", scripted_model(code))
    await accepted(world, session)
    state = await world.until(session, "preview")
    assert state.execution is not None and "src/components/dot.ts" in state.execution.files


async def test_a_file_that_a_command_removed_does_not_stop_the_generator(world: SessionWorld) -> None:
    shown: list[set[str]] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        shown.append(set(request["files"]))
        return {"src/App.tsx": APP}

    session = await world.at_rest(scripted_model(code))
    await write(session, {**GOOD_FILES, "src/components/Note.tsx": "export {};"})
    sandbox = await session.project.sandbox()
    await sandbox.remove("src/components/Note.tsx")
    made = await session.workbench.generate({"task": "modify_existing", "files": ["src/App.tsx"]}, cause_id="call_1")
    assert made.files == {"src/App.tsx": APP} and shown == [set(GOOD_FILES)]


async def test_a_sandbox_left_by_a_dead_process_is_saved_before_it_is_destroyed(world: SessionWorld) -> None:
    dead = await world.at_rest()
    await write(dead, GOOD_FILES)
    left = await dead.project.sandbox()
    await left.write_files({"src/theatre/state.json": b'{"edited": "after the last checkpoint"}'})
    heir = await world.activate(dead.session_id, world.model(scripted_model()))
    await heir.close()
    assert await world.sandboxes.list() == []
    pointer = await world.store.latest_checkpoint(heir.session_id)
    assert pointer is not None and pointer.trigger == "idle"
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    assert b"edited" in await checkpoint.read_file(world.storage, manifest, "src/theatre/state.json")
    assert set(GOOD_FILES) <= set(manifest.files)


SCRIPT = "scripts/go.sh"
KINDS = {
    SCRIPT: b"#!/bin/sh\necho ran\n",
    "public/noise.bin": bytes(range(256)) * 16,
    "src/scenes/日本 ü.tsx": "export const 題 = 1;\n".encode(),
}


async def everything(session: Session) -> tuple[dict[str, bytes], Mapping[str, int], tuple[str, ...]]:
    """What a session's sandbox holds, told by the sandbox itself."""
    taken = await (await session.project.sandbox()).snapshot()
    return taken.changed, taken.modes, taken.folders


async def test_a_lost_sandbox_comes_back_with_all_that_a_disk_knows_of_files(world: SessionWorld) -> None:
    session = await world.at_rest()
    await write(session, {"src/components/Gone.tsx": "export {};"})
    box = await session.project.sandbox()
    await box.write_files(KINDS)
    made = await box.run(("sh", "-c", f"chmod 755 {SCRIPT}; chmod 400 public/noise.bin; mkdir -p 'src/空/b'"))
    assert made.exit_code == 0, made.stderr
    await box.remove("src/components/Gone.tsx")
    before = await everything(session)
    await session.project.save("heartbeat")
    await world.sandboxes.destroy(box.id)

    assert await everything(session) == before
    files, modes, folders = before
    assert files.items() >= KINDS.items() and "src/components/Gone.tsx" not in files
    assert modes == {SCRIPT: 0o755, "public/noise.bin": 0o400} and folders == ("src/空/b",)
    again = await session.project.sandbox()
    assert again.id != box.id
    assert (await again.run((SCRIPT,))).stdout == "ran\n"
    # what has come back is what is saved: nothing is stored anew for it
    saved = await world.store.latest_checkpoint(session.session_id)
    await session.project.save("heartbeat")
    assert await world.store.latest_checkpoint(session.session_id) == saved
    # a mode alone is a change, and so is a folder; who takes over has both
    await again.run(("chmod", "-x", SCRIPT))
    await session.project.save("heartbeat")
    await again.run(("rmdir", "src/空/b"))
    await session.close()
    heir = await world.activate(session.session_id, world.model(scripted_model()))
    assert await everything(heir) == (files, {"public/noise.bin": 0o400}, ("src/空",))


def test_the_template_stays_as_it_is() -> None:
    from koda_ray.sandbox.policy import TEMPLATE_OWNED

    owned = (
        "src/koda/contract.ts",
        "src/utils/math.ts",
        "vite.config.ts",
        "package.json",
        "tsconfig.json",
        "index.html",
    )
    ours: Mapping[str, str] = GOOD_FILES
    assert all(path.startswith(TEMPLATE_OWNED) for path in owned)
    assert not any(path.startswith(TEMPLATE_OWNED) for path in ours)


async def test_many_uploads_are_not_held_in_memory_together(world: SessionWorld) -> None:
    session = await world.at_rest()
    sandbox, sizes = await session.project.sandbox(), list[int]()
    for _ in range(5):
        data = os.urandom(5 << 20)
        asset = replace(records.asset(session.core.user_id), session_id=session.session_id, size_bytes=len(data))
        asset = replace(asset, project_id=session.core.project_id)
        key = asset_key(asset.user_id, asset.project_id, asset.id, "cat.png")
        await world.storage.put(key, data)
        await world.store.add_asset(replace(asset, key=key))
    usual = sandbox.write_files

    async def watched(files: Mapping[str, bytes]) -> Any:
        sizes.append(sum(map(len, files.values())))
        return await usual(files)

    sandbox.write_files = watched  # type: ignore[method-assign]
    placed = await session.project.place_assets()
    assert sizes == [5 << 20] * 5
    for asset in placed:
        assert len(await sandbox.read_file(asset.project_path)) == 5 << 20
    await session.project.place_assets()
    assert len(sizes) == 5, "and each is placed once"


async def renewed_often(world: SessionWorld, session_id: str, ended: Callable[[], bool]) -> None:
    """Wait until who holds a session has renewed its lease four times."""
    leases: set[object] = set()
    async with asyncio.timeout(120):
        while len(leases) < 5:
            assert not ended(), f"it ended after {len(leases)} leases"
            leases.add((await world.store.get_session(session_id)).lease_until)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def another_life(
    world: SessionWorld, session_id: str, path: str, dies_at: str
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int, str]]:
    """Have a session live in a process of its own; yields that, the number of its activation, and its sandbox."""
    command = [sys.executable, "-m", "tests.actors.saver", str(world.settings.storage_path.parent)]
    life = await asyncio.create_subprocess_exec(
        *command, session_id, path, dies_at, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert life.stdin is not None and life.stdout is not None
    try:
        async with asyncio.timeout(120):
            said = [""]
            while said[0] != AWAKE:  # what is logged comes on the same way
                line = await life.stdout.readline()
                assert line, "it ended before it began"
                said = line.decode().split() or [""]
        yield life, int(said[1]), said[2]
    finally:
        if life.returncode is None:
            life.kill()
            await life.wait()
        life.stdin.close()


@pytest.mark.full
@pytest.mark.parametrize("stopped", ["before it rests", "before its sandbox ends"])
async def test_who_was_stopped_before_it_ends_its_sandbox_ends_nothing_that_another_works_in(
    world: SessionWorld, stopped: str
) -> None:
    first = await world.at_rest()
    await write(first, GOOD_FILES)
    session_id, left = first.session_id, str(first.state.sandbox_id)
    lock = world.settings.sandbox_path / "dep_test" / left / ".lock"
    async with another_life(world, session_id, "src/one.ts", "nothing") as (life, epoch, sandbox_id):
        assert sandbox_id == left and life.stdin is not None
        with held_file(lock):
            if stopped == "before its sandbox ends":
                life.stdin.write(f"{RESTS}\n".encode())
                await until_waiting(life.pid)
            life.send_signal(signal.SIGSTOP)
        heir = await world.activate(session_id, world.model(scripted_model()))
        sandbox = await heir.project.sandbox()
        assert heir.core.epoch > epoch and b"export" in await sandbox.read_file("src/one.ts")
        await sandbox.write_files({"src/late.ts": b"export const late = 1;"})
        life.send_signal(signal.SIGCONT)
        life.stdin.write(f"{RESTS}\n".encode())
        life.stdin.close()
        assert await asyncio.wait_for(life.wait(), 120) == 0
    assert await sandbox.is_alive() and await sandbox.read_file("src/late.ts") == b"export const late = 1;"
    assert [info.id for info in await world.sandboxes.list()] == [sandbox.id]
    assert heir.state.sandbox_id == sandbox.id
    await heir.close()


@pytest.mark.full
async def test_sessions_that_save_large_projects_at_once_read_no_more_than_their_machine_has_room_for(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, room = 100 << 20, 128 << 20
    monkeypatch.setenv("KODA_READING_MB", str(room >> 20))
    sessions = [await world.at_rest() for _ in range(4)]
    for session in sessions:
        await write(session, GOOD_FILES)
        made = await (await session.project.sandbox()).run(
            ("sh", "-c", f"mkdir -p public && truncate -s {large} public/large.bin")
        )
        assert made.exit_code == 0, made.stderr
    async with AsyncExitStack() as stack:
        lives = [
            (await stack.enter_async_context(another_life(world, session.session_id, "src/one.ts", "nothing")))[0]
            for session in sessions
        ]
        processes = [psutil.Process(life.pid) for life in lives]
        before = most = held_bytes(processes)
        for life in lives:
            assert life.stdin is not None
            life.stdin.write(f"{RESTS}\n".encode())
        waiting = asyncio.gather(*(life.wait() for life in lives))
        async with asyncio.timeout(200):
            while not waiting.done():
                most = max(most, held_bytes(processes))
                await asyncio.sleep(0.005)
        assert await waiting == [0] * len(lives)
    assert large < most - before < room + large, f"{(most - before) >> 20} MB, and without room for it 400"
    for session in sessions:
        pointer = await world.store.latest_checkpoint(session.session_id)
        assert pointer is not None and pointer.total_bytes > large
    assert await world.sandboxes.list() == []


def held_bytes(processes: Sequence[psutil.Process]) -> int:
    """What processes that still run hold of memory, all together."""
    found = 0
    for process in processes:
        with suppress(psutil.Error):
            found += process.memory_info().rss
    return found


async def killed_by_its_save(world: SessionWorld, session_id: str, path: str, dies_at: str) -> str:
    """Run a life in a process of its own, which its first save kills; returns the sandbox that it had."""
    async with another_life(world, session_id, path, dies_at) as (life, epoch, sandbox_id):
        assert life.stdin is not None
        await renewed_often(world, session_id, lambda: life.returncode is not None)
        assert (await world.store.get_session(session_id)).epoch == epoch
        life.stdin.write(b"later\n")
        async with asyncio.timeout(120):
            assert await life.wait() == -signal.SIGKILL, "its first save killed it"
    return sandbox_id


async def nothing_runs(before: frozenset[psutil.Process]) -> None:
    """Wait until no process is left that was not there before, not even one that left the family."""
    async with asyncio.timeout(60):
        while not leaks.ours() <= before:
            await asyncio.sleep(0.02)


@pytest.mark.full
async def test_a_process_that_each_save_kills_saves_once_in_each_life_after_a_while(world: SessionWorld) -> None:
    """However often it is killed in a heartbeat's save, the next process saves a whole interval after its beginning."""
    first = await world.at_rest()
    await write(first, GOOD_FILES)
    session_id, left = first.session_id, first.state.sandbox_id
    saved, running = await world.store.latest_checkpoint(session_id), leaks.ours()
    lives = {"src/one.ts": "blobs", "src/two.ts": "checkpoints", "src/three.ts": "blobs"}
    cut_off = world.settings.storage_path / TEMP_FOLDER
    for count, (path, dies_at) in enumerate(lives.items()):
        assert await killed_by_its_save(world, session_id, path, dies_at) == left
        assert await world.store.latest_checkpoint(session_id) == saved
        assert len([*cut_off.glob("*")]) > count, "each left what it was writing"
    await nothing_runs(running)

    heir = await world.activate(session_id, world.model(scripted_model()), lease_s=0.15)
    sandbox = await heir.project.sandbox()
    written = {path: await sandbox.read_file(path) for path in lives}
    await renewed_often(world, session_id, lambda: heir.closed)
    assert sandbox.id == left and await world.store.latest_checkpoint(session_id) == saved
    world.ahead_s += world.settings.heartbeat_s + 1
    async with asyncio.timeout(60):
        while (pointer := await world.store.latest_checkpoint(session_id)) == saved:
            await asyncio.sleep(0.02)
    assert pointer is not None and pointer.trigger == "heartbeat"
    files = await checkpoint.read_files(world.storage, await checkpoint.load(world.storage, pointer.manifest_key))
    assert files.items() >= (written | {path: text.encode() for path, text in GOOD_FILES.items()}).items()
    assert len(set(written.values())) == len(lives), "each process wrote a file of its own"
    await heir.close()
    assert await world.sandboxes.list() == []
    await nothing_runs(running)
