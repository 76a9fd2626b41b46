"""The heart of a session: its state, its fence, and the one way to change either.

State is computed from phase commands at the moment of the commit, under a lock, so that what a person said while a
tool ran is never overwritten by that tool's outcome. Whatever a command means for events, approvals and beads is part
of the same transaction; what it means for running work happens after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, cast

from pydantic import JsonValue

from koda_ray import phases
from koda_ray.agent.approvals import announced
from koda_ray.commands import ApprovalChange, CancelJob, Effect, Emit, ReleaseSandbox, StopWork
from koda_ray.errors import Fenced, NotFound, StorageError
from koda_ray.events import Envelope, NewEvent
from koda_ray.state.past import Change, Past
from koda_ray.state.records import ApprovalRecord, Batch, BeadRecord, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import NodeState, Todo, new_id, now

__all__ = ["After", "SessionCore", "bead_of", "payload_of"]

After = StopWork | CancelJob | ReleaseSandbox
"""Effects that follow a commit."""

T = TypeVar("T")
_BEAD_STATUS = {"pending": "open", "active": "in_progress", "done": "closed"}


class SessionCore:
    """A session's state under its fence.

    Args:
        store: The database.
        record: The row as `Store.activate` returned it.
        after: Called, once the transaction is through, with each effect that concerns running work.
        changed: Called after each commit, to look at what is owed.
        fenced: Called once, when a newer activation has taken over or the session was deleted.
    """

    def __init__(
        self,
        *,
        store: Store,
        record: SessionRecord,
        after: Callable[[After], None],
        changed: Callable[[], None],
        fenced: Callable[[], None],
    ) -> None:
        self.store = store
        self.session_id = record.id
        self.user_id = record.user_id
        self.project_id = record.project_id
        self.epoch = record.epoch
        self.seq = record.seq
        self.checkpoint_id: str | None = None
        self.trace = record.trace
        self._state = record.state
        self._after = after
        self._changed = changed
        self._fenced = fenced
        self._lost = False
        self._is_in_doubt = False
        self._lock = asyncio.Lock()

    @property
    def state(self) -> NodeState:
        """The state as last committed."""
        return self._state

    @property
    def lost(self) -> bool:
        """Whether a newer activation has taken over, or the session was deleted."""
        return self._lost

    async def commit(self, batch: Batch, *, patch: Mapping[str, object] | None = None) -> None:
        """Apply a batch's phase commands and store everything in one transaction.

        Args:
            batch: What to store. ``batch.phase_commands`` become its state, events, approvals and beads.
            patch: Fields of the state that no phase depends on (sandbox, last checkpoint).

        Raises:
            Fenced: A newer activation owns the session; nothing was written.
            NotFound: The session was deleted; nothing was written.
            InvalidTransition: The phase does not take a command; nothing was written.
            BudgetExceeded: A reservation does not fit; nothing was written.
            StorageError: The database failed; what it has is taken before anything else is written.
        """
        async with self._lock:
            if self._lost:
                raise Fenced(f"session {self.session_id}: a newer activation than {self.epoch} owns it")
            await self._settle()
            before = state = self._state
            at = now()
            effects: list[Effect] = []
            for command in batch.phase_commands:
                state, more = phases.apply(state, command, at)
                effects.extend(more)
            if patch:
                state = state.model_copy(update=dict(patch))
            if state is not before:
                batch.state = state
                batch.beads = [*batch.beads, *self._beads(before, state)]
            batch.events = [*batch.events, *(_event(effect) for effect in effects if isinstance(effect, Emit))]
            changes = [effect for effect in effects if isinstance(effect, ApprovalChange)]
            if changes:
                approvals = await self._approvals(changes, state, batch)
                batch.approvals = [*batch.approvals, *approvals]
                batch.events = [*batch.events, *(announced(approval) for approval in approvals)]
            batch.phase_commands = []
            await _seen_through(self._write(batch, effects))

    async def rewind(self, point: str, plan: Callable[[Past], tuple[Change, tuple[Effect, ...]]]) -> None:
        """Put the session back to a point of its past, in one transaction.

        Args:
            point: As `koda_ray.state.past.HistoryStore.rewind` takes it.
            plan: Pure: says what the session becomes, and what follows from that.

        Raises:
            Fenced: A newer activation owns the session; nothing was written.
            NotFound: There is no such point; nothing was written.
        """
        async with self._lock:
            if self._lost:
                raise Fenced(f"session {self.session_id}: a newer activation than {self.epoch} owns it")
            await self._settle()
            await _seen_through(self._write_rewind(point, plan))

    async def renew(self, lease_until: datetime) -> bool:
        """Keep the lease, beside whatever is being written; say whether a command waits.

        Raises:
            Fenced: A newer activation owns the session.
            NotFound: It was deleted.
        """
        return await _seen_through(self._write_lease(lease_until))

    async def _write_lease(self, lease_until: datetime) -> bool:
        try:
            return await self.store.renew(self.session_id, self.epoch, lease_until=lease_until)
        except (Fenced, NotFound):
            self._lose()
            raise

    async def _write(self, batch: Batch, effects: list[Effect]) -> None:
        try:
            envelopes = await self.store.commit(self.session_id, self.epoch, batch)
        except (Fenced, NotFound):  # a newer activation has taken over, or the session was deleted
            self._lose()
            raise
        except StorageError:
            await self._doubt()
            raise
        if batch.state is not None:
            self._state = batch.state
        if batch.checkpoint is not None:
            self.checkpoint_id = batch.checkpoint.id
        self._follow(envelopes, effects)

    async def _write_rewind(self, point: str, plan: Callable[[Past], tuple[Change, tuple[Effect, ...]]]) -> None:
        effects: list[Effect] = []

        def planned(past: Past) -> Change:
            change, more = plan(past)
            effects[:] = more
            return change

        try:
            change, envelopes = await self.store.rewind(self.session_id, self.epoch, point, planned)
        except Fenced:
            self._lose()
            raise
        except StorageError:
            await self._doubt()
            raise
        if change is not None:
            self._state = change.state
            pointer = await self.store.latest_checkpoint(self.session_id)
            self.checkpoint_id = None if pointer is None else pointer.id
            self._follow(envelopes, effects)

    async def _doubt(self) -> None:
        """Take in that a commit has failed, and may be stored all the same: its answer may have been lost."""
        self._is_in_doubt = True
        with suppress(StorageError):  # it is still away: whoever writes next finds out first
            await self._settle()

    async def _settle(self) -> None:
        """Where a commit is in doubt, take what the database has; under the fence nobody else writes there."""
        if not self._is_in_doubt:
            return
        try:
            row = await self.store.get_session(self.session_id)
            if row.epoch != self.epoch:
                raise Fenced(f"session {self.session_id}: a newer activation than {self.epoch} owns it")
            pointer = await self.store.latest_checkpoint(self.session_id)
        except (Fenced, NotFound):
            self._lose()
            raise
        self._state, self.seq = row.state, row.seq
        self.checkpoint_id = None if pointer is None else pointer.id
        self._is_in_doubt = False

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._fenced()

    def _follow(self, envelopes: Sequence[Envelope], effects: Sequence[Effect]) -> None:
        """Take in that a commit went through, and do what follows from it."""
        if envelopes:
            self.seq = envelopes[-1].seq
        for effect in effects:
            if isinstance(effect, StopWork | CancelJob | ReleaseSandbox):
                self._after(effect)
        self._changed()

    async def emit(self, event: NewEvent) -> None:
        """Store one event."""
        await self.commit(Batch(events=[event]))

    def _beads(self, before: NodeState, after: NodeState) -> list[BeadRecord]:
        old = before.execution.todos if before.execution else ()
        new = after.execution.todos if after.execution else ()
        if old == new:
            return []
        known = {todo.id: todo for todo in old}
        return [
            bead_of(todo, place, session_id=self.session_id, user_id=self.user_id)
            for place, todo in enumerate(new)
            if known.get(todo.id) != todo
        ]

    async def _approvals(self, changes: list[ApprovalChange], state: NodeState, batch: Batch) -> list[ApprovalRecord]:
        pending = {a.kind: a for a in await self.store.approvals(self.session_id, pending=True)}
        waits = next((call.id for call in batch.tool_calls if call.status == "waiting"), None)
        at = now()
        changed: list[ApprovalRecord] = []
        for change in changes:
            open_one = pending.pop(change.kind, None)
            if change.status == "pending":
                if open_one is not None:
                    changed.append(replace(open_one, status="superseded", resolved_at=at))
                changed.append(
                    ApprovalRecord(
                        id=new_id("apr"),
                        session_id=self.session_id,
                        user_id=self.user_id,
                        kind=change.kind,
                        payload=payload_of(change.kind, state),
                        status="pending",
                        call_id=waits or (open_one.call_id if open_one is not None else None),
                        created_at=at,
                    )
                )
            elif open_one is not None:
                answer = dict(change.answer)
                changed.append(replace(open_one, status=change.status, answer=answer, resolved_at=at))
        return changed


async def _seen_through(writing: Coroutine[object, object, T]) -> T:
    """Write to the end: whoever is cancelled meanwhile must not leave memory and database apart."""
    task = asyncio.ensure_future(writing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def bead_of(todo: Todo, place: int, *, session_id: str, user_id: str) -> BeadRecord:
    """Make the bead of a todo."""
    at = now()
    return BeadRecord(
        id=f"{session_id}:{todo.id}",
        session_id=session_id,
        user_id=user_id,
        type="task",
        title=todo.label,
        status=_BEAD_STATUS[todo.status],  # type: ignore[arg-type]
        position=place,
        data={"todoId": todo.id},
        created_at=at,
        closed_at=at if todo.status == "done" else None,
    )


def payload_of(kind: str, state: NodeState) -> dict[str, JsonValue]:
    """Return what a person is shown who is asked about a state's question, plan or preview."""
    shown = {"question": state.question, "plan": state.plan, "preview": state.preview}[kind]
    return cast("dict[str, JsonValue]", shown.model_dump(mode="json", by_alias=True)) if shown is not None else {}


def _event(effect: Emit) -> NewEvent:
    return NewEvent(type=effect.type, data=dict(effect.data))
