"""A session whose container runs and does not answer goes on in another, and says what is lost."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koda_ray.actors import project
from koda_ray.actors.session import Session
from koda_ray.render.local import LocalExecutor
from koda_ray.sandbox import docker, docker_way_in
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.engine import Engine
from tests.actors.conftest import SessionWorld
from tests.sandbox.conftest import DockerLeftovers

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("docker"), pytest.mark.full]

APP = "src/App.tsx"


@pytest.fixture
async def session(
    tmp_path: Path, docker_provider: DockerProvider, docker_leftovers: DockerLeftovers
) -> AsyncIterator[tuple[SessionWorld, Session]]:
    """One in the middle of its work, whose sandboxes are containers."""
    project_box = SessionWorld(tmp_path, LocalExecutor(workers=1))
    await project_box.store.open()
    project_box.sandboxes = docker_provider
    try:
        opened = await project_box.at_rest()
        yield project_box, opened
        await opened.project.release("test")
    finally:
        await project_box.close()


def impatient(patch: pytest.MonkeyPatch) -> None:
    """Have a sign of life be waited for less long than a busy container may take."""
    patch.setattr(docker_way_in, "_ANSWER_S", 0.3)
    patch.setattr(docker_way_in, "_TIMEOUT_S", 0.3)
    patch.setitem(inspect.unwrap(docker_way_in.WayIn.exchange).__kwdefaults__, "timeout_s", 0.3)
    patch.setattr(project, "_LOOK_PAUSE_S", 0.05)


async def stop(address: str, sandbox_id: str) -> int:
    engine = Engine(address)
    try:
        look = functools.partial(engine.use, lambda api: api.inspect_container(f"koda-{sandbox_id}"), doing="look")
        found: Any = await asyncio.to_thread(look)
    finally:
        await engine.close()
    os.kill(found["State"]["Pid"], signal.SIGSTOP)
    return int(found["State"]["Pid"])


async def test_a_sandbox_that_does_not_answer_is_given_up_for_another(
    session: tuple[SessionWorld, Session], docker_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_box, opened = session
    await opened.core.commit(await opened.workbench.keep({APP: "saved"}))
    first = await opened.project.sandbox()
    pid = await stop(docker_address, first.id)
    asked = asyncio.create_task(opened.project.sandbox())
    await asyncio.sleep(0.2)
    os.kill(pid, signal.SIGCONT)
    assert (await asked).id == first.id, "one that was busy for a while is kept"

    await stop(docker_address, first.id)
    monkeypatch.setattr(docker_way_in, "_ANSWER_S", 0.3)
    monkeypatch.setattr(docker, "_START_TIMEOUT_S", 10.0)  # in which another is made, too
    second = await opened.project.sandbox()
    monkeypatch.undo()
    assert second.id != first.id and await second.read_file(APP) == b"saved"
    assert [info.id for info in await project_box.sandboxes.list()] == [second.id]
    (gone,) = [each for each in await project_box.events(opened, "sandbox") if each["status"] == "destroyed"]
    pointer = await project_box.store.latest_checkpoint(opened.session_id)
    assert pointer is not None and gone["checkpointId"] == pointer.id
    assert (gone["sandboxId"], gone["reason"]) == (first.id, "unresponsive")
    assert "is lost" in gone["message"] and pointer.created_at.isoformat(timespec="seconds") in gone["message"]


async def test_a_session_falls_asleep_though_its_sandbox_does_not_answer(
    session: tuple[SessionWorld, Session], docker_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_box, opened = session
    await opened.core.commit(await opened.workbench.keep({APP: "saved"}))
    box = await opened.project.sandbox()
    impatient(monkeypatch)
    await stop(docker_address, box.id)
    await opened.project.release("idle")
    assert not opened.project.is_open and await project_box.sandboxes.list() == []
    assert [each["reason"] for each in await project_box.events(opened, "sandbox") if "reason" in each] == [
        "unresponsive"
    ]
