from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koda_ray.agent.approvals import ApprovalRequest, grant, is_approval, request
from koda_ray.agent.ledger import (
    OpenCall,
    Step,
    abandoned,
    deaths,
    done_so_far,
    kept,
    next_step,
    recorded_result,
    sealed,
    settled,
    started,
    stopped,
    waiting_again,
    wanted,
)
from koda_ray.agent.toolkit import ToolOutcome
from koda_ray.state.records import MessageRecord, SideEffect, ToolCallRecord, ToolCallStatus
from koda_ray.types import now
from tests import tiers
from tests.agent.test_messages import row

EFFECTS: tuple[SideEffect, ...] = ("pure", "idempotent", "unsafe")
MOST = 3
AT = now()


@pytest.mark.parametrize(
    ("status", "was", "is_now", "attempt", "step"),
    [
        (None, "unsafe", "unsafe", 0, "run"),
        ("started", "pure", "pure", 1, "run"),
        ("started", "idempotent", "idempotent", 1, "run"),
        ("started", "unsafe", "unsafe", 1, "seal"),
        ("started", "pure", "unsafe", 1, "seal"),
        ("started", "unsafe", "pure", 1, "seal"),
        ("started", "pure", "pure", 3, "seal"),
        ("started", "idempotent", "idempotent", 2, "run"),
        ("started", "idempotent", "idempotent", 3, "ask"),
        ("started", "pure", "idempotent", 4, "ask"),
        ("started", "idempotent", "pure", 3, "ask"),
        ("started", "unsafe", "idempotent", 3, "seal"),
        ("waiting", "unsafe", "unsafe", 1, "wait"),
        ("approved", "unsafe", "unsafe", 0, "run"),
        ("succeeded", "unsafe", "unsafe", 1, "use"),
        ("failed", "pure", "pure", 1, "use"),
        ("interrupted", "unsafe", "unsafe", 1, "use"),
    ],
)
def test_what_a_call_without_a_result_needs(
    status: ToolCallStatus | None, was: SideEffect, is_now: SideEffect, attempt: int, step: Step
) -> None:
    record = None if status is None else replace(row("c", status), effect=was, attempt=attempt)
    assert next_step(record, is_now, max_attempts=3) == step


@pytest.mark.parametrize("status", ["succeeded", "failed", "waiting", "approved"])
def test_a_recorded_outcome_is_never_sealed(status: ToolCallStatus) -> None:
    with pytest.raises(ValueError, match=status):
        sealed(row("c", status), at=now())


def test_an_outcome_is_read_back_as_it_was() -> None:
    for outcome in (ToolOutcome(content="fine"), ToolOutcome.failure("NO", "why", retryable=False)):
        record = settled(row("c", "started"), outcome, at=now())
        assert recorded_result(record) == (outcome.content, outcome.is_error)
    assert recorded_result(row("c", "started")) is None
    assert recorded_result(row("c", "waiting")) is None
    assert recorded_result(row("c", "approved")) is None
    assert recorded_result(None) is None


