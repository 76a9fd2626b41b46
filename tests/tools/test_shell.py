"""Commands, and what they may not leave behind: the orchestrator runs them, and it writes no code."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from koda_ray.sandbox.base import Sandbox
from koda_ray.state import checkpoint
from koda_ray.state.keys import manifest_key
from koda_ray.state.records import Batch, ToolCallRecord, ToolCallStatus
from koda_ray.tools.code import is_code
from koda_ray.types import now
from tests.actors.script import APP, GOOD_FILES, scripted_model
from tests.tools.conftest import Tools

pytestmark = pytest.mark.sandbox


async def contents(sandbox: Sandbox) -> dict[str, bytes]:
    return (await sandbox.snapshot()).changed


async def test_a_command_gives_back_what_it_said(tools: Tools) -> None:
    said = await tools.json("sandbox_run_command", command="echo out; echo err >&2; pwd; ls package.json")
    assert (said["exitCode"], said["stderr"], said["truncated"]) == (0, "err\n", False)
    assert said["stdout"] == "out\n/home/user/project\npackage.json\n"
    failed = await tools.call("sandbox_run_command", command="ls nowhere")
    assert failed.is_error and "nowhere" in json.loads(failed.content)["stderr"]


async def test_a_flood_of_output_keeps_both_ends_and_stays_readable(tools: Tools) -> None:
    said = await tools.json("sandbox_run_command", command="echo first; yes '\"quoted\"' | head -c 200000; echo last")
    assert said["truncated"] and said["stdout"].startswith("first\n") and said["stdout"].endswith("last\n")
    assert "characters left out" in said["stdout"] and len(said["stdout"]) > 10_000


@pytest.mark.full
async def test_types_are_checked_with_the_packages_that_are_there(tools: Tools) -> None:
    await tools.keep({**GOOD_FILES, "src/components/Wrong.tsx": "export const size: number = 'wide';\n"})
    checked = await tools.call("sandbox_run_command", command="npx tsc --noEmit", timeout_ms=100_000)
    said = json.loads(checked.content)
    assert checked.is_error and "src/components/Wrong.tsx(1,14)" in said["stdout"] and "putBack" not in said


async def test_a_command_that_never_ends_is_ended_with_what_it_wrote(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    command = "echo broken > src/App.tsx; echo written; sleep 60"
    for limit_ms in (500, 5_000, 50_000):  # how soon it has written is the machine's business
        ended = await tools.call("sandbox_run_command", command=command, timeout_ms=limit_ms)
        if "src/App.tsx" in ended.content:
            break
    assert ended.is_error and "TIMEOUT" in ended.content and "written" in ended.content
    assert "src/App.tsx" in ended.content and "generate_code" in ended.content
    assert await (await tools.sandbox()).read_file("src/App.tsx") == APP.encode()


async def test_a_picture_or_a_note_may_be_made_and_is_saved(tools: Tools) -> None:
    await tools.keep({**GOOD_FILES, "src/components/Old.tsx": "export {};\n"})
    await tools.json(
        "sandbox_run_command",
        command="mkdir -p public; echo '<svg/>' > public/dot.svg; echo seen > notes.txt; rm src/components/Old.tsx",
    )
    pointer = await tools.world.store.latest_checkpoint(tools.session.session_id)
    assert pointer is not None and pointer.trigger == "command"
    manifest = await checkpoint.load(tools.world.storage, pointer.manifest_key)
    assert await checkpoint.read_file(tools.world.storage, manifest, "public/dot.svg") == b"<svg/>\n"
    assert "notes.txt" in manifest.files and "src/components/Old.tsx" not in manifest.files


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("sed -i 's/0.5/0.6/; $a//' src/koda/contract.ts", ["src/koda/contract.ts"]),
        ("mv src/App.tsx src/Moved.tsx", ["src/App.tsx", "src/Moved.tsx"]),
        ("mkdir -p public && mv src public/src && ln -s public/src src", ["src", "src/App.tsx"]),
        ("mkdir -p public && echo 'run()' > public/run.js; echo VITE_X=1 > .env", [".env", "public/run.js"]),
        ("(sleep 0.2; echo late > src/App.tsx) & echo early > src/App.tsx", ["src/App.tsx"]),
        *(
            pytest.param(*more, marks=pytest.mark.full)
            for more in (
                ("cat > src/App.tsx < package.json", ["src/App.tsx"]),
                ("echo 'export {}' > src/scenes/Own.tsx", ["src/scenes/Own.tsx"]),
                ("rm -r src/koda/contract.ts vite.config.ts", ["src/koda/contract.ts", "vite.config.ts"]),
                ("rm src/main.tsx && mkdir src/main.tsx && echo x > src/main.tsx/index.js", ["src/main.tsx"]),
            )
        ),
    ],
)
async def test_code_that_a_command_writes_is_put_back_and_named(tools: Tools, command: str, named: list[str]) -> None:
    await tools.keep(GOOD_FILES)
    sandbox = await tools.sandbox()
    before = await contents(sandbox)
    ran = await tools.call("sandbox_run_command", command=command)
    said = json.loads(ran.content)
    assert ran.is_error and ran.retryable and "generate_code" in said["putBack"]
    assert all(path in said["putBack"] for path in named), said
    after = await contents(sandbox)
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if is_code(path) and path not in before]
    pointer = await tools.world.store.latest_checkpoint(tools.session.session_id)
    assert pointer is not None
    manifest = await checkpoint.load(tools.world.storage, pointer.manifest_key)
    assert await checkpoint.read_file(tools.world.storage, manifest, "src/App.tsx") == APP.encode()


async def test_what_no_checkpoint_holds_outlives_code_that_is_put_back(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    sandbox = await tools.sandbox()
    made = await sandbox.run(
        ("sh", "-c", "mkdir -p public/a && truncate -s 300M public/a/film && ln -s film public/a/l")
    )
    assert made.exit_code == 0, made.stderr
    ran = await tools.call("sandbox_run_command", command="echo x > src/App.tsx; rm public/a/l; ln -s film public/a/m")
    assert "as they were before: src/App.tsx" in json.loads(ran.content)["putBack"]
    assert (await sandbox.snapshot()).skipped == {"public/a/film": "large", "public/a/m": "link"}
    assert await sandbox.read_file("src/App.tsx") == APP.encode()


@pytest.mark.full
async def test_code_is_as_it_was_also_where_a_command_left_too_many_files_to_look_at(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    first = await tools.sandbox()
    command = "echo x > src/App.tsx; mkdir -p public/m; cd public/m; seq 1 51000 | xargs touch"
    ran = await tools.call("sandbox_run_command", command=command, timeout_ms=100_000)
    assert ran.is_error and "more than 50000 files" in ran.content
    again = await tools.sandbox()
    assert again.id != first.id and await again.read_file("src/App.tsx") == APP.encode()
    assert [info.id for info in await tools.world.sandboxes.list()] == [again.id]


async def test_a_command_runs_where_its_code_can_be_remembered(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    sandbox = await tools.sandbox()
    await sandbox.write_files({"src/data.ts": b"/" * 9_000_000, "public/film.bin": b"/" * 9_000_000})
    refused = await tools.call("sandbox_run_command", command="echo x > src/App.tsx")
    assert refused.is_error and "commands run where it has 8,388,608 at most" in refused.content
    assert await sandbox.read_file("src/App.tsx") == APP.encode()
    await sandbox.remove("src/data.ts")
    ran = await tools.call("sandbox_run_command", command="echo x > src/App.tsx; echo y > public/kept.txt")
    assert "as they were before: src/App.tsx" in json.loads(ran.content)["putBack"]
    assert await sandbox.read_file("src/App.tsx") == APP.encode() and await sandbox.read_file("public/kept.txt")
    assert len(await sandbox.read_file("public/film.bin")) == 9_000_000


async def test_nothing_is_saved_while_a_command_runs(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    sandbox = await tools.sandbox()
    command = "echo half > src/App.tsx; until [ -e public/go ]; do sleep 0.05; done"
    running = asyncio.create_task(tools.call("sandbox_run_command", command=command))
    async with asyncio.timeout(60):
        while await sandbox.read_file("src/App.tsx") != b"half\n":
            await asyncio.sleep(0.02)
    saving = asyncio.create_task(tools.session.project.save("heartbeat"))
    await sandbox.write_files({"public/go": b""})
    assert "src/App.tsx" in json.loads((await running).content)["putBack"]
    await saving
    for event in await tools.world.events(tools.session, "checkpoint"):
        key = manifest_key("local", "local", tools.session.session_id, str(event["checkpointId"]))
        manifest = await checkpoint.load(tools.world.storage, key)
        assert await checkpoint.read_file(tools.world.storage, manifest, "src/App.tsx") == APP.encode(), event


@pytest.mark.parametrize("status", ["started", "interrupted"])
async def test_what_a_command_left_when_its_process_died_is_not_the_project(tools: Tools, status: str) -> None:
    await tools.keep(GOOD_FILES)
    sandbox = await tools.sandbox()
    call = ToolCallRecord(
        id="call_1",
        message_id="msg_1",
        session_id=tools.session.session_id,
        user_id="local",
        name="sandbox_run_command",
        input={"command": "echo half > src/App.tsx; sleep 60"},
        effect="unsafe",
        status=cast("ToolCallStatus", status),
        attempt=1,
        result=None,
        started_at=now(),
    )
    await tools.session.core.commit(Batch(tool_calls=[call]))
    await sandbox.write_files({"src/App.tsx": b"half\n"})
    heir = await tools.world.activate(tools.session.session_id, tools.world.model(scripted_model()))
    fresh = await heir.project.sandbox()
    assert fresh.id != sandbox.id and await fresh.read_file("src/App.tsx") == APP.encode()
    assert [info.id for info in await tools.world.sandboxes.list()] == [fresh.id]


@pytest.mark.full
async def test_what_the_persons_editor_saves_meanwhile_stays(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    await tools.json("sandbox_run_command", command="echo '{\"edited\": 1}' > src/theatre/state.json")
    assert b"edited" in await (await tools.sandbox()).read_file("src/theatre/state.json")
