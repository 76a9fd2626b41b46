"""Limits that a watchdog holds, what doctor is told about them, and control groups themselves."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from koda_ray.config import Settings
from koda_ray.errors import QuotaExceeded, SandboxError
from koda_ray.sandbox import cgroup
from koda_ray.sandbox.cgroup import CgroupRoot
from koda_ray.sandbox.disk import can_mount, mount_tmpfs, remove_tree, unmount
from koda_ray.sandbox.limits import ResourceLimits, limit_report
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.processors import are_firm
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conftest import MB
from tests.sandbox.leftovers import Leftovers


@pytest.fixture
async def soft(
    boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits, leftovers: Leftovers
) -> AsyncIterator[LocalSandbox]:
    provider = LocalProvider(
        root=boxes,
        template=TemplateProject(folder=template, node_modules=node_modules),
        limits=replace(limits, soft=True),
    )
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    yield made
    await made.destroy()


@pytest.mark.sandbox
async def test_the_watchdog_ends_what_takes_too_much_memory(soft: LocalSandbox) -> None:
    background = await soft.start("bystander", ("sleep", "60"))
    held = "held.length < 64 && held.push(Buffer.alloc(32 * 1024 * 1024, 1))"
    script = f"const held = []; setInterval(() => {held}, 10);"
    with pytest.raises(QuotaExceeded) as caught:
        await soft.run(("node", "-e", script), timeout_s=60)
    assert caught.value.context["limit"] == "memory" and "512 MB are allowed" in caught.value.message
    assert background.running
    assert (await soft.run(("echo", "alive"))).stdout == "alive\n"


@pytest.mark.sandbox
async def test_the_watchdog_does_so_where_nothing_can_be_logged(
    soft: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    script = "const held = []; for (;;) held.push(Buffer.alloc(1024 * 1024, 1)), held.length > 1200 && sleep();"
    script = f"const sleep = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000); {script}"
    with pytest.raises(QuotaExceeded, match="512 MB are allowed"):
        await soft.run(("node", "-e", script), timeout_s=90)


@pytest.mark.sandbox
async def test_the_watchdog_counts_what_lies_in_each_commands_own_folders(soft: LocalSandbox) -> None:
    for number in range(6):
        fill = "for at in /tmp /home/user /dev/shm; do head -c 400000000 /dev/zero >$at/big; done; sleep 60"
        await soft.start(f"filler-{number}", ("sh", "-c", fill))
    with pytest.raises(QuotaExceeded, match=r"5\d\d MB are used, 512 MB are allowed"):
        await soft.run(("sleep", "60"), timeout_s=90)


@pytest.mark.sandbox
@pytest.mark.needs("perl")
@pytest.mark.full
async def test_the_watchdog_counts_what_is_mapped_where_it_lies(
    boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits, leftovers: Leftovers
) -> None:
    """Forty megabytes of a file are mapped, twice: less than the limit, of which each count alone is half."""
    limits = replace(limits, memory_bytes=80 * MB)
    provider = LocalProvider(
        root=boxes,
        template=TemplateProject(folder=template, node_modules=node_modules),
        limits=replace(limits, soft=True),
    )
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    kept = "syscall(9, 0, 40 << 20, 3, 0x8001, $fd, 0) > 0 or exit 7; my $p = fork; sleep 2; $p and wait; print 'kept'"
    named = "open(my $file, '+>', '/dev/shm/file'); truncate($file, 40 << 20); my $fd = fileno $file"
    nameless = "my $n = 'x'; my $fd = syscall(319, $n, 0); open(my $file, '+<&=', $fd); truncate($file, 40 << 20)"
    try:
        for text in (named, nameless):
            done = await made.run(("perl", "-e", f"{text}; {kept}"))
            assert (done.stdout, done.stderr) == ("keptkept", "")
    finally:
        await made.destroy()


@pytest.mark.sandbox
@pytest.mark.needs("perl")
@pytest.mark.full
async def test_the_watchdog_ends_what_nests_folders_too_deep_to_be_counted(soft: LocalSandbox) -> None:
    script = "my $name = 'd' x 250; chdir 'src'; for (1..2200) { mkdir $name; chdir $name } sleep 60"
    with pytest.raises(QuotaExceeded, match="lies too deep") as caught:
        await soft.run(("perl", "-e", script), timeout_s=90)
    assert caught.value.context["limit"] == "disk" and "SANDBOX_DISK_MB" in caught.value.message


@pytest.mark.sandbox
async def test_what_a_process_holds_open_leaves_no_room_to_write(soft: LocalSandbox) -> None:
    await soft.start(
        "holder", ("sh", "-c", "exec 3>public/u; rm public/u; head -c 60000000 /dev/zero >&3; echo; sleep 60")
    )
    deadline = time.monotonic() + 60
    while not await soft.output("holder"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    with pytest.raises(SandboxError, match="SANDBOX_DISK_MB"):
        await soft.write_files({"src/big.ts": bytes(8 * MB)})
    await soft.stop("holder")
    await soft.write_files({"src/big.ts": bytes(8 * MB)})


@pytest.mark.sandbox
async def test_the_watchdog_ends_what_fills_the_disk(soft: LocalSandbox) -> None:
    await soft.write_files({"src/kept.ts": b"kept"})
    script = "i=0; while :; do i=$((i+1)); head -c 4000000 /dev/zero > public/$i.bin; sleep 0.02; done"
    with pytest.raises(QuotaExceeded) as caught:
        await soft.run(("sh", "-c", script), timeout_s=60)
    assert caught.value.context["limit"] == "disk" and "64 MB are allowed" in caught.value.message
    assert await soft.read_file("src/kept.ts") == b"kept"
    await soft.run(("sh", "-c", "rm -f public/*.bin"))
    assert (await soft.run(("echo", "alive"))).stdout == "alive\n"


@pytest.mark.sandbox
async def test_one_file_cannot_pass_the_disk_limit(soft: LocalSandbox) -> None:
    done = await soft.run(("sh", "-c", "head -c 100000000 /dev/zero > public/big.bin; stat -c %s public/big.bin"))
    assert int(done.stdout) <= 64 * MB


@pytest.mark.sandbox
async def test_processes_are_bounded_without_a_control_group(soft: LocalSandbox) -> None:
    done = await soft.run(("sh", "-c", "for i in $(seq 200); do sleep 60 & done; echo all"), timeout_s=90)
    assert "all" not in done.stdout and "ork" in done.stderr
    assert (await soft.run(("echo", "alive"))).stdout == "alive\n"


@pytest.mark.sandbox
async def test_what_runs_there_comes_after_whoever_answers_people(soft: LocalSandbox) -> None:
    assert int((await soft.run(("nice",))).stdout) == min(os.nice(0) + 5, 19)


def test_limits_come_from_settings() -> None:
    limits = ResourceLimits.of(Settings(SANDBOX_MEMORY_MB=1024, SANDBOX_PIDS=99, SANDBOX_DISK_MB=4096))  # pyright: ignore
    assert (limits.memory_bytes, limits.pids, limits.disk_bytes) == (1024 * MB, 99, 4096 * MB)
    assert limits.tmpfs_bytes == 512 * MB, "a tmpfs is charged to the memory limit"
    assert limits.disk_size("directory") == 4096 * MB and limits.inodes > 10_000


def test_the_report_tells_the_truth(tmp_path: Path) -> None:
    lines = {line.name: line for line in limit_report(ResourceLimits(), root=tmp_path)}
    assert list(lines) == ["memory", "pids", "cpu", "disk", "network"]
    assert (lines["disk"].kind == "hard") == can_mount(tmp_path)
    root = cgroup.find()
    assert (lines["memory"].kind == "hard") == (root is not None)
    assert lines["cpu"].kind == (
        "hard" if are_firm() or (root is not None and cgroup.can_hold_processors(root, 1.0)) else "soft"
    )
    assert lines["network"].kind == "hard" and all(line.how for line in lines.values())
    assert list(tmp_path.iterdir()) == []


async def test_a_control_group_from_plan_to_removal(tmp_path: Path) -> None:
    root = cgroup.find()
    if root is None:
        pytest.skip("needs control groups that this user may make")
    name = f"koda-test-{os.getpid()}"
    planned = cgroup.plan(root, name)
    assert not any(group.exists() for group in planned)
    groups = cgroup.make(root, name, memory_bytes=64 * MB, pids=7, cpus=0.5)
    assert groups == planned
    if cgroup.can_hold_processors(root, 0.5):
        assert cgroup.holds_processors(groups)
        files = [group / file for group in groups for file in ("cpu.cfs_quota_us", "cpu.max")]
        assert [file.read_text().split()[0] for file in files if file.exists()] == ["50000"]
    process = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        for file in cgroup.enter_files(groups):
            file.write_text(str(process.pid))
        assert cgroup.pids(groups) == {process.pid}
        assert cgroup.oom_kills(groups) == 0
    finally:
        assert await asyncio.to_thread(cgroup.remove, groups)
    assert await process.wait() == -9
    assert not any(group.exists() for group in groups)
    assert cgroup.remove(groups)


def test_a_quota_that_the_kernel_refuses_is_not_taken_to_hold() -> None:
    """In version 1 none may be more than that of the group above."""
    root = cgroup.find()
    if root is None or root.version != 1 or not cgroup.can_hold_processors(root, 0.1):
        pytest.skip("needs control groups of version 1 that bound processors")
    cpu = CgroupRoot(1, tuple((name, base) for name, base in root.directories if name == "cpu"))
    above = cgroup.make(cpu, f"koda-test-{os.getpid()}", memory_bytes=MB, pids=7, cpus=0.1)
    try:
        narrow = CgroupRoot(1, (("cpu", above[0]),))
        assert cgroup.can_hold_processors(narrow, 0.1) and not cgroup.can_hold_processors(narrow, 0.5)
        below = cgroup.make(narrow, "below", memory_bytes=MB, pids=7, cpus=0.5)
        assert not cgroup.holds_processors(below)
        assert cgroup.remove(below)
    finally:
        assert cgroup.remove(above)


@pytest.mark.parametrize(
    ("version", "file", "none"),
    [(1, "cpu.cfs_quota_us", "-1\n"), (2, "cpu.max", "max 100000\n")],
)
def test_a_group_holds_processors_only_once_it_says_so(
    tmp_path: Path, version: Literal[1, 2], file: str, none: str
) -> None:
    group = tmp_path / "sbx_a"
    assert not cgroup.holds_processors((group,))
    group.mkdir()
    (group / file).write_text(none)  # as where the quota was refused, because a group above has less
    assert not cgroup.holds_processors((group,))
    (group / "cpu.cfs_period_us").touch()
    cgroup.make(CgroupRoot(version, (("cpu", tmp_path),)), group.name, memory_bytes=MB, pids=7, cpus=0.5)
    assert (group / file).read_text().split()[0] == "50000"
    assert cgroup.holds_processors((group,))
    assert not cgroup.can_hold_processors(CgroupRoot(version, (("memory", tmp_path),)), 0.5)
    assert not cgroup.can_hold_processors(CgroupRoot(version, (("cpu", tmp_path),)), 0.5)  # a folder is no group


def test_a_mount_of_fixed_size(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        with pytest.raises(OSError):
            mount_tmpfs(tmp_path, size_bytes=MB, inodes=16)
        pytest.skip("needs the right to mount")
    mount_tmpfs(tmp_path, size_bytes=MB, inodes=16)
    try:
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "big").write_bytes(bytes(2 * MB))
        (tmp_path / "big").unlink()
        with pytest.raises(OSError, match="No space left"):
            for number in range(20):
                (tmp_path / str(number)).touch()
    finally:
        unmount(tmp_path)
        unmount(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_tree_that_does_not_want_to_go(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    deep = tree
    tree.mkdir()
    here = os.open(tree, os.O_DIRECTORY)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (tree / "closed").mkdir()
    (tree / "closed" / "file").touch()
    (tree / "closed").chmod(0)
    (tree / "link").symlink_to(tmp_path)
    remove_tree(deep)
    assert list(tmp_path.iterdir()) == []
    remove_tree(deep)


def test_what_cannot_be_removed_is_named(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("needs the right to mount, to put something in the way")
    busy = tmp_path / "tree" / "busy"
    busy.mkdir(parents=True)
    mount_tmpfs(busy, size_bytes=MB, inodes=16)
    try:
        with pytest.raises(SandboxError, match="tree"):
            remove_tree(tmp_path / "tree")
    finally:
        unmount(busy)
