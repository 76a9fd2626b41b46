from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.messages import CONTINUE, open_calls, repair, text_of, tool_results, tool_uses
from koda_ray.llm.base import Message
from koda_ray.state.store import MessageRecord, ToolCallRecord, ToolCallStatus
from koda_ray.types import now
from tests.agent.histories import broken, pairs_hold, valid, words_of

STATUSES: list[ToolCallStatus] = ["started", "waiting", "succeeded", "failed", "interrupted"]


def row(call_id: str, status: ToolCallStatus) -> ToolCallRecord:
    ended = status not in ("started", "waiting")
    return ToolCallRecord(
        id=call_id,
        session_id="s",
        user_id="u",
        message_id="m",
        name="do",
        input={},
        effect="unsafe",
        status=status,
        attempt=1,
        result={"content": f"recorded {call_id}", "isError": status != "succeeded"} if ended else None,
        started_at=now(),
    )


ledgers = st.dictionaries(st.sampled_from(["c1", "c2", "c3", "c4", "c5"]), st.sampled_from(STATUSES)).map(
    lambda chosen: {call_id: row(call_id, status) for call_id, status in chosen.items()}
)


@given(broken(), ledgers)
def test_whatever_happened_the_repaired_history_is_valid(
    history: tuple[Message, ...], ledger: dict[str, ToolCallRecord]
) -> None:
    pairs_hold(repair(history, ledger))


@given(broken(), ledgers)
def test_no_word_of_the_person_is_lost_or_moved_before_another(
    history: tuple[Message, ...], ledger: dict[str, ToolCallRecord]
) -> None:
    assert [word for word in words_of(repair(history, ledger)) if word != CONTINUE] == words_of(history)


@given(broken(), ledgers)
def test_a_recorded_outcome_is_always_the_one_that_the_model_reads(
    history: tuple[Message, ...], ledger: dict[str, ToolCallRecord]
) -> None:
    first: dict[str, str] = {}
    for message in history:
        if message.role == "user":
            for block in tool_results(message):
                first.setdefault(block["tool_use_id"], block["content"])
    for message in repair(history, ledger):
        for block in tool_results(message):
            call_id = block["tool_use_id"]
            recorded = recorded_result(ledger.get(call_id))
            if call_id in first:
                assert block["content"] == first[call_id]
            elif recorded is not None:
                assert (block["content"], block["is_error"]) == recorded
            else:
                assert block["is_error"] and "INTERRUPTED" in block["content"]


@given(broken(), ledgers)
def test_repairing_twice_changes_nothing(history: tuple[Message, ...], ledger: dict[str, ToolCallRecord]) -> None:
    once = repair(history, ledger)
    assert repair(once, ledger) == once


@given(valid())
def test_a_valid_history_comes_back_as_it_is(history: tuple[Message, ...]) -> None:
    pairs_hold(history)
    assert repair(history, {}) == history


@given(valid(), st.data())
def test_a_history_cut_off_anywhere_is_completed(history: tuple[Message, ...], data: st.DataObject) -> None:
    cut = history[: data.draw(st.integers(1, len(history)))]
    repaired = repair(cut, {})
    pairs_hold(repaired)
    assert repaired[: len(cut)] == cut


def record(position: int, role: str, *content: dict[str, Any]) -> MessageRecord:
    return MessageRecord(
        id=f"m{position}",
        session_id="s",
        user_id="u",
        agent="orchestrator",
        position=position,
        role=cast("Any", role),
        content=list(content),
        created_at=now(),
    )


def test_open_calls_are_those_without_a_result_in_the_order_they_were_made() -> None:
    use = {"type": "tool_use", "name": "do", "input": {}}
    history = [
        record(1, "user", {"type": "text", "text": "Go"}),
        record(2, "assistant", {**use, "id": "a"}, {**use, "id": "b"}, {**use, "id": "c"}),
        record(3, "user", {"type": "tool_result", "tool_use_id": "b", "content": "", "is_error": False}),
    ]
    assert [call.block["id"] for call in open_calls(history)] == ["a", "c"]
    assert {call.message.id for call in open_calls(history)} == {"m2"}


def test_parts_of_a_message() -> None:
    message = Message(
        role="assistant",
        content=(
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "1", "name": "do", "input": {}},
            {"type": "text", "text": "b"},
        ),
    )
    assert text_of(message) == "a\n\nb"
    assert [block["id"] for block in tool_uses(message)] == ["1"]
