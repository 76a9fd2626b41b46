"""The phase machine under random commands: never an invalid state, never a dead end, work owed always visible."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray import commands
from koda_ray.commands import (
    Accept,
    Answer,
    Ask,
    Cancel,
    Command,
    Deliver,
    Fail,
    Finished,
    MoveTodo,
    Previewed,
    Propose,
    Reject,
    Render,
    RequestChanges,
    Retry,
    Say,
    SetTodos,
    Start,
    Think,
    Wrote,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import apply, check
from koda_ray.types import NodeState, Option, Output, Plan, Preview, Question, RenderOptions, Scene, Todo

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCENES = tuple(
    Scene(number=n, title=title, duration=d, description=f"The ball: {title}")
    for n, (title, d) in enumerate([("Drop", 1.5), ("Bounce", 2.0), ("Rest", 1.5)], 1)
)
PLAN = Plan(scenes=SCENES, total_duration=5, style="playful")
QUESTION = Question(
    text="Which style?", options=(Option(id="playful", label="Playful"), Option(id="smooth", label="Smooth"))
)


def fresh(**fields: object) -> NodeState:
    ids = {"node_id": "nod_1", "user_id": "local", "project_id": "prj_1", "session_id": "ses_1"}
    return NodeState.model_validate({"created_at": AT, "updated_at": AT, **ids, **fields})


def preview(job: str = "job_p") -> Preview:
    return Preview(video_url="/v", job_id=job, bundle="b" * 64, duration=5)


def walk(state: NodeState, *commands: Command) -> NodeState:
    for command in commands:
        state, _ = apply(state, command, AT)
        assert check(state) == []
    return state


WORDS = st.sampled_from(["make it red", "twice as fast", "", "   ", "赤く", "x" * 20_001])
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(Start, st.one_of(st.none(), WORDS)),
    st.builds(Answer, st.sampled_from([None, "playful", "nonsense"]), st.one_of(st.none(), WORDS)),
    st.builds(Accept, st.sampled_from(["job_1", "job_2", ""])),
    st.builds(Reject, WORDS),
    st.builds(RequestChanges, WORDS),
    st.builds(Say, WORDS),
    st.just(Cancel()),
    st.just(Retry()),
    st.builds(Render, st.just(RenderOptions(resolution="720p", fps=30)), st.sampled_from(["job_1", "job_2"])),
    st.just(Ask(QUESTION)),
    st.sampled_from([Propose(PLAN), Propose(PLAN.model_copy(update={"total_duration": 9.0}))]),
    st.just(SetTodos((Todo(id="t1", label="Set up"), Todo(id="t2", label="Scene 1")))),
    st.builds(MoveTodo, st.sampled_from(["t1", "t2", "t9"]), st.sampled_from(["pending", "active", "done"])),
    st.just(Think("Writing App.tsx")),
    st.just(Wrote((("src/App.tsx", 12),))),
    st.builds(Deliver, st.integers(0, 4)),
    st.just(Previewed(preview())),
    st.builds(
        lambda job, url: Finished(Output(job_id=job, video_url=url, duration=5)),
        st.sampled_from(["job_1", "job_2"]),
        st.sampled_from(["/video", None]),
    ),
    st.builds(Fail, st.just("it broke"), st.just("BUILD_FAILED"), st.booleans()),
)
A_WAY_OUT: list[Command] = [Say("other"), Start("ball"), Accept("job_9"), Cancel(), Retry(), RequestChanges("x")]


@settings(max_examples=400, deadline=None)
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
        if state.owes == "render_final" and new.owes != "render_final" and not isinstance(command, Finished):
            assert any(isinstance(e, commands.CancelJob) for e in effects), "a render nobody waits for must be ended"
        state = new


@settings(max_examples=300, deadline=None)
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
        if (new.phase, new.owes) != (state.phase, state.owes):
            taken.append(command)
    assert taken, f"no way out of {state.phase} owing {state.owes}"
    if state.owes is not None:
        assert apply(state, Cancel(), AT)[0].owes is None


def test_the_usual_way_ends_complete() -> None:
    state = walk(
        fresh(),
        Start("a bouncing ball"),
        Ask(QUESTION),
        Answer("playful"),
        Propose(PLAN),
        Accept(),
        SetTodos((Todo(id="t1", label="Set up"),)),
        MoveTodo("t1", "done"),
        Previewed(preview()),
        Accept("job_f"),
    )
    assert (state.phase, state.owes) == ("preview", "render_final")
    assert state.output is not None and state.output.job_id == "job_f"
    state = walk(state, Finished(Output(job_id="job_f", video_url="/video", duration=5)))
    assert (state.phase, state.owes, state.style) == ("complete", None, "playful")


def test_a_clear_style_goes_straight_to_the_plan() -> None:
    assert walk(fresh(), Start("a ball, playful"), Propose(PLAN)).phase == "plan"


def test_rejecting_the_plan_asks_again_and_changing_it_plans_again() -> None:
    planned = walk(fresh(), Start("a ball"), Propose(PLAN))
    rejected = walk(planned, Reject("not a ball at all"))
    assert (rejected.phase, rejected.owes, rejected.plan) == ("question", "analyze", None)
    changed = walk(planned, RequestChanges("shorter"))
    assert (changed.phase, changed.owes, changed.feedback) == ("plan", "plan", ("shorter",))


def test_feedback_given_during_work_keeps_the_preview_from_ending_it() -> None:
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Say("make it red"))
    assert walk(working, Previewed(preview())).phase == "executing"
    assert walk(working, Deliver(1), Previewed(preview())).phase == "preview"


def test_a_change_during_the_final_render_gives_that_render_up() -> None:
    rendering = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()), Accept("job_f"))
    state, effects = apply(rendering, Say("make it red"), AT)
    assert commands.CancelJob("job_f") in effects
    assert (state.phase, state.owes, state.output) == ("executing", "execute", None)


def test_cancel_goes_back_to_what_a_person_can_act_on() -> None:
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept())
    assert walk(working, Cancel()).phase == "plan"
    previewed = walk(working, Previewed(preview()))
    assert walk(previewed, Say("red"), Cancel()).phase == "preview"
    assert walk(previewed, Accept("job_f"), Cancel()).owes is None
    with pytest.raises(InvalidTransition, match="nothing is under way"):
        apply(previewed, Cancel(), AT)


def test_retry_takes_up_what_failed() -> None:
    failed = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Fail("no", "BUILD_FAILED"))
    assert failed.phase == "error" and failed.error is not None and failed.error.can_retry
    again = walk(failed, Retry())
    assert (again.phase, again.owes, again.error) == ("executing", "execute", None)


def test_an_unknown_option_names_the_options() -> None:
    asked = walk(fresh(), Start("a ball"), Ask(QUESTION))
    with pytest.raises(InvalidInput, match="playful, smooth"):
        apply(asked, Answer("loud"), AT)


def test_todos_that_are_done_stay_done_when_the_list_is_set_again() -> None:
    todos = (Todo(id="t1", label="Set up"), Todo(id="t2", label="Scene"))
    working = walk(
        fresh(), Start("a ball"), Propose(PLAN), Accept(), SetTodos(todos), MoveTodo("t1", "done"), SetTodos(todos)
    )
    assert working.execution is not None
    assert [t.status for t in working.execution.todos] == ["done", "pending"]


@pytest.mark.parametrize(
    ("durations", "wrong"),
    [
        ((2.0,), None),
        ((1.5, 1.5, 1.5), None),
        ((1.0, 1.0), "has 1 to 1"),
        ((2.5, 2.5), "has 3 to"),
        ((1.0, 2.0, 2.0), "at least 1.5 s"),
        ((2.0,) * 8, None),
        ((4.0,) * 4, "has 5 to 12"),
    ],
)
def test_plans_keep_to_the_rules_for_scenes(durations: tuple[float, ...], wrong: str | None) -> None:
    scenes = tuple(Scene(number=n, title="s", duration=d, description="d") for n, d in enumerate(durations, 1))
    plan = Plan(scenes=scenes, total_duration=sum(durations), style="smooth")
    started = walk(fresh(), Start("a ball"))
    if wrong is None:
        assert walk(started, Propose(plan)).phase == "plan"
    else:
        with pytest.raises(InvalidInput, match=wrong):
            apply(started, Propose(plan), AT)


def test_a_second_style_question_is_refused() -> None:
    answered = walk(fresh(), Start("a ball"), Ask(QUESTION), Answer("playful"))
    with pytest.raises(InvalidInput, match="propose a plan"):
        apply(answered, Ask(QUESTION), AT)
    assert walk(answered, Ask(QUESTION.model_copy(update={"reason": "impossible"}))).phase == "question"


def test_cancelling_another_render_leaves_the_finished_video() -> None:
    url = Output(job_id="job_f", video_url="/video", duration=5)
    done = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()), Accept("job_f"), Finished(url))
    again = walk(done, Render(RenderOptions(resolution="4k"), "job_4k"))
    assert (again.phase, again.owes) == ("preview", "render_final")
    kept = walk(again, Cancel())
    assert (kept.phase, kept.output) == ("complete", url)
