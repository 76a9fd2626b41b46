"""A journal over a session's row that was taken: everything goes to the store under the row's epoch."""

from __future__ import annotations

from pydantic import JsonValue

from koda_ray.state.records import Batch, BeadRecord, MessageRecord, SessionRecord, ToolCallRecord
from koda_ray.state.store import Store

__all__ = ["StoreJournal", "last_entered"]

_LOOKED_THROUGH = 500


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

    async def entered(self, agent: str) -> JsonValue:
        """Read of which breakpoint of an agent was told last."""
        return await last_entered(self._store, self._row.id, agent)

    async def commit(self, batch: Batch) -> object:
        """Commit under the fence."""
        return await self._store.commit(self._row.id, self._row.epoch, batch)


async def last_entered(store: Store, session_id: str, agent: str) -> JsonValue:
    """Read of which breakpoint of an agent a session's newest events tell last; None where none of them does."""
    newest = (await store.newest([session_id]))[session_id].seq
    events = await store.events(session_id, after=max(0, newest - _LOOKED_THROUGH), limit=_LOOKED_THROUGH)
    told = [each.data["to"] for each in events if each.type == "breakpoint_change" and each.data["agent"] == agent]
    return told[-1] if told else None
