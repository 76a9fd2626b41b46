from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from koda_ray.agent.context import prune, with_state
from koda_ray.llm.base import Message
from tests.agent.histories import pairs_hold, valid, words_of

SIZES = (st.integers(1, 12), st.integers(1, 12))


@given(valid(), *SIZES)
def test_a_shortened_history_is_valid_and_ends_as_it_did(history: tuple[Message, ...], keep: int, step: int) -> None:
    short = prune(history, keep_last=keep, step=step)
    pairs_hold(short)
    assert len(short) <= len(history)
    last = min(keep, len(history))
    # the first kept message may carry the note in front
    assert short[-last:][1:] == history[-last:][1:]
    assert short[-last].content[-len(history[-last].content) :] == history[-last].content


@given(valid(), *SIZES)
def test_every_word_of_the_person_is_kept(history: tuple[Message, ...], keep: int, step: int) -> None:
    short = prune(history, keep_last=keep, step=step)
    said = "\n".join(words_of(short))
    for word in words_of(history):
        assert word in said or json.dumps(word, ensure_ascii=False) in said


@given(valid(), *SIZES)
def test_what_was_pruned_shows_no_call_details_but_what_was_done(
    history: tuple[Message, ...], keep: int, step: int
) -> None:
    short = prune(history, keep_last=keep, step=step, verbatim=frozenset({"ask"}))
    if short == history:
        return
    note = words_of(short)[0]
    # the note stands in a message of its own, or before the words of the first kept one
    kept = len(short) - (len(short[0].content) == 1)
    for message in history[: len(history) - kept]:
        for block in message.content:
            if block["type"] == "tool_use":
                assert f'"did": "{block["name"]}"' in note
                assert all(len(str(v)) <= 60 or str(v) not in note for v in block["input"].values())


def test_the_beginning_stays_the_same_while_the_cut_does() -> None:
    history = [Message(role="user", content=({"type": "text", "text": "Go"},))]
    for n in range(60):
        history += _turn(n, f"tool{n}", "result")
    shown = [prune(history[:n]) for n in range(1, len(history) + 1, 2)]
    assert sum(before[0] != after[0] for before, after in itertools.pairwise(shown)) == len(history) // 10 - 1
    assert all(len(messages) <= 10 + 10 + 1 for messages in shown)


def _turn(n: int, name: str, content: str, *, bad: bool = False) -> tuple[Message, Message]:
    return (
        Message(
            role="assistant",
            content=({"type": "tool_use", "id": f"c{n}", "name": name, "input": {"n": 1, "text": "x" * 100}},),
        ),
        Message(
            role="user",
            content=({"type": "tool_result", "tool_use_id": f"c{n}", "content": content, "is_error": bad},),
        ),
    )


def test_a_persons_answers_stay_and_repeats_are_counted() -> None:
    history = [Message(role="user", content=({"type": "text", "text": "A ball, please"},))]
    history += _turn(0, "ask", '{"status":"changes","feedback":"slower, and in blue"}')
    for n in range(1, 6):
        history += _turn(n, "write", "written " * 100)
    history += _turn(6, "build", "x is not defined", bad=True)
    history += [Message(role="assistant", content=({"type": "text", "text": "ok"},))]
    history += [Message(role="user", content=({"type": "text", "text": "now"},))]
    short = prune(history, keep_last=1, step=1, verbatim=frozenset({"ask"}))
    (note,) = [text for text in words_of(short) if text.startswith("<earlier>")]
    assert "slower, and in blue" in note and "A ball, please" in note
    assert '"did": "write", "with": {"n": 1}, "times": 5' in note
    assert "x is not defined" in note
    assert "written written" not in note and "xxxx" not in note


def test_a_very_long_past_is_bounded() -> None:
    history = [Message(role="user", content=({"type": "text", "text": "Go"},))]
    for n in range(2000):
        history += _turn(n, f"tool{n}", "result")
    history += [Message(role="assistant", content=({"type": "text", "text": "ok"},))]
    history += [Message(role="user", content=({"type": "text", "text": "now"},))]
    assert len(json.dumps([message.content for message in prune(history)])) < 20_000


def test_the_state_goes_last() -> None:
    history = (Message(role="user", content=({"type": "text", "text": "Go"},)),)
    assert with_state(history, "") == history
    assert with_state(history, "S")[-1].content[-1] == {"type": "text", "text": "S"}
    assert with_state(history, "S")[-1].content[0] == history[0].content[0]
