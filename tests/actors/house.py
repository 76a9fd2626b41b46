"""What a janitor looks after: a real database, real storage and real sandboxes; only waking is written down here."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.actors.removal import Removal
from koda_ray.config import Settings
from koda_ray.sandbox.base import Sandbox, SandboxProvider
from koda_ray.sandbox.service import REAP_GRACE_S
from koda_ray.state import checkpoint
from koda_ray.state.keys import asset_key, bundle_key, unit_key, video_key
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import new_id, now
from tests.state import records

SOON = timedelta(seconds=60)


class House:
    """What a janitor looks after."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(
            storage_path=folder / "storage", database_path=folder / "koda.db", sandbox_path=folder / "sandboxes",
            janitor_s=0.02,
        )  # fmt: skip
        self.store = SqlStore(self.settings.database_path)
        self.storage = Storage.from_settings(self.settings)
        self.sandboxes = sandbox_provider(self.settings, deployment="dep_test")
        self.removal = Removal(store=self.store, storage=self.storage, sandboxes=self.sandboxes)
        self.woken: list[str] = []
        self._janitors: list[Janitor] = []

    async def wake(self, session_id: str) -> None:
        await self.store.activate(session_id, host="test", lease_until=now() + SOON)
        self.woken.append(session_id)

    def janitor(
        self,
        wake: Callable[[str], Awaitable[None]] | None = None,
        *,
        passivate: Callable[[str], Awaitable[None]] | None = None,
        wake_render: Callable[[str], Awaitable[bool]] | None = None,
        sweep: Callable[[], Awaitable[object]] | None = None,
        own: Callable[[], Awaitable[list[str]]] | None = None,
        elsewhere: Callable[[], Awaitable[Sequence[Reaped]]] | None = None,
        wake_s: float = 30.0,
        others: Callable[[], Awaitable[Sequence[SandboxProvider]]] | None = None,
    ) -> Janitor:
        made = Janitor(
            store=self.store,
            reaper=Reaper(store=self.store, sandboxes=self.sandboxes, settings=self.settings, others=others, own=own),
            settings=self.settings,
            wake_s=wake_s,
            chores=Chores(
                wake=wake or self.wake,
                passivate=passivate,
                wake_render=wake_render,
                finish=self.removal.finish,
                sweep=sweep,
                elsewhere=elsewhere,
            ),
        )
        self._janitors.append(made)
        return made

    async def session(self, *, owes: bool = True, lease: timedelta | None = None) -> SessionRecord:
        made = await records.new_session(self.store, owes="analyze" if owes else None)
        if lease is None:
            return made
        return await self.store.activate(made.id, host="test", lease_until=now() + lease)

    async def sandbox(self, of: SessionRecord, *, age_s: float = 2 * REAP_GRACE_S, named: bool = True) -> Sandbox:
        """Make a sandbox so long ago, and have the session's state name it."""
        sandbox_id = f"sbx_{int((time.time() - age_s) * 1000):012x}{secrets.token_hex(10)}"
        row = replace(records.sandbox(of), id=sandbox_id, status="ready")
        state = of.state.model_copy(update={"sandbox_id": sandbox_id if named else None})
        await self.store.commit(of.id, of.epoch, Batch(sandboxes=[row], state=state))
        return await self.sandboxes.create(sandbox_id=sandbox_id, session_id=of.id, user_id=of.user_id)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not done():
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        for janitor in self._janitors:
            await janitor.close()
        for info in await self.sandboxes.list():
            await self.sandboxes.destroy(info.id)
        await self.store.close()


async def filled(house: House, bundle: str) -> SessionRecord:
    """A session with an upload, a checkpoint, and a job that rendered one unit of a bundle."""
    session = await house.session(owes=False, lease=SOON)
    asset_id = new_id("ast")
    key = asset_key(session.user_id, session.project_id, asset_id, "logo.png")
    await house.storage.put(key, b"logo")
    await house.store.add_asset(replace(records.asset(of=session), id=asset_id, key=key))
    manifest, manifest_key = await checkpoint.save(
        house.storage,
        checkpoint.CheckpointTree(files={"src/App.tsx": b"shared", "src/own.ts": session.id.encode()}),
        state=session.state,
        event_seq=1,
    )
    pointer = replace(records.checkpoint(session, 1), id=manifest.id, manifest_key=manifest_key)
    job = replace(records.job(session.user_id, session), spec={"bundle": bundle})
    unit = unit_key(session.user_id, bundle[:32])
    for stored in (unit, bundle_key(session.user_id, bundle), video_key(session.user_id, job.id, "mp4")):
        await house.storage.put(stored, b"bytes")
    chunk = replace(records.chunk(job, 0), key=unit)
    await house.store.commit(session.id, session.epoch, Batch(checkpoint=pointer, jobs=[job], chunks=[chunk]))
    return session
