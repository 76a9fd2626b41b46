"""The agents' history and ledger, kept in the session's store under its fence.

It also notes what the agents have been told: a change that was asked for counts as seen from the first answer whose
request could hold it. Until then a finished preview does not end the work. And where a call has to wait for a person's
agreement, so does the session.
"""

from __future__ import annotations

from typing import cast

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.agent.store_journal import last_entered
from koda_ray.commands import AskAgreement, Closed, Deliver
from koda_ray.events import NewEvent
from koda_ray.llm.base import Block
from koda_ray.state.records import ApprovalRecord, Batch, BeadRecord, MessageRecord, ToolCallRecord
from koda_ray.types import PendingCall

__all__ = ["ORCHESTRATOR", "SessionJournal"]

ORCHESTRATOR = "orchestrator"
"""The agent that a person talks to; what subagents say is for it alone."""


def _last_words(message: MessageRecord) -> str | None:
    """Read what an agent says to the person at the end of its turn; words beside tool calls are its own affair."""
    blocks = cast("list[Block]", message.content)
    if any(block["type"] == "tool_use" for block in blocks):
        return None
    return "\n\n".join(block["text"] for block in blocks if block["type"] == "text").strip() or None


def _pending(approval: ApprovalRecord) -> PendingCall:
    about = approval.payload
    return PendingCall(
        approval_id=approval.id,
        call_id=approval.call_id or "",
        agent=str(about["agent"]),
        name=str(about["name"]),
        reason=str(about["reason"]),
    )


class SessionJournal:
    """Implements `koda_ray.agent.subagents.BeadJournal` for one session."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._told = 0

    def telling(self) -> None:
        """Note that a request is being made: it holds all that has been said so far."""
        self._told = len(self._core.state.feedback)

    async def messages(self, agent: str) -> list[MessageRecord]:
        """Read an agent's messages."""
        return await self._core.store.messages(self._core.session_id, agent=agent)

    async def tool_calls(self) -> list[ToolCallRecord]:
        """Read the ledger."""
        return await self._core.store.tool_calls(self._core.session_id)

    async def beads(self) -> list[BeadRecord]:
        """Read the session's beads: its todos, and its subagents."""
        return await self._core.store.beads(self._core.session_id)

    async def entered(self, agent: str) -> JsonValue:
        """Read of which breakpoint of an agent was told last."""
        return await last_entered(self._core.store, self._core.session_id, agent)

    async def commit(self, batch: Batch) -> None:
        """Commit under the fence."""
        asked = [each for each in batch.approvals if each.kind == "tool_call" and each.status == "pending"]
        batch.phase_commands = [*batch.phase_commands, *(AskAgreement(_pending(approval)) for approval in asked)]
        answers = [each for each in batch.messages if each.role == "assistant" and each.agent == ORCHESTRATOR]
        for answer in answers:
            if (words := _last_words(answer)) is not None:
                data: dict[str, JsonValue] = {"role": "assistant", "content": words}
                batch.events = [*batch.events, NewEvent(type="message", data=data, cause_id=answer.id)]
                if self._core.state.closing:
                    batch.phase_commands = [*batch.phase_commands, Closed()]
        if answers and self._told > self._core.state.feedback_seen:
            batch.phase_commands = [Deliver(self._told), *batch.phase_commands]
        await self._core.commit(batch)
