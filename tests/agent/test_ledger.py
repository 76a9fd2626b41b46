from __future__ import annotations

import pytest

from koda_ray.agent.ledger import Step, next_step, recorded_result, sealed, settled
from koda_ray.agent.toolkit import ToolOutcome
from koda_ray.state.store import SideEffect, ToolCallStatus
from koda_ray.types import now
from tests.agent.test_messages import row


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
    from dataclasses import replace

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
