"""What is in a sandbox and in no checkpoint is never let go, and what a checkpoint leaves out is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from koda_ray.actors.intake import new_command, record_command
from koda_ray.actors.session import Session
from koda_ray.errors import QuotaExceeded, StorageError
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.reading import MAX_ENTRIES
from koda_ray.state import checkpoint
from koda_ray.state.storage import Storage
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, GOOD_FILES, scripted_model

pytestmark = [pytest.mark.sandbox]

FILM = "public/film.bin"
EDIT = "src/theatre/state.json"


async def write(session: Session, files: Mapping[str, str]) -> Sandbox:
    """Write files as the code generator's tool does; returns where they lie."""
    await session.core.commit(await session.workbench.keep(files))
    return await session.project.sandbox()


async def saved(world: SessionWorld, session: Session) -> checkpoint.Manifest:
    pointer = await world.store.latest_checkpoint(session.session_id)
    assert pointer is not None
    return await checkpoint.load(world.storage, pointer.manifest_key)


async def failures(world: SessionWorld, session: Session) -> list[dict[str, Any]]:
    return [event for event in await world.events(session, "checkpoint") if event.get("failed")]


async def sh(box: Sandbox, script: str) -> None:
    done = await box.run(("sh", "-c", script), timeout_s=60)
    assert done.exit_code == 0, done.stderr


# --- saving fails -----------------------------------------------------------------------------------------------------


async def test_a_session_falls_asleep_only_once_storage_takes_its_files(world: SessionWorld, small_disk: Path) -> None:
    world.storage = Storage(str(small_disk))
    row = await world.row(phase="executing", owes=None, execution={}, plan_accepted=True)
    quick = {"idle_timeout_s": 0.3, "lease_s": 0.3, "heartbeat_s": 0.2}
    session = await world.activate(row, world.model(scripted_model()), **quick)
    world.ahead_s = -3600  # somebody works on it
    box = await write(session, GOOD_FILES)
    (small_disk / "filler").write_bytes(b"x" * (3 << 20))
    await box.write_files({EDIT: b'{"only": "here"}', FILM: bytes(2 << 20)})
    tries = 0
    usual = world.storage.put_many

    async def counted(objects: Mapping[str, bytes]) -> None:
        nonlocal tries
        tries += 1
        await usual(objects)

    world.storage.put_many = counted  # type: ignore[method-assign]
    world.ahead_s = 3600
    async with asyncio.timeout(60):
        while tries < 6:
            await asyncio.sleep(0.02)
    (failed,) = await failures(world, session)
    assert (failed["trigger"], failed["code"]) == ("idle", "DISK_FULL") and "full" in failed["message"]
    assert world.ended == 0 and session.state.sandbox_status == "ready"
    assert [info.id for info in await world.sandboxes.list()] == [box.id]
    assert await box.read_file(EDIT) == b'{"only": "here"}'

    (small_disk / "filler").unlink()
    async with asyncio.timeout(60):
        while world.ended == 0 or await world.sandboxes.list():
            await asyncio.sleep(0.02)
    assert (await saved(world, session)).files.keys() >= {EDIT, FILM, *GOOD_FILES}


async def test_a_process_that_ends_while_storage_is_full_leaves_the_sandbox_to_the_next(
    world: SessionWorld, small_disk: Path
) -> None:
    world.storage = Storage(str(small_disk))
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    (small_disk / "filler").write_bytes(b"x" * (3 << 20))
    await box.write_files({EDIT: b'{"only": "here"}', FILM: bytes(2 << 20)})
    with pytest.raises(StorageError):
        await session.project.release("destroy")
    with pytest.raises(StorageError):
        await world.say(session, "rewind", to=(await saved(world, session)).id)
    assert await box.read_file(EDIT) == b'{"only": "here"}'
    await session.close()
    row = await world.store.get_session(session.session_id)
    assert (row.status, row.state.sandbox_id) == ("suspended", box.id)
    assert len(await failures(world, session)) == 1
    (small_disk / "filler").unlink()
    heir = await world.activate(session.session_id, world.model(scripted_model()))
    await heir.close()
    assert await world.sandboxes.list() == []
    assert EDIT in (await saved(world, heir)).files


