"""What is taken out of a project, and put back."""

from __future__ import annotations

import asyncio

import pytest

from koda_ray.errors import (
    InvalidPath,
    QuotaExceeded,
)
from koda_ray.sandbox.base import Sandbox, SandboxProvider
from tests.sandbox.conformance.seen import made_large
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.refusals import refusals

__all__ = ["Checkpoints"]


class Checkpoints:
    """Snapshots and restoring."""

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
        large = await made_large(box, "public/film.bin")
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
        large = await made_large(box, "public/films/in/film.bin")
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
