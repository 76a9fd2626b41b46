"""What agents that stand alone ask their person between two runs: for more to spend, or for another way.

Like an approval it is a row, so that it is there after a restart, and answered once. While it waits, no run goes on by
itself where only money would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import JsonValue

from koda_ray.agent.limits import LoopOutcome
from koda_ray.budgets import RESOURCES, Exceeded, limits_of, with_limit
from koda_ray.errors import InvalidInput
from koda_ray.events import NewEvent
from koda_ray.state.records import ApprovalRecord, Batch, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import Budget, NodeState, new_id, now

__all__ = ["STUCK", "Questions", "extended", "larger"]

STUCK = "stuck"
"""The ``reason`` of a question about how to go on."""


class Questions:
    """An agent's questions.

    Args:
        store: Where they are kept.
        row: The agent's, as its present owner has it.
    """

    def __init__(self, store: Store, row: SessionRecord) -> None:
        self._store = store
        self._row = row

    async def about_money(self) -> list[ApprovalRecord]:
        """Read the questions for a larger budget, one for each limit that was reached."""
        return [each for each in await self._pending() if each.kind == "budget"]

    async def about_being_stuck(self) -> ApprovalRecord | None:
        """Read the question how to go on; None where it is not stuck."""
        asked = (each for each in await self._pending() if each.kind == "question")
        return next((each for each in asked if each.payload.get("reason") == STUCK), None)

    async def ask(self, outcome: LoopOutcome, told: Sequence[NewEvent] = ()) -> None:
        """Put down what a run that ended so asks, once, and what is ``told`` of its end with that."""
        if outcome.kind in ("stuck", "limit") and await self.about_being_stuck() is None:
            # the loop has told of a limit
            await self._put(
                "question", {"reason": STUCK, "text": outcome.text}, told if outcome.kind == "stuck" else ()
            )
        if (exceeded := outcome.exceeded) is not None:
            asked = await self.about_money()
            if all(each.payload["resource"] != exceeded.resource for each in asked):
                await self._put("budget", _told(exceeded, outcome.text), told)

    async def agree(self, budget: Budget) -> NodeState:
        """Answer the questions for more with a budget, and keep that; return the state with it."""
        answer: dict[str, JsonValue] = budget.model_dump(mode="json", by_alias=True)
        batch = self.closed(await self.about_money(), "approved", answer)
        state = self._row.state.model_copy(update={"budget": budget})
        await self._store.commit(self._row.id, self._row.epoch, replace(batch, state=state))
        return state

    async def drop_money(self) -> None:
        """Ask for nothing more: what was wanted went through."""
        if asked := await self.about_money():
            await self._store.commit(self._row.id, self._row.epoch, self.closed(asked, "superseded", {}))

    async def answered_by(self, text: str) -> Batch:
        """Make the changes by which what a person says answers how to go on; none where that was not asked."""
        asked = await self.about_being_stuck()
        return self.closed([asked], "approved", {"text": text}) if asked is not None else Batch()

    async def dropped(self) -> Batch:
        """Make the changes by which nobody is asked any more how to go on."""
        asked = await self.about_being_stuck()
        return self.closed([asked], "superseded", {}) if asked is not None else Batch()

    def closed(
        self,
        asked: Sequence[ApprovalRecord],
        status: Literal["approved", "superseded"],
        answer: dict[str, JsonValue],
    ) -> Batch:
        """Make the changes that close questions."""
        return Batch(
            approvals=[replace(each, status=status, answer=answer, resolved_at=now()) for each in asked],
            events=[_event("approval_resolved", each, {"status": status, **answer}) for each in asked],
        )

    async def _pending(self) -> list[ApprovalRecord]:
        return await self._store.approvals(self._row.id, pending=True)

    async def _put(
        self, kind: Literal["question", "budget"], payload: dict[str, JsonValue], told: Sequence[NewEvent]
    ) -> None:
        question = ApprovalRecord(
            id=new_id("apr"),
            session_id=self._row.id,
            user_id=self._row.user_id,
            kind=kind,
            payload=payload,
            status="pending",
            created_at=now(),
        )
        event = _event("approval_requested", question, {"payload": payload})
        await self._store.commit(self._row.id, self._row.epoch, Batch(approvals=[question], events=[event, *told]))


def extended(before: Budget, budget: Budget) -> Budget:
    """Return a budget with the limits of another in place of its own, where those are no lower.

    Raises:
        InvalidInput: A limit is lower than the one there is.
    """
    new, old = limits_of(budget.over(before)), limits_of(before)
    for resource in RESOURCES:
        if resource in new and (resource not in old or new[resource] < old[resource]):
            raise InvalidInput(
                f"a budget is extended, not cut: {resource} has {'no limit' if resource not in old else 'more'} "
                "already; name a limit for all of it, what was used included"
            )
    return budget.over(before)


def larger(given: Budget, agreed: Budget | None) -> Budget:
    """Return the limits that a program gives, or what a person has agreed to since where that is more."""
    found, limits = given, limits_of(given)
    for resource, limit in limits_of(agreed or Budget()).items():
        if resource in limits and limit > limits[resource]:
            found = with_limit(found, resource, limit)
    return found


def _told(exceeded: Exceeded, text: str) -> dict[str, JsonValue]:
    return {
        "resource": exceeded.resource,
        "limit": exceeded.limit,
        "spent": exceeded.spent,
        "wanted": exceeded.wanted,
        "message": text,
    }


def _event(
    kind: Literal["approval_requested", "approval_resolved"], question: ApprovalRecord, more: dict[str, JsonValue]
) -> NewEvent:
    return NewEvent(type=kind, data={"approvalId": question.id, "kind": question.kind, **more})