async def test_a_session_begins_although_storage_is_full_and_it_is_to_go_back(
    world: SessionWorld, small_disk: Path
) -> None:
    world.storage = Storage(str(small_disk))
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    point = (await saved(world, session)).id
    (small_disk / "filler").write_bytes(b"x" * (3 << 20))
    await box.write_files({EDIT: b'{"only": "here"}', FILM: bytes(2 << 20)})
    await session.close()
    for name, body in (("message", {"text": "make it blue"}), ("rewind", {"to": point})):
        asked = new_command(session_id=session.session_id, user_id="local", name=name, body=body, key=name)
        await record_command(world.store, asked)
    heir = await world.activate(session.session_id, world.model(scripted_model()), lease_s=0.3)
    assert await box.read_file(EDIT) == b'{"only": "here"}'
    assert heir.state.owes is not None and not heir.working, "what agents did now would be undone"
    with pytest.raises(StorageError):
        await heir.intake.look()
    (told,) = await world.events(heir, "command_delayed")
    assert (told["command"], told["code"]) == ("rewind", "DISK_FULL")

    (small_disk / "filler").unlink()
    await world.event(heir, "rewound")
    assert await world.store.inbox(heir.session_id) == [] and len(await world.events(heir, "command_delayed")) == 1
    assert await world.sandboxes.list() == []


async def test_what_theatre_never_writes_stops_no_save_and_no_end(world: SessionWorld) -> None:
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    nested = b'{"a":' * 300 + b"1" + b"}" * 300
    for state in (
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        nested,
        b'{"a": ' + b"[" * 200_000,
        b'{"a": NaN}',
        b"\xff",
        b"[]",
    ):
        await box.write_files({EDIT: state})  # a page may, and whoever has a link that may edit
        await session.project.save("heartbeat")
        manifest = await saved(world, session)
        assert await checkpoint.read_file(world.storage, manifest, EDIT) == state
        assert manifest.state.theatre_state is None
    await box.write_files({EDIT: b'{"a": {"b": ["\\ud83c\\udfac", 1e9, null]}}'})
    await session.project.save("heartbeat")
    assert (await saved(world, session)).state.theatre_state == {"a": {"b": ["\U0001f3ac", 1e9, None]}}
    await box.write_files({EDIT: nested})
    await session.close()
    assert await world.sandboxes.list() == [] and await failures(world, session) == []


async def test_a_sandbox_ends_with_its_session_though_a_mistake_of_ours_keeps_it_from_being_saved(
    world: SessionWorld,
) -> None:
    session = await world.at_rest()
    await write(session, GOOD_FILES)
    before = await saved(world, session)

    async def mistaken(*_: object, **__: object) -> None:
        raise RecursionError("a mistake of ours")

    box = await session.project.sandbox()
    box.snapshot = mistaken  # type: ignore[method-assign,assignment]
    await session.close()
    assert await world.sandboxes.list() == []
    row = await world.store.get_session(session.session_id)
    assert (row.status, row.state.sandbox_id) == ("suspended", None)
    (failed,) = await failures(world, session)
    assert failed["trigger"] == "idle" and "RecursionError" in failed["message"]
    heir = await world.activate(session.session_id, world.model(scripted_model()))
    assert (await (await heir.project.sandbox()).read_file("src/App.tsx")).decode() == GOOD_FILES["src/App.tsx"]
    assert (await saved(world, heir)).id == before.id
    await heir.close()


