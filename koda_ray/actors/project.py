"""A session's files: in a sandbox while there is work, in checkpoints always.

A sandbox may go at any moment; what counts is in storage. The row of a sandbox is written before the sandbox is
made, so one that was begun and never finished is still found and removed. A checkpoint stores blobs, then the
manifest; its pointer is committed by whoever asked, together with the outcome that it protects. What could not be read
stays as it was saved before, and is told. A sandbox that could not be saved is kept, as the only copy that there is,
until it can; one that a mistake of ours keeps from being saved is not, since that would be for ever. Nor is one that
runs and does not answer, however often it is asked: another is made of the newest checkpoint, and what is lost is told.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.actors.spending import SandboxMinutes
from koda_ray.actors.theatre import theatre_state
from koda_ray.budgets import Exceeded
from koda_ray.errors import Fenced, KodaError, NotFound, SandboxError, SandboxNotFound
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.sandbox.base import UNREAD, FileStamp, Sandbox, SandboxProvider, Skip, Snapshot, is_unread
from koda_ray.sandbox.reading_memory import SMALL_BYTES, ReadingMemory
from koda_ray.state import checkpoint
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.records import AssetRecord, Batch, CheckpointRecord
from koda_ray.state.storage import Storage
from koda_ray.tools.code import THEATRE_STATE_PATH
from koda_ray.types import new_id, now

__all__ = ["Project", "ProjectBounds"]

_ROUTINE = "heartbeat"
"""The trigger that looks for what was missed: where there is nothing, there is nothing to tell."""
_EXTEND_AFTER = 1 / 3
"""The part of a sandbox's lifetime after which it is extended; two more tries fit into the rest."""
_SKIPS_TOLD = 20
"""How many of the files that a checkpoint left out are named in its event."""
_PATH_TOLD = 200
_SAID_CHARS = 200
_LOOKS = 3
"""How often a sandbox that runs is asked for a sign of life before it is given up; a provider waits for each itself."""
_LOOK_PAUSE_S = 5.0
_PLACED_BYTES = 8 * 1024 * 1024
T = TypeVar("T")
_log = get_logger()


@dataclass(frozen=True)
class _Tree:
    """Everything of a project that a checkpoint holds; ``modes``, ``folders`` and ``skipped`` are a snapshot's."""

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    modes: Mapping[str, int] = field(default_factory=dict[str, int])
    folders: tuple[str, ...] = ()
    skipped: Mapping[str, Skip] = field(default_factory=dict[str, Skip])

    def is_unread(self, path: str) -> bool:
        return is_unread(path, self.skipped)


@dataclass(frozen=True, kw_only=True)
class ProjectBounds:
    """What bounds a project.

    Attributes:
        lifetime_s: How long a sandbox is to live on from each extension, in seconds.
        reading_memory: What of this machine's memory projects are read into.
        full: Finds that the user has stored as much as they may.
    """

    lifetime_s: float
    reading_memory: ReadingMemory
    full: Callable[[], Awaitable[Exceeded | None]]


