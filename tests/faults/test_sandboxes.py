"""Sandboxes end for real while the agents work in them; the job goes on, and nothing is done twice or lost."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import httpx
import psutil
import pytest

from koda_ray.sandbox.record import Record
from tests.actors.script import scripted_model
from tests.faults.conftest import Rig, until

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray, pytest.mark.sandbox, pytest.mark.browser, pytest.mark.timeout(400),
    pytest.mark.asyncio(loop_scope="package"),
]  # fmt: skip


def inside(rig: Rig, box: Path) -> dict[psutil.Process, str]:
    """What runs in a sandbox, from bubblewrap down, with its command line; some may end while we look."""
    found: dict[psutil.Process, str] = {}
    for wall in rig.processes(f"{box}/"):
        with contextlib.suppress(psutil.Error):
            if wall.name() == "bwrap":
                for process in (wall, *wall.children(recursive=True)):
                    found[process] = " ".join(process.cmdline())
    return found


def kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


async def box_of(rig: Rig, session_id: str) -> Path:
    sandbox_id = (await rig.store.get_session(session_id)).state.sandbox_id
    assert sandbox_id is not None
    return rig.server.data / "sandboxes" / await rig.store.deployment() / sandbox_id


async def executing(rig: Rig) -> str:
    """Bring a session to where the set-up is written and its scenes are being written."""
    rig.respond = scripted_model(scenes=2, pause_s=0.1)
    session_id = (await rig.client.create("a dot crosses, smooth")).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.event(session_id, lambda e: e.type == "file_written")
    return session_id


async def test_killed_processes_of_a_sandbox_are_started_again(rig: Rig) -> None:
    session_id = await executing(rig)
    box = await box_of(rig, session_id)
    url = (await rig.client.preview(session_id)).url
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        assert (await http.get(url)).status_code == 200
        victims = inside(rig, box)
        assert any(words.startswith("bwrap ") for words in victims.values())
        assert any(words.startswith("node ") and "vite.js" in words for words in victims.values())
        kill(victims)
        await until(lambda: not victims.keys() & inside(rig, box).keys(), "ended")
        assert (await http.get(url)).status_code == 200  # by a dev server that was started for it
        assert not victims.keys() & inside(rig, box).keys()
    await until(lambda: any(re.match("node .*vite.js build", words) for words in inside(rig, box).values()), "built")
    kill(inside(rig, box))  # in the middle of the build
    await rig.rests(session_id, "preview")
    assert await box_of(rig, session_id) == box, "its files were there all the time"
    await rig.nothing_twice_nothing_lost(session_id)


async def test_a_sandbox_whose_folder_is_wiped_is_replaced(rig: Rig) -> None:
    session_id = await executing(rig)
    await rig.client.preview(session_id)
    box = await box_of(rig, session_id)
    record = Record.read(box)
    assert record is not None
    for mounted in [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]:
        if mounted.is_relative_to(box):
            subprocess.run(["umount", "--lazy", str(mounted)], check=True)
    shutil.rmtree(box)
    await rig.rests(session_id, "preview")
    assert await box_of(rig, session_id) != box
    await rig.nothing_twice_nothing_lost(session_id)
    await rig.client.delete(session_id)
    await until(lambda: not rig.processes(f"{box}/"), "ended")  # what ran in it before
    assert not box.exists()
