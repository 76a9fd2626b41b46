from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koda_ray.agent.context import Pruning, with_state
from koda_ray.agent.context import prune as shortened
from koda_ray.llm.base import Message
from tests.agent.histories import pairs_hold, valid, words_of


def prune(history: Sequence[Message], **options: Any) -> tuple[Message, ...]:
    return shortened(history, **options).messages


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
    note = "\n".join(text for text in words_of(short) if text.startswith("<earlier>"))
    assert note
    # the notes stand in a message of their own, or before the words of the first kept one
    kept = len(short) - (len(short[0].content) == shortened(history, keep_last=keep, step=step).settled)
    for message in history[: len(history) - kept]:
        for block in message.content:
            if block["type"] == "tool_use":
                assert f'"did": "{block["name"]}"' in note
                assert all(len(str(v)) <= 60 or str(v) not in note for v in block["input"].values())


def test_what_is_left_of_old_turns_is_never_written_anew() -> None:
    history = [Message(role="user", content=({"type": "text", "text": "Go"},))]
    for n in range(60):
        history += _turn(n, f"tool{n}", "result")
    parts: Sequence[Any] = ()
    for length in range(1, len(history) + 1, 2):
        shown = shortened(history[:length])
        now = shown.messages[0].content[: shown.settled]
        assert now[: len(parts)] == parts
        assert len(shown.messages) <= 10 + 20 + 2
        parts = now
    assert len(parts) == 5


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
    short = prune(history, keep_last=1, step=16, verbatim=frozenset({"ask"}))
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
    said = json.dumps([message.content for message in prune(history)])
    assert len(said) < 40_000
    assert '"Go' in said and "tool1999" in said and "tool5\\" not in said


def files_of(call: Any, result: str) -> Mapping[str, str | None]:
    given = call["input"]
    match call["name"]:
        case "read":
            return {given["path"]: result}
        case "write":
            return {given["path"]: given["text"]}
        case _:
            return dict.fromkeys(given.get("paths", ()))


def _call(n: int, name: str, given: dict[str, Any], content: str = "ok", *, bad: bool = False) -> list[Message]:
    return [
        Message(role="assistant", content=({"type": "tool_use", "id": f"f{n}", "name": name, "input": given},)),
        Message(
            role="user",
            content=({"type": "tool_result", "tool_use_id": f"f{n}", "content": content, "is_error": bad},),
        ),
    ]


def test_current_files_stay_whole_and_old_ones_go() -> None:
    old, new, other = "old " * 300, "new " * 300, "other " * 300
    history = [Message(role="user", content=({"type": "text", "text": "Go"},))]
    history += _call(0, "read", {"path": "a"}, old) + _call(1, "write", {"path": "a", "text": new})
    history += _call(2, "read", {"path": "b"}, other) + _call(3, "write", {"path": "a", "text": "bad " * 300}, bad=True)
    history += _call(4, "read", {"path": "gone"}, "gone " * 300) + _call(5, "generate", {"paths": ["gone"]})
    for n in range(6, 300):
        history += _turn(n, f"tool{n}", "result")
    for length in (16, 40, len(history)):
        shown = "\n".join(words_of(prune(history[:length], keep_last=1, step=14, files_of=files_of)))
        assert new in shown and other in shown
        assert old not in shown and "bad bad" not in shown and "gone gone" not in shown


def _edits(paths: Sequence[str], first: int) -> list[Message]:
    """Writes of files, and now and then something that changes one without saying to what."""
    history: list[Message] = []
    for n, path in enumerate(paths, start=first):
        given = {"path": path, "text": f"{path}{n}"} if n % 3 else {"paths": [path]}
        history += _call(n, "write" if n % 3 else "generate", given)
    return history


@given(st.lists(st.sampled_from("abcd"), min_size=40, max_size=50), st.integers(2, 60), st.data())
def test_a_history_that_grows_and_is_put_back_is_shortened_as_if_seen_at_once(
    paths: list[str], cut: int, data: st.DataObject
) -> None:
    one = [Message(role="user", content=({"type": "text", "text": "Go"},)), *_edits(paths, 0)]
    cut -= 1 - cut % 2  # after a result
    branches = (one, [*one[:cut], *_edits(paths[::-1], 100)])
    pruning = Pruning(keep_last=2, step=3, files_of=files_of)
    lengths = st.tuples(st.sampled_from(branches), st.integers(1, len(one)))
    for branch, length in [*((one, n) for n in range(1, len(one), 7)), *data.draw(st.lists(lengths, max_size=12))]:
        whole = tuple(branch[:length])
        assert pruning.shown(whole) == shortened(whole, keep_last=2, step=3, files_of=files_of)


def test_the_state_goes_last() -> None:
    history = (Message(role="user", content=({"type": "text", "text": "Go"},)),)
    assert with_state(history, "") == history
    assert with_state(history, "S")[-1].content[-1] == {"type": "text", "text": "S"}
    assert with_state(history, "S")[-1].content[0] == history[0].content[0]