class Rows(RuleBasedStateMachine):
    """One call's row through everything that a loop, a crash and a person can do to it."""

    @initialize(effect=st.sampled_from(EFFECTS))
    def begin(self, effect: SideEffect) -> None:
        message = MessageRecord(
            id="msg_1", session_id="ses_1", user_id="local", agent="ann", position=1, role="assistant", content=[],
            created_at=AT,
        )  # fmt: skip
        self.call = OpenCall(message=message, block={"type": "tool_use", "id": "cal_1", "name": "put", "input": {}})
        self.effect = effect
        self.row: ToolCallRecord | None = None
        self.running = False
        self.died = 0
        self.outcome: tuple[str, bool] | None = None

    def step(self) -> Step:
        return next_step(self.row, self.effect, max_attempts=MOST)

    def ends(self, row: ToolCallRecord) -> None:
        self.row, self.running = row, False

    @precondition(lambda self: not self.running and self.outcome is None and self.step() == "run")
    @rule()
    def runs(self) -> None:
        assert not (self.died and self.effect == "unsafe"), "it may have done its work before"
        attempt = 1 if self.row is None else self.row.attempt + 1
        row = started(self.call, name="put", effect=self.effect, attempt=attempt, at=AT)
        self.row = row if self.row is None else replace(row, result=kept(self.row) or None)
        self.running = True

    @precondition(lambda self: self.running)
    @rule(is_error=st.booleans())
    def gives_back(self, is_error: bool) -> None:
        assert self.row is not None
        self.ends(settled(self.row, ToolOutcome(content="done", is_error=is_error), at=AT))
        self.outcome = ("done", is_error)

    @precondition(lambda self: self.running)
    @rule()
    def ends_with_its_process(self) -> None:
        self.running, self.died = False, self.died + 1

    @precondition(lambda self: self.running)
    @rule()
    def is_stopped_in_good_order(self) -> None:
        assert self.row is not None
        if self.effect == "unsafe":  # of these nothing is noted: it may have done its work
            self.running, self.died = False, self.died + 1
        else:
            self.ends(stopped(self.row))

    @precondition(lambda self: self.running)
    @rule(key=st.sampled_from(["paper", "glass"]), done=st.sampled_from(["", "Gone: paper."]))
    def asks_before_it_goes_on(self, key: str, done: str) -> None:
        assert self.row is not None
        asked = ApprovalRequest(agent="ann", proposed={}, reason="it is thrown away", key=key, done=done)
        (row,) = request(waiting_again(self.row), asked, at=AT).tool_calls
        assert (wanted(row), done_so_far(row)) == (key, done)
        self.ends(row)

    @precondition(lambda self: self.running)
    @rule()
    def has_to_be_paid_for_first(self) -> None:
        assert self.row is not None
        self.ends(waiting_again(self.row))

    @precondition(lambda self: not self.running and self.row is not None and self.step() == "ask")
    @rule()
    def a_person_is_asked_whether_it_runs_once_more(self) -> None:
        assert self.row is not None and self.died >= MOST and self.effect == "idempotent"
        (self.row,) = request(self.row, ApprovalRequest(agent="ann", proposed={}, reason="it died"), at=AT).tool_calls

    @precondition(lambda self: self.row is not None and is_approval(self.row))
    @rule(agrees=st.booleans())
    def a_person_answers(self, agrees: bool) -> None:
        assert self.row is not None and self.step() == "wait"
        if agrees:
            (self.row,) = grant(self.row, {}, effective={}, heard=None, at=AT).tool_calls
        else:
            self.row = settled(self.row, ToolOutcome.failure("REJECTED", "no", retryable=False), at=AT)
            self.outcome = recorded_result(self.row)

    @precondition(lambda self: not self.running and self.outcome is None and self.step() == "seal")
    @rule()
    def is_sealed(self) -> None:
        assert self.row is not None and self.died > 0
        assert self.effect == "unsafe" or (self.effect == "pure" and self.died >= MOST)
        self.row = sealed(self.row, at=AT)
        self.outcome = recorded_result(self.row)

    @precondition(lambda self: not self.running)
    @rule()
    def is_abandoned(self) -> None:
        self.row = abandoned(self.call, self.row, "They stopped it.", at=AT)
        assert self.outcome is None or recorded_result(self.row) == self.outcome
        self.outcome = recorded_result(self.row)

    @invariant()
    def an_outcome_stays_and_is_never_sealed(self) -> None:
        assert recorded_result(self.row) == self.outcome
        if self.outcome is not None and self.row is not None:
            assert self.step() == "use"
            if self.row.status != "interrupted":
                with pytest.raises(ValueError, match="only a started call"):
                    sealed(self.row, at=AT)

    @invariant()
    def deaths_are_counted_and_nothing_else(self) -> None:
        if self.row is not None and self.outcome is None:
            assert deaths(self.row) == self.died + self.running


Rows.TestCase.settings = settings(max_examples=tiers.examples(150), deadline=None, stateful_step_count=25)
test_whatever_happens_to_a_call_its_row_tells_it = Rows.TestCase
