"""An agent's history and ledger in memory, and the only way in which the agent changes them.

Memory follows the journal, never the other way round: a change is applied after its commit has returned. A commit
that raised may or may not have happened, so everything is read again before the next step, also what was told last of
where the agent is. A commit that was begun is seen through even when the task around it is cancelled: an effect that
happened must not lose its record.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Literal, Protocol, cast

from pydantic import JsonValue

from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.ledger import OpenCall
from koda_ray.agent.memory import stream_of
from koda_ray.agent.messages import from_records, open_calls, tool_results
from koda_ray.errors import BudgetExceeded, Conflict, Fenced, InvalidInput, NotFound
from koda_ray.events import NewEvent
from koda_ray.llm.base import Block
from koda_ray.state.records import Batch, MessageRecord, ToolCallRecord
from koda_ray.types import new_id, now

__all__ = ["Journal", "Transcript", "merged"]

_ENTRY = "breakpoint_change"
_REFUSALS = (BudgetExceeded, Conflict, Fenced, InvalidInput, NotFound)
"""With these a journal says that it has stored nothing."""


class Journal(Protocol):
    """Where an agent's messages and calls are kept, already fenced and bound to one session."""

    async def messages(self, agent: str) -> list[MessageRecord]:
        """Read an agent's messages in order of position."""
        ...

    async def tool_calls(self) -> list[ToolCallRecord]:
        """Read the session's ledger."""
        ...

    async def entered(self, agent: str) -> JsonValue:
        """Read of which breakpoint of an agent was told last; None where nothing tells any more."""
        ...

    async def commit(self, batch: Batch) -> object:
        """Apply a batch, durably, or not at all. Raises Fenced when another activation owns the session."""
        ...


