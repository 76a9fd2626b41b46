"""What a sandbox leaves behind is counted wherever it lies: one without a leak is clean, each kind of leak is seen."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.traces import Traces
from koda_ray.sandbox import cgroup
from koda_ray.sandbox.disk import can_mount
from koda_ray.sandbox.users import sandbox_user
from koda_ray.types import new_id

_ORPHAN = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    os.close(1)
    time.sleep(60)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "boxes" / "kept").mkdir(parents=True)
    return tmp_path / "boxes"


def kinds(traces: Traces) -> set[str]:
    return {line.removeprefix("control ").split()[0] for line in traces.found() - traces.before}


def test_what_was_there_before_and_what_is_gone_does_not_count(root: Path) -> None:
    traces = Traces(root, held=lambda: {"container one"})
    traces.note(new_id("sbx"))
    with subprocess.Popen(["sleep", "60"]) as child:
        assert kinds(traces) == {"process"}
        child.kill()
    (root / "passing").write_text("")
    (root / "passing").unlink()
    assert traces.left() == set()


def test_files_and_sockets_are_seen_at_any_depth(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = Traces(root)
    deep = root / "kept" / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("c.sock")
        found = traces.found()
        assert {f"file {deep.parent}", f"file {deep}", f"socket file {deep}/c.sock"} <= found
    os.unlink("c.sock")
    monkeypatch.chdir(tmp_path)
    sandbox_id = new_id("sbx")
    traces.note(sandbox_id)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(f"\0koda-{sandbox_id}")  # in no folder at all
        assert [line.split()[0] for line in traces.found() if sandbox_id in line] == ["socket"]


@pytest.mark.parametrize("by", ["folder", "id"])
def test_a_process_that_left_the_family_is_seen(root: Path, by: str) -> None:
    traces = Traces(root)
    sandbox_id = new_id("sbx")
    traces.note(sandbox_id)
    mark = str(root) if by == "folder" else sandbox_id
    said = subprocess.run([sys.executable, "-c", _ORPHAN, mark], stdout=subprocess.PIPE, check=True)
    pid = int(said.stdout)
    try:
        news = traces.found() - traces.before  # other tests' browsers are children of this process, too
        assert [line.split(":")[0] for line in news if line.startswith("process ")] == [f"process {pid}"]
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="other users, mounts and groups take root")
def test_users_mounts_and_control_groups_are_seen(root: Path) -> None:
    traces = Traces(root)
    sandbox_id = new_id("sbx")
    traces.note(sandbox_id)
    user = sandbox_user(sandbox_id)
    if user is not None:
        with subprocess.Popen(["sleep", "60"], user=user, start_new_session=True) as child:
            assert "process" in kinds(traces)
            child.kill()
    if can_mount(root):
        point = root / "kept"
        subprocess.run(["mount", "-t", "tmpfs", "none", str(point)], check=True)
        try:
            assert f"mount {point}" in traces.found()
        finally:
            subprocess.run(["umount", str(point)], check=True)
    if (groups := cgroup.find()) is not None:
        made = cgroup.make(groups, f"koda-{sandbox_id}", memory_bytes=64 << 20, pids=8, cpus=1.0)
        try:
            assert "group" in kinds(traces)
        finally:
            assert cgroup.remove(made)
    assert traces.left() == set()
