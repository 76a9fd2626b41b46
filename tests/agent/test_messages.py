from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.messages import CONTINUE, Repaired, open_calls, repair, text_of, tool_results, tool_uses
from koda_ray.agent.transcript import Transcript
from koda_ray.llm.base import Message
from koda_ray.state.records import Batch, MessageRecord, ToolCallRecord, ToolCallStatus
from koda_ray.types import now
from tests.agent.histories import broken, pairs_hold, valid, words_of
from tests.agent.journals import ME, Disk, MemoryJournal

STATUSES: list[ToolCallStatus] = ["started", "waiting", "approved", "succeeded", "failed", "interrupted"]


def row(call_id: str, status: ToolCallStatus) -> ToolCallRecord:
    ended = status not in ("started", "waiting", "approved")
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


def records(history: tuple[Message, ...]) -> list[MessageRecord]:
    return [record(n, message.role, *cast("Any", message.content)) for n, message in enumerate(history)]


@given(st.one_of(broken(), valid()), ledgers, st.lists(st.integers(0, 30), max_size=12))
def test_a_history_that_grows_and_is_put_back_is_repaired_as_if_seen_at_once(
    history: tuple[Message, ...], ledger: dict[str, ToolCallRecord], lengths: list[int]
) -> None:
    rows, repaired = records(history), Repaired()
    for length in (*range(len(rows) + 1), *lengths):
        assert repaired.of(rows[:length], ledger) == repair(history[:length], ledger)


@given(valid())
def test_what_was_repaired_once_is_not_made_anew(history: tuple[Message, ...]) -> None:
    rows, repaired = records(history), Repaired()
    before: tuple[Message, ...] = ()
    for length in range(len(rows) + 1):
        now = repaired.of(rows[:length], {})
        # results stand with the words after them: the last message may be another
        assert all(old is new for old, new in zip(before[:-3], now, strict=False))
        before = now


@given(st.one_of(broken(), valid()), st.lists(st.integers(0, 9), max_size=30))
async def test_a_transcripts_open_calls_are_those_of_its_whole_history(
    history: tuple[Message, ...], places: list[int]
) -> None:
    log = Transcript(MemoryJournal(Disk()), ME)
    await log.load()
    # some come before what is there already, as an answer does that began before somebody spoke
    order = [n - 1.5 * (place == 0) for n, place in itertools.zip_longest(range(len(history)), places[: len(history)])]
    for number, (row, place) in enumerate(zip(records(history), order, strict=True)):
        await log.commit(Batch(messages=[replace(row, id=f"m{number}", position=int(2 * place) + 10)]))
        assert log.open_calls() == open_calls(log.history)


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


def test_pictures_stay_where_the_person_put_them() -> None:
    picture: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    words: Any = {"type": "text", "text": "like this"}
    call: Any = {"type": "tool_use", "id": "c1", "name": "do", "input": {}}
    history = (
        Message(role="user", content=(words, picture)),
        Message(role="assistant", content=(call,)),
        Message(role="user", content=(picture,)),
    )
    repaired = repair(history, {})
    assert repaired[0] == history[0]
    assert [block["type"] for block in repaired[2].content] == ["tool_result", "image"]
