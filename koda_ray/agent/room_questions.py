"""What a room asks people: whether members that talk on should, and how one that is stuck should go on; pure.

A person's next message is the answer, whatever it says: to the first question wherever it is said, to the second where
it is said to the member that is stuck.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pydantic import JsonValue

from koda_ray.agent.questions import STUCK
from koda_ray.agent.room_rules import RoomMessage
from koda_ray.events import NewEvent
from koda_ray.state.records import ApprovalRecord, SessionRecord
from koda_ray.types import new_id, now

__all__ = ["RoomQuestions", "how_to_go_on", "told_of", "whether_to_go_on"]


@dataclass(frozen=True, kw_only=True)
class RoomQuestions:
    """The questions that wait for an answer.

    Args:
        whether: Whether members should go on that wrote too much without a person.
        stuck: How members should go on that are stuck, by their names.
    """

    whether: ApprovalRecord | None = None
    stuck: Mapping[str, ApprovalRecord] = field(default_factory=dict[str, ApprovalRecord])

    @classmethod
    def among(cls, pending: Iterable[ApprovalRecord], members: Collection[str]) -> Self:
        """Find a room's questions in what waits for people in its session."""
        asked = [each for each in pending if each.kind == "question" and each.call_id is None]
        how = [each for each in asked if each.payload.get("reason") == STUCK]
        return cls(
            whether=next((each for each in asked if each not in how), None),
            stuck={name: each for each in how for name in members if each.payload["waiting"] == [name]},
        )

    def with_stuck(self, member: str, question: ApprovalRecord) -> Self:
        """Return them with one more member's."""
        return replace(self, stuck={**self.stuck, member: question})

    def answered_by(self, message: RoomMessage) -> list[ApprovalRecord]:
        """Return those that a person's message answers, answered."""
        how = (question for name, question in self.stuck.items() if name in message.to)
        answer: dict[str, JsonValue] = {"text": message.text, "author": message.author}
        return [
            replace(question, status="approved", answer=answer, resolved_at=message.at)
            for question in (self.whether, *how)
            if question is not None
        ]

    def left_by(self, message: RoomMessage) -> Self:
        """Return those that a person's message leaves unanswered."""
        return replace(
            self, whether=None, stuck={name: each for name, each in self.stuck.items() if name not in message.to}
        )


def whether_to_go_on(row: SessionRecord, room: str, message: RoomMessage, count: int) -> ApprovalRecord:
    """Ask whether members should go on.

    Args:
        row: The room's.
        room: Its name.
        message: What was one too many.
        count: Messages of members since a person last spoke.
    """
    words = (
        f"{count} messages were written in the room {room!r} without a person. Should "
        f"{' and '.join(message.to)} go on? They wait until somebody says something."
    )
    payload: dict[str, JsonValue] = {"text": words, "messages": count, "waiting": list(message.to)}
    return replace(_question(row, payload), created_at=message.at)


def how_to_go_on(row: SessionRecord, member: str, reason: str) -> ApprovalRecord:
    """Ask how a member should go on that is stuck."""
    words = f"{member} is stuck and waits until somebody tells it how to go on: {reason}"
    return _question(row, {"reason": STUCK, "text": words, "waiting": [member]})


def told_of(question: ApprovalRecord) -> list[NewEvent]:
    """Announce a question, or that it was answered."""
    data: dict[str, JsonValue] = {"approvalId": question.id, "kind": question.kind}
    if question.status != "pending":
        answered: dict[str, JsonValue] = {"status": question.status, "answer": question.answer}
        return [NewEvent(type="approval_resolved", data={**data, **answered})]
    requested = NewEvent(type="approval_requested", data={**data, "payload": question.payload})
    if question.payload.get("reason") == STUCK:
        return [requested]
    return [NewEvent(type="room_stopped", data=dict(question.payload)), requested]


def _question(row: SessionRecord, payload: dict[str, JsonValue]) -> ApprovalRecord:
    return ApprovalRecord(
        id=new_id("apr"),
        session_id=row.id,
        user_id=row.user_id,
        kind="question",
        payload=payload,
        status="pending",
        created_at=now(),
    )
