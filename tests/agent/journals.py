"""Journals for tests: one in memory that survives a "crash", one over the real store."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.store_journal import last_entered
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch, MessageRecord, ToolCallRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import NodeState
from tests.books import Ledger

__all__ = ["ME", "Crash", "Disk", "MemoryJournal", "SqlJournal", "state_of"]

ME = AgentIdentity(agent="orchestrator", session_id="ses_1", user_id="local")
"""Who the agent is in tests that need only one."""


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


@dataclass
class Disk:
    """What a dead process leaves."""

    messages: dict[str, MessageRecord] = field(default_factory=dict[str, MessageRecord])
    calls: dict[str, ToolCallRecord] = field(default_factory=dict[str, ToolCallRecord])
    batches: list[Batch] = field(default_factory=list[Batch])
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def events(self) -> list[NewEvent]:
        return [event for batch in self.batches for event in batch.events]

    def history(self, agent: str = "orchestrator") -> list[MessageRecord]:
        return sorted((m for m in self.messages.values() if m.agent == agent), key=lambda m: m.position)


class MemoryJournal:
    """A journal over a `Disk`; ``tick`` is called before and after each commit takes effect and may raise Crash."""

    def __init__(self, disk: Disk, tick: Callable[[str], None] = lambda _: None) -> None:
        self.disk = disk
        self._tick = tick

    async def messages(self, agent: str) -> list[MessageRecord]:
        return copy.deepcopy(self.disk.history(agent))

    async def tool_calls(self) -> list[ToolCallRecord]:
        return copy.deepcopy(list(self.disk.calls.values()))

    async def entered(self, agent: str) -> JsonValue:
        told = [e.data["to"] for e in self.disk.events if e.type == "breakpoint_change" and e.data["agent"] == agent]
        return told[-1] if told else None

    async def commit(self, batch: Batch) -> None:
        self._tick("before commit")
        batch = copy.deepcopy(batch)
        self.disk.ledger.enter(*batch.charges)  # first: what does not fit is refused whole
        for message in batch.messages:
            assert message.id not in self.disk.messages, "history is append-only"
            same = [
                m for m in self.disk.messages.values() if (m.agent, m.position) == (message.agent, message.position)
            ]
            assert not same, "two messages at one position"
            self.disk.messages[message.id] = message
        for call in batch.tool_calls:
            before = self.disk.calls.get(call.id)
            if before is not None:
                ended = before.status not in ("started", "waiting", "approved")
                assert not ended, f"outcome {before.status} of {call.name} was rewritten"
                assert call.attempt >= before.attempt or call.status == "approved"  # a pause is no attempt
            self.disk.calls[call.id] = call
        self.disk.batches.append(batch)
        self._tick("after commit")


class SqlJournal:
    """A journal over the real store, as the session makes it: fenced by the epoch of its activation."""

    def __init__(self, store: SqlStore, session_id: str, epoch: int) -> None:
        self._store = store
        self._session_id = session_id
        self.epoch = epoch

    @classmethod
    async def activate(cls, store: SqlStore, session_id: str) -> SqlJournal:
        from datetime import timedelta

        from koda_ray.types import now

        row = await store.activate(session_id, host="test", lease_until=now() + timedelta(seconds=30))
        return cls(store, session_id, row.epoch)

    async def messages(self, agent: str) -> list[MessageRecord]:
        return await self._store.messages(self._session_id, agent=agent)

    async def tool_calls(self) -> list[ToolCallRecord]:
        return await self._store.tool_calls(self._session_id)

    async def entered(self, agent: str) -> JsonValue:
        return await last_entered(self._store, self._session_id, agent)

    async def commit(self, batch: Batch) -> None:
        await self._store.commit(self._session_id, self.epoch, batch)


def state_of(session_id: str) -> NodeState:
    return NodeState(node_id="nod_1", user_id="local", project_id="prj_1", session_id=session_id)
