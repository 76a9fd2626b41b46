from __future__ import annotations

import pytest

from koda_ray.actors.permits import permissions_of
from koda_ray.agent.runner import MAX_RESULT_CHARS
from koda_ray.agent.toolkit import BoundCall
from koda_ray.tools.files import MAX_LISTED
from tests.actors.script import GOOD_FILES
from tests.tools.conftest import Tools

pytestmark = pytest.mark.sandbox


async def test_a_file_is_read_as_it_is_in_the_sandbox(tools: Tools) -> None:
    text = "export const word = 'Grüße 🎬';\n"
    await tools.keep({"src/components/Word.tsx": text})
    found = await tools.json("sandbox_read_file", path="src/components/Word.tsx")
    assert found == {"content": text, "sizeBytes": len(text.encode()), "truncated": False}
    absolute = await tools.json("sandbox_read_file", path="/home/user/project/src/components/Word.tsx")
    assert absolute == found


@pytest.mark.parametrize("character", ["x", "\n", "\x00", "é"])
async def test_a_long_file_is_cut_and_says_so(tools: Tools, character: str) -> None:
    data = (character * MAX_RESULT_CHARS).encode()
    await (await tools.sandbox()).write_files({"public/long.txt": data})
    found = await tools.json("sandbox_read_file", path="public/long.txt")
    assert (found["truncated"], found["sizeBytes"]) == (True, len(data))
    assert set(found["content"]) == {character} and len(found["content"]) > MAX_RESULT_CHARS / 7


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("src/Nothing.tsx", "FILE_NOT_FOUND"),
        ("/etc/passwd", "INVALID_PATH"),
        ("src/../../sandbox.json", "INVALID_PATH"),
        ("link.txt", "INVALID_PATH"),
        ("node_modules/react/package.json", "INVALID_PATH"),
    ],
)
async def test_what_is_not_the_projects_is_not_read(tools: Tools, path: str, code: str) -> None:
    await (await tools.sandbox()).run(("ln", "-s", "/etc/passwd", "link.txt"))
    read = await tools.call("sandbox_read_file", path=path)
    assert read.is_error and read.retryable and code in read.content and "root:" not in read.content


async def test_a_directory_is_listed_with_sizes(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    listed = await tools.json("sandbox_list_files")  # src, with all below it
    entries = {entry["path"]: entry for entry in listed["files"]}
    app = GOOD_FILES["src/App.tsx"].encode()
    assert entries["src/App.tsx"] == {"path": "src/App.tsx", "type": "file", "sizeBytes": len(app)}
    assert entries["src/theatre"]["type"] == "directory" and "src/theatre/project.ts" in entries
    flat = await tools.json("sandbox_list_files", path=".", recursive=False)
    names = {entry["path"] for entry in flat["files"]}
    assert {"src", "package.json"} <= names and "node_modules" not in names and not any("/" in name for name in names)


async def test_a_long_list_says_how_much_it_leaves_out(tools: Tools) -> None:
    await (await tools.sandbox()).write_files({f"public/frames/{n:04}.txt": b"" for n in range(MAX_LISTED + 7)})
    listed = await tools.json("sandbox_list_files", path="public/frames")
    assert (len(listed["files"]), listed["leftOut"]) == (MAX_LISTED, 7)


@pytest.mark.parametrize(("path", "code"), [("src/nowhere", "FILE_NOT_FOUND"), ("../..", "INVALID_PATH")])
async def test_a_directory_that_cannot_be_listed_is_named(tools: Tools, path: str, code: str) -> None:
    listed = await tools.call("sandbox_list_files", path=path)
    assert listed.is_error and listed.retryable and code in listed.content


async def test_a_path_rule_sees_a_file_however_the_tool_is_told_to_find_it(tools: Tools) -> None:
    await tools.keep({"src/secret.ts": "export const key = 1;\n"})
    await tools.world.say(tools.session, "permissions", rules=[{"decision": "deny", "path": "src/secret*"}])

    def decided(path: str) -> str:
        bound = tools.toolkit.bind("sandbox_read_file", {"path": path})
        assert isinstance(bound, BoundCall), bound
        return permissions_of(tools.session.state).decide(bound, {"path": path}).decision

    for path in ("src/secret.ts", "/home/user/project/src/secret.ts", "./src//secret.ts"):
        assert "key = 1" in (await tools.call("sandbox_read_file", path=path)).content  # the very same file
        assert decided(path) == "deny"
    assert decided("/home/user/project/src/App.tsx") == "allow"
