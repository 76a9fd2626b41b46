from __future__ import annotations

import pytest

from koda_ray.agent.breakpoints import TRANSITIONS, Breakpoint, advance, derive
from koda_ray.errors import InvalidTransition
from koda_ray.state.records import ToolCallStatus
from tests.agent.test_messages import record, row

WAYS = """
    READY -> PRE_MODEL TOOL_PENDING
    PRE_MODEL -> STREAMING_MODEL READY
    STREAMING_MODEL -> PRE_MODEL TOOL_PENDING READY
    TOOL_PENDING -> PRE_TOOL AWAITING_APPROVAL POST_TOOL READY
    AWAITING_APPROVAL -> PRE_TOOL POST_TOOL TOOL_PENDING
    PRE_TOOL -> TOOL_EXECUTING
    TOOL_EXECUTING -> POST_TOOL AWAITING_APPROVAL TOOL_PENDING
    POST_TOOL -> TOOL_PENDING PRE_MODEL READY
"""


def test_the_ways_are_these_and_no_others() -> None:
    expected = {at: set(to.split()) for at, _, to in (line.partition(" -> ") for line in WAYS.split("\n    ")[1:])}
    assert {str(at): set(map(str, to)) for at, to in TRANSITIONS.items()} == expected


def test_every_pair_is_either_in_the_table_or_raises() -> None:
    for at in Breakpoint:
        for to in Breakpoint:
            if to in TRANSITIONS[at]:
                assert advance(at, to) is to
            else:
                with pytest.raises(InvalidTransition, match=str(at)):
                    advance(at, to)


def test_every_breakpoint_can_be_reached_and_left() -> None:
    for point in Breakpoint:
        assert TRANSITIONS[point]
        assert any(point in targets for targets in TRANSITIONS.values())


def test_a_tool_never_runs_without_its_start() -> None:
    assert [at for at, targets in TRANSITIONS.items() if Breakpoint.TOOL_EXECUTING in targets] == [Breakpoint.PRE_TOOL]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, Breakpoint.TOOL_PENDING),
        ("started", Breakpoint.TOOL_EXECUTING),
        ("waiting", Breakpoint.AWAITING_APPROVAL),
        ("approved", Breakpoint.TOOL_PENDING),
        ("succeeded", Breakpoint.TOOL_PENDING),
        ("interrupted", Breakpoint.TOOL_PENDING),
    ],
)
def test_an_open_call_is_read_back_from_its_row(status: ToolCallStatus | None, expected: Breakpoint) -> None:
    history = [
        record(1, "user", {"type": "text", "text": "Go"}),
        record(2, "assistant", {"type": "tool_use", "id": "c1", "name": "do", "input": {}}),
        record(3, "user", {"type": "text", "text": "and?"}),
    ]
    ledger = {} if status is None else {"c1": row("c1", status)}
    assert derive(history, ledger) is expected


def test_without_open_calls_the_last_speaker_decides() -> None:
    history = [record(1, "user", {"type": "text", "text": "Go"})]
    assert derive([], {}) is Breakpoint.READY
    assert derive(history, {}) is Breakpoint.PRE_MODEL
    assert derive([*history, record(2, "assistant", {"type": "text", "text": "Done"})], {}) is Breakpoint.READY
