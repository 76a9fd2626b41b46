"""A process that puts a session back and kills itself on the way.

``python -m tests.actors.rewinder FOLDER SESSION POINT DIES_AT``: a real session with a real sandbox, in which something
was written and not saved yet; SIGKILL before or after each of the store's writes, 0 for never.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.session import Session
from koda_ray.actors.session_parts import SessionParts
from koda_ray.config import Settings
from koda_ray.events import Envelope
from koda_ray.render.local import LocalExecutor
from koda_ray.roles.offline import OfflineDirector
from koda_ray.state.past import Change, Past
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from tests.commands import submit


class DyingStore(SqlStore):
    """A store whose process ends at the chosen instant, once it is armed."""

    left = 0

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        self.tick()
        made = await super().commit(session_id, epoch, batch)
        self.tick()
        return made

    async def rewind(
        self, session_id: str, epoch: int, point: str, plan: Callable[[Past], Change]
    ) -> tuple[Change | None, list[Envelope]]:
        self.tick()
        made = await super().rewind(session_id, epoch, point, plan)
        self.tick()
        return made


async def main(folder: Path, session_id: str, point: str, dies_at: int) -> None:
    settings = Settings(
        storage_path=folder / "storage", database_path=folder / "koda.db", sandbox_path=folder / "sandboxes"
    )
    store = DyingStore(settings.database_path)
    await store.open()
    async with LocalExecutor(workers=1) as executor:
        parts = SessionParts(
            settings=settings,
            store=store,
            storage=Storage.from_settings(settings),
            sandboxes=sandbox_provider(settings, deployment="dep_test"),
            provider=OfflineDirector(),
            executor=executor,
            host=f"rewinder:{os.getpid()}",
            rested=lambda: None,
            ended=lambda: None,
        )
        session = await Session.open(session_id, parts)
        sandbox = await session.project.sandbox()
        await sandbox.write_files({"src/unsaved.ts": b"export {};"})
        store.left = dies_at
        await submit(session, "rewind", {"to": point}, key="rewind")
        store.left = 0
        await session.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
