"""An agent's history and ledger in memory, and the only way in which the agent changes them.

Memory follows the journal, never the other way round: a change is applied after its commit has returned. A commit
that raised may or may not have happened, so everything is read again before the next step. A commit that was begun
is seen through even when the task around it is cancelled: an effect that happened must not lose its record.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Literal, Protocol, cast

from pydantic import JsonValue

from koda_ray.llm.base import Block
from koda_ray.state.store import Batch, MessageRecord, ToolCallRecord
from koda_ray.types import new_id, now

__all__ = ["Journal", "Transcript", "merged"]


class Journal(Protocol):
    """Where an agent's messages and calls are kept, already fenced and bound to one session."""

    async def messages(self, agent: str) -> list[MessageRecord]:
        """Read an agent's messages in order of position."""
        ...

    async def tool_calls(self) -> list[ToolCallRecord]:
        """Read the session's ledger."""
        ...

    async def commit(self, batch: Batch) -> object:
        """Apply a batch, durably, or not at all. Raises Fenced when another activation owns the session."""
        ...


class Transcript:
    """One agent's view of a journal.

    Args:
        journal: Where it is kept.
        agent: Whose messages.
        session_id: Written into every row.
        user_id: Written into every row.
    """

    def __init__(self, journal: Journal, *, agent: str, session_id: str, user_id: str) -> None:
        self._journal = journal
        self._agent = agent
        self._session_id = session_id
        self._user_id = user_id
        self._lock = asyncio.Lock()
        self._current = False
        self._next = 1
        self.history: list[MessageRecord] = []
        self.calls: dict[str, ToolCallRecord] = {}

    async def load(self) -> None:
        """Read everything again."""
        async with self._lock:
            await self._load()

    async def refresh(self) -> None:
        """Read everything again if memory may differ from the journal."""
        async with self._lock:
            if not self._current:
                await self._load()

    def reserve(self) -> int:
        """Take the next position.

        The model's answer takes its position when the request is made, so that what a person says meanwhile comes
        after it and is answered next. A position that is never used leaves a hole, which is harmless.
        """
        position = self._next
        self._next += 1
        return position

    def record(
        self, role: Literal["user", "assistant"], content: Sequence[Block], position: int | None = None
    ) -> MessageRecord:
        """Make a row for something said, at the next position or at one that was reserved."""
        return MessageRecord(
            id=new_id("msg"),
            session_id=self._session_id,
            user_id=self._user_id,
            agent=self._agent,
            position=self.reserve() if position is None else position,
            role=role,
            content=cast("list[JsonValue]", list(content)),
            created_at=now(),
        )

    async def commit(self, batch: Batch) -> None:
        """Commit a batch and then apply it here.

        Raises:
            Fenced: FENCED, from the journal; as everything else it raises, and then memory is read again.
        """
        async with self._lock:
            self._current, was_current = False, self._current
            task = asyncio.ensure_future(_committed(self._journal, batch))
            task.add_done_callback(_looked_at)  # whoever is cancelled twice never hears how it ended
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait({task})
                if not task.cancelled() and task.exception() is None:
                    self._apply(batch, was_current)
                raise
            self._apply(batch, was_current)

    def _apply(self, batch: Batch, was_current: bool) -> None:
        for record in batch.messages:
            if record.agent == self._agent:
                insort(self.history, record, key=lambda each: each.position)
        self.calls.update((record.id, record) for record in batch.tool_calls)
        self._current = was_current

    async def _load(self) -> None:
        self.history = sorted(await self._journal.messages(self._agent), key=lambda each: each.position)
        self.calls = {record.id: record for record in await self._journal.tool_calls()}
        if self.history:
            self._next = max(self._next, self.history[-1].position + 1)
        self._current = True


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
