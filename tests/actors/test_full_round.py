"""A round on a node whose disk is full, which it is that makes room there; on a real cluster."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.actors.directory import public_settings
from koda_ray.actors.reaping import rounds
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.render.fitness import unfit_nodes
from koda_ray.state.sql import SqlStore
from tests.full_node import full_town

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.timeout(600)]

_LEAVE = """
from koda_ray.render.isolation import WorkFolder
folder = WorkFolder("browser").path
(folder / "cache").write_bytes(bytes(4 << 20))
print(folder)
"""


async def test_what_was_left_on_a_full_disk_is_cleared_and_the_node_gets_work_again(tmp_path: Path) -> None:
    left: list[Path] = []

    def leave(disk: Path) -> None:
        environment = {**os.environ, "TMPDIR": str(disk), "PYTHONPATH": str(REPO_ROOT)}
        line = [sys.executable, "-c", _LEAVE]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
        left.append(Path(done.stdout.strip()))

    settings = Settings(
        database_path=tmp_path / "koda.db", storage_path=tmp_path / "storage", sandbox_path=tmp_path / "sandboxes",
        sandbox_provider="local", node_room_mb=2,
    )  # fmt: skip
    store = SqlStore(settings.database_path)
    await store.open()
    with full_town(leave) as town:
        sent = rounds(public_settings(settings))
        async with asyncio.timeout(300):
            while not (reaped := await sent.clear()):
                pass
        assert len(reaped) == 1 and not left[0].exists()
        assert await asyncio.to_thread(unfit_nodes) == {}, town.full
    await store.close()
