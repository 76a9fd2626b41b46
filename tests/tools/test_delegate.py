from __future__ import annotations

import json
from typing import Any

import pytest

from koda_ray.state import checkpoint
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, GOOD_FILES, scripted_model
from tests.tools.conftest import Tools

pytestmark = pytest.mark.sandbox


async def test_generated_files_are_written_and_stored_before_the_outcome(world: SessionWorld) -> None:
    requests: list[dict[str, Any]] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        requests.append(request)
        return GOOD_FILES

    tools = Tools.of(await world.at_rest(scripted_model(code)), world)
    await tools.keep({"src/components/Dot.tsx": "export {};\n"})
    made = await tools.json("generate_code", task="modify_existing", files=["src/App.tsx"], change="duration to 2 s")
    assert {file["path"]: file["bytes"] for file in made["files"]} == {
        path: len(text.encode()) for path, text in GOOD_FILES.items()
    }
    (request,) = requests
    assert (request["change"], request["targets"]) == ("duration to 2 s", ["src/App.tsx"])
    assert request["files"] == {"src/components/Dot.tsx": "export {};\n"}
    assert await (await tools.sandbox()).read_file("src/App.tsx") == APP.encode()
    pointer = await world.store.latest_checkpoint(tools.session.session_id)
    assert pointer is not None and pointer.trigger == "files"
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    assert await checkpoint.read_file(world.storage, manifest, "src/App.tsx") == APP.encode()


async def test_what_was_written_stands_whole_in_the_result_and_is_known_as_the_file(world: SessionWorld) -> None:
    long, state = "// a long line\n" * 6000, '{"sheetsById": {}}'
    written = {**GOOD_FILES, "./src/scenes/Long.tsx": long, "src/theatre/state.json": state}
    tools = Tools.of(await world.at_rest(scripted_model(lambda _: written)), world)
    made = await tools.json("generate_code", task="initial_setup")
    texts = {file["path"]: file.get("content") for file in made["files"]}
    # what has no room, and what the person's editor writes too, is read when it is needed
    assert texts == {**GOOD_FILES, "src/scenes/Long.tsx": None, "src/theatre/state.json": None}
    call: Any = {"type": "tool_use", "id": "1", "name": "generate_code", "input": {"task": "initial_setup"}}
    assert tools.toolkit.files_of(call, json.dumps(made)) == texts
    read = await tools.json("sandbox_read_file", path="/home/user/project/src/App.tsx")
    call = {"type": "tool_use", "id": "2", "name": "sandbox_read_file", "input": {"path": "./src//App.tsx"}}
    assert tools.toolkit.files_of(call, json.dumps(read)) == {"src/App.tsx": APP}


@pytest.mark.parametrize("path", ["src/koda/contract.ts", "vite.config.ts", "../outside.ts", "/etc/passwd"])
async def test_a_file_that_is_not_the_generators_is_refused_with_all_the_others(world: SessionWorld, path: str) -> None:
    files = {**GOOD_FILES, path: "export {};\n"}
    tools = Tools.of(await world.at_rest(scripted_model(lambda _: files)), world)
    before = await (await tools.sandbox()).snapshot()
    refused = await tools.call("generate_code", task="initial_setup")
    assert refused.is_error and refused.retryable and "INVALID_PATH" in refused.content and path in refused.content
    assert (await (await tools.sandbox()).snapshot()).changed == before.changed
    assert tools.session.state.execution is not None
    assert tools.session.state.execution.files == ()
