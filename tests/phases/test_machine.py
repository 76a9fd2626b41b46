"""The phase machine under random commands: never an invalid state, never a dead end, work owed always visible."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray import commands
from koda_ray.commands import (
    Accept,
    Answer,
    Approve,
    Ask,
    Cancel,
    Command,
    Finished,
    Pause,
    Previewed,
    Propose,
    PutBack,
    RequestChanges,
    Retry,
    Say,
    SetTodos,
    SetTodoStatus,
    Start,
    Think,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import apply, check
from koda_ray.types import NodeState, Output, Todo
from tests import tiers
from tests.phases.story import AT, COMMANDS, PLAN, QUESTION, fresh, preview, walk

A_WAY_OUT: list[Command] = [
    Answer("more"),
    Say("other"),
    Approve("apr_1"),
    Start("ball"),
    Accept("job_9"),
    Cancel(),
    Retry(),
    RequestChanges("x"),
]


@settings(max_examples=tiers.examples(400), deadline=None)
@given(st.lists(COMMANDS, max_size=30))
def test_no_sequence_of_commands_reaches_an_invalid_state(said: list[Command]) -> None:
    state = fresh(prompt="a bouncing ball")
    for command in said:
        try:
            new, effects = apply(state, command, AT)
        except (InvalidTransition, InvalidInput) as refused:
            assert refused.message
            continue
        assert check(new) == [], command
        if new.owes is not None and new.owes != state.owes:
            assert any(isinstance(e, commands.Emit) and e.type == "state_change" for e in effects)
        if state.owes == "render_final" and new.owes != "render_final" and not isinstance(command, Finished | Pause):
            assert any(isinstance(e, commands.CancelJob) for e in effects), "a render nobody waits for must be ended"
        state = new


@settings(max_examples=tiers.examples(300), deadline=None)
@given(st.lists(COMMANDS, max_size=30))
def test_every_reachable_state_can_be_left(said: list[Command]) -> None:
    state = fresh(prompt="a bouncing ball")
    for command in said:
        try:
            state, _ = apply(state, command, AT)
        except (InvalidTransition, InvalidInput):
            continue
    taken = []
    for command in A_WAY_OUT:
        try:
            new, _ = apply(state, command, AT)
        except (InvalidTransition, InvalidInput):
            continue
        # words that only wait to be heard are no way out
        if (new.phase, new.owes, new.approval) != (state.phase, state.owes, state.approval):
            taken.append(command)
    assert taken, f"no way out of {state.phase} owing {state.owes}"
    if state.owes is not None:
        assert apply(state, Cancel(), AT)[0].owes is None


@settings(max_examples=tiers.examples(200), deadline=None)
@given(st.lists(COMMANDS, max_size=25), st.data())
def test_a_session_that_is_put_back_is_what_it_was_at_rest(said: list[Command], data: st.DataObject) -> None:
    states = [fresh(prompt="a bouncing ball", owes="analyze", sandbox_id=None)]
    for command in said:
        try:
            states.append(apply(states[-1], command, AT)[0])
        except (InvalidTransition, InvalidInput):
            continue
    now, past = states[-1].model_copy(update={"sandbox_id": "sbx_1"}), data.draw(st.sampled_from(states))
    new, effects = apply(now, PutBack(past), AT)
    assert check(new) == [] and new.owes is None and new.sandbox_id == "sbx_1"
    assert (commands.StopWork() in effects) == (now.owes is not None)
    assert any(isinstance(e, commands.CancelJob) for e in effects) == (now.owes == "render_final")
    if past.owes is None and past.approval is None and past.paused is None:
        kept: dict[str, object] = {
            "sandbox_id": "sbx_1",
            "updated_at": AT,
            "permissions": now.permissions,
            "budget": now.budget,
        }
        kept["unread"] = tuple(each.model_copy(update={"binding": False}) for each in past.unread)
        assert new == past.model_copy(update={**kept, "closing": False})
    if new != now or effects:
        assert isinstance(told := effects[-1], commands.Emit) and told.type == "state_change"


def test_the_usual_way_ends_complete() -> None:
    state = walk(
        fresh(),
        Start("a bouncing ball"),
        Ask(QUESTION),
        Answer("playful"),
        Propose(PLAN),
        Accept(),
        SetTodos((Todo(id="t1", label="Set up"),)),
        SetTodoStatus("t1", "done"),
        Previewed(preview()),
        Accept("job_f"),
    )
    assert (state.phase, state.owes) == ("preview", "render_final")
    assert state.output is not None and state.output.job_id == "job_f"
    state = walk(state, Finished(Output(job_id="job_f", video_url="/video", duration=5)))
    assert (state.phase, state.owes, state.style) == ("complete", None, "playful")


def test_since_when_work_is_owed_stays_while_it_goes_on() -> None:
    def later(state: NodeState, command: Command, s: float) -> NodeState:
        return apply(state, command, AT + timedelta(seconds=s))[0]

    state = later(fresh(), Start("A ball"), 1)
    assert (state.owes, state.owed_since) == ("analyze", AT + timedelta(seconds=1))
    state = later(state, Propose(PLAN), 2)
    assert (state.owes, state.owed_since) == (None, None)
    state = later(state, Accept(), 5)
    working = later(state, Think("A ball is round"), 9)
    assert working.owed_since == state.owed_since == AT + timedelta(seconds=5)
    assert later(working, Cancel(), 10).owed_since is None