class Transcript:
    """One agent's view of a journal.

    Args:
        journal: Where it is kept.
        identity: Whose messages; written into every row.
    """

    def __init__(self, journal: Journal, identity: AgentIdentity) -> None:
        self._journal = journal
        self.identity = identity
        self._lock = asyncio.Lock()
        self._current = False
        self._next = 1
        self._notes: list[NewEvent] = []
        self._told: JsonValue = None  # the breakpoint of which was told last
        self._in_doubt = False  # whether anything was told since
        self._closed = 0  # messages at the beginning whose calls all have their results among them
        self._results: set[str] = set()
        self.history: list[MessageRecord] = []
        self.calls: dict[str, ToolCallRecord] = {}
        self.summaries: list[MessageRecord] = []
        self.version = 0
        """Another number after each change."""
        self.loaded = 0
        """Another number after everything was read again, or a summary was added."""

    @property
    def agent(self) -> str:
        """Whose it is."""
        return self.identity.agent

    async def load(self) -> None:
        """Read everything again."""
        async with self._lock:
            await self._load()

    async def refresh(self) -> None:
        """Read everything again if memory may differ from the journal."""
        async with self._lock:
            if not self._current:
                await self._load()

    def open_calls(self) -> list[OpenCall]:
        """List calls that have no result, in the order they were made; what is closed is looked at once."""
        if not self._closed:
            self._results.clear()
        new = self.history[self._closed :]
        open_ = open_calls(new, self._results)
        if not open_:
            self._closed += len(new)
            self._results.update(block["tool_use_id"] for each in from_records(new) for block in tool_results(each))
        return open_

    def reserve(self) -> int:
        """Take the next position.

        The model's answer takes its position when the request is made, so that what a person says meanwhile comes
        after it and is answered next. A position that is never used leaves a hole, which is harmless.
        """
        position = self._next
        self._next += 1
        return position

    def record(
        self,
        role: Literal["user", "assistant"],
        content: Sequence[Block],
        position: int | None = None,
        message_id: str = "",
    ) -> MessageRecord:
        """Make a row for something said, at the next position or at one that was reserved."""
        return MessageRecord(
            id=message_id or new_id("msg"),
            session_id=self.identity.session_id,
            user_id=self.identity.user_id,
            agent=self.identity.agent,
            position=self.reserve() if position is None else position,
            role=role,
            content=cast("list[JsonValue]", list(content)),
            created_at=now(),
        )

    def summary(self, content: Sequence[Block], message_id: str) -> MessageRecord:
        """Make a row for a summary of the history, in the stream of the agent's summaries."""
        return MessageRecord(
            id=message_id,
            session_id=self.identity.session_id,
            user_id=self.identity.user_id,
            agent=stream_of(self.identity.agent),
            position=self.summaries[-1].position + 1 if self.summaries else 1,
            role="assistant",
            content=cast("list[JsonValue]", list(content)),
            created_at=now(),
        )

    @property
    def entered(self) -> JsonValue:
        """The breakpoint of which was told last, or will be with the next commit; None where nobody knows."""
        return self._notes[-1].data["to"] if self._notes else self._told

    @entered.setter
    def entered(self, at: str) -> None:
        self._told = at

    def entry(self, to: str) -> NewEvent:
        """Make the event that tells that the agent comes to a breakpoint."""
        return NewEvent(type=_ENTRY, data={"agent": self.agent, "from": self.entered, "to": to})

    def note(self, to: str) -> None:
        """Have the next commit tell that the agent comes to a breakpoint, before that one's own events."""
        self._notes.append(self.entry(to))

    async def keep_notes(self, events: Sequence[NewEvent] = ()) -> None:
        """Store what was noted, and ``events`` with it, where there is any."""
        if self._notes or events:
            await self.commit(Batch(events=list(events)))

    async def commit(self, batch: Batch) -> None:
        """Commit a batch, with what was noted, and then apply it here.

        Raises:
            Fenced: FENCED, from the journal; as everything else it raises, and then memory is read again.
        """
        async with self._lock:
            self._current, was_current = False, self._current
            if noted := len(self._notes):
                batch = replace(batch, events=[*self._notes, *batch.events])
            task = asyncio.ensure_future(_committed(self._journal, batch))
            task.add_done_callback(_looked_at)  # whoever is cancelled twice never hears how it ended
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait({task})
                raise
            finally:
                error = _error_of(task)
                if error is None:
                    self._apply(batch, was_current, noted)
                elif not isinstance(error, _REFUSALS):
                    self._notes.clear()  # stored already, or never to be: no later commit tells it
                    self._told, self._in_doubt = None, True

    def _apply(self, batch: Batch, was_current: bool, noted: int) -> None:
        del self._notes[:noted]
        for event in batch.events:
            if event.type == _ENTRY and event.data["agent"] == self.agent:
                self._told = event.data["to"]
        for record in batch.messages:
            if record.agent == self.identity.agent:
                insort(self.history, record, key=lambda each: each.position)
                if self.history[-1] is not record:
                    self._closed = 0
            elif record.agent == stream_of(self.identity.agent):
                self.summaries.append(record)
                self.loaded += 1
        self.calls.update((record.id, record) for record in batch.tool_calls)
        self._current = was_current
        self.version += 1

    async def _read(self, stream: str) -> list[MessageRecord]:
        return sorted(await self._journal.messages(stream), key=lambda each: each.position)

    async def _load(self) -> None:
        self.history = await self._read(self.agent)
        self.calls = {record.id: record for record in await self._journal.tool_calls()}
        self.summaries = await self._read(stream_of(self.agent))
        self.version, self.loaded, self._closed = self.version + 1, self.loaded + 1, 0
        if self._in_doubt:
            self._told, self._in_doubt = await self._journal.entered(self.agent), False
        if self.history:
            self._next = max(self._next, self.history[-1].position + 1)
        self._current = True


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    """Return why a commit may not have happened."""
    if not task.done() or task.cancelled():
        return asyncio.CancelledError()
    return task.exception()


def _looked_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


async def _committed(journal: Journal, batch: Batch) -> None:
    await journal.commit(batch)


def merged(base: Batch, more: Batch | None) -> Batch:
    """Join two batches into one: lists one after the other, and ``more``'s single values where it has them."""
    if more is None:
        return base
    empty = Batch()
    changed: dict[str, object] = {}
    for field in fields(Batch):
        ours, theirs = getattr(base, field.name), getattr(more, field.name)
        if isinstance(ours, list) and isinstance(theirs, list):
            changed[field.name] = [*ours, *theirs]
        elif theirs != getattr(empty, field.name):
            changed[field.name] = theirs
    return replace(base, **changed)
