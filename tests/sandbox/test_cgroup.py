"""Control groups of version 2 at the real kernel: entered, counted, killed while they fork, and removed.

Limits of memory, processes and processors are shown by ``test_limits`` and the attacks, in whichever version this
machine's controllers are; a machine that has them in version 1 lends version 2 none.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.sandbox import cgroup
from koda_ray.sandbox.cgroup import CgroupRoot

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("mount")]


@pytest.fixture
def unified(tmp_path: Path) -> Iterator[CgroupRoot]:
    """A group of the unified hierarchy, with no controller that anybody else needs."""
    point = tmp_path / "unified"
    point.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", str(point)], check=True)
    base = point / f"koda-test-{tmp_path.name}-{id(point)}"
    base.mkdir()
    try:
        yield CgroupRoot(2, (("none", base),))
    finally:
        base.rmdir()
        subprocess.run(["umount", str(point)], check=True)


async def test_whoever_is_in_one_is_ended_though_it_forks_and_the_group_goes(unified: CgroupRoot) -> None:
    planned = cgroup.plan(unified, "sbx_a")
    made = cgroup.make(unified, "sbx_a", memory_bytes=1 << 29, pids=64, cpus=1.0)
    assert made == planned and cgroup.pids(made) == set()
    (procs,) = cgroup.enter_files(made)
    storm = f"echo $$ >{procs}; while :; do (setsid sleep 600 &) ; sleep 0.01; done"
    running = await asyncio.create_subprocess_exec("sh", "-c", storm)
    async with asyncio.timeout(60):
        while len(cgroup.pids(made)) < 20:
            await asyncio.sleep(0.01)
    assert running.pid in cgroup.pids(made)
    assert await asyncio.to_thread(cgroup.kill_all, made)
    assert cgroup.pids(made) == set()
    assert await running.wait() == -9
    assert cgroup.remove(made) and not made[0].exists()
    assert cgroup.remove(made)  # may be asked for again
    # what no controller counts is said to be nothing, not made up
    assert (cgroup.oom_kills(made), cgroup.pids_refused(made)) == (0, 0)


async def test_who_is_ended_has_tried_nothing() -> None:
    """A group that is ended refuses every process, which is no attempt of anybody's."""
    root = cgroup.find()
    if root is None or "pids" not in root.controllers:
        pytest.skip("needs a control group that counts processes")
    made = cgroup.make(root, f"koda-test-{os.getpid()}", memory_bytes=1 << 29, pids=64, cpus=1.0)
    try:
        enter = "; ".join(f"echo $$ >{procs}" for procs in cgroup.enter_files(made))
        running = await asyncio.create_subprocess_exec(
            "bash", "-c", f"{enter}; while :; do /bin/true; done", stderr=asyncio.subprocess.DEVNULL
        )
        (events,) = (group / "pids.events" for group in made if (group / "pids.events").exists())
        async with asyncio.timeout(60):
            while running.pid not in cgroup.pids(made):
                await asyncio.sleep(0.01)
            (events.parent / "pids.max").write_text("0")
            while events.read_text().split() == ["max", "0"]:
                await asyncio.sleep(0.01)
        assert cgroup.pids_refused(made) == 0
        (events.parent / "pids.max").write_text("64")
        assert cgroup.pids_refused(made) > 0
        assert await asyncio.to_thread(cgroup.kill_all, made)
        await running.wait()
    finally:
        assert cgroup.remove(made)
