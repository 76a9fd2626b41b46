"""A journal over a session's row that was taken: everything goes to the store under the row's epoch."""

from __future__ import annotations

from koda_ray.state.records import Batch, BeadRecord, MessageRecord, SessionRecord, ToolCallRecord
from koda_ray.state.store import Store

__all__ = ["StoreJournal"]


class StoreJournal:
    """Implements `koda_ray.agent.transcript.Journal`, and the beads of `koda_ray.agent.subagents.BeadJournal`."""

    def __init__(self, store: Store, row: SessionRecord) -> None:
        self._store = store
        self._row = row

    async def messages(self, agent: str) -> list[MessageRecord]:
        """Read an agent's messages."""
        return await self._store.messages(self._row.id, agent=agent)

    async def tool_calls(self) -> list[ToolCallRecord]:
        """Read the ledger."""
        return await self._store.tool_calls(self._row.id)

    async def beads(self) -> list[BeadRecord]:
        """Read the beads."""
        return await self._store.beads(self._row.id)

    async def commit(self, batch: Batch) -> object:
        """Commit under the fence."""
        return await self._store.commit(self._row.id, self._row.epoch, batch)
