"""What is written into a project, read from it, and told of its changes."""

from __future__ import annotations

import asyncio

import pytest

from koda_ray.errors import (
    InvalidPath,
    NotFound,
    SandboxError,
    SandboxNotFound,
)
from koda_ray.sandbox.base import Sandbox, SandboxProvider
from koda_ray.sandbox.watching import MAX_BATCH
from tests.sandbox.conformance.seen import watching

__all__ = ["FileConformance"]


class FileConformance:
    """Files, and watching them."""

    @pytest.mark.quick
    async def test_what_is_written_can_be_read(self, box: Sandbox) -> None:
        files = {
            "src/components/Ball.tsx": b"export const Ball = 1;\n",
            "public/assets/image.png": bytes(range(256)) * 40,
            "src/日本語.ts": "export const 名 = '球';\n".encode(),
            "src/empty.ts": b"",
            "vite.config.ts": b"export default {};\n",
        }
        await box.write_files(files)
        assert await box.read_files(list(files)) == files
        seen = await box.run(("cat", "src/components/Ball.tsx"))
        assert seen.stdout == "export const Ball = 1;\n"

    async def test_a_written_file_belongs_to_the_commands_too(self, box: Sandbox) -> None:
        await box.write_files({"src/deep/er/file.ts": b"1"})
        done = await box.run(
            ("sh", "-c", "echo 2 > src/deep/er/file.ts && rm -r src/deep/er && echo 3 > src/deep/new.ts")
        )
        assert (done.exit_code, done.stderr) == (0, "")
        assert await box.read_file("src/deep/new.ts") == b"3\n"

    async def test_an_absolute_path_inside_the_project_is_the_same_file(self, box: Sandbox) -> None:
        await box.write_files({"/home/user/project/src/a.ts": b"a"})
        assert await box.read_file("src/./a.ts") == b"a"
        assert await box.read_file("/home/user/project/src/a.ts") == b"a"

    async def test_nothing_is_written_when_one_path_is_wrong(self, box: Sandbox) -> None:
        with pytest.raises(InvalidPath) as caught:
            await box.write_files({"src/good.ts": b"1", "../bad.ts": b"2"})
        assert "../bad.ts" in caught.value.message
        with pytest.raises(NotFound):
            await box.read_file("src/good.ts")

    @pytest.mark.parametrize(
        "path",
        ["", "..", "../x", "src/../../x", "/etc/passwd", "/home/user/project/../x", "src/a\0b", "src/a\nb", "src\\a.ts",
         "C:/x.ts", "src/" + "a" * 256, "src/" + "a/" * 600 + "x", "node_modules/x.js", "/home/user/project",
         "src/\ud800"],
    )  # fmt: skip
    async def test_paths_that_cannot_be_written(self, box: Sandbox, path: str) -> None:
        with pytest.raises(InvalidPath):
            await box.write_files({path: b"x"})
        with pytest.raises(InvalidPath):
            await box.remove(path)

    async def test_a_file_may_be_called_as_any_program_wants(self, box: Sandbox) -> None:
        files = {"main.py": b"1", "Makefile": b"2", "notes/x.md": b"3", "dist/x.js": b"4", ".config/app": b"5"}
        await box.write_files(files)
        for path, data in files.items():
            assert await box.read_file(path) == data
            await box.remove(path)
            with pytest.raises(NotFound):
                await box.read_file(path)

    async def test_what_stands_in_the_way_of_a_file_is_named_with_the_way_out(self, box: Sandbox) -> None:
        await box.write_files({"src/folder/one.ts": b"1", "src/plain.ts": b"2"})
        for path, words in (
            ("src/folder", "'src/folder' could not be written.*a directory.*remove it, or choose another"),
            ("src/plain.ts/two.ts", "'src/plain.ts'.* is a file, not a directory; remove that"),
        ):
            with pytest.raises(SandboxError, match=words) as caught:
                await box.write_files({path: b"3"})
            assert caught.value.code == "WRITE_FAILED" and caught.value.context["path"] == path
        with pytest.raises(SandboxError, match="is a directory; list it instead"):
            await box.read_file("src/folder")
        assert await box.read_file("src/plain.ts") == b"2"

    async def test_a_missing_file_is_named(self, box: Sandbox) -> None:
        for path in ("src/none.ts", "src/App.tsx/none.ts", "none/at/all.ts"):
            with pytest.raises(NotFound) as caught:
                await box.read_file(path)
            assert caught.value.code == "FILE_NOT_FOUND"
            assert path in caught.value.message
        with pytest.raises(NotFound):
            await box.list_files("src/none")

    async def test_listing(self, box: Sandbox) -> None:
        await box.write_files({"src/scenes/two.tsx": b"12345"})
        assert [(e.path, e.type, e.size_bytes) for e in await box.list_files("src/scenes")] == [
            ("src/scenes/one.tsx", "file", len(await box.read_file("src/scenes/one.tsx"))),
            ("src/scenes/two.tsx", "file", 5),
        ]
        top = await box.list_files()
        assert {(entry.path, entry.type) for entry in top} >= {("src", "directory"), ("package.json", "file")}
        assert not any("/" in entry.path for entry in top)

    async def test_the_build_is_listed_only_when_it_is_asked_for(self, box: Sandbox) -> None:
        await box.run(
            ("sh", "-c", "mkdir -p dist/assets .vite && echo x > dist/index.html && echo y > dist/assets/a.js")
        )
        assert not any(entry.path.startswith(("dist", ".vite")) for entry in await box.list_files(recursive=True))
        assert [e.path for e in await box.list_files("dist", recursive=True)] == [
            "dist/assets", "dist/assets/a.js", "dist/index.html"
        ]  # fmt: skip
        assert await box.read_file("dist/index.html") == b"x\n"

    async def test_removing(self, box: Sandbox) -> None:
        await box.write_files({"src/a/b.ts": b"", "src/a/c/d.ts": b"", "src/e.ts": b""})
        await box.remove("src/a")
        await box.remove("src/e.ts")
        await box.remove("src/never/was.ts")
        assert [entry.path for entry in await box.list_files("src")] == ["src/App.tsx", "src/scenes"]

    async def test_packages_can_be_used_and_not_changed(self, box: Sandbox) -> None:
        done = await box.run(("node", "-p", "require('left-pad')('x')"))
        assert done.stdout == " x\n"
        changed = await box.run(("sh", "-c", "echo bad >> node_modules/left-pad/index.js"))
        assert changed.exit_code != 0

    async def test_changes_are_told_once_and_whoever_makes_them(self, box: Sandbox) -> None:
        async with watching(box) as told:
            await box.write_files({"src/new.ts": b"1", "src/App.tsx": b"changed"})
            await told.until({"src/new.ts": "added", "src/App.tsx": "modified"})
            done = await box.run(
                ("sh", "-c", "mkdir -p src/a/b && echo 1 > src/a/b/c.ts && mv src/new.ts src/moved.ts; rm src/App.tsx")
            )
            assert done.exit_code == 0
            await told.until(
                {"src/a/b/c.ts": "added", "src/moved.ts": "added", "src/new.ts": "removed", "src/App.tsx": "removed"}
            )
            # a directory that is new since the watch began is watched too
            await box.run(("sh", "-c", "echo 2 > src/a/b/c.ts"))
            await told.until({"src/a/b/c.ts": "modified"})

    async def test_what_is_built_or_installed_is_not_told(self, box: Sandbox) -> None:
        async with watching(box) as told:
            await box.run(
                ("sh", "-c", "mkdir -p dist .vite && echo 1 > dist/a.js && echo 1 > .vite/b && ln -s a src/l")
            )
            await box.write_files({"src/last.ts": b""})
            await told.until({"src/last.ts": "added"})

    async def test_a_storm_of_writes_is_few_changes(self, box: Sandbox) -> None:
        await box.write_files({"src/storm.ts": b"calm"})
        async with watching(box, "src") as told:
            script = "i=0; while [ $i -lt 3000 ]; do echo $i > src/storm.ts; i=$((i+1)); done; echo x > outside.ts"
            await box.run(("sh", "-c", script), timeout_s=60)
            await box.write_files({"src/after.ts": b""})
            await told.until({"src/storm.ts": "modified", "src/after.ts": "added"})
            assert told.count < 100
            assert "outside.ts" not in told.seen

    async def test_what_changes_while_nobody_takes_batches_is_told_then(self, box: Sandbox) -> None:
        changes = box.watch()
        assert await anext(changes) == ()
        await box.write_files({f"src/many/{number}.ts": b"" for number in range(2500)})
        await box.write_files({"src/many/0.ts": b"again"})
        found: list[str] = []
        async with asyncio.timeout(60):
            while len(found) < 2500:
                batch = await anext(changes)
                assert 0 < len(batch) <= MAX_BATCH
                found += [change.path for change in batch if change.kind == "added"]
        assert sorted(found) == sorted(f"src/many/{number}.ts" for number in range(2500))
        await changes.aclose()

    async def test_watching_what_is_not_there(self, box: Sandbox) -> None:
        for path, error in (("src/none", NotFound), ("../..", InvalidPath), ("src/App.tsx", NotFound)):
            changes = box.watch(path)
            with pytest.raises(error):
                await anext(changes)

    async def test_a_watch_ends_with_its_sandbox(self, box: Sandbox, provider: SandboxProvider) -> None:
        changes = box.watch()
        await anext(changes)
        waiting = asyncio.create_task(anext(changes))
        await asyncio.sleep(0.1)
        await provider.destroy(box.id)
        with pytest.raises(SandboxNotFound):
            async with asyncio.timeout(60):
                await waiting
