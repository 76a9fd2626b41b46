"""A call that a person has to agree to: what was proposed, what was approved and what then runs, each kept.

The proposed input stands in the model's message, what a person was shown and answered in the approval's row, and what
runs in the ledger. The waiting call's row names its approval, so that a process that knows only history and ledger
can answer for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Self, cast

from pydantic import JsonValue

from koda_ray.agent.ledger import approved, kept
from koda_ray.agent.toolkit import Agreement
from koda_ray.events import NewEvent
from koda_ray.state.records import ApprovalRecord, Batch, ToolCallRecord
from koda_ray.types import new_id

__all__ = ["ApprovalRequest", "announced", "changed_note", "grant", "is_approval", "request", "resolved", "unheard"]


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked about a call.

    Args:
        agent: Who wants it.
        proposed: Its input as it was sent, or as a hook made it.
        reason: Why a person is asked.
        shown: What it would change, such as a diff; empty where the tool cannot say.
        key: Names what is agreed to, where it has begun.
        done: What it has done by then, where it has begun; told to the model if the person refuses the rest.
    """

    agent: str
    proposed: dict[str, JsonValue]
    reason: str
    shown: str = ""
    key: str = ""
    done: str = ""

    @classmethod
    def going_on(cls, agreement: Agreement, *, agent: str, proposed: dict[str, JsonValue]) -> Self:
        """Make what a call that has begun asks before it goes on."""
        return cls(
            agent=agent,
            proposed=proposed,
            reason=agreement.reason,
            shown=agreement.shown,
            key=agreement.key,
            done=agreement.done,
        )

    @property
    def payload(self) -> dict[str, JsonValue]:
        """As it is stored and told."""
        told: dict[str, JsonValue] = {"agent": self.agent, "proposed": self.proposed, "reason": self.reason}
        told["shown"] = self.shown
        if self.key:
            told["key"] = self.key
        if self.done:
            told["done"] = self.done
        return told


def request(row: ToolCallRecord, asked: ApprovalRequest, *, at: datetime) -> Batch:
    """Make a call, which is not started or was put back, wait for a person's agreement."""
    payload: dict[str, JsonValue] = {"name": row.name, **asked.payload}
    approval_id = new_id("apr")
    waits = replace(row, status="waiting", result={**kept(row), "approval": {"id": approval_id, "payload": payload}})
    approval = ApprovalRecord(
        id=approval_id,
        session_id=row.session_id,
        user_id=row.user_id,
        kind="tool_call",
        payload=payload,
        status="pending",
        call_id=row.id,
        created_at=at,
    )
    told = NewEvent(
        type="approval_requested",
        data={"approvalId": approval_id, "kind": "tool_call", "callId": row.id, **payload},
        cause_id=row.id,
    )
    return Batch(tool_calls=[waits], approvals=[approval], events=[told])


def is_approval(row: ToolCallRecord) -> bool:
    """Whether a call waits for agreement, not for an answer."""
    return row.status == "waiting" and isinstance(row.result, dict) and "approval" in row.result


def grant(
    row: ToolCallRecord,
    given: dict[str, JsonValue],
    *,
    effective: dict[str, JsonValue],
    heard: Collection[str] | None,
    at: datetime,
) -> Batch:
    """Let a waiting call run.

    Args:
        row: The call.
        given: The input as the person has it.
        effective: The input as the tool gets it.
        heard: Names of the hooks that were heard about an input that the person changed; None where it is as proposed.
        at: The present time.
    """
    answer: dict[str, JsonValue] = {"approved": given, "edited": heard is not None}
    batch = resolved(row, "approved", answer, at=at)
    agreed = approved(row, effective)
    if heard is not None:
        asked = cast("dict[str, dict[str, JsonValue]]", row.result)["approval"]
        agreed = replace(agreed, result={**kept(row), "approval": {**asked, "heard": [*sorted(heard)]}})
    return replace(batch, tool_calls=[agreed])


def unheard(row: ToolCallRecord, guards: Collection[str]) -> bool:
    """Whether a person changed a call that has not begun where not all of these hooks were there to hear of it."""
    if row.status != "approved" or not isinstance(row.result, dict) or "approval" not in row.result:
        return False
    asked = cast("dict[str, dict[str, JsonValue]]", row.result)["approval"]
    return "heard" in asked and not set(guards) <= set(cast("list[str]", asked["heard"]))


def resolved(
    row: ToolCallRecord,
    status: Literal["approved", "rejected", "superseded"],
    answer: dict[str, JsonValue],
    *,
    at: datetime,
) -> Batch:
    """Close the approval of a waiting call; an empty batch where it has none."""
    if not is_approval(row):
        return Batch()
    asked = cast("dict[str, dict[str, JsonValue]]", row.result)["approval"]
    payload = cast("dict[str, JsonValue]", asked["payload"])
    approval = ApprovalRecord(
        id=str(asked["id"]),
        session_id=row.session_id,
        user_id=row.user_id,
        kind="tool_call",
        payload=payload,
        status=status,
        call_id=row.id,
        answer=answer,
        created_at=row.started_at,
        resolved_at=at,
    )
    done = NewEvent(
        type="approval_resolved",
        data={"approvalId": approval.id, "kind": "tool_call", "callId": row.id, "status": status, **answer},
        cause_id=row.id,
    )
    return Batch(approvals=[approval], events=[done])


def announced(approval: ApprovalRecord) -> NewEvent:
    """Announce that an approval is asked for, or that it was answered."""
    data: dict[str, JsonValue] = {"approvalId": approval.id, "kind": approval.kind}
    if approval.status == "pending":
        return NewEvent(type="approval_requested", data={**data, "payload": approval.payload})
    return NewEvent(type="approval_resolved", data={**data, "status": approval.status, "answer": approval.answer})


def changed_note(content: str) -> str:
    """Tell the model that what ran is not what it sent."""
    return f"The input of this call was changed before it ran. {content}"
