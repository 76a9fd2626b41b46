"""What agents say of their work: what they were told of it, todos, and their last words."""

from __future__ import annotations

import pytest

from koda_ray.commands import (
    Accept,
    Answer,
    Ask,
    Closed,
    Command,
    Deliver,
    Heed,
    Previewed,
    Propose,
    PutBack,
    Reject,
    Say,
    SetTodos,
    SetTodoStatus,
    Start,
    TakeBack,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import apply
from koda_ray.types import Todo
from tests.phases.story import AT, PLAN, QUESTION, fresh, preview, walk


def test_a_clear_style_goes_straight_to_the_plan() -> None:
    assert walk(fresh(), Start("a ball, playful"), Propose(PLAN)).phase == "plan"


def test_feedback_given_during_work_keeps_the_preview_from_ending_it() -> None:
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Say("make it red", id="cmd_1"))
    assert walk(working, Previewed(preview())).phase == "executing"
    heard = walk(working, Heed("cmd_1"))
    assert (heard.feedback, heard.unread) == (("make it red",), ())
    assert walk(heard, Previewed(preview())).phase == "executing"
    assert walk(heard, Deliver(1), Previewed(preview())).phase == "preview"


@pytest.mark.parametrize("shown", [Ask(QUESTION), Propose(PLAN), Previewed(preview())])
def test_what_agents_go_on_for_is_not_taken_back(shown: Command) -> None:
    before = (Start("a ball"), *((Propose(PLAN), Accept()) if isinstance(shown, Previewed) else ()))
    said = walk(fresh(), *before, Say("make it red", id="cmd_1"))
    assert said.owes is not None and walk(said, TakeBack("cmd_1"), shown).owes is None
    bound = walk(said, shown)
    assert bound.owes is not None
    with pytest.raises(InvalidTransition, match=r"stop the work .cancel."):
        apply(bound, TakeBack("cmd_1"), AT)
    assert not walk(fresh(), PutBack(bound)).unread[0].binding, "nobody works any more"


def test_last_words_are_to_come_until_they_are_said_or_a_person_goes_on() -> None:
    shown = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()))
    assert shown.closing and shown.owes is None
    for said in (Closed(), Accept("job_f"), Say("red"), Reject("not red"), PutBack(shown)):
        assert not walk(shown, said).closing


def test_todos_that_are_done_stay_done_when_the_list_is_set_again() -> None:
    todos = (Todo(id="t1", label="Set up"), Todo(id="t2", label="Scene"))
    working = walk(
        fresh(), Start("a ball"), Propose(PLAN), Accept(), SetTodos(todos), SetTodoStatus("t1", "done"), SetTodos(todos)
    )
    assert working.execution is not None
    assert [t.status for t in working.execution.todos] == ["done", "pending"]


def test_a_second_style_question_is_refused() -> None:
    answered = walk(fresh(), Start("a ball"), Ask(QUESTION), Answer("playful"))
    with pytest.raises(InvalidInput, match="propose a plan"):
        apply(answered, Ask(QUESTION), AT)
    assert walk(answered, Ask(QUESTION.model_copy(update={"reason": "impossible"}))).phase == "question"
