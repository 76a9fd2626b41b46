"""A session's files: in a sandbox while there is work, in checkpoints always.

A sandbox may go at any moment; what counts is in storage. The row of a sandbox is written before the sandbox is
made, so one that was begun and never finished is still found and removed. A checkpoint stores blobs, then the
manifest; its pointer is committed by whoever asked, together with the outcome that it protects.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar, cast

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.errors import KodaError, SandboxNotFound
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.sandbox.base import FileStamp, Sandbox, SandboxProvider
from koda_ray.state import checkpoint
from koda_ray.state.storage import Storage
from koda_ray.state.store import AssetRecord, Batch, CheckpointRecord, SandboxRecord
from koda_ray.studio.orchestrator import asset_path
from koda_ray.tools.code import THEATRE_STATE_PATH
from koda_ray.types import new_id, now

__all__ = ["Project"]

_ROUTINE = frozenset({"heartbeat", "writes"})
"""Triggers that look for what was missed: where there is nothing, there is nothing to tell."""
T = TypeVar("T")
_log = get_logger()


class Project:
    """Holds the sandbox of one session and saves what is in it.

    Args:
        core: The session's state and fence.
        provider: Makes sandboxes.
        storage: Where checkpoints and assets lie.
        debounce_s: How long after the last write a checkpoint is taken, in seconds.
        spawn: Runs something in the background, owned by the session.
    """

    def __init__(
        self,
        core: SessionCore,
        *,
        provider: SandboxProvider,
        storage: Storage,
        debounce_s: float,
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
    ) -> None:
        self._core = core
        self._provider = provider
        self._storage = storage
        self._debounce_s = debounce_s
        self._spawn = spawn
        self._later: asyncio.Task[None] | None = None
        self._sandbox: Sandbox | None = None
        self._manifest: checkpoint.Manifest | None = None
        self._taken: checkpoint.Manifest | None = None
        self._stamps: dict[str, FileStamp] | None = None
        self._files: dict[str, bytes] = {}
        self._placed: set[str] = set()
        self._acquiring = asyncio.Lock()
        self._saving = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether this process holds a sandbox."""
        return self._sandbox is not None

    @property
    def held(self) -> Sandbox | None:
        """The sandbox that this process holds; it may have ended."""
        return self._sandbox

    async def sandbox(self) -> Sandbox:
        """Return the sandbox, making and filling one when there is none."""
        async with self._acquiring:
            if self._sandbox is not None and await self._sandbox.is_alive():
                return self._sandbox
            self._stamps, self._files = None, {}
            self._sandbox = await self._reconnect() or await self._create()
            return self._sandbox

    async def use(self, work: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Do something in the sandbox; where it is lost meanwhile, do it once more in a new one."""
        try:
            return await work(await self.sandbox())
        except SandboxNotFound:
            return await work(await self.sandbox())

    async def _reconnect(self) -> Sandbox | None:
        known = self._core.state.sandbox_id
        if known is None:
            return None
        # cut off before its files were back, or in the middle of a command: what is in it is not the project
        if self._core.state.sandbox_status == "creating" or await self._command_cut_off():
            await self._provider.destroy(known)
            await self._mark_destroyed(known)
            return None
        try:
            sandbox = await self._provider.connect(known)
        except SandboxNotFound:
            await self._mark_destroyed(known)
            return None
        await self._core.commit(Batch(), patch={"sandbox_status": "ready"})
        return sandbox

    async def _command_cut_off(self) -> bool:
        """Whether a process died while a command ran, before what the command did to the code could be undone."""
        store, session_id = self._core.store, self._core.session_id
        calls = await store.tool_calls(session_id, status=("started", "interrupted"))
        began = [call.started_at for call in calls if call.effect == "unsafe"]
        if not began:
            return False
        saved = await store.latest_checkpoint(session_id)
        return saved is None or max(began) > saved.created_at

    @asynccontextmanager
    async def unsaved(self) -> AsyncGenerator[None]:
        """Hold checkpoints back meanwhile: what is in the sandbox is not to be kept yet."""
        async with self._saving:
            yield

    async def _create(self) -> Sandbox:
        at = now()
        row = SandboxRecord(
            id=new_id("sbx"),
            session_id=self._core.session_id,
            user_id=self._core.user_id,
            provider=self._provider.name,
            provider_id=None,
            status="creating",
            created_at=at,
        )
        await self._core.commit(
            Batch(sandboxes=[row], events=[_sandbox_event(row.id, "creating")]),
            patch={"sandbox_id": row.id, "sandbox_status": "creating"},
        )
        sandbox = await self._provider.create(
            sandbox_id=row.id, session_id=self._core.session_id, user_id=self._core.user_id
        )
        restored = await self._restore(sandbox)
        ready = replace(row, provider_id=sandbox.id, status="ready")
        await self._core.commit(
            Batch(sandboxes=[ready], events=[_sandbox_event(row.id, "ready", restored)]),
            patch={"sandbox_status": "ready"},
        )
        return sandbox

    async def _restore(self, sandbox: Sandbox) -> int:
        """Fill a new sandbox from the newest checkpoint and the uploaded assets; returns how many files came back."""
        pointer = await self._core.store.latest_checkpoint(self._core.session_id)
        count = 0
        if pointer is not None:
            self._manifest = await checkpoint.load(self._storage, pointer.manifest_key)
            files = await checkpoint.read_files(self._storage, self._manifest)
            await sandbox.restore(files)
            count = len(files)
        self._placed.clear()
        await self._place(sandbox)
        return count

    async def _place(self, sandbox: Sandbox) -> None:
        """Write uploaded files that are not in the sandbox yet."""
        new = [asset for asset in await self.assets() if asset.id not in self._placed]
        if new:
            data = [await self._storage.get(asset.key) for asset in new]
            await sandbox.write_files({asset_path(a): d for a, d in zip(new, data, strict=True)})
            self._placed.update(asset.id for asset in new)

    async def place_assets(self) -> list[AssetRecord]:
        """Bring the sandbox up to date with what the person uploaded; returns all of it."""
        await self.use(self._place)
        return await self.assets()

    async def assets(self) -> list[AssetRecord]:
        """List what the person uploaded for this session."""
        return await self._core.store.assets(user_id=self._core.user_id, session_id=self._core.session_id)

    async def checkpoint(self, trigger: str) -> Batch:
        """Store the project as it is, for an outcome that says so; the batch holds the pointer.

        Nothing is stored when nothing changed since the newest committed checkpoint; the batch then only tells that
        this trigger found everything saved, and in which checkpoint.

        Args:
            trigger: Why, for the row: ``files``, ``writes``, ``todo``, ``heartbeat``, ``preview``, ``idle``,
                ``disconnect``, ``destroy`` and so on.
        """
        return await self.use(lambda sandbox: self._take(sandbox, trigger))

    async def keep(self, files: Mapping[str, bytes], trigger: str) -> Batch:
        """Write files and store the project with them; where the sandbox is lost between the two, both again."""

        async def write_and_take(sandbox: Sandbox) -> Batch:
            if files:
                await sandbox.write_files(files)
            return await self._take(sandbox, trigger)

        return await self.use(write_and_take)

    async def _take(self, sandbox: Sandbox, trigger: str) -> Batch:
        async with self._saving:
            if self._taken is not None and self._taken.id == self._core.checkpoint_id:
                self._manifest = self._taken  # its pointer was committed: from here on it is what is saved
            files = await self._collect(sandbox)
            at = now()
            state = self._core.state.model_copy(
                update={"theatre_state": _theatre_state(files), "sandbox_id": None, "sandbox_status": None}
            )
            manifest, key = await checkpoint.save(
                self._storage,
                user_id=self._core.user_id,
                project_id=self._core.project_id,
                session_id=self._core.session_id,
                files=files,
                state=state,
                event_seq=self._core.seq,
                previous=self._manifest,
            )
            told: dict[str, JsonValue] = {"trigger": trigger, "files": len(files), "checkpointId": manifest.id}
            if manifest is self._manifest:
                quiet = trigger in _ROUTINE
                return Batch(events=[] if quiet else [_checkpoint_event({**told, "unchanged": True})])
            self._taken = manifest
            pointer = CheckpointRecord(
                id=manifest.id,
                session_id=self._core.session_id,
                user_id=self._core.user_id,
                manifest_key=key,
                trigger=trigger,
                event_seq=self._core.seq,
                file_count=len(files),
                total_bytes=sum(len(data) for data in files.values()),
                created_at=at,
            )
            return Batch(checkpoint=pointer, events=[_checkpoint_event(told)])

    async def files(self) -> dict[str, bytes]:
        """Read all of the project's files, as a checkpoint would hold them."""

        async def read(sandbox: Sandbox) -> dict[str, bytes]:
            async with self._saving:
                return await self._collect(sandbox)

        return await self.use(read)

    async def _collect(self, sandbox: Sandbox) -> dict[str, bytes]:
        """Read what changed since the last time; the rest is remembered."""
        snapshot = await sandbox.snapshot(known=self._stamps)
        files = {path: data for path, data in self._files.items() if path in snapshot.stamps}
        self._files = files | snapshot.changed
        self._stamps = snapshot.stamps
        return dict(self._files)

    async def save(self, trigger: str) -> None:
        """Take a checkpoint of a sandbox that is there, and commit its pointer."""
        sandbox = self._sandbox
        if sandbox is None:
            return
        try:
            batch = await self._take(sandbox, trigger)
        except SandboxNotFound:
            return  # what was in it was saved before; the next use makes another
        if batch.checkpoint is not None:
            await self._core.commit(batch, patch={"last_checkpoint": batch.checkpoint.created_at})
        elif batch.events:
            await self._core.commit(batch)

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Write files, and save once nothing more has been written for a while."""
        await self.use(lambda sandbox: sandbox.write_files(files))
        if self._later is not None:
            self._later.cancel()
        self._later = self._spawn(self._save_later())

    async def _save_later(self) -> None:
        await asyncio.sleep(self._debounce_s)
        self._later = None  # from here on it is not to be cut off by the next write
        await self.save("writes")

    async def release(self, trigger: str) -> None:
        """Save, then destroy the sandbox. The sandbox goes even when saving fails; what failed is logged.

        One that an activation before this left behind is saved too: an edit in the live preview may be nowhere else.
        """
        async with self._acquiring:
            sandbox_id = self._core.state.sandbox_id
            if self._sandbox is None and sandbox_id is None:
                return
            try:
                if self._sandbox is None:
                    self._stamps, self._files = None, {}
                    self._sandbox = await self._reconnect()
                    if self._sandbox is None:
                        return  # it was lost, or never held the project: nothing is left of it
                await self.save(trigger)
            except KodaError as error:
                _log.warning("checkpoint failed", session_id=self._core.session_id, trigger=trigger, code=error.code)
            if self._sandbox is not None:
                await self._sandbox.destroy()
                self._sandbox = None
            elif sandbox_id is not None:
                await self._provider.destroy(sandbox_id)
            if sandbox_id is not None:
                await self._mark_destroyed(sandbox_id)

    def forget(self) -> None:
        """Let go of the sandbox without touching it: another activation owns it now."""
        self._sandbox = None

    async def _mark_destroyed(self, sandbox_id: str) -> None:
        rows = await self._core.store.sandboxes(session_id=self._core.session_id)
        gone = [replace(row, status="destroyed") for row in rows if row.id == sandbox_id]
        await self._core.commit(
            Batch(sandboxes=gone, events=[_sandbox_event(sandbox_id, "destroyed")]),
            patch={"sandbox_id": None, "sandbox_status": "destroyed"},
        )


def _checkpoint_event(data: dict[str, JsonValue]) -> NewEvent:
    return NewEvent(type="checkpoint", data=data)


def _sandbox_event(sandbox_id: str, status: str, restored: int | None = None) -> NewEvent:
    data: dict[str, JsonValue] = {"sandboxId": sandbox_id, "status": status}
    if restored:
        data["restoredFiles"] = restored
    return NewEvent(type="sandbox", data=data)


def _theatre_state(files: Mapping[str, bytes]) -> dict[str, object] | None:
    """Read Theatre's state out of the project, where Studio's edits are saved too."""
    data = files.get(THEATRE_STATE_PATH)
    if data is None:
        return None
    try:
        value: object = json.loads(data)
    except ValueError:  # half an edit by hand: the file is in the checkpoint as it is
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