class Project:
    """Holds the sandbox of one session and saves what is in it.

    Args:
        core: The session's state and fence.
        provider: Makes sandboxes.
        storage: Where checkpoints and assets lie.
        minutes: Counts how long a sandbox is there.
        bounds: How long a sandbox lives, and how much is read and stored.
    """

    def __init__(
        self,
        core: SessionCore,
        *,
        provider: SandboxProvider,
        storage: Storage,
        minutes: SandboxMinutes,
        bounds: ProjectBounds,
    ) -> None:
        self.reading_memory = bounds.reading_memory
        self._core = core
        self._full = bounds.full
        self._provider = provider
        self._storage = storage
        self._lifetime_s = bounds.lifetime_s
        self._minutes = minutes
        self._sandbox: Sandbox | None = None
        self._manifest: checkpoint.Manifest | None = None
        self._taken: checkpoint.Manifest | None = None
        self._stamps: dict[str, FileStamp] | None = None
        self._tree = _Tree()
        self._skips_told: Mapping[str, Skip] = {}
        self._failure_told = self._full_told = False
        self._placed: set[str] = set()
        self._extend_at = 0.0
        self._acquiring = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._keeping = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether this process holds a sandbox."""
        return self._sandbox is not None

    @property
    def held(self) -> Sandbox | None:
        """The sandbox that this process holds; it may have ended."""
        return self._sandbox

    @property
    def is_open(self) -> bool:
        """Whether there is a sandbox, held or left by an activation before this."""
        return self._sandbox is not None or self._core.state.sandbox_id is not None

    async def sandbox(self) -> Sandbox:
        """Return the sandbox, making and filling one when there is none.

        Raises:
            BudgetExceeded: There is no time left for one.
        """
        async with self._acquiring:
            if self._sandbox is not None and await self._sandbox.is_alive():
                return self._sandbox
            self._forget_files()
            self._sandbox = await self._reconnect() or await self._create()
            self._extend_at = 0.0
            return self._sandbox

    async def use(self, work: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Do something in the sandbox; where it is lost meanwhile, do it once more in a new one."""
        try:
            return await work(await self.sandbox())
        except SandboxNotFound:
            return await work(await self.sandbox())

    async def extend(self) -> None:
        """Have the sandbox's provider let it live on, where that is due: a model may think longer than it would.

        Nothing happens where there is no sandbox, or nobody ends it by itself.
        """
        sandbox = self._sandbox
        if sandbox is None or time.monotonic() < self._extend_at:
            return
        self._extend_at = time.monotonic() + self._lifetime_s * _EXTEND_AFTER
        with suppress(SandboxNotFound):  # whoever uses it next makes another
            if await sandbox.extend(self._lifetime_s) is None and sandbox is self._sandbox:
                self._extend_at = math.inf

    async def _reconnect(self, *, to_work: bool = True) -> Sandbox | None:
        """Take up the sandbox that an activation before this left; its time counts on where there is to be work.

        One that does not answer, however often it is asked, is given up.
        """
        known = self._core.state.sandbox_id
        if known is None:
            return None
        # cut off before its files were back, or in the middle of a command: what is in it is not the project
        if self._core.state.sandbox_status == "creating" or await self._command_cut_off():
            await self._end(known)
            return None
        try:
            sandbox = await self._connected(known)
        except SandboxNotFound:
            await self._mark_destroyed(known)
            return None
        if sandbox is None:
            await self._give_up(known)
            return None
        charges = [self._minutes.begin(known)] if to_work else []
        await self._core.commit(Batch(charges=[*charges]), patch={"sandbox_status": "ready"})
        if to_work:
            self._minutes.ready(known, await self._core.store.charges(self._core.session_id))
        return sandbox

    async def _connected(self, sandbox_id: str) -> Sandbox | None:
        """Return a sandbox that answers; None of one that runs and does not."""
        for _ in range(_LOOKS):
            try:
                sandbox = await self._provider.connect(sandbox_id)
            except SandboxError as error:
                if not _is_unresponsive(error):
                    raise
            else:
                return sandbox if await _answers(sandbox) else None
        return None

    async def _give_up(self, sandbox_id: str) -> None:
        """End a sandbox that does not answer, and tell what of it is nowhere else."""
        saved = await self._core.store.latest_checkpoint(self._core.session_id)
        since = "ever" if saved is None else f"since {saved.created_at.isoformat(timespec='seconds')}"
        lost = f"what was changed in it {since} and is in no checkpoint is lost"
        _log.warning("a sandbox that does not answer is given up", session_id=self._core.session_id, lost=lost)
        told: dict[str, JsonValue] = {"reason": "unresponsive", "message": f"it ran and did not answer: {lost}"}
        if saved is not None:
            told["checkpointId"] = saved.id
        await self._end(sandbox_id, told)

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
        at, location = now(), await self._provider.location()
        row = SandboxRecord(
            id=new_id("sbx"),
            session_id=self._core.session_id,
            user_id=self._core.user_id,
            provider=self._provider.name,
            provider_id=None,
            status="creating",
            created_at=at,
            place=location.id,
            host=location.words,
        )
        await self._core.commit(
            Batch(sandboxes=[row], events=[_sandbox_event(row.id, "creating")], charges=[self._minutes.begin(row.id)]),
            patch={"sandbox_id": row.id, "sandbox_status": "creating"},
        )
        sandbox = await self._provider.create(
            sandbox_id=row.id, session_id=self._core.session_id, user_id=self._core.user_id
        )
        self._minutes.ready(row.id)
        count = await self._restore(sandbox)
        restored: dict[str, JsonValue] = {"restoredFiles": count} if count else {}
        ready = replace(row, provider_id=sandbox.provider_id, status="ready")
        await self._core.commit(
            Batch(sandboxes=[ready], events=[_sandbox_event(row.id, "ready", restored)]),
            patch={"sandbox_status": "ready"},
        )
        return sandbox

    async def _restore(self, sandbox: Sandbox) -> int:
        """Fill a new sandbox from the newest checkpoint and the uploaded assets; returns how many files came back."""
        count = 0
        self._manifest = await self._newest()
        if self._manifest is not None:
            files = await checkpoint.read_files(self._storage, self._manifest)
            await sandbox.restore(files, modes=self._manifest.modes, folders=self._manifest.folders)
            count = len(files)
        self._placed.clear()
        await self._place(sandbox)
        return count

    async def _newest(self) -> checkpoint.Manifest | None:
        pointer = await self._core.store.latest_checkpoint(self._core.session_id)
        return None if pointer is None else await checkpoint.load(self._storage, pointer.manifest_key)

    async def _place(self, sandbox: Sandbox) -> None:
        """Write uploaded files that are not in the sandbox yet, some megabytes at a time."""
        for some in _shares([asset for asset in await self.assets() if asset.id not in self._placed]):
            await sandbox.write_files({asset.project_path: await self._storage.get(asset.key) for asset in some})
            self._placed.update(asset.id for asset in some)

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
            trigger: Why, for the row: ``files``, ``todo``, ``heartbeat``, ``preview``, ``idle``,
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
            async with self._collected(sandbox) as tree:
                return await self._saved(tree, trigger)

    async def _saved(self, tree: _Tree, trigger: str) -> Batch:
        unread = not UNREAD.isdisjoint(tree.skipped.values())
        if self._manifest is None and unread:
            self._manifest = await self._newest()  # that holds what could still be read then
        at = now()
        state = self._core.state.model_copy(
            update={
                "theatre_state": theatre_state(tree.files.get(THEATRE_STATE_PATH)),
                "sandbox_id": None,
                "sandbox_status": None,
            }
        )
        prepared = await checkpoint.prepare(
            checkpoint.CheckpointTree(files=tree.files, modes=tree.modes, folders=tree.folders),
            state=state,
            event_seq=self._core.seq,
            previous=self._manifest,
            kept=tree.is_unread if unread else None,
        )
        manifest = prepared.manifest
        told: dict[str, JsonValue] = {"trigger": trigger, "files": len(manifest.files), "checkpointId": manifest.id}
        news, self._skips_told = bool(tree.skipped) and tree.skipped != self._skips_told, tree.skipped
        left_out = _left_out(tree.skipped)
        if tree.skipped:
            told |= {"skippedCount": len(tree.skipped), "skipped": left_out}
        if news:
            session_id, count = self._core.session_id, len(tree.skipped)
            _log.warning("files are in no checkpoint", session_id=session_id, count=count, skipped=left_out)
        if manifest is self._manifest:
            quiet = trigger == _ROUTINE and not news
            return Batch(events=[] if quiet else [_checkpoint_event({**told, "unchanged": True})])
        await self._core.store.hold(self._core.user_id, prepared.sizes, holder=self._core.session_id)
        await checkpoint.store(self._storage, prepared)
        self._taken = manifest
        pointer = CheckpointRecord(
            id=manifest.id,
            session_id=self._core.session_id,
            user_id=self._core.user_id,
            manifest_key=manifest.key,
            trigger=trigger,
            event_seq=self._core.seq,
            file_count=len(manifest.files),
            total_bytes=manifest.total_bytes,
            created_at=at,
            held=True,
        )
        return Batch(checkpoint=pointer, events=[_checkpoint_event(told)])

    async def look(self, at: Callable[[Mapping[str, bytes]], T]) -> T:
        """Read all of the project's files, as a checkpoint would hold them.

        Args:
            at: Is given them, and keeps little: there is room for them as long as it looks.
        """

        async def read(sandbox: Sandbox) -> T:
            async with self._saving, self._collected(sandbox) as tree:
                return at(tree.files)

        return await self.use(read)

    @asynccontextmanager
    async def _collected(self, sandbox: Sandbox) -> AsyncGenerator[_Tree]:
        """Have everything of the project for the block. What is large is not remembered after it, but read anew."""

        async def read(most_bytes: int) -> Snapshot:
            return await sandbox.snapshot(known=self._stamps, most_bytes=most_bytes)

        async with self.reading_memory.reading(read) as snapshot:
            tree = self._taken_in(snapshot)
            try:
                yield tree
            finally:
                if sum(map(len, tree.files.values())) > SMALL_BYTES:
                    self._forget_files()

    def _taken_in(self, snapshot: Snapshot) -> _Tree:
        """Take in what changed since the last time; the rest is remembered, and so is what cannot be read any more."""
        before = self._tree
        files = {path: data for path, data in before.files.items() if path in snapshot.stamps}
        modes = {path: mode for path, mode in before.modes.items() if is_unread(path, snapshot.skipped)}
        folders = [path for path in before.folders if is_unread(path, snapshot.skipped)]
        self._tree = _Tree(
            files=files | snapshot.changed,
            modes=modes | dict(snapshot.modes),
            folders=tuple(sorted({*folders, *snapshot.folders})),
            skipped=snapshot.skipped,
        )
        self._stamps = snapshot.stamps
        return self._tree

    def _forget_files(self) -> None:
        self._stamps, self._tree = None, _Tree()

    async def save(self, trigger: str) -> None:
        """Take a checkpoint of a sandbox that is there, and commit its pointer.

        Where the user has stored as much as they may, what nobody asked for waits until the sandbox ends: it is in the
        sandbox until then, and a project that changes by itself does not go on filling storage.
        """
        async with self._keeping:
            sandbox = self._sandbox
            if sandbox is None:
                return
            if trigger == _ROUTINE and (full := await self._full()) is not None:
                await self._tell_full(trigger, full)
                return
            self._full_told = False
            try:
                batch = await self._take(sandbox, trigger)
            except SandboxNotFound:
                return  # what was in it was saved before; the next use makes another
            if batch.checkpoint is not None:
                await self._core.commit(batch, patch={"last_checkpoint": batch.checkpoint.created_at})
            elif batch.events:
                await self._core.commit(batch)

    async def release(self, trigger: str) -> None:
        """Save, then destroy the sandbox. One that could not be saved is kept: what is in it may be nowhere else.

        One that an activation before this left behind is saved too, for the same reason. Where a mistake of ours keeps
        it from being saved, it is destroyed all the same, and the person is told: no later try would end otherwise.

        Raises:
            KodaError: It could not be saved, which the person is told once; the next release tries again.
        """
        async with self._acquiring:
            await self._release(trigger)

    async def leave(self, trigger: str) -> None:
        """Release for the last time in this process: what could not be saved is left to the next activation."""
        try:
            await self.release(trigger)
        except (Fenced, NotFound):
            raise
        except KodaError:
            self.forget()
        except Exception:
            _log.exception("a sandbox was not ended", session_id=self._core.session_id)
            self.forget()

    @asynccontextmanager
    async def put_away(self, trigger: str) -> AsyncGenerator[None]:
        """Save and destroy the sandbox, and hold back the next one and every save for as long as the block runs.

        What the block makes the newest checkpoint is what the next sandbox is filled from.

        Raises:
            KodaError: As `release`; the block did not run.
        """
        async with self._acquiring:
            await self._release(trigger)
            async with self._keeping:
                yield
                self._manifest = self._taken = None
                self._forget_files()

    async def _release(self, trigger: str) -> None:
        session_id, sandbox_id = self._core.session_id, self._core.state.sandbox_id
        if not self.is_open:
            return
        left = self._sandbox is None
        try:
            if self._sandbox is None:
                self._forget_files()
                self._sandbox = await self._reconnect(to_work=False)
                if self._sandbox is None:
                    return  # it was lost, or never held the project: nothing is left of it
            await self.save(trigger)
        except (Fenced, NotFound):
            raise
        except KodaError as error:
            held = self._sandbox if _is_unresponsive(error) else None
            if held is not None and not await _answers(held):
                await self._give_up(held.id)
                return
            if left:
                self._sandbox = None  # whoever wants to work in it takes it up anew: its time counts from then on
            _log.warning("a sandbox is kept unsaved", session_id=session_id, trigger=trigger, code=error.code)
            await self._tell_failed(trigger, error.code, error.message)
            raise
        except Exception as error:
            # a mistake of ours, which each later try would make again: the sandbox would never end
            _log.exception("a sandbox ends unsaved", session_id=session_id, trigger=trigger)
            await self._tell_failed(trigger, "INTERNAL", f"{type(error).__name__}: {ascii(str(error))[:_SAID_CHARS]}")
        self._failure_told = False
        if (sandbox := self.held) is None:
            return  # let go of meanwhile: it is another activation's now
        await self._end(sandbox_id or sandbox.id)

    async def _tell_failed(self, trigger: str, code: str, message: str) -> None:
        if self._failure_told:
            return
        failed: dict[str, JsonValue] = {"trigger": trigger, "failed": True, "code": code, "message": message}
        with suppress(KodaError):  # the database may be away too: then the next try tells
            await self._core.emit(_checkpoint_event(failed))
            self._failure_told = True

    async def _tell_full(self, trigger: str, full: Exceeded) -> None:
        """Say once that what changes by itself is not saved while there is no room for it."""
        if not self._full_told:
            data: dict[str, JsonValue] = {"trigger": trigger, "failed": True, "code": "LIMIT_REACHED"}
            kept = "what changes now is saved when the sandbox ends, or once there is room"
            await self._core.emit(_checkpoint_event({**data, "message": f"{full.error().message}; {kept}"}))
            self._full_told = True

    def forget(self) -> None:
        """Let go of the sandbox without touching it: another activation owns it now."""
        self._sandbox = None
        self._minutes.forget()

    async def _end(self, sandbox_id: str, told: Mapping[str, JsonValue] | None = None) -> None:
        """Destroy a sandbox that the session has no more, which the database says first.

        Under the fence: who is held up between the two until another activation took over ends nothing that one works
        in, since it was told of none. What is cut off there, the janitor ends.
        """
        await self._mark_destroyed(sandbox_id, told)
        self._sandbox = None
        await self._provider.destroy(sandbox_id)

    async def _mark_destroyed(self, sandbox_id: str, told: Mapping[str, JsonValue] | None = None) -> None:
        rows = await self._core.store.sandboxes(session_id=self._core.session_id)
        gone = [replace(row, status="destroyed") for row in rows if row.id == sandbox_id]
        destroyed = _sandbox_event(sandbox_id, "destroyed", told)
        await self._core.commit(
            Batch(sandboxes=gone, events=[destroyed], charges=self._minutes.end(sandbox_id)),
            patch={"sandbox_id": None, "sandbox_status": "destroyed"},
        )


