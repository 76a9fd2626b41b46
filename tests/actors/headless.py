"""A process on a cluster whose head dies: what is said meanwhile to a session that is awake, and to one that sleeps.

Run by a test as ``python -m tests.actors.headless DATABASE FOLDER USER AWAKE ASLEEP``; it prints what was answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import ray

from koda_ray.actors.directory import RayDirectory
from koda_ray.actors.host import NAMESPACE
from koda_ray.actors.parts import sandbox_provider
from koda_ray.config import Settings
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.serve import ray_folder
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage


async def main(database: Path, folder: Path, user_id: str, awake: str, asleep: str) -> None:
    settings = Settings(storage_path=folder / "storage", database_path=database, sandbox_path=folder / "boxes")
    store = SqlStore(database)
    await store.open()

    async def sandboxes() -> SandboxProvider:
        return sandbox_provider(settings, deployment=await store.deployment())

    directory = RayDirectory(
        settings, store=store, storage=Storage.from_settings(settings), sandboxes=sandboxes
    )  # fmt: skip
    await directory.wake(awake)
    (head,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "gcs_server"]
    head.kill()
    head.wait()
    said: dict[str, Any] = {"user_id": user_id, "name": "permissions", "body": {"mode": "ask"}}
    answers = {each: (await directory.submit(session_id=each, key="k", **said)).result for each in (awake, asleep)}
    sys.stdout.write(json.dumps(answers) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    temp = ray_folder.make()
    try:
        ray.init(
            address="local", namespace=NAMESPACE, num_cpus=1, resources={CHROMIUM_RESOURCE: 1, SESSION_RESOURCE: 8},
            include_dashboard=False, logging_level="ERROR", log_to_driver=False, _temp_dir=temp,
        )  # fmt: skip
        asyncio.run(asyncio.wait_for(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:6]), 240))
    finally:
        for process in psutil.Process().children(recursive=True):
            process.kill()
        ray_folder.remove(temp)
        os._exit(0)  # Ray would wait for its head
