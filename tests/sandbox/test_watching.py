"""Seeing changes: with the kernel's help and without, going on from an earlier look, and leaving nothing open."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from koda_ray.errors import NotFound, SandboxError
from koda_ray.sandbox import watching
from koda_ray.sandbox.base import FileChange
from koda_ray.sandbox.reading import TreeReader
from koda_ray.sandbox.watching import Watcher, checked_changes, watch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "src" / "a.ts").write_text("a")
    return tmp_path / "project"


def _told(changes: list[FileChange]) -> dict[str, str]:
    return {change.path: change.kind for change in changes}


def test_a_look_goes_on_from_what_another_has_seen(root: Path) -> None:
    first = Watcher(TreeReader(root), ".")
    assert first.look() == []
    first.close()
    (root / "src" / "b.ts").write_text("b")
    (root / "src" / "a.ts").unlink()
    then = Watcher(TreeReader(root), ".", known=first.stamps)
    assert _told(then.look()) == {"src/a.ts": "removed", "src/b.ts": "added"}
    assert then.look() == []
    (root / "src" / "b.ts").write_text("c")  # of the same length, perhaps in the same tick
    assert then.wait(60)
    assert _told(then.look()) == {"src/b.ts": "modified"}
    then.close()
    then.close()


def test_silence_is_silence(root: Path) -> None:
    watcher = Watcher(TreeReader(root), ".")
    watcher.look()
    began = time.monotonic()
    assert not watcher.wait(0.2) and time.monotonic() - began >= 0.2
    watcher.close()


@pytest.mark.parametrize("refused", ["inotify_init1", "inotify_add_watch"])
async def test_without_the_kernels_help_it_looks_from_time_to_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """As on a machine where the user's watches are used up, or a kernel that has none."""
    ask = watching._inotify
    monkeypatch.setattr(watching, "_inotify", lambda name, *given: -1 if name == refused else ask(name, *given))
    async with aclosing(watch(TreeReader(root), ".", in_thread=asyncio.to_thread)) as batches:
        assert await anext(batches) == ()
        (root / "src" / "new.ts").write_text("")
        async with asyncio.timeout(60):
            assert await anext(batches) == (FileChange(path="src/new.ts", kind="added"),)


async def test_a_directory_that_goes_takes_its_files_and_may_come_back(root: Path) -> None:
    async with aclosing(watch(TreeReader(root), "src", in_thread=asyncio.to_thread)) as batches:
        await anext(batches)
        (root / "src").rename(root / "away")
        async with asyncio.timeout(60):
            assert await anext(batches) == (FileChange(path="src/a.ts", kind="removed"),)
            (root / "away").rename(root / "src")
            assert await anext(batches) == (FileChange(path="src/a.ts", kind="added"),)


async def test_links_out_of_the_project_are_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    os.symlink(tmp_path / "secret", root / "src" / "out")
    watcher = Watcher(TreeReader(root), ".")
    watcher.look()
    (tmp_path / "secret" / "key").write_text("")
    assert watcher.look() == [] and list(watcher.stamps) == ["src/a.ts"]
    watcher.close()
    with pytest.raises(NotFound):
        await anext(watch(TreeReader(root), "src/a.ts", in_thread=asyncio.to_thread))


async def test_a_watch_that_is_cut_off_leaves_nothing_open(root: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for pause_s in (0.0, 0.001, 0.02):
        waiting = asyncio.create_task(_take_two(root))
        await asyncio.sleep(pause_s)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with asyncio.timeout(60):
        while set(os.listdir("/proc/self/fd")) - before:
            await asyncio.sleep(0.02)


async def _take_two(root: Path) -> None:
    async with aclosing(watch(TreeReader(root), ".", in_thread=asyncio.to_thread)) as batches:
        await anext(batches)
        await anext(batches)


def test_what_the_inside_tells_is_looked_at() -> None:
    assert checked_changes([["src/a.ts", "added"]]) == (FileChange(path="src/a.ts", kind="added"),)
    for lie in (None, {}, [None], [["../x", "added"]], [["src/a.ts", "burnt"]], [["src/a.ts"]], [[1, "added"]]):
        with pytest.raises(SandboxError):
            checked_changes(lie)
