"""What a person says means what it can mean where a session stands, and is taken back while nobody has heeded it."""

from __future__ import annotations

import pytest

from koda_ray import commands
from koda_ray.commands import (
    Accept,
    Answer,
    Ask,
    Cancel,
    Command,
    Fail,
    Heed,
    Pause,
    Previewed,
    Propose,
    Reject,
    RequestChanges,
    Say,
    Start,
    TakeBack,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import apply
from koda_ray.types import NodeState, Note, Option, Pointed, Question
from tests.phases.story import AT, MORE, PLAN, QUESTION, fresh, preview, walk


def test_rejecting_the_plan_asks_again_and_changing_it_plans_again() -> None:
    planned = walk(fresh(), Start("a ball"), Propose(PLAN))
    rejected = walk(planned, Reject("not a ball at all"))
    assert (rejected.phase, rejected.owes, rejected.plan) == ("question", "analyze", None)
    changed = walk(planned, RequestChanges("shorter"))
    assert (changed.phase, changed.owes, changed.feedback) == ("plan", "plan", ("shorter",))


def test_what_was_not_heeded_is_taken_back_and_nothing_of_it_is_left() -> None:
    note = Note(text="larger", time=1.0)
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept())
    said = walk(working, Say("make it red", (note,), "cmd_1"), Say("and round", id="cmd_2"))
    assert [each.id for each in said.unread] == ["cmd_1", "cmd_2"] and said.feedback == said.pointed == ()
    left = walk(said, TakeBack("cmd_1"))
    assert [each.id for each in left.unread] == ["cmd_2"]
    assert walk(left, TakeBack("cmd_2"), Previewed(preview())).phase == "preview", "nothing keeps it from resting"
    heard = walk(said, Heed("cmd_1"))
    assert heard.pointed == (Pointed(change=1, words="make it red", notes=(note,)),)
    for state, command in ((heard, TakeBack("cmd_1")), (said, TakeBack("cmd_9")), (left, Heed("cmd_1"))):
        with pytest.raises(InvalidTransition, match="cmd_"):
            apply(state, command, AT)


def test_what_work_that_failed_is_taken_up_for_is_not_taken_back() -> None:
    said = walk(fresh(), Start("a ball"), Say("red", id="cmd_1"))
    again = walk(said, Fail("it broke", "X", can_retry=False), Say("round", id="cmd_2"))
    assert (again.phase, again.owes) == ("idle", "analyze")
    assert [(each.id, each.binding) for each in again.unread] == [("cmd_1", False), ("cmd_2", True)]
    with pytest.raises(InvalidTransition, match=r"stop the work .cancel."):
        apply(again, TakeBack("cmd_2"), AT)
    assert walk(again, TakeBack("cmd_1")).unread == again.unread[1:]
    assert walk(said, Fail("it broke", "X"), TakeBack("cmd_1")).unread == ()


def test_what_becomes_of_what_was_said_is_announced_once() -> None:
    working = walk(fresh(), Start("a ball"))
    said = walk(working, Say("red", id="cmd_1"))
    failed = walk(working, Fail("it broke", "X"))
    moves: list[tuple[NodeState, Command]] = [(working, Say("red", id="cmd_1")), (said, TakeBack("cmd_1"))]
    moves += [(said, Heed("cmd_1")), (said, Ask(QUESTION)), (said, Propose(PLAN)), (failed, Say("red", id="cmd_1"))]
    for state, command in moves:
        new, effects = apply(state, command, AT)
        told = [dict(each.data) for each in effects if isinstance(each, commands.Emit) and each.type == "state_change"]
        assert new.unread != state.unread
        assert [each["state"] for each in told] == [new.model_dump(mode="json", by_alias=True)], command


def test_what_was_not_heeded_is_written_only_where_there_is_any() -> None:
    working = walk(fresh(), Start("a ball"))
    said = walk(working, Say("red", id="cmd_1"))
    for state, is_there in ((working, False), (said, True), (walk(said, TakeBack("cmd_1")), False)):
        assert ("unread" in state.model_dump(mode="json", by_alias=True)) is is_there
        assert ('"unread"' in (written := state.model_dump_json())) is is_there
        assert NodeState.model_validate_json(written) == state


def test_a_message_is_stored_as_what_it_was_judged_to_be_or_not_at_all() -> None:
    working = walk(fresh(), Start("a ball"))
    planned, failed = walk(working, Propose(PLAN)), walk(working, Fail("it broke", "X"))
    for state, waits in ((working, True), (planned, False), (failed, True)):
        said = apply(state, Say("red", id="cmd_1", waits=waits), AT)[0]
        assert bool(said.unread) == waits and (said.feedback == ("red",)) != waits
    paused, idle = walk(working, Pause(MORE, "cost", "ses_1", 1_000_000, 2_000_000)), walk(working, Cancel())
    for state, waits in ((working, False), (planned, True), (paused, True), (idle, True)):
        with pytest.raises(InvalidTransition, match="say it again"):
            apply(state, Say("more", waits=waits), AT)
    assert walk(paused, Say("more", waits=False)).owes == walk(idle, Say("red", waits=False)).owes == "analyze"


def test_a_change_during_the_final_render_gives_that_render_up() -> None:
    rendering = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()), Accept("job_f"))
    state, effects = apply(rendering, Say("make it red"), AT)
    assert commands.CancelJob("job_f") in effects
    assert (state.phase, state.owes, state.output) == ("executing", "execute", None)


def test_an_unknown_option_names_the_options() -> None:
    asked = walk(fresh(), Start("a ball"), Ask(QUESTION))
    with pytest.raises(InvalidInput, match="playful, smooth"):
        apply(asked, Answer("loud"), AT)


def test_an_option_that_stands_for_ones_own_words_needs_some() -> None:
    own = Option(id="other", label="Something else")
    asking = walk(fresh(), Start("a ball"), Ask(QUESTION.model_copy(update={"options": (*QUESTION.options, own)})))
    for nothing in (None, " "):
        with pytest.raises(InvalidInput, match="'other' stands for your own words") as refused:
            apply(asking, Answer("other", nothing), AT)
        assert refused.value.context["field"] == "text"
    assert walk(asking, Answer("other", "hand-drawn")).answers[-1].text == "hand-drawn"
    choosing = walk(fresh(), Start("a ball"), Ask(Question(text="Which?", options=(own,), custom_input=False)))
    assert walk(choosing, Answer("other")).answers[-1].option_id == "other"


def test_an_answer_is_told_with_the_question_that_it_answers() -> None:
    asking = walk(fresh(), Start("a ball"), Ask(QUESTION))
    for answer in (Answer("playful"), Say("hand-drawn")):
        told = [dict(each.data) for each in apply(asking, answer, AT)[1] if isinstance(each, commands.Emit)]
        (said,) = [each for each in told if each.get("role") == "user"]
        assert said["asked"] == QUESTION.text
    (started,) = [each for each in apply(fresh(), Start("a ball"), AT)[1] if isinstance(each, commands.Emit)][:1]
    assert (started.type, "asked" in dict(started.data)) == ("message", False)
