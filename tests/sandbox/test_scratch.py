"""Folders in which images are put together: what a killed process leaves is removed, and nothing else."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.reaper import Reaper
from koda_ray.config import Settings
from koda_ray.sandbox.disk import mount_tmpfs
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.scratch import clear_left, scratch
from koda_ray.state.json_store import JSONStore

_HOLDING = """
import subprocess, sys, time
from koda_ray.sandbox.scratch import scratch
with scratch() as folder:
    (folder / "large").write_bytes(b"x" * 100_000)
    (folder / "root" / "proc").mkdir(parents=True)
    child = subprocess.Popen(["sleep", "1000"], cwd=folder, stdout=subprocess.DEVNULL) if sys.argv[1:] else None
    print(folder, child.pid if child else 0, flush=True)
    time.sleep(1000)
"""


@contextmanager
def holding(*words: str) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """Have another process at it, and say where, and what it has started there."""
    process = subprocess.Popen([sys.executable, "-c", _HOLDING, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        folder, child = process.stdout.readline().split()
        yield process, Path(folder), int(child)
    finally:
        process.kill()
        process.communicate()


def test_what_a_killed_process_left_is_removed_once_it_is_killed() -> None:
    with holding() as (process, folder, _):
        assert clear_left() == [] and (folder / "large").is_file()
        process.kill()
        process.wait()
        assert clear_left() == [folder.parent.name]
        assert not folder.parent.exists() and clear_left() == []


def test_what_is_mounted_there_is_ended_first() -> None:
    with holding() as (process, folder, _):
        try:
            mount_tmpfs(folder / "root" / "proc", size_bytes=65536, inodes=16)
        except OSError as error:
            process.kill()
            process.wait()
            clear_left()
            pytest.skip(f"nothing can be mounted here ({error.strerror})")
        kept = folder / "root" / "proc" / "kept"
        kept.write_text("of somebody else")
        held = kept.open()
        process.kill()
        process.wait()
        assert clear_left() == [folder.parent.name] and not folder.parent.exists()
        with held:
            assert held.read() == "of somebody else"  # it was let go, not emptied


def test_what_a_program_still_works_in_waits_for_its_end() -> None:
    with holding("child") as (process, folder, child):
        process.kill()
        process.wait()
        assert clear_left() == [] and (folder / "large").is_file()
        ended = os.pidfd_open(child)
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        assert select.select([ended], [], [], 60)[0]
        os.close(ended)
        assert clear_left() == [folder.parent.name]


def test_what_cannot_be_proved_to_be_ours_stays(tmp_path: Path) -> None:
    temporary = Path(tempfile.gettempdir())
    bare, linked, elsewhere = temporary / "koda-image-bare", temporary / "koda-image-linked", tmp_path / "elsewhere"
    for folder in (bare, elsewhere):
        (folder / "work").mkdir(parents=True)
    (elsewhere / "lock").touch()
    linked.symlink_to(elsewhere)
    pointing = temporary / "koda-image-pointing"
    pointing.mkdir()
    (pointing / "lock").symlink_to(elsewhere / "lock")
    foreign = temporary / "koda-image-foreign"
    if os.geteuid() == 0:
        foreign.mkdir()
        (foreign / "lock").touch()
        os.chown(foreign, 1000, 1000)
    with scratch() as own:
        assert clear_left() == [] and own.is_dir()
    assert not own.parent.exists()
    assert bare.is_dir() and linked.is_symlink() and (elsewhere / "work").is_dir() and pointing.is_dir()
    assert foreign.is_dir() == (os.geteuid() == 0)
    for path in (pointing / "lock", foreign / "lock", linked):
        path.unlink(missing_ok=True)
    for folder in (bare / "work", bare, pointing, foreign):
        if folder.exists():
            folder.rmdir()


async def test_the_janitor_removes_it_too(tmp_path: Path) -> None:
    async def never(_: object) -> None:
        raise AssertionError

    store = JSONStore(tmp_path / "store")
    await store.open()
    settings = Settings.model_validate({"SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_PROVIDER": "local"})
    provider = LocalProvider.of(settings, deployment=await store.deployment())
    reaper = Reaper(store=store, sandboxes=provider, settings=settings)
    janitor = Janitor(store=store, reaper=reaper, settings=settings, chores=Chores(wake=never, finish=never))
    with holding() as (process, folder, _):
        process.kill()
        await asyncio.to_thread(process.wait)
        await janitor.clear()
        assert not folder.parent.exists()
    await store.close()
