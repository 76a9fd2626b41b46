"""A process is killed at some moment of making a sandbox: the reaper finds all that is there, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_folders import container_name
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.preview import short_folder
from koda_ray.sandbox.service import SandboxService
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conftest import small_limits
from tests.sandbox.leftovers import DockerLeftovers, Leftovers

pytestmark = pytest.mark.sandbox

_PARTS = 5
"""How many moments of a whole making are tried."""
_MAKER = """
import asyncio, json, sys
from pathlib import Path
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conftest import small_limits

async def main():
    given = json.loads(sys.argv[1])
    root = Path(given["root"])
    if given["address"]:
        plan = ContainerPlan(limits=small_limits())
        provider = DockerProvider(root=root, image=given["image"], plan=plan, address=given["address"])
    else:
        provider = LocalProvider(
            root=root,
            template=TemplateProject(folder=Path(given["template"]), node_modules=Path(given["node_modules"])),
            limits=small_limits(),
        )
    for line in sys.stdin:
        print("making", flush=True)
        await provider.create(sandbox_id=line.strip(), session_id="ses_a", user_id="usr_a")
        print("made", flush=True)

asyncio.run(main())
"""


def _maker(**given: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    line = [sys.executable, "-c", _MAKER, json.dumps(given)]
    return subprocess.Popen(line, cwd=REPO_ROOT, stdin=pipe, stdout=pipe, text=True)


def _begin(maker: subprocess.Popen[str], name: str) -> None:
    assert maker.stdin and maker.stdout
    maker.stdin.write(f"{name}\n")
    maker.stdin.flush()
    assert maker.stdout.readline() == "making\n"


def _kill(maker: subprocess.Popen[str]) -> None:
    assert maker.stdin and maker.stdout
    os.kill(maker.pid, signal.SIGKILL)
    maker.wait()
    maker.stdin.close()
    maker.stdout.close()


def _cut_off(maker: subprocess.Popen[str], name: str, *, after_s: float) -> None:
    """Kill it so long after it began to make a sandbox."""
    _begin(maker, name)
    time.sleep(after_s)
    _kill(maker)


def _time_to_make(maker: subprocess.Popen[str], name: str) -> float:
    """Kill it once it has made a sandbox; returns how long that took, in seconds."""
    _begin(maker, name)
    began = time.monotonic()
    assert maker.stdout and maker.stdout.readline() == "made\n"
    took_s = time.monotonic() - began
    _kill(maker)
    return took_s


async def _reaped(provider: SandboxProvider) -> None:
    """Whatever there is, its owner is gone and no row names it."""
    async with asyncio.timeout(60):
        while found := {info.id for info in await provider.list()}:
            assert set(await SandboxService(provider).reap([])) >= found


@pytest.mark.full
async def test_a_local_one_whose_making_is_cut_off_leaves_nothing(
    tmp_path: Path, template: Path, node_modules: Path, leftovers: Leftovers, boxes: Path
) -> None:
    root = boxes / ("deep" * 20)  # too long for a socket, which then lies elsewhere
    provider = LocalProvider(
        root=root, template=TemplateProject(folder=template, node_modules=node_modules), limits=small_limits()
    )
    given = {"root": str(root), "template": str(template), "node_modules": str(node_modules), "address": ""}
    folders: list[Path] = []
    for step in range(8):
        name = leftovers.new_id()
        folders.append(short_folder(root / name))
        await asyncio.to_thread(_cut_off, _maker(**given), name, after_s=step * 0.006)
        await _reaped(provider)
    whole = leftovers.new_id()
    made = await provider.create(sandbox_id=whole, session_id="ses_a", user_id="usr_a")
    folders.append(short_folder(root / whole))
    assert folders[-1].stat().st_mode & 0o777 == 0o700
    await made.destroy()
    assert [folder for folder in folders if folder.exists()] == []
    root.rmdir()


@pytest.mark.needs("docker")
@pytest.mark.full
async def test_a_container_whose_making_is_cut_off_leaves_nothing(
    boxes: Path,
    docker_address: str,
    docker_image: str,
    docker_leftovers: DockerLeftovers,
    docker_provider: DockerProvider,
) -> None:
    given = {"root": str(boxes), "image": docker_image, "address": docker_address}
    took_s = await asyncio.to_thread(_time_to_make, _maker(**given), docker_leftovers.new_id())
    await _reaped(docker_provider)
    engine = Engine(docker_address)
    seen: set[str] = set()
    for step in range(16):  # how far one comes in a time is the machine's business
        late, early = "running" in seen, not seen.isdisjoint({"none", "waiting"})
        if step > _PARTS and late and early:
            break
        name = docker_leftovers.new_id()
        after_s = 0.02 if late and not early else took_s * step / _PARTS * 2 ** max(0, step - _PARTS)
        await asyncio.to_thread(_cut_off, _maker(**given), name, after_s=after_s)
        await asyncio.sleep(0.3)  # what the engine was asked for already, it still does
        found = await engine.find(container_name(name))
        seen.add("none" if found is None else found.state)
        await _reaped(docker_provider)
    await engine.close()
    assert not seen.isdisjoint({"none", "waiting"}), "all were killed too late to show anything"
    assert "running" in seen, "all were killed too early to show anything"


@pytest.mark.full
@pytest.mark.needs("docker")
async def test_one_that_was_made_and_never_started_is_ours_and_goes(
    docker_provider: DockerProvider, docker_leftovers: DockerLeftovers, docker_address: str, boxes: Path
) -> None:
    import docker

    box = await docker_provider.create(sandbox_id=docker_leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    engine: Any = docker.APIClient(base_url=docker_address, version="auto")
    try:
        labels = engine.inspect_container(f"koda-{box.id}")["Config"]["Labels"]
        ours, theirs = docker_leftovers.new_id(), docker_leftovers.new_id()
        for name, given in (
            (ours, {**labels, "koda.sandbox": ours}),
            (theirs, {**labels, "koda.sandbox": theirs, "koda.installation": "somebody-else"}),
        ):
            engine.create_container("koda-test/small:1", command=["true"], name=f"koda-{name}", labels=given)
        # of ours, one that no row names and that has no record here has no owner either
        assert [(info.id, info.alive) for info in await docker_provider.list() if info.id != box.id] == [(ours, False)]
        assert await SandboxService(docker_provider).reap([box.id]) == [ours]
        left = {row["Names"][0] for row in engine.containers(all=True)}
        assert f"/koda-{theirs}" in left and f"/koda-{ours}" not in left and f"/koda-{box.id}" in left
        engine.remove_container(f"koda-{theirs}", force=True)
    finally:
        engine.close()
    await box.destroy()
