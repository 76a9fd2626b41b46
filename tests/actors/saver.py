"""A process that is killed by what its heartbeat saves.

``python -m tests.actors.saver FOLDER SESSION PATH DIES_AT``: a real session takes up its sandbox, writes a file there
that is not saved yet, says so in a line, and beats. A line that it reads has its clock jump over an interval between
two saves; one that says RESTS has it save and end its sandbox. SIGKILL when the first object whose key holds DIES_AT is
all written and has not got its name yet.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.session import Session
from koda_ray.actors.session_parts import SessionParts
from koda_ray.config import Settings
from koda_ray.errors import Fenced
from koda_ray.render.local import LocalExecutor
from koda_ray.roles.offline import OfflineDirector
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage

AWAKE = "awake"
"""The line's first word; its activation's number and its sandbox follow."""
RESTS = "rest"
LEASE_S = 1.5
"""Short, for a test that waits for it to be renewed; and long beside what it takes to take up a sandbox."""


def die_at(objects: Path, key: str) -> None:
    """End this process in the middle of a write: a file is renamed once its bytes are on disk."""

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event != "os.rename":
            return
        target = Path(os.fsdecode(str(arguments[1])))
        if target.is_relative_to(objects) and key in target.relative_to(objects).parts:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)


async def main(folder: Path, session_id: str, path: str, dies_at: str) -> None:
    settings = Settings(
        storage_path=folder / "storage", database_path=folder / "koda.db", sandbox_path=folder / "sandboxes",
        lease_s=LEASE_S,
    )  # fmt: skip
    die_at(settings.storage_path, dies_at)
    ahead_s = 0.0
    store = SqlStore(settings.database_path)
    await store.open()
    async with LocalExecutor(workers=1) as executor:
        parts = SessionParts(
            settings=settings,
            store=store,
            storage=Storage.from_settings(settings),
            sandboxes=sandbox_provider(settings, deployment="dep_test"),
            provider=OfflineDirector(),
            executor=executor,
            host=f"saver:{os.getpid()}",
            rested=lambda: None,
            ended=lambda: None,
            clock=lambda: time.monotonic() + ahead_s,
        )
        session = await Session.open(session_id, parts)
        sandbox = await session.project.sandbox()
        await sandbox.write_files({path: f"export const by = {os.getpid()};\n".encode()})
        sys.stdout.write(f"{AWAKE} {session.core.epoch} {sandbox.id}\n")
        sys.stdout.flush()
        said = await asyncio.to_thread(sys.stdin.readline)
        if said.strip() == RESTS:
            with suppress(Fenced):
                await session.project.release("idle")
        elif said:
            ahead_s = settings.heartbeat_s + 1
            await asyncio.to_thread(sys.stdin.readline)  # it lives on until a save kills it, or nobody listens
        await session.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