def _shares(assets: Sequence[AssetRecord]) -> Iterator[list[AssetRecord]]:
    """Share files out, in order, so that those of one share are held in memory together: few bytes, or one file."""
    share: list[AssetRecord] = []
    for asset in assets:
        if share and sum(each.size_bytes for each in share) + asset.size_bytes > _PLACED_BYTES:
            yield share
            share = []
        share.append(asset)
    if share:
        yield share


def _checkpoint_event(data: dict[str, JsonValue]) -> NewEvent:
    return NewEvent(type="checkpoint", data=data)


def _left_out(skipped: Mapping[str, Skip]) -> list[JsonValue]:
    """Name the first few that a checkpoint does not hold, and why."""
    return [
        {"path": "".join(char if char.isprintable() else "?" for char in path[:_PATH_TOLD]), "why": why}
        for path, why in sorted(skipped.items())[:_SKIPS_TOLD]
    ]


def _is_unresponsive(error: KodaError) -> bool:
    return error.context.get("reason") == "unresponsive"


async def _answers(sandbox: Sandbox) -> bool:
    """Whether a sandbox gives a sign of life, though it may be busy for a while."""
    for left in reversed(range(_LOOKS)):
        if await sandbox.is_alive():
            return True
        if left:
            await asyncio.sleep(_LOOK_PAUSE_S)
    return False


def _sandbox_event(sandbox_id: str, status: str, told: Mapping[str, JsonValue] | None = None) -> NewEvent:
    return NewEvent(type="sandbox", data={"sandboxId": sandbox_id, "status": status, **(told or {})})