@pytest.mark.full
async def test_a_project_of_too_many_files_is_kept_until_there_are_fewer(world: SessionWorld) -> None:
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    await box.write_files({EDIT: b'{"only": "here"}'})
    many = f"require('fs').mkdirSync('public/many', {{recursive: true}}); for (let i = 0; i <= {MAX_ENTRIES}; i++) "
    made = await box.run(("node", "-e", f"{many} require('fs').writeFileSync(`public/many/${{i}}`, '')"), timeout_s=60)
    assert made.exit_code == 0, made.stderr
    with pytest.raises(QuotaExceeded):
        await session.project.release("idle")
    await session.close()
    (failed,) = await failures(world, session)
    assert failed["code"] == "QUOTA_EXCEEDED" and str(MAX_ENTRIES) in failed["message"]
    heir = await world.activate(session.session_id, world.model(scripted_model()))
    again = await heir.project.sandbox()
    assert again.id == box.id and await again.read_file(EDIT) == b'{"only": "here"}'
    await sh(again, "rm -r public/many")
    await heir.close()
    assert await world.sandboxes.list() == []
    assert EDIT in (await saved(world, heir)).files


# --- files that no checkpoint holds -----------------------------------------------------------------------------------


async def test_what_is_left_out_is_told_and_what_was_saved_of_it_stays(world: SessionWorld) -> None:
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    await box.write_files({FILM: b"short"})
    await sh(box, "chmod 700 public/film.bin")
    await session.project.save("heartbeat")
    assert "skipped" not in (await world.events(session, "checkpoint"))[-1]
    await sh(box, f"truncate -s 300M {FILM} && ln -s App.tsx src/alias.tsx")

    left_out = [{"path": FILM, "why": "large"}, {"path": "src/alias.tsx", "why": "link"}]
    told = len(await world.events(session, "checkpoint"))
    for _ in range(2):  # a heartbeat that finds nothing else to save tells of it too, once
        await session.project.save("heartbeat")
    (event,) = (await world.events(session, "checkpoint"))[told:]
    assert (event["skippedCount"], event["skipped"], event["unchanged"]) == (2, left_out, True)

    # a process that never read the file keeps what is stored of it
    heir = await world.activate(session.session_id, world.model(scripted_model()))
    assert (await heir.project.sandbox()).id == box.id
    await box.write_files({"src/App.tsx": APP.encode() + b"\n"})
    await heir.project.save("heartbeat")
    manifest = await saved(world, heir)
    assert (await world.events(heir, "checkpoint"))[-1]["skipped"] == left_out
    assert await checkpoint.read_file(world.storage, manifest, FILM) == b"short"
    assert manifest.files[FILM].mode == 0o700
    # and where it is really gone, so it is in the checkpoint
    await sh(box, f"rm {FILM}")
    await heir.project.save("heartbeat")
    assert FILM not in (await saved(world, heir)).files


async def test_many_that_are_left_out_are_counted_and_a_few_named(world: SessionWorld) -> None:
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    await sh(box, "mkdir -p public/links && for i in $(seq 100); do ln -s x \"public/links/$(printf '\\033')$i\"; done")
    await session.project.save("heartbeat")
    event = (await world.events(session, "checkpoint"))[-1]
    assert event["skippedCount"] == 100 and len(event["skipped"]) == 20
    assert all(str(each["path"]).isprintable() for each in event["skipped"])


async def test_modes_of_folders_come_back(world: SessionWorld) -> None:
    session = await world.at_rest()
    box = await write(session, GOOD_FILES)
    await sh(box, "mkdir -p public/open/in && echo x > public/open/in/x")
    await sh(box, "chmod 777 public/open && chmod 700 src/scenes")
    await session.close()
    heir = await world.activate(session.session_id, world.model(scripted_model()))
    again = await heir.project.sandbox()
    looked = await again.run(("find", "public/open", "src/scenes", "-type", "d", "-printf", "%m %p\n"))
    assert sorted(looked.stdout.splitlines()) == ["700 src/scenes", "755 public/open/in", "777 public/open"]
